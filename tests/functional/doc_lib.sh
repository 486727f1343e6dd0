# SPDX-License-Identifier: BSD-2-Clause
# Runs the commands of documents like a reader. Source this file first, and
# lib.sh (or a file that includes it) after d_alone.
#
#   d_alone       start the test again with a network, processes, mounts and a host name of
#                 its own
#   d_page PAGE   one test for each command of the page: it succeeds, and prints what the
#                 page says
#
# In a document, blocks have a language. "console": a command after a prompt ("$
# ", "host$ ", "host# "), and then its output, where "..." stands for a part of
# a line, or, on a line of its own, for any lines. A command fails only if the
# page shows "error:". "sh": only commands. A target in the foreground runs
# until the end of the block, and everything that such a block starts or mounts
# ends with it (this needs d_alone). Other blocks have no commands.
#
# The file doc_marks says which blocks below a heading another test runs, the one whose
# $D_AS is the name, and which none.
#
# Before d_page, a test may set $d_here, a sed script that replaces directories
# and ports by those of the test, and d_same(), a filter for values that differ
# each time.
D_AS=${D_AS-}
d_here=
d_in_block=
d_same() { cat; }
d_dir=$(realpath "$(dirname "${BASH_SOURCE[0]}")")

d_alone() {
	if [ -z "${D_ALONE-}" ]; then
		unshare -nmpfu --mount-proc true 2>/dev/null || {
			echo '1..0 # SKIP no namespaces of its own possible'
			exit 0
		}
		exec env D_ALONE=1 T_ALONE=yes unshare -nmpfu --mount-proc --kill-child bash "$0"
	fi
	ip link set lo up
}

# d_as_said: $T/out has the text of $T/want.
d_as_said() {
	python3 - <(d_same <"$T/want") <(d_same <"$T/out") <<'END'
import re, sys
want, got = (open(name, encoding='utf-8').read().strip() for name in sys.argv[1:])
pattern = ''.join('(.*\n)*' if line == '...' else
                  re.escape(line).replace(re.escape('...'), '.*') + '\n'
                  for line in want.splitlines())
if not re.fullmatch(pattern, got + '\n' if got else ''):
    sys.exit(f'wanted:\n{want}\ngot:\n{got}')
END
}

# d_start COMMAND: runs it in the background. Waits until a target serves.
d_start() {
	d_log=$(sed -n 's/.*>\([^ ]*\) 2>&1 *&*$/\1/p' <<<"$1")
	if [ -z "$d_log" ]; then
		d_log=$T/out
		set -- "${1%&} >$d_log 2>&1 &"
	fi
	eval "${1%&} &"
	d_pid=$!
	t_pids="$t_pids $d_pid"
	d_servers="$d_pid ${d_servers-}"
	case $1 in
	*rdma-target\ *)
		t_wait_for 20 d_serves_or_ended
		grep -q "rdma-fuse '\?srp" "$d_log"
		;;
	esac
}

d_serves_or_ended() { grep -qs "rdma-fuse '\?srp" "$d_log" || t_is_gone "$d_pid"; }

# "wait" of a page: the commands in the background end. Not the shell's own wait, which
# would say nothing about one that hangs.
d_wait() {
	for d_pid in $t_pids; do
		t_wait_for 3 t_is_gone "$d_pid" || d_tell_what_hangs "$d_pid"
	done
}

d_tell_what_hangs() { # PID
	echo "still there: $(tr '\0' ' ' <"/proc/$1/cmdline")"
	ps -L -o lwp=,stat=,wchan:24=,comm= -p "$1"
	! command -v gdb >/dev/null ||
		timeout 30 gdb -p "$1" -batch -ex 'thread apply all backtrace' 2>/dev/null
	tail -n 20 "$d_log"
	return 1
}

d_run() { # COMMAND
	: >"$T/out"
	case $1 in
	wait) d_wait >"$T/out" 2>&1 ;;
	*'&') d_start "$1" ;;
	# A file would go on to be the log; a reader has a terminal.
	*--daemonize*) (set -o pipefail && eval "$1" 2>&1 | cat >"$T/out") ;;
	*) eval "$1" >"$T/out" 2>&1 ;;
	esac
}

d_console() { # COMMAND WANT
	printf '%b' "$2" >"$T/want"
	d_run "$1"
	case $?:$2 in
	0:* | *error:*) d_as_said >"$T/.out" 2>&1 ;;
	*) cat "$T/out" >"$T/.out" && false ;;
	esac
	t_result $? "$1"
}

# Runs in the foreground of a terminal, while the reader continues in another
# one.
d_sh() { # COMMAND
	case $1 in
	rdma-target\ --daemonize*) d_run "$1" ;;
	rdma-target\ * | */rdma-target\ *) d_run "${1%&}&" ;;
	*) d_run "$1" ;;
	esac
	d_status=$?
	cp "$T/out" "$T/.out"
	t_result $d_status "$1"
}

d_mounts() { sed -n 's/^[^ ]* \([^ ]*\) fuse.*/\1/p' /proc/self/mounts; }
# Processes of the kernel do not count.
d_processes() { ps -eo pid=,args= | awk '$2 !~ /^\[/ { print $1 }'; }

d_begin_block() {
	d_had_mounts=$(d_mounts)
	d_had_processes=$(d_processes)
	d_servers=
	d_in_block=1
}

# A target flushes and exits with 0. A target that serves a volume of another
# one ends first.
d_end_block() {
	for d_mount in $(d_mounts | grep -vxF "$d_had_mounts"); do
		fusermount3 -u "$d_mount"
	done
	for d_pid in $d_servers; do
		! t_is_gone "$d_pid" || continue
		kill "$d_pid"
		t_check 'the target ends' wait "$d_pid"
	done
	for d_pid in $(d_processes | grep -vxF "$d_had_processes"); do
		kill "$d_pid" 2>/dev/null
	done
	for d_pid in $(d_processes | grep -vxF "$d_had_processes"); do
		t_wait_for 10 t_is_gone "$d_pid"
	done
	d_in_block=
}

d_page() { # PAGE
	"$d_dir/commands.py" "$1" "$D_AS" >"$T/commands"
	while IFS=$'\t' read -r d_kind d_command d_rest <&3; do
		case $d_kind in
		skip) t_skip "$d_command" "$d_rest" ;;
		console) d_console "$d_command" "$d_rest" ;;
		sh)
			[ -n "$d_in_block" ] || d_begin_block
			d_sh "$d_command"
			;;
		end) d_end_block ;;
		esac
	done 3< <(sed "$d_here" "$T/commands")
	[ -s "$T/commands" ]
	t_result $? 'the page has commands'
}
