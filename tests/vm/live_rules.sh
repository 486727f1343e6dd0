#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# New rules give a LUN of the kernel's initiator to another volume while it
# writes. It logs in again by itself, and repeats its writes: they must not reach
# the other volume. After a logout and a login it has the other volume.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

ctl() {
	"$BUILD/ctl/rdma-ctl" --control "$work/control" "$@"
}

# volume NAME RULE: prints it for a configuration
volume() {
	echo "{ \"store\": \"$work/$1\", \"name\": \"$1\", \"lun\": 0, \"allow\": \"$2\" }"
}

is_zero() {
	cmp -n $((64 << 20)) "$work/$1" /dev/zero
}

is_written() {
	! is_zero "$1" >/dev/null
}

vm_soft_roce
vm_scratch_fs "$work" 512
truncate -s 64M "$work/first" "$work/second"
target_start --control "$work/control" --threads 2 \
	--backing "$work/first,name=first,lun=0,allow=all" \
	--backing "$work/second,name=second,lun=0,allow=10.9.9.9"
target_names
disk=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.0.0.1:5555)

step "the rules exchange two volumes"
fio --name=load --filename="$disk" --direct=1 --thread --size=64m \
	--ioengine=libaio --iodepth=16 --rw=randwrite --bs=64k --time_based \
	--runtime=600 --verify_state_save=0 --buffer_pattern=0x58 \
	>"$VM_OUT/load.txt" 2>&1 &
writer=$!
wait_for 60 is_written first
echo "{ \"backing\": [ $(volume first 10.9.9.9), $(volume second all) ] }" \
	>"$work/exchanged.json"
ctl apply "$work/exchanged.json"

step "the writes fail"
vm_fails wait "$writer"
is_zero second

step "a logout and a login show the other one"
vm_kernel_logout
disk=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.0.0.1:5555)
dd if=/dev/urandom of="$work/data" bs=1M count=4 status=none
dd if="$work/data" of="$disk" bs=1M oflag=direct status=none
cmp -n $((4 << 20)) "$work/data" "$work/second"

vm_kernel_logout
kill "$target"
ends_well "$target"
