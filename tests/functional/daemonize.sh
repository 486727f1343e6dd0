#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# rdma-target --daemonize: it returns when the target serves, or cannot.
. "${0%/*}/lib.sh"

# At the end, no process may be left that this shell is not the parent of.
stop() {
	[ ! -s "$T/pid" ] || kill "$(cat "$T/pid")" 2>/dev/null
	t_wait_for 10 eval '! [ -s "$T/pid" ]'
}
trap 'stop; t_cleanup' EXIT

P=$((20000 + RANDOM % 12000))
URI=srp+tcp://127.0.0.1:$P
serves() { rdma-info "$URI"; }
# As "$( )" does, waits until nobody has the output any more.
prints() { "$@" 2>&1 | cat >"$T/printed"; }
start() { # ARG...
	rdma-target --daemonize --listen "$URI" --pidfile "$T/pid" "$@"
}

truncate -s 1M "$T/disk"
t_check 'it returns' prints start --backing "$T/disk,name=a"
t_check 'the target serves then' serves
t_check 'it has printed how to mount' grep -q "rdma-fuse $URI" "$T/printed"
t_check 'nobody waits for it: it is in a session of its own' \
	test "$(ps -o sid= "$(cat "$T/pid")" | tr -d ' ')" = "$(cat "$T/pid")"
t_check 'it has left the output' eval '! readlink /proc/$(cat "$T/pid")/fd/[012] | grep -v "^/dev/null$"'
t_refused 'a start that fails says why, by its status, too' 'in use' \
	start --state-dir none --pidfile "$T/pid2" --backing ram:1M
stop
t_check 'it ends by a signal' eval '! serves'
t_refused 'so does one whose volume is not there' 'none: does not exist' \
	start --backing "$T/none"
t_check 'no PID file is left' [ ! -s "$T/pid" ]
t_refused 'and wrong usage' "unknown option '--such'" start --such

if [ -e "$BUILD/ctl/rdma-ctl" ]; then
	cd "$T" || t_bail "$T"
	echo '{ "backing": [ "disk" ] }' >c.json
	start_logged() { start --config c.json 2>"$T/daemon.log"; }
	t_check 'a file goes on to be the log' start_logged
	serves >/dev/null
	t_check 'it has later lines' t_wait_for 10 grep -q 'login of' "$T/daemon.log"
	t_check 'relative paths stay right' eval 'rdma-ctl save && grep -q disk c.json'
	stop
fi

# A store that does not return from open().
mkfifo "$T/fifo.open"
export RDMA_BLOCK_PLUGIN_PATH=$BUILD/tests/plugins
# No function: $! is to be the command.
rdma-target --daemonize --listen "$URI" --pidfile "$T/pid" --backing "hang:$T/fifo" \
	>"$T/hang.log" 2>&1 &
command=$!
child() { cat "/proc/$command/task/$command/children"; }
t_check 'a start waits for its store' t_wait_for 10 eval '[ -n "$(child)" ]'
target=$(child)
t_wait_for 30 grep -q 'its store does not open' "$T/hang.log"
kill $command
t_check 'a signal of the command reaches the target' \
	t_wait_for 10 grep -q 'stopping when the stores are open' "$T/hang.log"
: >"$T/fifo.open"
wait $command
t_check 'the command waits for its end, and has not done what it should' test $? = 1
t_check 'the target has ended' t_is_gone $target
rm "$T/fifo.open"
t_done
