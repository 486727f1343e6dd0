#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# rdma-ctl top: on a terminal, and as plain lines.
. "${0%/*}/lib.sh"
here=${0%/*}

S=$T/control
t_target --backing ram:16M,name=a --backing ram:16M,name=b --control "$S"
top() { rdma-ctl --control "$S" top "$@"; }
on_terminal() { python3 "$here/top.py" "$T_TARGET" "$1" rdma-ctl --control "$S" top 0.2; }

lines() {
	top 0.1 2 >"$T/lines" &&
		[ "$(grep -c '^target sessions' "$T/lines")" = 2 ] &&
		[ "$(grep -c '^volume a read/s [0-9]* write/s' "$T/lines")" = 2 ] &&
		! grep -q $'\x1b' "$T/lines"
}
rdma-info "$URI" >"$T/.out"
t_check 'without a terminal it prints lines' lines
t_check 'it has the stages' grep -qE 'queue [^ ]+ fetch [^ ]+ backend [^ ]+ respond ' \
	"$T/lines"
if rdma-ctl --help | grep -q top && ldd "$(command -v rdma-ctl)" | grep -q ncurses; then
	t_check 'on a terminal it is a screen with keys' on_terminal key
	for signal in SIGTERM SIGINT SIGHUP; do
		t_check "$signal restores the terminal" on_terminal $signal
	done
fi
exits() {
	local want=$1
	shift
	"$@"
	[ $? = "$want" ]
}
t_check 'a time that is none is wrong usage' exits 1 top soon
t_check 'a count that is none is wrong usage' exits 1 top 1 0
t_check 'as JSON there is none' exits 1 rdma-ctl --json --control "$S" top 0.1 1
t_check 'without a target it says so' exits 3 rdma-ctl --control "$T/none" top 1 1
t_done
