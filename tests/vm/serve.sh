# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Functions for guest tests that start rdma-target and rdma-fuse. Source lib.sh
# first. They store their files in $work, which must exist.

# show_logs: for a failed test, prints the logs of the programs, what is held, and last
# the place of the failure.
show_logs() {
	local log

	for log in "$VM_OUT"/*.log; do
		[ -s "$log" ] || continue
		echo "the end of ${log##*/}:"
		tail -n 25 "$log"
	done
	_show_held
	[ ! -e "$VM_OUT/failed" ] || tac "$VM_OUT/failed"
}

# Which listeners and contexts there are, and the files of the target.
_show_held() {
	echo 'RDMA objects of the kernel:'
	rdma resource show cm_id || :
	rdma resource show ctx || :
	[ ! -e "/proc/${target-}/fd" ] || ls -l "/proc/$target/fd"
} 2>&1
trap 'status=$?; [ $status = 0 ] || show_logs' EXIT
set -E
trap 'echo "failed: line $LINENO of ${BASH_SOURCE[0]##*/}: $BASH_COMMAND" |
	tee -a "$VM_OUT/failed"' ERR

# An unprivileged user, who may lock as much memory as $1 says: an array, to put
# before a command.
as_nobody() {
	nobody=(prlimit "--memlock=$1:$1" setpriv --reuid=nobody
		--regid=nogroup --clear-groups --)
}

nobody=()

# target_start [ARGUMENT...]: starts rdma-target, as ${nobody[@]} if that is set,
# waits until it is ready and sets $target to its process ID. Nothing survives without
# --state-dir.
target_start() {
	local state=(--state-dir none)

	[[ " $* " != *' --state-dir '* ]] || state=()
	# shellcheck disable=SC2154 # see above
	[ ! -e "$work/target.pid" ] || rm "$work/target.pid"
	"${nobody[@]}" "$BUILD/target/rdma-target" \
		--pidfile "$work/target.pid" "${state[@]}" "$@" >>"$VM_OUT/target.log" 2>&1 &
	target=$!
	wait_for 60 _is_ready "$target" "$work/target.pid"
}

# Also ends the wait for process $1 if it is dead.
_is_ready() {
	[ -s "$2" ] || ! kill -0 "$1" 2>/dev/null || return
	[ -s "$2" ] || {
		vm_say "process $1 did not get ready"
		exit 1
	}
}

# ends_well PROCESS: waits for its end; succeeds if it exits with 0.
ends_well() {
	local status=0

	wait "$1" || status=$?
	[ $status = 0 ] || vm_say "process $1 exited with $status"
	return $status
}

# ends_by_kill PROCESS: kills it with SIGKILL and waits for its end.
ends_by_kill() {
	kill -KILL "$1"
	wait "$1" 2>/dev/null || true
}

# mount_start NAME [ARGUMENT...]: starts rdma-fuse in the foreground, as
# ${nobody[@]} if that is set, waits until it has mounted, and sets $fuse to its
# process ID. Its log is NAME.log.
mount_start() {
	local name=$1
	shift
	rm -f "$work/$name.pid"
	"${nobody[@]}" "$BUILD/fuse/rdma-fuse" -f -v -P "$work/$name.pid" "$@" \
		>>"$VM_OUT/$name.log" 2>&1 &
	fuse=$!
	wait_for 60 _is_ready "$fuse" "$work/$name.pid"
}

# held KIND PROCESS [PATTERN]: prints how many RDMA objects of a kind the
# process holds, or only those whose line matches PATTERN. (The kernel stores
# which thread made them.)
held() {
	local thread pattern=none

	for thread in "/proc/$2/task"/*; do
		pattern+="|${thread##*/}"
	done
	rdma resource show "$1" | grep -E "${3:-}" | grep -cE " pid ($pattern) " || true
}

# holdings PROCESS: prints its RDMA objects and open files.
holdings() {
	local kind

	for kind in qp cm_id cq mr; do
		echo "$kind $(held "$kind" "$1")"
	done
	echo "files $(find "/proc/$1/fd" -mindepth 1 | wc -l)"
}

# holds PROCESS WHAT: succeeds if the process holds just these objects.
holds() {
	[ "$(holdings "$1")" = "$2" ]
}

# holds_no_queue_pair PROCESS: no initiator is logged in any more. (A target
# keeps one queue pair of type UD for each device: it receives queries of
# discovery.)
holds_no_queue_pair() {
	[ "$(held qp "$1" ' type RC ')" = 0 ]
}

# Succeeds if no program holds an RDMA object. (Objects of the kernel have the
# name of their module.)
nothing_is_held() {
	local kind

	for kind in qp cm_id cq mr; do
		! rdma resource show "$kind" | grep ' pid ' || return
	done
}

# fio_jobs FILE VOLUME: writes a file of fio jobs for the first 16 MiB of a
# volume. All jobs run at once. Each one writes its own part and verifies it:
# every engine and block size, sizes that are no multiple of a block, and
# neighbours that share a block.
fio_jobs() {
	local job

	{
		printf '[global]\nfilename=%s\ndirect=1\nthread=1\n' "$2"
		printf 'verify=crc32c\nverify_fatal=1\ndo_verify=1\n'
		printf 'verify_state_save=0\n'
		while read -r job; do
			printf '[%s]\n' "${job%% *}"
			tr ' ' '\n' <<<"${job#* }"
		done
	} >"$1" <<-END
		libaio ioengine=libaio iodepth=64 rw=randwrite bs=4k size=4m
		block ioengine=libaio iodepth=32 rw=randwrite bs=512 offset=4m size=256k
		uring ioengine=io_uring iodepth=32 rw=randwrite bs=8k offset=5m size=2m
		mixed ioengine=io_uring iodepth=16 rw=randwrite bsrange=512-64k offset=7m size=2m
		large ioengine=libaio iodepth=8 rw=write bs=1m offset=9m size=4m
		psync ioengine=psync rw=randwrite bs=16k offset=13m size=1m
		odd ioengine=libaio iodepth=16 rw=randwrite bs=1000 offset=14m size=200000
		next ioengine=psync rw=write bs=3001 offset=14880064 size=300100
		ragged ioengine=io_uring iodepth=8 rw=randwrite bssplit=601/40:1803/20:9616/20:70317/20 bs_unaligned=1 offset=15m size=1m
	END
}

# fio_run FILE: runs fio jobs, as ${nobody[@]} if that is set; prints fio's
# output only if it fails.
fio_run() {
	"${nobody[@]}" fio "$1" >"$1.txt" 2>&1 || {
		cat "$1.txt"
		return 1
	}
}

# refuses PATTERN COMMAND...: the command fails with exit status 1 and prints
# exactly one line on stderr, which matches PATTERN.
refuses() {
	local pattern=$1 status=0
	shift
	"$@" >/dev/null 2>"$VM_OUT/said" || status=$?
	cat "$VM_OUT/said"
	[ $status = 1 ] || { vm_say "exit status $status of: $*"; return 1; }
	[ "$(wc -l <"$VM_OUT/said")" = 1 ] || { vm_say "not one line: $*"; return 1; }
	grep -qE "$pattern" "$VM_OUT/said" || { vm_say "not '$pattern': $*"; return 1; }
}

# --- proof-load: writers and a judge (see its --help) -------------------------

# proof_start THROUGH...: starts proof-load on paths to one volume.
proof_start() {
	rm -f "$work/ask" "$work/answer"
	mkfifo "$work/ask" "$work/answer"
	"$BUILD/tests/proof/proof-load" --timeout 240 "$@" <"$work/ask" \
		>"$work/answer" 2>>"$VM_OUT/proof.log" &
	proof=$!
	exec {proof_ask}>"$work/ask" {proof_answer}<"$work/answer"
	_proof_hears round
}

# Waits for the answer that begins with $1, and stores it in $proof_said.
_proof_hears() {
	while read -r -u "$proof_answer" proof_said; do
		echo "$proof_said" >>"$VM_OUT/proof.log"
		case $proof_said in
		*wrong* | *failed* | HANGS*) break ;;
		"$1"*) return ;;
		esac
	done
	timeout 60 cat <&"$proof_answer" >>"$VM_OUT/proof.log"
	vm_say "proof-load: $proof_said"
	return 1
}

# proof_ask COMMAND...: sends a command and waits for its answer.
proof_ask() {
	echo "$*" >&"$proof_ask"
	_proof_hears "$1"
}

# proof_end: checks the results, and ends proof-load.
proof_end() {
	echo quit >&"$proof_ask"
	_proof_hears round
	exec {proof_ask}>&- {proof_answer}<&-
	ends_well "$proof"
	echo "$proof_said"
}

# proof_times FILE: adds the "usable after" of the last round to FILE;
# tell_times FILE WHAT: prints these times.
proof_times() {
	[[ $proof_said == *'usable after '* ]] || return
	local seconds=${proof_said##*usable after }
	echo "${seconds% s}" >>"$1"
}

tell_times() {
	sort -n "$1" | awk -v what="$2" '
		{ t[NR] = $1; sum += $1 }
		END { printf "%s, %d times, seconds: median %.3f, mean %.3f, " \
			"95%% %.3f, max %.3f\n", what, NR, t[int((NR + 1) / 2)], \
			sum / NR, t[int(NR * .95 + .95)], t[NR] }'
}

# --- an rdma-target for logins of the kernel's initiator ----------------------

# target_names: sets $id_ext and $ioc_guid to the names that the target printed.
target_names() {
	local login

	login=$(grep -o 'id_ext=.*,dest=' "$VM_OUT/target.log" | tail -n 1)
	id_ext=${login#id_ext=} id_ext=${id_ext%%,*}
	ioc_guid=${login#*ioc_guid=} ioc_guid=${ioc_guid%%,*}
}

# ib_srp_pauses SECONDS: the pause before the kernel's initiator tries again.
ib_srp_pauses() {
	local port

	for port in /sys/class/srp_remote_ports/*; do
		echo "$1" >"$port/reconnect_delay"
	done
}

# Succeeds if the kernel's initiator has lost a target, and has not reconnected.
ib_srp_is_lost() {
	! grep -qx running /sys/class/srp_remote_ports/*/state
}

# client_is_lost NAME: the same for the rdma-fuse of mount_start NAME.
client_is_lost() {
	tail -n 1 "$VM_OUT/$1.log" | grep -qE \
		'wait .*for the connection$|until the connection is back$|still trying$'
}
