#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The kernel's initiator has written to rdma-target, whose last flush fails.
# After the target has been restarted, the next fsync in the kernel must fail,
# and only that one: neither the disk driver nor ib_srp may repeat the flush
# until it succeeds.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"

work=/mnt/scratch
log=$VM_OUT/target.log

# $1: options to add to the volume
target_start() {
	"$BUILD/target/rdma-target" --pidfile "$work/pid" \
		--state-dir "$work/state" \
		--backing "$work/disk.img,name=disk$1" >>"$log" 2>&1 &
	target=$!
	wait_for 60 test -s "$work/pid"
}

can_read() {
	timeout 10 dd if="$disk" of=/dev/null bs=4k count=1 iflag=direct
}

trap 'status=$?; [ $status = 0 ] || { cat "$log"; dmesg | tail -n 30; }' EXIT

vm_soft_roce
vm_scratch_fs "$work" 256
truncate -s 64M "$work/disk.img"
mkdir "$work/state"

step "writes that no flush covers"
target_start ,fault=flush:error
login=$(grep -o 'id_ext=.*,dest=10\.0\.0\.1:5555' "$log" | tail -n 1)
id_ext=${login#id_ext=} id_ext=${id_ext%%,*}
ioc_guid=${login#*ioc_guid=} ioc_guid=${ioc_guid%%,*}
disk=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.0.0.1:5555)
for port in /sys/class/srp_remote_ports/*; do
	echo 1 >"$port/reconnect_delay"
done
dd if=/dev/urandom of="$disk" bs=64k count=16 oflag=direct status=none

step "the target ends and cannot flush"
kill "$target"
status=0
wait "$target" || status=$?
[ "$status" = 1 ]
grep -q "could not be flushed" "$log"

step "it is started again; the kernel comes back"
rm -f "$work/pid"
target_start ""
wait_for 60 can_read

step "one fsync fails"
if sync "$disk"; then
	echo "fsync succeeded, though writes may be lost"
	exit 1
fi
sync "$disk"
dd if=/dev/urandom of="$disk" bs=64k count=16 oflag=direct status=none
sync "$disk"

step "the end"
vm_kernel_logout
kill "$target"
wait "$target"
