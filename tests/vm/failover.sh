#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A mount with an address on each of two RDMA devices of one target. The device
# in use is removed under I/O, by turns, and the mount goes to the other one.
# proof-load checks that no acknowledged data is lost and that no old data is
# read.
#
#   VM_FAILOVER        how often a device is removed (default 6)
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

times=${VM_FAILOVER:-6}
mnt=/mnt/one

# has_moved CNT ADDRESS: the mount has gone to ADDRESS CNT times.
has_moved() {
	[ "$(grep -c "connected to $2:5555 .*in place of" \
		"$VM_OUT/client.log")" = "$1" ]
}

# listens CNT ADDRESS: a device with ADDRESS has come back CNT times.
listens() {
	[ "$(grep -c "listening on $2:5555 over RDMA now" "$VM_OUT/target.log")" = "$1" ]
}

vm_soft_roce
vm_scratch_fs "$work" 256
mkdir "$mnt"
truncate -s 64M "$work/disk.img"
ip link add d1 address 52:54:00:12:34:57 mtu 9000 type dummy
ip address add 10.0.1.1/24 dev d1
ip address add 10.0.1.2/24 dev d1
ip link set d1 up
vm_device_add rxe1 d1

step "both devices lead to the target"
target_start --listen srp+rdma://10.0.0.1 --listen srp+rdma://10.0.1.1 \
	--backing "$work/disk.img,name=disk"
mount_start client --fast-io-fail-tmo off --channels 2 \
	srp+rdma://10.0.0.1,10.0.1.1/disk "$mnt"

step "$times times the device in use is removed under I/O"
proof_start "$mnt/disk"
for ((i = 0; i < times; i++)); do
	device=rxe$((i % 2)) interface=d$((i % 2)) other=10.0.$(((i + 1) % 2)).1
	proof_ask ops $((20 + RANDOM % 100))
	vm_device_remove "$device"
	proof_ask since
	wait_for 60 has_moved $((i / 2 + 1)) "$other"
	proof_ask round
	proof_times "$VM_OUT/moved"
	vm_device_add "$device" "$interface"
	wait_for 60 listens $((i / 2 + 1)) "10.0.$((i % 2)).1"
done
proof_end
tell_times "$VM_OUT/moved" "usable by the other address after a device is removed"
vm_fails grep -E 'may have lost|is final' "$VM_OUT/client.log"

step "nothing is left"
kill "$fuse"
ends_well "$fuse"
kill "$target"
ends_well "$target"
wait_for 10 nothing_is_held
vm_fails vm_dmesg_complaints
