#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Events of a disk of the kernel's initiator while it is used: resets of every
# kind, discards, growth, a logout with I/O in flight. The data stays correct,
# and the kernel's log has no complaints. Also the output of SCSI tools for this
# disk, that the target gives no key to its memory to anybody, and that a block
# which dm-integrity finds damaged is a medium error.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

mnt=/mnt/one
file=$work/disk.img

# load_start ARGUMENT...: fio writes to the first 12 MiB of the disk, often enough that
# what follows finds it at work; sets $load.
load_start() {
	fio --name=load --filename="$disk" --direct=1 --thread --size=12m --loops=4 \
		--ioengine=libaio --iodepth=16 --rw=randwrite \
		--bsrange=512-64k --verify_state_save=0 "$@" \
		>"$VM_OUT/load.txt" 2>&1 &
	load=$!
	wait_for 30 is_busy "$disk" || {
		cat "$VM_OUT/load.txt"
		return 1
	}
}

verified=(--verify=crc32c --verify_fatal=1 --do_verify=1)

load_ends_well() {
	ends_well "$load" || {
		cat "$VM_OUT/load.txt"
		return 1
	}
}

# Succeeds if I/O of disk $1 is in flight.
is_busy() {
	awk '{ exit $1 + $2 == 0 }' "/sys/block/${1#/dev/}/inflight"
}

# Prints the kernel's messages about disks and hosts since the test began,
# without the expected ones.
disk_complaints() {
	dmesg | sed -n '/vm: job starts/,$p' | grep -E '\b(sd|scsi|srp|blk|dev) ' |
		grep -vE "$expected"
}

# memory_of NAME: prints what RDMA memory programs of that name have registered.
memory_of() {
	rdma -d resource show mr | grep -E " comm $1 *\$"
}

# gives_out_keys NAME: succeeds if others can access memory of such a program.
gives_out_keys() {
	memory_of "$1" | grep -v ' rkey 0x0 '
}

# damage FILE TEXT: changes the first letter of TEXT where it is in the file.
damage() {
	local at

	at=$(grep -abo -m 1 "$2" "$1") && at=${at%%:*} || return
	printf X | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}

command -v integritysetup >/dev/null || { echo "no integritysetup"; exit 77; }
vm_soft_roce
vm_scratch_fs "$work" 512
mkdir "$mnt"
truncate -s 64M "$file" "$work/below.img"
# As docs/stores.md has it; without the journal, a block is where it will be read.
integritysetup format --batch-mode --sector-size 4096 "$work/below.img"
integritysetup open --integrity-no-journal "$work/below.img" checked
target_start --verbose --backing "$file" --backing ram:16M,name=ram \
	--backing /dev/mapper/checked,block-size=4096,name=checked
target_names
list=$(vm_kernel_login --disks 3 "$id_ext" "$ioc_guid" 10.0.0.1:5555)
mapfile -t disks <<<"$list"
disk=${disks[0]}

step "what sg3_utils read"
sg_readcap "$disk" | tee "$VM_OUT/said"
grep -q 'Last LBA=131071 .*Number of logical blocks=131072' "$VM_OUT/said"
sg_readcap --16 "$disk" | tee "$VM_OUT/said"
grep -q 'lbpme=1' "$VM_OUT/said"
grep -q 'Logical block length=512 bytes' "$VM_OUT/said"
sg_luns "$disk" | tee "$VM_OUT/said"
grep -q 'Lun list length = 24' "$VM_OUT/said"

for kind in device target bus host; do
	step "resets under load: $kind"
	load_start "${verified[@]}"
	sg_reset --$kind "$disk"
	sg_reset --$kind "$disk"
	load_ends_well
done

step "discards beside the load"
dd if=/dev/urandom of="$disk" bs=1M seek=32 count=8 oflag=direct status=none
before=$(stat -c %b "$file")
load_start "${verified[@]}"
for ((mib = 32; mib < 40; mib += 2)); do
	blkdiscard -o "${mib}M" -l 2M "$disk"
done
load_ends_well
cmp -n $((8 << 20)) "$file" /dev/zero -i $((32 << 20)):0
[ "$(stat -c %b "$file")" -lt $((before + (16 << 11))) ]

step "growth under load"
load_start "${verified[@]}"
truncate -s 96M "$file"
kill -HUP "$target"
wait_for 30 grep -q 'has grown' "$VM_OUT/target.log"
echo 1 >"/sys/block/${disk#/dev/}/device/rescan"
wait_for 30 grep -qx $((96 << 11)) "/sys/block/${disk#/dev/}/size"
dd if=/dev/urandom of="$disk" bs=1M seek=90 count=4 oflag=direct status=none
load_ends_well

step "no key to the target's memory is given out"
mount_start one srp+rdma://10.0.0.1 "$mnt"
memory_of rdma-target
# Later versions of soft-RoCE show a key for all memory, even if nobody may use
# it.
[[ $(uname -r) != 6.1.* ]] || vm_fails gives_out_keys rdma-target
# The initiator must give out keys, and this shows that the check finds them.
gives_out_keys rdma-fuse
kill "$fuse"
ends_well "$fuse"

step "a block that dm-integrity finds damaged"
head -c 4096 < <(yes 'good data') >"$work/block"
dd if="$work/block" of="${disks[2]}" bs=4k seek=1000 conv=fsync status=none
rm "$work/block"
dd if="${disks[2]}" of=/dev/null bs=4k skip=1000 count=1 iflag=direct status=none
damage "$work/below.img" 'good data'
# The target reads such a device through the page cache.
echo 3 >/proc/sys/vm/drop_caches
vm_fails dd if="${disks[2]}" of=/dev/null bs=4k skip=1000 count=1 iflag=direct
dmesg | grep 'Sense Key : Medium Error'
dmesg | grep 'Add. Sense: Unrecovered read error'
dd if=/dev/zero of="${disks[2]}" bs=4k seek=1000 count=1 oflag=direct status=none
dd if="${disks[2]}" of=/dev/null bs=4k skip=1000 count=1 iflag=direct status=none

step "logout with I/O under way"
load_start --time_based --runtime=60
vm_kernel_logout "$disk"
vm_fails wait "$load"
wait_for 30 holds_no_queue_pair "$target"

step "nobody complained"
kill "$target"
ends_well "$target"
integritysetup close checked
expected='Attached|Direct-Access|logical blocks|Write Protect|Mode Sense|Write cache'
expected+='|physical blocks|minimum I/O size|transfer size|Capacity data has changed'
expected+='|SRP\.T10|ib_srp: new target|reset|SRP abort|using immediate data|reconnect succeeded'
# At a reset of the host, the kernel ends all commands itself, and may then read responses
# that its old queue pairs had received before.
expected+='|Null scmnd for RSP'
# The logout ended the I/O in flight.
expected+='|device offline error|Synchronizing SCSI cache'
# The damaged block.
expected+='|Medium Error|Unrecovered read error|DID_OK|CDB: Read|critical medium error'
expected+='|Buffer I/O error on dev dm-'
vm_fails disk_complaints
vm_fails vm_dmesg_complaints
