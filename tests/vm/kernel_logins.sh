#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The kernel's initiator logs in and out ten times, with two channels each time: the target
# keeps nothing of them. A leak of one channel becomes visible after twenty.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

log=$VM_OUT/target.log

logout_is_seen() {
	[ "$(grep -c ': logout of' "$log")" = "$(grep -c ': login of' "$log")" ]
}

# The target's RDMA objects of type $1.
objects() {
	rdma resource show "$1" | grep -c "pid $target " || true
}

# The target's resources: descriptors, resident KiB, and RDMA objects.
holdings() {
	echo "$(find "/proc/$target/fd" -mindepth 1 | wc -l)" \
		"$(awk '/VmRSS/ { print $2 }' "/proc/$target/status")" \
		"$(objects qp)" "$(objects mr)" "$(objects cm_id)"
}

is_as_before() {
	read -r fds2 rss2 qps2 mrs2 ids2 <<<"$(holdings)"
	[ "$fds2 $qps2 $mrs2 $ids2" = "$fds $qps $mrs $ids" ]
}

log_in_and_out() { # TIMES
	local i disk

	for ((i = 0; i < $1; i++)); do
		disk=$(vm_kernel_login --disks 1 "$id_ext" "$ioc_guid" 10.0.0.1:5555)
		dd if="$disk" of=/dev/null bs=64k count=4 iflag=direct status=none
		vm_kernel_logout
		wait_for 30 logout_is_seen
	done
}

ten_times() {
	read -r fds rss qps mrs ids <<<"$(holdings)"
	log_in_and_out 10
	echo "before: fds $fds, RSS $rss KiB, QPs $qps, MRs $mrs, CM IDs $ids"
	wait_for 30 is_as_before
	echo "after:  fds $fds2, RSS $rss2 KiB, QPs $qps2, MRs $mrs2, CM IDs $ids2"
	[ "$mrs" -gt 0 ] && [ "$ids" -gt 0 ]
}

vm_soft_roce
vm_scratch_fs "$work" 128
truncate -s 64M "$work/disk.img"
target_start --threads 2 --backing "$work/disk.img"
target_names
log_in_and_out 2

step "logging out and in ten times leaks nothing"
ten_times
# A page that is used for the first time may be a huge one. A leak goes on.
[ $((rss2 - rss)) -lt 1024 ] || ten_times
[ $((rss2 - rss)) -lt 1024 ]
kill "$target"
ends_well "$target"
vm_fails vm_dmesg_complaints
