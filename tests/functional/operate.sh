#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# docs/operate.md: runs each command in order, and expects the output that the
# page shows.
. "$(dirname "$0")/lib.sh"
command -v rdma-ctl >/dev/null || t_skip_all 'built without jansson'
t_needs_fuse
PAGE=$(dirname "$0")/../../docs/operate.md
DAY=$T/day
PORT=$((20000 + RANDOM % 12000))
export RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/qos
mkdir "$DAY"
t_mounts=$DAY/mnt

rdma-ctl() { command rdma-ctl --control "$DAY/control" "$@"; }

# here TEXT: replaces directory and port by those of this test
here() { sed "s|/tmp/day|$DAY|g; s|:5599|:$PORT|g"; }

# same: removes values that differ each time
same() {
	sed -E 's/0x[0-9a-f]{32}/INITIATOR/; s/process [0-9]+, [0-9]+ threads/process/
		s/rdma-target [0-9.]+,/rdma-target,/; s/ +$//
		/^target sessions|read.s [0-9]/s/[0-9.]+([mu]?s)?|-\//N/g; s/N[-N/]+/N/g'
}

# run COMMAND: stores its output and its errors in $T/out
run() {
	case $1 in
	*'&')
		eval "$1"
		t_pids="$t_pids $!"
		t_wait_for 10 grep -qs 'rdma-fuse srp' "$DAY/log"
		;;
	*) eval "$1" >"$T/out" 2>&1 ;;
	esac
}

# check COMMAND: it has printed the text in $T/want
check() {
	: >"$T/out"
	run "$1"
	# The lines after "mount this" are printed by rdma-fuse.
	case $1 in rdma-fuse*) : >"$T/out" ;; esac
	if same <"$T/want" | diff - <(same <"$T/out") >"$T/.out"; then
		t_result 0 "$1"
	else
		t_result 1 "$1"
	fi
}

sed -n '/^```json/,/^```/p' "$PAGE" | grep -v '^```' | here >"$DAY/rdma-target.json"
command= inside=0
: >"$T/want"
while IFS= read -r line <&3; do
	case $line in
	'```'*)
		[ -z "$command" ] || check "$command"
		command=
		inside=$((1 - inside))
		;;
	'$ '*)
		[ -z "$command" ] || check "$command"
		command=${line#"$ "}
		: >"$T/want"
		;;
	*) [ $inside = 0 ] || echo "$line" >>"$T/want" ;;
	esac
done 3< <(here <"$PAGE")
wait
t_result $? 'the target has ended'
[ $t_cnt -gt 30 ]
t_result $? 'the page has commands'
t_done
