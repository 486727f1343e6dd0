#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Volumes are added, resized and removed while the kernel's initiator writes to
# another one and reads it back. The kernel's log has no complaint.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

file=$work/disk.img

ctl() {
	"$BUILD/ctl/rdma-ctl" --control "$work/control" "$@"
}

load_start() {
	fio --name=load --filename="$disk" --direct=1 --thread --size=12m \
		--ioengine=libaio --iodepth=16 --rw=randwrite \
		--bsrange=512-64k --verify_state_save=0 --verify=crc32c \
		--verify_fatal=1 --do_verify=1 --loops=2 \
		>"$VM_OUT/load.txt" 2>&1 &
	load=$!
}

load_ends_well() {
	ends_well "$load" || {
		cat "$VM_OUT/load.txt"
		return 1
	}
}

# disk_of SECTORS: prints the name of the disk of this size; fails without one.
disk_of() {
	local size

	for size in /sys/block/sd*/size; do
		[ "$(<"$size")" = "$1" ] || continue
		echo "${size%/size}" | sed 's|/sys/block/||'
		return
	done
	return 1
}

scan_hosts() {
	local scan

	for scan in /sys/class/scsi_host/host*/scan; do
		echo '- - -' >"$scan"
	done
}

has_found() {
	scan_hosts
	disk_of "$1" >/dev/null
}

complaints() {
	dmesg | sed -n '/vm: job starts/,$p' | grep -E '\b(sd|scsi|srp|blk|dev) ' |
		grep -vE "$expected"
}

vm_soft_roce
vm_scratch_fs "$work" 512
truncate -s 64M "$file"
target_start --control "$work/control" --threads 2 --backing "$file"
target_names
disk=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.0.0.1:5555)

step "a volume comes"
load_start
ctl volume add ram:24M,name=late
wait_for 60 has_found $((24 << 11))
late=$(disk_of $((24 << 11)))
dd if=/dev/urandom of="$work/data" bs=1M count=24 status=none
dd if="$work/data" of="/dev/$late" bs=1M oflag=direct status=none
dd if="/dev/$late" bs=1M iflag=direct status=none | cmp - "$work/data"

step "the one in use grows"
ctl volume resize disk.img 96M
echo 1 >"/sys/block/${disk#/dev/}/device/rescan"
wait_for 30 grep -qx $((96 << 11)) "/sys/block/${disk#/dev/}/size"

step "a volume that is seen stays"
vm_fails ctl volume remove late
dd if="/dev/$late" bs=1M iflag=direct status=none | cmp - "$work/data"

step "one that the host has let go of goes"
echo 1 >"/sys/block/$late/device/delete"
ctl volume remove --force late
load_ends_well

step "it comes and goes again and again"
load_start
for ((i = 0; i < 20; i++)); do
	ctl volume add ram:8M,name=comes >/dev/null
	ctl volume remove --force comes
done
load_ends_well

step "one goes while it is written to"
ctl volume add ram:40M,name=used
wait_for 60 has_found $((40 << 11))
used=$(disk_of $((40 << 11)))
load_start
fio --name=used --filename="/dev/$used" --direct=1 --thread --size=32m \
	--ioengine=libaio --iodepth=16 --rw=randwrite --bs=16k --time_based \
	--runtime=600 --verify_state_save=0 >"$VM_OUT/used.txt" 2>&1 &
writer=$!
wait_for 60 grep -qv '^ *0 *0$' "/sys/block/$used/inflight"
ctl volume remove --force used
vm_fails wait "$writer"
load_ends_well
echo 1 >"/sys/block/$used/device/delete"

step "nobody complained"
vm_kernel_logout
kill "$target"
ends_well "$target"
expected='Attached|Direct-Access|logical blocks|Write Protect|Mode Sense|Write cache'
expected+='|physical blocks|minimum I/O size|transfer size|Capacity data has changed'
expected+='|SRP\.T10|ib_srp: new target|using immediate data|Synchronizing SCSI cache'
expected+='|Power-on or device reset occurred'
# Linux logs this for each unit attention REPORTED LUNS DATA HAS CHANGED.
expected+='|LUN assignments on this target have changed'
# The volume that was removed while it was written to, and the deletion of
# disks.
expected+="|\[$used\]|dev $used,|$used: detected capacity"
vm_fails complaints
vm_fails vm_dmesg_complaints
