#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# scripts/slow-commands.bt on a running target: bpftrace attaches to its probes, and says of
# the slow commands, and of no others, where they were.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
command -v bpftrace >/dev/null || { vm_say 'no bpftrace here'; exit 77; }
readelf -n "$BUILD/target/rdma-target" | grep -q 'Provider: rdma_target' ||
	{ vm_say 'built without probes'; exit 77; }
work=/run/work
mkdir -p "$work/mnt"
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

# slow_counts NAME: how many commands its histogram has.
slow_counts() {
	awk -v name="@$1:" '$1 == name { on = 1; next } on && !/^[[(]/ { exit }
		on { gsub(/\|.*/, ""); sum += $NF } END { print sum + 0 }' "$VM_OUT/slow.txt"
}

step "bpftrace attaches"
mount -t tracefs none /sys/kernel/tracing 2>/dev/null || [ -d /sys/kernel/tracing/events ]
ip link set lo up
target_start --listen srp+tcp://127.0.0.1:5599 \
	--backing ram:1M,name=disk,fault=read:delay=300:after=3:count=5
mount_start mount srp+tcp://127.0.0.1:5599 "$work/mnt"
bpftrace -p "$target" scripts/slow-commands.bt 250 >"$VM_OUT/slow.txt" 2>&1 &
bpf=$!
wait_for 60 grep -q 'Ctrl-C ends' "$VM_OUT/slow.txt"
vm_fails grep WARNING "$VM_OUT/slow.txt"

step "it counts the slow ones of 20 reads"
dd if="$work/mnt/disk" of=/dev/null bs=4k count=20 iflag=direct status=none
kill -INT "$bpf"
ends_well "$bpf"
cat "$VM_OUT/slow.txt"
for stage in before_us disk_us respond_us; do
	[ "$(slow_counts "$stage")" = 5 ]
done
# They were slow on the disk: 2^18 us and more.
grep -A2 '@disk_us' "$VM_OUT/slow.txt" | grep -E '^\[(256|512)K'

umount "$work/mnt"
ends_well "$fuse"
kill "$target"
ends_well "$target"
