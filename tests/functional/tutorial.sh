#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# docs/tutorial.md: runs each command of some of its parts in order, and expects
# the output that the page shows.
#
#   T_PARTS   numbers of the parts (default: 1, which needs neither RDMA nor Ceph)
PARTS=${T_PARTS:-1}
if [ "$PARTS" = 4 ]; then
	. "$(dirname "$0")/rbd_lib.sh"
else
	. "$(dirname "$0")/lib.sh"
fi
PAGE=$(realpath "$(dirname "$0")/../../docs/tutorial.md")
PATH=$BUILD/discover:$PATH
t_needs_fuse
command -v fio >/dev/null || t_skip_all 'no fio here'

# Uses a network namespace of its own, where port 5555 is free.
if [ "${T_ALONE-}" = '' ] && [[ $PARTS = [14] ]]; then
	[ -z "$(ls /sys/class/infiniband 2>/dev/null)" ] ||
		t_skip_all 'this machine has an RDMA device: part 1 is for one without'
	unshare -n true 2>/dev/null || t_skip_all 'no network of its own possible'
	exec env T_ALONE=1 unshare -n bash "$0"
fi
[ "${T_ALONE-}" = '' ] || ip link set lo up
[ "$PARTS" != 4 ] || r_needs_ceph
t_mounts=$T/try/mnt

# Replaces the directory by that of the test.
here() { sed "s|/tmp/try|$T/try|g"; }

# as_said: $T/out has the text of $T/want, where ... stands for a part of a
# line, or, on a line of its own, for any lines.
as_said() {
	python3 - "$T/want" "$T/out" <<'END'
import re, sys
want, got = (open(name, encoding='utf-8').read().strip() for name in sys.argv[1:])
pattern = ''.join('(.*\n)*' if line == '...' else
                  re.escape(line).replace(re.escape('...'), '.*') + '\n'
                  for line in want.splitlines())
if want and not re.fullmatch(pattern, got + '\n'):
    sys.exit(f'wanted:\n{want}\ngot:\n{got}')
END
}

run() { # COMMAND
	: >"$T/out"
	case $1 in
	*'&')
		eval "$1"
		t_pids="$t_pids $!"
		t_wait_for 10 grep -qs 'rdma-fuse srp' "$T/try/target.log"
		;;
	*) eval "$1" >"$T/out" 2>&1 ;;
	esac
}

check() { # COMMAND: succeeds and prints the text in $T/want
	if run "$1" && as_said >"$T/.out" 2>&1; then
		t_result 0 "$1"
	else
		cat "$T/out" >>"$T/.out"
		t_result 1 "$1"
	fi
}

cd "$T" || t_bail "no $T"
part='' command='' inside=0
while IFS= read -r line <&3; do
	case $line in
	'## '[0-9].*) part=${line#'## '} part=${part%%.*} ;;
	'## '*) part='' ;;
	'```'*)
		[ -z "$command" ] || check "$command"
		command='' inside=$((1 - inside))
		;;
	'$ '* | [a-z]*'$ '* | [a-z]*'# '*)
		[[ $inside = 1 && " $PARTS " == *" $part "* ]] || continue
		[ -z "$command" ] || check "$command"
		command=${line#*['$#'] }
		: >"$T/want"
		;;
	*) [ -z "$command" ] || echo "$line" >>"$T/want" ;;
	esac
done 3< <(here <"$PAGE")
cd /
[ $t_cnt -gt 10 ]
t_result $? 'the parts have commands'
t_done
