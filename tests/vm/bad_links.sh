#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Two hosts with a bad cable between them: packets are lost, late or doubled, and
# fio verifies what it wrote. The kernel's initiator and rdma-fuse use the same
# volume of rdma-target; rdma-fuse another one of the kernel's target.
#
#   VM_LINKS        the kinds of cable, as tc-netem(8) has them, with commas
#                   between
#   VM_LINK_KIB     how much fio writes and verifies through each cable, by each
#                   initiator (default 64; a lost packet can cost two seconds)
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

links=${VM_LINKS:-loss 1%,delay 5ms duplicate 2%}
kib=${VM_LINK_KIB:-64}

mnt=/mnt/one lio=/mnt/lio

# fio_verify NAME FILE OFFSET
fio_verify() {
	timeout 300 fio --name="$1" --filename="$2" --offset="$3" --size="${kib}k" \
		--direct=1 --thread --ioengine=libaio --iodepth=16 \
		--rw=randwrite --bsrange=512-16k --verify=crc32c --do_verify=1 \
		--verify_fatal=1 --verify_state_save=0 >"$VM_OUT/$1.fio" 2>&1 || {
		cat "$VM_OUT/$1.fio"
		return 1
	}
}

all_verify() {
	local job jobs=()

	fio_verify kernel "$disk" 0 &
	jobs+=($!)
	fio_verify fuse "$mnt/disk" 32m &
	jobs+=($!)
	fio_verify lio "$lio" 0 &
	jobs+=($!)
	for job in "${jobs[@]}"; do
		wait "$job"
	done
}

vm_two_hosts
vm_scratch_fs "$work" 256
mkdir "$mnt"
truncate -s 64M "$work/disk.img"
truncate -s 16M "$work/lio.img"
touch "$lio"
target_start --verbose --listen srp+rdma://10.1.0.2 \
	--backing "$work/disk.img,name=disk"
target_names
disk=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.1.0.2:5555)
mount_start one srp+rdma://10.1.0.2 "$mnt"
fuse_one=$fuse

# The kernel's target is another port of the same host.
vm_kernel_target --device rxe1 --port 5556 "$work/lio.img"
names="id_ext=$VM_ID_EXT&ioc_guid=$VM_IOC_GUID"
names+="&initiator=$(vm_kernel_initiator_id)"
mount_start lio "srp+rdma://10.1.0.2:5556/0?$names" "$lio"
fuse_lio=$fuse

IFS=, read -r -a list <<<"$links"
for link in "${list[@]}"; do
	step "fio verifies through: $link"
	# shellcheck disable=SC2086 # words
	vm_cable $link
	all_verify
	vm_cable
	echo "logins at rdma-target so far: $(grep -c 'login of' "$VM_OUT/target.log")"
done
kill "$fuse_lio" "$fuse_one"
ends_well "$fuse_lio"
ends_well "$fuse_one"
vm_kernel_logout "$disk"
vm_kernel_target_down

step "all end well"
wait_for 60 holds_no_queue_pair "$target"
kill "$target"
ends_well "$target"
wait_for 10 nothing_is_held
vm_fails vm_dmesg_complaints
