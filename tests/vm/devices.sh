#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# RDMA devices are removed and added under I/O. `rdma link delete` returns
# although the target and a mount use the device, nothing of the device is left,
# both continue when it is back, and programs that use another device notice
# nothing. proof-load checks that no acknowledged data is lost.
#
#   VM_DEVICES         how often the device is removed and added (default 10)
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

times=${VM_DEVICES:-10}
mnt=/mnt/one
still=/mnt/still

second_interface() {
	ip link add d1 address 52:54:00:12:34:57 mtu 9000 type dummy
	ip address add 10.0.1.1/24 dev d1
	ip address add 10.0.1.2/24 dev d1
	ip link set d1 up
}

said() {
	grep -q "$1" "$VM_OUT/target.log"
}

# opened NAME: succeeds if the target has opened the device.
opened() {
	[ "$(rdma resource show pd | grep -c "ifname $1 .* comm rdma-target")" != 0 ]
}

# holds_as_before PROCESS WHAT: like holds. But receive buffers that channels
# share stay registered until the last one of their region has been used.
holds_as_before() {
	[ "$(holdings "$1" | grep -v '^mr')" = "$2" ]
}

still_holds() { # PROCESS WHAT
	wait_for 30 holds_as_before "$@" || {
		vm_say "before: $2; now:" "$(holdings "$1" | grep -v '^mr')"
		exit 1
	}
}

# The data is correct on disk or mount $1: direct I/O of 1 MiB.
works() {
	head -c 1M /dev/urandom >"$work/random"
	dd if="$work/random" of="$1" bs=64k oflag=direct conv=notrunc,fsync status=none
	dd if="$1" bs=64k count=16 iflag=direct status=none | cmp - "$work/random"
}

vm_soft_roce
vm_scratch_fs "$work" 512
mkdir "$mnt" "$still"
for name in disk still kernel; do
	truncate -s 64M "$work/$name.img"
done

step "a target that is started without a device serves one that comes"
vm_device_remove rxe0
target_start --listen srp://10.0.0.1 --backing "$work/disk.img,name=disk"
said "using TCP for 10.0.0.1"
vm_device_add rxe0 d0
wait_for 30 said "RDMA device rxe0 was added"
wait_for 30 said "listening on .* over RDMA now"
mount_start first srp+rdma://10.0.0.1/disk "$mnt"
works "$mnt/disk"
kill "$fuse"
ends_well "$fuse"
kill "$target"
ends_well "$target"
wait_for 30 nothing_is_held

step "an address whose device comes later is served over RDMA, too"
second_interface
target_start --listen srp+rdma://10.0.0.1:5555 --listen srp://10.0.1.1:5555 \
	--backing "$work/disk.img,name=disk" \
	--backing "$work/still.img,name=still" \
	--backing "$work/kernel.img,name=kernel"
vm_device_add rxe1 d1
wait_for 60 said "listening on 10.0.1.1:5555 over RDMA now"
# However slow the guest is, I/O waits until the device is back.
mount_start still --fast-io-fail-tmo off srp+rdma://10.0.0.1/still "$still"
undisturbed=$fuse
target_names
mapfile -t disks < <(vm_kernel_login --disks 3 "$id_ext" "$ioc_guid" 10.0.0.1:5555)
mount_start client --fast-io-fail-tmo off srp+rdma://10.0.1.1/disk "$mnt"
client=$fuse

step "it goes and comes $times times under I/O"
proof_start "$mnt/disk"
held_by_target=$(holdings "$target" | grep -v '^mr')
held_by_client=$(holdings "$client" | grep -v '^mr')
for ((i = 0; i < times; i++)); do
	proof_ask ops $((20 + RANDOM % 100))
	vm_device_remove rxe1
	vm_fails opened rxe1
	proof_ask since
	# The other programs continue while the device is away; often it is back
	# soon.
	[ "$i" != 0 ] || { works "$still/still" && works "${disks[2]}"; }
	vm_device_add rxe1 d1
	proof_ask round
	proof_times "$VM_OUT/device"
done
still_holds "$target" "$held_by_target"
still_holds "$client" "$held_by_client"
proof_end
tell_times "$VM_OUT/device" "usable after the device is removed and added"
[ "$(grep -c 'RDMA device rxe1 was removed' "$VM_OUT/target.log")" = "$times" ]
vm_fails grep -E 'lost|come back' "$VM_OUT/still.log"
vm_fails ib_srp_is_lost

step "the driver is loaded again: all devices go and come"
vm_kernel_logout "${disks[0]}"
vm_device_remove rxe1
vm_device_remove rxe0
vm_device_add rxe0 d0
vm_device_add rxe1 d1
works "$mnt/disk"
works "$still/still"

step "they log out, and nothing is left"
kill "$client" "$undisturbed"
ends_well "$client"
ends_well "$undisturbed"
wait_for 30 holds_no_queue_pair "$target"
kill "$target"
ends_well "$target"
wait_for 10 nothing_is_held
vm_fails vm_dmesg_complaints
