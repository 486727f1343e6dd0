#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What bash and zsh complete behind rdma-ctl: verbs, and what the running target has. Each
# line is typed with TAB, and run.
. "$(dirname "$0")/lib.sh"
command -v rdma-ctl >/dev/null || t_skip_all 'built without jansson'
S=$T/control
OTHER=srp+tcp://127.0.0.2:$((20000 + RANDOM % 12000))
here=$(realpath "$(dirname "$0")")

ctl() { rdma-ctl --control "$S" "$@"; }
# types SHELL TEXT
types() {
	local file=$BUILD/docs/rdma-ctl
	[ "$1" = bash ] || file=$BUILD/docs/_rdma-ctl
	timeout 300 python3 "$here/completion.py" "$1" "$file" "$2"
}
has() { ctl show | tee "$T/show" && grep -q -- "$1" "$T/show"; }
has_not() { ! has "$1"; }
level() { ctl status | grep -q "log level *$1"; }

truncate -s 1M "$T/whole-file"
cd "$T" || exit 1
t_target --backing ram:1M,name=stays --control "$S"
for shell in bash zsh; do
	if ! command -v $shell >/dev/null; then
		t_skip "completion in $shell" "no $shell here"
		continue
	fi
	[ $shell = bash ] && end= || end='\b' # the space behind a file
	ctl volume add ram:1M,name=gone >/dev/null
	# shellcheck disable=SC2016 # a name that a shell must not expand
	ctl volume add 'ram:1M,name=also$(touch${IFS}executed)' >/dev/null
	ctl listen add "$OTHER"
	types $shell "rdma-ctl --control $S volu\trem\tgo\t" >"$T/.out"
	t_check "$shell: verbs and the name of a volume" has_not '"gone"'
	ctl volume add ram:1M,name=gone >/dev/null
	types $shell "rdma-ctl --timeout=9 --control=$S --force volume rem\t --force go\t" \
		>"$T/.out"
	t_check "$shell: options do not count" has_not '"gone"'
	types $shell "rdma-ctl --control $S listen rem\tsrp+tcp://127.0.0.2:\t" >"$T/.out"
	t_check "$shell: an address to remove" has_not "$OTHER"
	types $shell "rdma-ctl --control $S logl\tdeb\t" >"$T/.out"
	t_check "$shell: a level" level debug
	types $shell "rdma-ctl --control $S volume add $T/whole\t$end,name=whole" >"$T/.out"
	t_check "$shell: a file as a store" has '"whole"'
	ctl volume remove whole >/dev/null
	ctl loglevel notice
	types $shell "rdma-ctl --control $S volume remove also\t" >"$T/.out"
	t_check "$shell: a name is only text" [ ! -e executed ]
	t_check "$shell: and a whole one" has_not also
done
t_done
