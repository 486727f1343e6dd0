#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The end of a target while a command is stuck: status and the log say what it waits for.
. "$(dirname "$0")/lib.sh"
command -v rdma-ctl >/dev/null || t_skip_all 'built without jansson'
t_needs_fuse
mkdir "$T/mnt"
ctl() { rdma-ctl --control "$T/control" "$@"; }
status_has() { ctl status | grep -Ex "$1"; }

t_target --control "$T/control" --threads 2 --backing ram:1M,name=s,fault=read:stuck:lba=8
t_mount "$URI" "$T/mnt"
t_check 'a target that serves does not stop' eval '! ctl status | grep stopping'
dd if="$T/mnt/s" of=/dev/null bs=512 skip=8 count=1 iflag=direct status=none 2>/dev/null &
t_pids="$t_pids $!"
t_check 'a read is stuck' t_wait_for 10 grep -q 'is stuck' "$T/target.log"
kill "$T_TARGET"
t_check 'status says what the end waits for' t_wait_for 10 status_has \
	'stopping +for [0-9]+ s: waits for 1 commands of 1 sessions and 0 flushes'
stopping_is_json() {
	ctl --json status | tee "$T/.status" |
		jq -e '.stopping | .commands == 1 and .sessions == 1 and .flushes == 0'
}
t_check 'as JSON, too' stopping_is_json
t_check 'the log says it from time to time' t_wait_for 30 grep -Eq \
	'stopping for [0-9]+ s: waits for 1 commands of [01] sessions' "$T/target.log"
kill -USR1 "$T_TARGET"
t_check 'it ends when the read is released' wait "$T_TARGET"
fusermount3 -u "$T/mnt"

# Stores that never answer. One signal ends the target, and its other volumes are closed.
truncate -s 1M "$T/dead" "$T/alive"
serves_dead() { # FAULT DIR
	t_target --control "$T/control" --threads 2 --stop-timeout 1 --state-dir "$T/state" \
		--pidfile "$T/pid" --backing "$T/dead,name=dead,fault=$1" \
		--backing "$T/alive,name=alive"
	mkdir "$T/$2"
	M=$T/$2
	t_mount "$URI" "$M"
}
mkdir "$T/state"
puts() { dd if=/dev/zero of="$M/$1" bs=4k seek="$2" count=1 conv=notrunc oflag=direct status=none; }
ends_without_dead() { # LINE
	kill "$T_TARGET"
	t_ends "$T_TARGET"
	local status=$?
	fusermount3 -uz "$M"
	grep error: "$T/target.log"
	[ $status = 1 ] && ! [ -e "$T/pid" ] && [ "$(grep -c error: "$T/target.log")" = 1 ] &&
		grep -q "error: volume 'dead'$1" "$T/target.log"
}
# begins_anew COUNT: the next start finds so many volumes whose writes may be lost
begins_anew() {
	t_target --state-dir "$T/state" --backing "$T/dead,name=dead" --backing "$T/alive,name=alive"
	t_target_stop TERM
	cat "$T/target.log"
	[ "$(grep -c "(dead): .*; writes since its last flush may be lost" "$T/target.log")" = "$1" ] &&
		! grep 'alive.*may be lost' "$T/target.log"
}
serves_dead flush:stuck flushes
t_check 'both volumes are written' eval 'puts dead 0 && puts alive 0'
t_check 'one signal ends a target whose store does not answer a flush' ends_without_dead \
	' could not be flushed: its store has not answered for 1 s; writes since its last flush may be lost, and'
t_check 'the next one knows that writes may be lost' begins_anew 1
serves_dead write:stuck:lba=8 writes
puts dead 1 2>/dev/null &
t_pids="$t_pids $!"
t_wait_for 10 grep -q 'is stuck' "$T/target.log"
t_check 'the same of a write that nobody waits for' ends_without_dead \
	': its store does not answer commands that nobody waits for any more'
t_check 'what was answered before is not lost' begins_anew 0

# The store has the flush of an eject that was taken back; it answers those of the end.
serves_dead flush:stuck:count=1,removable ejects
t_refused 'an eject is taken back' 'its store has not answered a flush for 1 s' \
	ctl volume eject dead
t_check 'the end closes no store that has a flush' ends_without_dead \
	' could not be flushed: its store has not answered for 1 s; writes since its last flush may be lost, and'
t_check 'the next one knows it' begins_anew 1

# A volume is removed while a write of it is stuck.
serves_dead write:stuck:lba=8,removable removed
puts dead 1 2>/dev/null &
t_pids="$t_pids $!"
t_wait_for 10 grep -q 'is stuck' "$T/target.log"
t_refused 'its medium is not ejected, and the answer says why' \
	'reads and writes have not ended for 1 s: 1; the medium stays where it is' \
	ctl volume eject dead
t_refused 'a volume in use is not removed' 'is logged in' ctl volume remove dead
t_check 'by force, it is' eval 'ctl volume remove --force dead 2>"$T/told"'
LEFT='is not served any more; its store has not answered yet (reads and writes: 1)'
t_check 'the answer says what is left' grep -q "$LEFT" "$T/told"
t_check 'so does the log' t_wait_for 10 grep -q "$LEFT" "$T/target.log"
t_refused 'its file is not added again' 'was removed, but its store has not answered' \
	ctl volume add "$T/dead"
t_check 'another volume is written, and flushed' dd if=/dev/zero of="$M/alive" bs=4k count=1 \
	conv=notrunc,fsync status=none
t_check 'one signal ends the target all the same' ends_without_dead ', which was removed: its store'

# A store that does not return from close(), when no worker runs any more.
mkfifo "$T/fifo.close"
# What comes sooner is the first one once more: timeout(1) sends each signal twice.
second_signal() { sleep 0.6 && kill "$T_TARGET"; }
ends_by_timeout() {
	timeout 3 rdma-target --listen "$URI" --backing "$T/alive"
	[ $? = 124 ]
}
t_check 'a signal that is sent twice at once is one' ends_by_timeout
t_check 'and the target ends well' eval '! grep "exiting at once" "$T/.out"'
ends_at_once() {
	second_signal
	wait "$T_TARGET"
	[ $? = 1 ] && grep -q 'exiting at once' "$T/target.log" && [ ! -e "$T/pid" ]
}
export RDMA_BLOCK_PLUGIN_PATH=$BUILD/tests/plugins
t_target --pidfile "$T/pid" --backing "hang:$T/fifo"
kill "$T_TARGET"
t_check 'a store hangs in its end' t_wait_for 10 grep -q 'stopped$' "$T/target.log"
t_check 'a second signal ends the target, and its PID file' ends_at_once
t_target --pidfile "$T/pid" --stop-timeout 1 --backing "hang:$T/fifo"
kill "$T_TARGET"
t_ends "$T_TARGET"
STATUS=$?
t_check 'nor does the target wait for it for ever' eval \
	'[ $STATUS = 1 ] && grep -q "does not return from its end" "$T/target.log" && [ ! -e "$T/pid" ]'

# What the target has opened is closed when a signal ends its start.
truncate -s 1M "$T/disk"
flock -F "$T/disk" sleep 1000 >/dev/null 2>&1 &
t_pids="$t_pids $!"
t_wait_for 10 eval '! flock -n "$T/disk" true'
start() { # ARG...
	t_new_log
	rdma-target --listen "$URI" "$@" >"$T/target.log" 2>&1 &
	T_TARGET=$!
	t_pids="$t_pids $T_TARGET"
}
is_closed() { timeout 60 sh -c ': >"$1"' sh "$T/fifo.close"; }
start --backing "hang:$T/fifo" --backing "$T/disk"
t_check 'a start waits' t_wait_for 10 grep -q 'disk: in use by' "$T/target.log"
kill "$T_TARGET"
t_check 'a signal ends the wait' t_wait_for 10 grep -q 'a signal ended the wait' "$T/target.log"
t_check 'and closes the store that is open' is_closed
wait "$T_TARGET"
t_check 'with status 1' test $? = 1

# A store that does not return from open().
mkfifo "$T/fifo.open"
start --backing "hang:$T/fifo"
has_blocked() { # SIGTERM; the shell blocks it, too, until it runs the program
	grep -q '^Name:.rdma-target' "/proc/$T_TARGET/status" &&
		[ $((0x$(sed -n 's/^SigBlk:[^0-9a-f]*//p' "/proc/$T_TARGET/status") & 0x4000)) != 0 ]
}
t_wait_for 10 has_blocked
t_check 'the log says which store does not open' \
	t_wait_for 30 grep -q "warning: hang:$T/fifo: its store does not open" "$T/target.log"
kill "$T_TARGET"
t_check 'a signal is told of while a store opens' \
	t_wait_for 10 grep -q 'a second signal stops at once' "$T/target.log"
second_signal
wait "$T_TARGET"
t_check 'a second one ends the start' test $? = 1
start --backing "hang:$T/fifo"
t_wait_for 10 has_blocked
kill "$T_TARGET"
t_wait_for 10 grep -q 'a second signal stops at once' "$T/target.log"
: >"$T/fifo.open"
t_check 'when the store is open, the first one stops the target' is_closed
wait "$T_TARGET"
t_check 'with status 0' test $? = 0
rm "$T/fifo.open" "$T/fifo.close"

# A library that does not return when the process exits.
mkfifo "$T/fifo.exit"
export T_HANG_EXIT="$T/fifo.exit"
t_target --pidfile "$T/pid" --backing "hang:$T/fifo"
kill "$T_TARGET"
t_check 'a target has ended' t_wait_for 10 eval '! [ -e "$T/pid" ]'
second_signal
wait "$T_TARGET"
t_check 'a second signal ends what is left' test $? = 1
t_check 'and finds the memory that it needs' eval '! grep -i sanitizer "$T/target.log"'
t_done
