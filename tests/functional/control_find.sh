#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The control socket of a target that names none, and how rdma-ctl finds it.
. "${0%/*}/lib.sh"
[ -e "$BUILD/ctl/rdma-ctl" ] || t_skip_all 'built without jansson'

D=$RUNTIME_DIRECTORY
exits() { # STATUS CMD...
	local want=$1 status
	shift
	"$@"
	status=$?
	[ $status = "$want" ] || { echo "exit status $status"; return 1; }
}
serves() { rdma-ctl "${@:2}" volume list | grep -qw "$1"; }
# says STATUS PATTERN CMD...: one line
says() {
	exits "$1" "${@:3}" >/dev/null 2>"$T/said"
	local as_wanted=$?
	cat "$T/said"
	[ $as_wanted = 0 ] && [ "$(wc -l <"$T/said")" = 1 ] && grep -Eqe "$2" "$T/said"
}
second() { # ARG...: another target, on the port of the first one
	t_new_log "$T/second.log"
	rdma-target --listen "srp+tcp://127.0.0.2:$T_PORT" --state-dir none --backing ram:1M,name=second \
		"$@" >"$T/second.log" 2>&1 &
	SECOND=$!
	t_pids="$t_pids $SECOND"
	t_wait_for 10 eval 'grep -q "rdma-fuse srp" "$T/second.log" || t_is_gone $SECOND' &&
		! t_is_gone $SECOND
}

t_check 'without a target, rdma-ctl says so' says 3 "no target runs here: none listens at $D/control;" \
	rdma-ctl status
t_check 'check needs none' says 1 'none: No such file' rdma-ctl check "$T/none"

t_target --backing ram:1M,name=first
FIRST=$T_TARGET
FIRST_URI=$URI
t_check 'rdma-ctl finds the only target' serves first
t_check 'its socket has the port in its name' [ -S "$D/control.$T_PORT" ]
t_check 'the group may look' [ "$(stat -c %a "$D/control.$T_PORT")" = 660 ]
t_check 'others reach the directory' [ "$(stat -c %a "$D")" = 755 ]

t_check 'another target at the same port serves' second
t_check 'it says that rdma-ctl cannot reach it' t_wait_for 10 grep -q \
	"rdma-target: rdma-ctl cannot reach this target: .*control.$T_PORT.*another target listens there" \
	"$T/second.log"
t_check 'rdma-ctl still finds the first one' serves first
kill "$SECOND"
wait "$SECOND"
t_check 'the first one keeps its socket' serves first

t_check 'a target with --control none serves' second --control none
t_check 'and says nothing about it' eval '! grep -q rdma-ctl "$T/second.log"'
t_check 'the other one is the only one' serves first
kill "$SECOND"
wait "$SECOND"

RUNTIME_DIRECTORY=/proc/none t_check 'a target without a directory for it serves' second
t_check 'and says that there is no socket' t_wait_for 10 grep -q \
	"rdma-target: rdma-ctl cannot reach this target: .*/proc/none" "$T/second.log"
kill "$SECOND"
wait "$SECOND"

t_target --backing ram:1M,name=other
OTHER_PORT=$T_PORT
t_check 'if several run, rdma-ctl takes none' says 3 \
	"several targets run here; choose one with --control: $D/control.*, $D/control" \
	rdma-ctl volume remove first
t_check 'nor with top' says 3 'several targets run here' rdma-ctl top 1 1
t_check 'the variable chooses' eval \
	'RDMA_TARGET_CONTROL="$D/control.$OTHER_PORT" serves other'
t_check 'the option has the last word' eval \
	'RDMA_TARGET_CONTROL="$D/none" serves other --control "$D/control.$OTHER_PORT"'

kill -9 "$FIRST"
wait "$FIRST" 2>/dev/null
t_check 'a killed target leaves its socket' [ -S "$D/control.${FIRST_URI##*:}" ]
t_check 'rdma-ctl passes it by' serves other
t_target_stop TERM
t_check 'one that ends takes its socket along' [ ! -e "$D/control.$OTHER_PORT" ]
URI=$FIRST_URI
t_target_again --backing ram:1M,name=again
t_check 'the one of a killed target is replaced' serves again

# A user has a directory of its own.
as_nobody() {
	(unset RUNTIME_DIRECTORY &&
		exec env XDG_RUNTIME_DIR="$T/theirs" setpriv --reuid 65534 \
			--clear-groups --regid 65534 "$@")
}
theirs_serves() {
	as_nobody "$BUILD/target/rdma-target" --listen srp+tcp://127.0.0.3:5555 \
		--backing ram:1M,name=theirs >"$T/theirs.log" 2>&1 &
	t_pids="$t_pids $!"
	t_wait_for 10 grep -q 'rdma-fuse srp' "$T/theirs.log"
}
theirs_is_found() {
	as_nobody "$BUILD/ctl/rdma-ctl" volume list | grep -qw theirs &&
		[ -S "$T/theirs/rdma-target/control" ]
}
if [ "$(id -u)" = 0 ] && [ "$T_ALONE" = yes ] && install -d -o 65534 "$T/theirs" &&
	as_nobody "$BUILD/ctl/rdma-ctl" --version >/dev/null; then
	t_check 'a user starts a target' theirs_serves
	t_check 'and finds it; on port 5555 the name has no port' theirs_is_found
else
	t_skip 'a user has a target' 'needs root, and a network of its own'
fi
t_done
