# SPDX-License-Identifier: BSD-2-Clause
# Functional tests: a target, a client, and checks that print TAP lines. Source
# this file first. $BUILD is the build directory. T_HOST says how to reach the
# target, e.g. srp+rdma://10.0.0.1 (default: srp+tcp://127.0.0.1). T_THREADS is
# the target's number of threads. With T_URING, mounts use FUSE over io_uring.
# T_KEEP keeps the scratch directory. With T_ALONE=1, the test has a network of
# its own if that is possible, and T_ALONE is then "yes": no port is in use, and
# no target of another test answers.
#
#   t_target ARG...       start rdma-target, wait until it serves; sets $URI
#   t_target_stop SIGNAL  send it a signal, and wait for its end
#   t_target_again ARG... start another one at the address of the last one
#   t_mount ARG... DIR    mount with rdma-fuse, and unmount at the end
#   t_check NAME CMD...   one test: the command must succeed
#   t_refused NAME PATTERN CMD...
#                         one test: the command must exit with 1 and one line
#                         on its standard error that matches PATTERN (egrep)
#   t_skip NAME WHY       one test that cannot be done here
#   t_done                the last line
#
# $T is a scratch directory. At the end, all processes are stopped and all
# mounts are unmounted, whatever happened.

set -u
if [ "${T_ALONE-}" = 1 ] && unshare -nm true 2>/dev/null; then
	T_ALONE=yes exec unshare -nm sh -c 'ip link set lo up && exec "$0" "$@"' \
		"$0" "$@"
fi
: "${BUILD:?the build directory}"
PATH="$BUILD/target:$BUILD/ctl:$BUILD/fuse:$BUILD/initiator:$BUILD/copy:$BUILD/discover:$BUILD/doctor:$PATH:/usr/sbin:/sbin"

T=$(mktemp -d "${TMPDIR:-/tmp}/rdma-test.XXXXXX")
chmod 755 "$T"
# What the programs keep, if no option says where.
export STATE_DIRECTORY="$T/host-state"
# Of targets that name no control socket. Two targets of a test have two ports.
export RUNTIME_DIRECTORY="$T/host-run"
# Everybody may read it: beside a secret, a target cannot save its configuration.
mkdir -m 755 "$STATE_DIRECTORY"
t_cnt=0
t_failed=0
t_mounts=
t_pids=
t_loops= # not those that are detached: another test may have them now

# libfuse 3.14 does not free the path of a detached mount.
echo leak:fuse_session_mount >"$T/lsan"
export LSAN_OPTIONS="suppressions=$T/lsan:print_suppressions=0"

t_cleanup() {
	for loop in $t_loops; do
		umount -l "$loop" 2>/dev/null
		losetup -d "$loop" 2>/dev/null
	done
	for dir in $t_mounts; do
		fusermount3 -uzq "$dir" 2>/dev/null || umount -l "$dir" 2>/dev/null
	done
	for pid in $t_pids; do
		t_is_not_ours "$pid" || kill "$pid" 2>/dev/null
	done
	for pid in $t_pids; do
		t_wait_for 5 t_is_not_ours "$pid" || kill -9 "$pid" 2>/dev/null
	done
	t_uring_restore
	[ -n "${T_KEEP-}" ] || rm -rf --one-file-system "$T"
}
trap t_cleanup EXIT
trap 'exit 1' INT TERM

# t_wait_for SECONDS CMD...: waits until the command succeeds. SECONDS are
# enough on a quiet machine. It gives up after ten times as long.
t_wait_for() {
	t_left=$(($1 * 50 * 10))
	shift
	until "$@" >/dev/null 2>&1; do
		t_left=$((t_left - 1))
		[ $t_left -gt 0 ] || return 1
		sleep 0.02
	done
}

# If many processes start, the kernel soon reuses the number of a process that
# has ended. Only a child of this shell may be killed at the end.
t_is_not_ours() {
	! grep -qs "^PPid:[^0-9]*$$\$" "/proc/$1/status"
}

t_is_gone() {
	! kill -0 "$1" 2>/dev/null
}

# The same of a child that nobody has waited for yet.
t_has_ended() {
	t_is_gone "$1" || grep -q '^State:.*Z' "/proc/$1/status"
}

# t_ends PID: waits for the end of a child, and returns its status. If it does not
# end, prints what its threads wait for.
t_ends() {
	if t_wait_for 30 t_has_ended "$1"; then
		wait "$1"
		return
	fi
	for task in "/proc/$1/task"/*; do
		echo "$task: $(cat "$task/comm"), $(grep State: "$task/status")"
		cat "$task/stack"
	done
	return 1
}

t_skip_all() {
	echo "1..0 # SKIP $*"
	exit 0
}

t_bail() {
	echo "Bail out! $*"
	exit 1
}

t_result() { # STATUS NAME
	t_cnt=$((t_cnt + 1))
	if [ "$1" = 0 ]; then
		echo "ok $t_cnt - $2"
	else
		echo "not ok $t_cnt - $2"
		t_failed=$((t_failed + 1))
		sed 's/^/# /' "$T/.out" 2>/dev/null
	fi
}

t_check() {
	t_name=$1
	shift
	"$@" >"$T/.out" 2>&1
	t_result $? "$t_name"
}

t_skip() {
	t_cnt=$((t_cnt + 1))
	echo "ok $t_cnt - $1 # SKIP $2"
}

t_refused() {
	t_name=$1
	t_pattern=$2
	shift 2
	"$@" >/dev/null 2>"$T/.out"
	t_status=$?
	if [ $t_status = 1 ] && [ "$(wc -l <"$T/.out")" = 1 ] &&
		grep -Eqe "$t_pattern" "$T/.out"; then
		t_result 0 "$t_name"
	else
		echo "exit status $t_status; wanted 1 and one line like: $t_pattern" \
			>>"$T/.out"
		t_result 1 "$t_name"
	fi
}

t_done() {
	echo "1..$t_cnt"
	[ $t_failed = 0 ]
	exit
}

# t_new_log [FILE]: when a program is started in the background, the old log must
# not count as its log: it is emptied now, not when the new program gets that far.
# Default: the log of the target.
t_new_log() { : >"${1:-$T/target.log}"; }

# The port is random. If it is in use, another one is tried.
t_target() {
	for t_try in 1 2 3 4 5; do
		T_PORT=$((20000 + ($(od -An -N2 -tu2 /dev/urandom) % 12000)))
		URI=${T_HOST:-srp+tcp://127.0.0.1}:$T_PORT
		t_new_log
		rdma-target --listen "$URI" ${T_THREADS:+--threads "$T_THREADS"} \
			"$@" >"$T/target.log" 2>&1 &
		T_TARGET=$!
		t_pids="$t_pids $T_TARGET"
		t_wait_for 10 t_target_is_up && return
		grep -q 'in use' "$T/target.log" || break
	done
	sed 's/^/# /' "$T/target.log"
	t_bail 'rdma-target does not start'
}

t_target_is_up() {
	grep -q "rdma-fuse '\?srp" "$T/target.log" || t_is_gone "$T_TARGET"
	! t_is_gone "$T_TARGET" && grep -q "rdma-fuse '\?srp" "$T/target.log"
}

t_target_stop() {
	kill "-$1" "$T_TARGET"
	wait "$T_TARGET" 2>/dev/null
	:
}

t_target_again() {
	t_new_log
	rdma-target --listen "$URI" "$@" >"$T/target.log" 2>&1 &
	T_TARGET=$!
	t_pids="$t_pids $T_TARGET"
	t_wait_for 10 t_target_is_up || t_bail "$(cat "$T/target.log")"
}

t_mount() {
	for t_dir in "$@"; do :; done # the last
	t_mounts="$t_mounts $t_dir"
	${T_URING:+t_offering Y} rdma-fuse "$@"
}

# Expects that nothing of ours is mounted at DIR.
t_not_mounted() {
	! grep -q " $1 fuse" /proc/self/mounts
}

# The kernel offers FUSE over io_uring to all mounts of the machine or to none. A mount
# keeps what it was offered.
T_ENABLE=/sys/module/fuse/parameters/enable_uring
t_uring_was=

# t_offering Y|N CMD...: mounts by a command, while the kernel offers it or does not. The
# command waits for the mount. One test at a time may change this. Without the right to
# do so, only the command runs.
t_offering() {
	[ -w "$T_ENABLE" ] || { shift && "$@"; return; }
	mkdir -p /run/lock
	exec 9>/run/lock/rdma-block.uring
	flock 9
	t_uring_was=$(cat "$T_ENABLE")
	echo "$1" >"$T_ENABLE"
	shift
	"$@" 9>&-
	t_status=$?
	t_uring_restore
	return $t_status
}

t_uring_restore() {
	[ -n "$t_uring_was" ] || return 0
	echo "$t_uring_was" >"$T_ENABLE"
	t_uring_was=
	exec 9>&-
}

# The mode that Debian sets. Without udev, only root may have access.
t_users_may_mount() {
	[ "$(stat -Lc %a /dev/fuse)" = 666 ]
}

t_needs_fuse() {
	[ -e /dev/fuse ] || t_skip_all 'no /dev/fuse here'
	command -v fusermount3 >/dev/null || t_skip_all 'no fusermount3 here'
	{ true <>/dev/fuse; } 2>/dev/null || t_skip_all 'may not open /dev/fuse'
	[ -n "${T_URING-}" ] || return 0
	[ "$(id -u)" = 0 ] || t_skip_all 'needs root to set fuse.enable_uring'
	[ -w "$T_ENABLE" ] || t_skip_all 'no FUSE over io_uring here (Linux 6.14)'
}
