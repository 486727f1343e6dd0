#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# scripts/quickstart: its tour, the picture at its end, and what it leaves on
# the machine.
. "$(dirname "$0")/lib.sh"
t_needs_fuse
for program in fio jq ninja; do
	command -v $program >/dev/null || t_skip_all "no $program here"
done
export TMPDIR=$T
SCRIPT=$(dirname "$0")/../../scripts/quickstart

tour() {
	"$SCRIPT" --no-install --tour --build "$BUILD" </dev/null >"$T/tour" 2>&1 &
	t_pids=$!
	wait $! || { cat "$T/tour" && false; }
}

rows() { # NUMBER UNIT: this many bars, of which the longest has 30 characters
	grep -E "^  .{25} +[0-9]+ $2 +#{1,30}\$" "$T/tour" | tee "$T/rows"
	[ "$(wc -l <"$T/rows")" = "$1" ] && grep -qE '[^#]#{30}$' "$T/rows"
}

is_small() { # all bars begin in the same column, and there are at most 10 lines
	grep -E '#{1,30}$' "$T/tour" | tee "$T/rows"
	[ "$(wc -l <"$T/rows")" -le 10 ] &&
		[ "$(sed 's/#.*//' "$T/rows" | awk '{ print length }' | sort -u |
			wc -l)" = 1 ]
}

programs_exist() {
	sed -n 's/^\$ \([^ ]*\).*/\1/p' "$T/tour" | sort -u >"$T/programs"
	cat "$T/programs"
	grep -q 'rdma-target$' "$T/programs" && grep -q 'rdma-fuse$' "$T/programs" || return
	while read -r program; do
		command -v "$program" >/dev/null || return
	done <"$T/programs"
}

# A sentence precedes the commands of each step.
sentences_precede() {
	awk '/^\$ / && last !~ /^\$ |\.$/ { print last; bad = 1 } { last = $0 }
		END { exit bad }' "$T/tour"
}

nothing_is_left() {
	! grep " $T/rdma-block" /proc/self/mounts &&
		! pgrep -af "$T/rdma-block" && ! ls -d "$T"/rdma-block.*
}

t_check 'the tour ends with success' tour
t_check 'four bars of latency' rows 4 us
t_check 'two bars of requests a second' rows 2 IOPS
t_check 'two bars of throughput' rows 2 MiB/s
t_check 'the picture is small and aligned' is_small
t_check 'each command names a program that exists' programs_exist
t_check 'a sentence precedes the commands of a step' sentences_precede
t_check 'nothing is left mounted, running or on disk' nothing_is_left
t_mounts=$(echo "$T"/rdma-block.*/mnt)
pkill -f "$T/rdma-block"
t_done
