#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Block commands that file systems do not send: sg3_utils sends them through the
# kernel's initiator to rdma-target, to a volume in memory and to a file, or to an
# image of Ceph RBD (VM_STORE=rbd).
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"

work=/mnt/scratch
# shellcheck source=tests/vm/disk_store.sh
. "${VM_LIB%/*}/disk_store.sh"
log=$VM_OUT/target.log

show_log() {
	echo "the target's log:"
	tail -n 40 "$log"
	dmesg | tail -n 20
}

is_ready() {
	sg_turs "$1" >/dev/null 2>&1
}

# Runs a command that should end with status $1.
ends_with() {
	local want=$1 status=0
	shift
	"$@" >"$VM_OUT/sg" 2>&1 || status=$?
	[ "$status" = "$want" ] || {
		echo "$*: status $status, not $want"
		cat "$VM_OUT/sg"
		return 1
	}
}

# pattern BYTE LEN: prints a byte LEN times.
pattern() {
	head -c "$2" /dev/zero | tr '\0' "\\$(printf %o "$1")"
}

# block DEVICE LBA [COUNT]: prints the present contents, bypassing all caches.
block() {
	dd if="$1" bs=512 skip="$2" count="${3:-1}" iflag=direct status=none
}

# is_zero DEVICE: all its 64 MiB are zero, bypassing all caches.
is_zero() {
	cmp -n $((64 << 20)) /dev/zero \
		<(dd if="$1" bs=1M iflag=direct status=none)
}

# has_extent DISK LBA EXTENT: GET LBA STATUS shows an extent that begins there, as
# EXTENT says: blocks, and 0 for mapped or 1 for deallocated.
has_extent() {
	ends_with 0 sg_get_lba_status --brief --lba="$2" "$1"
	grep -Eq "^$(printf '0x%016x' "$2")  $3 " "$VM_OUT/sg" || {
		cat "$VM_OUT/sg"
		return 1
	}
}

# generic DISK: prints its device node for commands.
generic() {
	echo "/dev/$(ls "/sys/block/${1#/dev/}/device/scsi_generic")"
}

trap 'status=$?; [ $status = 0 ] || show_log' EXIT

command -v sg_compare_and_write >/dev/null || exit 77
vm_soft_roce
vm_scratch_fs "$work" 1536
store_start
"$BUILD/target/rdma-target" --pidfile "$work/pid" --verbose --threads 2 \
	--backing "$store" --backing ram:64M,name=scratch \
	>"$log" 2>&1 &
target=$!
wait_for 60 test -s "$work/pid"
login=$(grep -o 'id_ext=.*,dest=10\.0\.0\.1:5555' "$log")
id_ext=${login#id_ext=} id_ext=${id_ext%%,*}
ioc_guid=${login#*ioc_guid=} ioc_guid=${ioc_guid%%,*}
list=$(vm_kernel_login --disks 2 "$id_ext" "$ioc_guid" 10.0.0.1:5555)
mapfile -t disks <<<"$list"
disk=${disks[0]} ram=${disks[1]}
cd "$VM_OUT"

step "what there is"
sg_opcodes "$disk" | grep -E 'Compare|Sanitize|Format|Orwrite|xtended'
sg_vpd --page=bl "$disk"
sg_vpd --page=0x8f "$disk"
ends_with 0 sg_vpd --all "$disk"
ends_with 0 sg_inq "$disk"

for dev in "$disk" "$ram"; do
	step "COMPARE AND WRITE, $dev"
	pattern 0x11 512 >old
	pattern 0x22 512 >new
	dd if=old of="$dev" bs=512 seek=7 oflag=direct status=none
	cat old new >both
	ends_with 0 sg_compare_and_write --in=both --lba=7 --num=1 \
		--xferlen=1024 "$dev"
	cmp new <(block "$dev" 7)
	ends_with 14 sg_compare_and_write --in=both --lba=7 --num=1 \
		--xferlen=1024 "$dev"
	cmp new <(block "$dev" 7)

	step "VERIFY, $dev"
	ends_with 0 sg_verify --lba=0 --count=1000 "$dev"
	ends_with 0 sg_verify --16 --ebytchk=1 --ndo=512 --in=new --lba=7 \
		--count=1 "$dev"
	ends_with 0 sg_verify --16 --ebytchk=3 --ndo=512 --in=new --lba=7 \
		--count=1 "$dev"
	ends_with 14 sg_verify --16 --ebytchk=3 --ndo=512 --in=new --lba=7 \
		--count=2 "$dev"

	step "WRITE AND VERIFY, ORWRITE, $dev"
	ends_with 0 sg_write_verify --16 --bytchk=1 --lba=9 --num=1 --in=old \
		--ilen=512 "$dev"
	cmp old <(block "$dev" 9)
	ends_with 0 sg_raw --send=512 --infile=new "$dev" 8b 00 \
		00 00 00 00 00 00 00 09 00 00 00 01 00 00
	cmp <(pattern 0x33 512) <(block "$dev" 9)

	step "WRITE SAME, UNMAP, GET LBA STATUS, $dev"
	ends_with 0 sg_write_same --16 --lba=16 --num=64 --in=old \
		--xferlen=512 "$dev"
	cmp <(pattern 0x11 32768) <(block "$dev" 16 64)
	ends_with 0 sg_write_same --16 --ndob --unmap --lba=16 --num=32 "$dev"
	cmp -n 16384 /dev/zero <(block "$dev" 16 32)
	ends_with 0 sg_unmap --force --lba=48 --num=32 "$dev"
	cmp -n 16384 /dev/zero <(block "$dev" 48 32)
	head -c 9437184 /dev/urandom |
		dd of="$dev" bs=1M seek=32 iflag=fullblock oflag=direct \
			status=none
	# All blocks of a volume in memory count as allocated.
	hole=1
	[ "$dev" != "$ram" ] || hole=0
	has_extent "$dev" 65536 '0x[0-9a-f]+  0'
	ends_with 0 sg_unmap --lba=65536 --num=16384 "$dev"
	has_extent "$dev" 65536 "0x[0-9a-f]+  $hole"
	has_extent "$dev" 81920 '0x[0-9a-f]+  0'
	cmp -n 8388608 /dev/zero \
		<(dd if="$dev" bs=1M skip=32 count=8 iflag=direct status=none)
	ends_with 5 sg_unmap --force --anchor --lba=48 --num=32 "$dev"

	step "PRE-FETCH and READ DEFECT DATA, $dev"
	# An image has no cache here that could hold the blocks.
	met=99
	[ "$store_kind" = file ] || [ "$dev" = "$ram" ] || met=0
	ends_with $met sg_raw "$dev" 90 00 00 00 00 00 00 00 00 00 00 00 00 08 \
		00 00
	[ $met = 0 ] || grep -q 'Condition Met' sg
	ends_with 0 sg_raw --request=8 "$dev" b7 18 00 00 00 00 00 00 00 08 \
		00 00
done

step "WRITE ATOMIC, in memory alone"
ends_with 0 sg_raw --send=512 --infile=old "$ram" 9c 00 \
	00 00 00 00 00 00 00 0b 00 00 00 01 00 00
cmp old <(block "$ram" 11)
ends_with 9 sg_raw --send=512 --infile=old "$disk" 9c 00 \
	00 00 00 00 00 00 00 0b 00 00 00 01 00 00

# count_up DEVICE TIMES FILE: adds one to block 100, by COMPARE AND WRITE
count_up() {
	local done=0 status n
	while [ $done -lt "$2" ]; do
		block "$1" 100 >"$3.old"
		n=$(head -c 8 "$3.old")
		printf %08d $((10#$n + 1)) >"$3.new"
		tail -c 504 "$3.old" >>"$3.new"
		cat "$3.old" "$3.new" >"$3"
		status=0
		sg_compare_and_write --in="$3" --lba=100 --num=1 \
			--xferlen=1024 "$1" >/dev/null 2>&1 || status=$?
		[ $status = 0 ] || [ $status = 14 ] || return 1
		[ $status != 0 ] || done=$((done + 1))
	done
}

step "COMPARE AND WRITE of several at once loses no step"
for dev in "$disk" "$ram"; do
	{ printf 00000000 && pattern 0x2e 504; } >zero
	dd if=zero of="$dev" bs=512 seek=100 oflag=direct status=none
	for i in 1 2 3; do
		count_up "$dev" 15 "count$i" &
		counters[i]=$!
	done
	for i in 1 2 3; do
		wait "${counters[i]}"
	done
	[ "$(block "$dev" 100 | head -c 8)" = 00000045 ]
done

step "EXTENDED COPY"
dd if=/dev/urandom of=sent bs=1M count=4 status=none
dd if=sent of="$disk" bs=1M seek=8 oflag=direct status=none
sg_copy_results --params "$disk"
sg_disk=$(generic "$disk") sg_ram=$(generic "$ram")
sg_xcopy if="$sg_disk" of="$sg_ram" bs=512 skip=16384 seek=32768 count=8192
cmp sent \
	<(dd if="$ram" bs=1M skip=16 count=4 iflag=direct status=none)
sg_xcopy if="$sg_ram" of="$sg_disk" bs=512 skip=32768 seek=65536 count=8192
cmp sent \
	<(dd if="$disk" bs=1M skip=32 count=4 iflag=direct status=none)

step "SANITIZE and FORMAT UNIT"
for dev in "$disk" "$ram"; do
	pattern 0xa5 4 >pat
	# Without --early, the tools check for the end only once a minute.
	sg_sanitize --overwrite --pattern=pat --ipl=4 --quick --early "$dev"
	wait_for 120 is_ready "$dev"
	cmp <(pattern 0xa5 4096) <(block "$dev" 131064 8)
	sg_sanitize --block --quick --early "$dev"
	wait_for 120 is_ready "$dev"
	is_zero "$dev"
	dd if=sent of="$dev" bs=1M oflag=direct status=none
	sg_format --format --quick --early "$dev"
	wait_for 120 is_ready "$dev"
	is_zero "$dev"
done
[ "$(store_used)" -lt 512000 ]

step "a SANITIZE under way ends with the target"
sg_sanitize --overwrite --count=31 --pattern=pat --ipl=4 --quick --early "$disk"
ends_with 2 sg_turs "$disk"
vm_kernel_logout
kill "$target"
wait "$target"
grep -q 'SANITIZE ended at' "$log"
store_end
vm_fails vm_dmesg_complaints
