#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Shows that the guest has what the other tests need: verbs between its two
# addresses, and the kernel's SRP initiator on the kernel's SRP target.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"

listens() {
	rdma resource show cm_id | grep -q "src-addr $1"
}

# ping_pong FROM TO: five SENDs, RDMA READs and WRITEs in each direction.
ping_pong() {
	local server

	rping -s -a "$2" -C 5 &
	server=$!
	wait_for 20 listens "$2:7174"
	rping -c -I "$1" -a "$2" -C 5 -v
	wait "$server"
}

# sent_packets INTERFACE
sent_packets() {
	cat "/sys/class/net/$1/statistics/tx_packets"
}

# same_after_write DISK: data that is written to it can be read.
same_after_write() {
	dd if=/dev/urandom of="$VM_OUT/sent" bs=64k count=4 status=none
	dd if="$VM_OUT/sent" of="$1" bs=64k seek=8 oflag=direct status=none
	dd if="$1" of="$VM_OUT/came" bs=64k skip=8 count=4 iflag=direct status=none
	cmp "$VM_OUT/sent" "$VM_OUT/came"
}

step "verbs between 10.0.0.1 and 10.0.0.2"
vm_soft_roce
ping_pong 10.0.0.1 10.0.0.2

step "a file system with direct I/O"
vm_scratch_fs /mnt/scratch 64
truncate -s 16M /mnt/scratch/disk.img
dd if=/dev/zero of=/mnt/scratch/direct bs=4k count=1 oflag=direct status=none

step "kernel target: $(vm_kernel_initiator_id) may log in"
vm_kernel_target --initiator 0123456789abcdef0123456789ABCDEF \
	ram:16M /mnt/scratch/disk.img

step "a login with a wrong name is refused"
vm_fails vm_kernel_login 1 2 "$VM_TARGET_DEST" 2>"$VM_OUT/refusal"
grep 'reason 0x00010003' "$VM_OUT/refusal"

for round in 1 2; do
	step "kernel login, round $round"
	list=$(vm_kernel_login --disks 2 "$VM_ID_EXT" "$VM_IOC_GUID" \
		"$VM_TARGET_DEST" queue_size=128)
	mapfile -t disks <<<"$list"
	echo "disks: ${disks[*]}"
	[ "${#disks[@]}" = 2 ]
	for disk in "${disks[@]}"; do
		[ "$(blockdev --getsize64 "$disk")" = $((16 << 20)) ]
		same_after_write "$disk"
	done
	# A second login with the same name must not make a second host.
	vm_fails vm_kernel_login "$VM_ID_EXT" "$VM_IOC_GUID" "$VM_TARGET_DEST" \
		2>/dev/null
	vm_kernel_logout "${disks[0]}"
	[ ! -e "${disks[0]}" ]
	[ ! -e "${disks[1]}" ]
done

step "what came last is in the file behind LUN 1"
cmp -n $((256 << 10)) "$VM_OUT/sent" /mnt/scratch/disk.img 0 $((512 << 10))

step "no receive queue was empty, the kernel did not complain"
[ "$(vm_rnr_count)" = 0 ]
vm_fails vm_dmesg_complaints

step "the target goes away"
vm_kernel_target_down
vm_fails test -e /sys/module/ib_srpt

step "verbs over a cable between two devices"
rdma link delete rxe0
vm_two_hosts
before=$(sent_packets link0)
ping_pong 10.1.0.1 10.1.0.2
[ "$(sent_packets link0)" -gt "$before" ]

step "kernel login over the cable"
vm_kernel_target --device rxe1 ram:16M
disk=$(vm_kernel_login "$VM_ID_EXT" "$VM_IOC_GUID" "$VM_TARGET_DEST")
before=$(sent_packets link0)
same_after_write "$disk"
[ "$(sent_packets link0)" -gt "$before" ]
vm_kernel_logout "$disk"
vm_kernel_target_down
