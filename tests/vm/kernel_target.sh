#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# rdma-info and rdma-fuse on the kernel's target, ib_srpt, with volumes in
# memory, in a file and on a block device: the message of a rejected login, the
# commands for fsync and fallocate, fio verification with several sessions and
# channels at once, and the loss of the target.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

one=/mnt/one two=/mnt/two
id_one=0123456789abcdef0123456789abcdef
id_two=0123456789abcdef0123456789abcd00
tracing=/sys/kernel/debug/tracing
# LUN 0, 1, 2: the kernel uses these names.
ram=RAMDISK-MCP file=FILEIO device=IBLOCK

info() {
	"$BUILD/initiator/rdma-info" "$@"
}

# commands COMMAND...: runs it, and writes the SCSI commands that the target
# received meanwhile to $VM_OUT/commands.
commands() {
	echo >"$tracing/trace"
	"$@"
	# A mount without I/O asks its volumes now and then.
	grep -o 'LUN .* CDB .*' "$tracing/trace" | grep -v TEST_UNIT_READY \
		>"$VM_OUT/commands" || true
}

# sent PATTERN...: succeeds if exactly these commands were received, in this
# order: one pattern for each; the last pattern may match several.
sent() {
	local line

	while read -r line; do
		[[ $line =~ $1 ]] || {
			vm_say "'$line', not '$1'"
			return 1
		}
		[ $# = 1 ] || shift
	done <"$VM_OUT/commands"
	[ $# = 1 ] && [ -s "$VM_OUT/commands" ]
}

blocks() {
	stat -c %b "$1"
}

random_to() {
	dd if=/dev/urandom of="$1" bs=1M count=8 conv=notrunc status=none
}

# are_zeroes FILE FROM LENGTH, in MiB
are_zeroes() {
	cmp -n "$(($3 << 20))" -i "$(($2 << 20)):0" "$1" /dev/zero
}

# seek_hole FILE OFFSET: writes the start of the next hole to $VM_OUT/seek.
seek_hole() {
	python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
print(os.lseek(fd, int(sys.argv[2]), os.SEEK_HOLE))' "$@" >"$VM_OUT/seek"
}

fio_all() {
	fio_jobs "$VM_OUT/ram.fio" "$one/$ram"
	fio_jobs "$VM_OUT/device.fio" "$one/$device"
	fio_jobs "$VM_OUT/file.fio" "$two/$file"
	fio_run "$VM_OUT/ram.fio" &
	fio_run "$VM_OUT/device.fio" &
	fio_run "$VM_OUT/file.fio"
	wait -n
	wait -n
}

# srpi_load VOLUME INITIATOR: random reads, writes, zeroes, discards and flushes.
srpi_load() {
	"$BUILD/tests/functional/test_srpi" "$target?$names&initiator=$2" "$1" 0 1
}

srpi_loads() {
	local other

	srpi_load 1 "$id_one" &
	other=$!
	srpi_load 2 "$id_two"
	wait "$other"
}

vm_soft_roce
vm_scratch_fs "$work" 512
mkdir "$one" "$two"
truncate -s 32M "$work/file.img" "$work/loop.img"
loop=$(losetup --direct-io=on --show -f "$work/loop.img")
vm_kernel_target --initiator "$id_one" --initiator "$id_two" \
	ram:16M "$work/file.img" "$loop"
echo 1 >"$tracing/events/target/target_sequencer_start/enable"
target=srp+rdma://$VM_TARGET_DEST
names="id_ext=$VM_ID_EXT&ioc_guid=$VM_IOC_GUID"
uri_one="$target?$names&initiator=$id_one"
uri_two="$names&initiator=$id_two"

step "rdma-info lists the volumes, in the order of their LUNs"
info "$uri_one" | tee "$VM_OUT/info"
[ "$(awk '/^ *[0-9]/ { print $1 $2 }' "$VM_OUT/info" | tr '\n' ' ')" = \
	"0$ram 1$file 2$device " ]
info --json "$uri_one" >"$VM_OUT/info"
jq -e '.volumes | length == 3 and .[1].discard and (.[1].discard_zeroes | not)
	and .[2].discard_zeroes and (.[0].discard | not)
	and .[1].write_cache and (.[0].write_cache | not)' "$VM_OUT/info"

step "a refused login is explained in one line"
refuses '10.0.0.1:5555 over RDMA from 10.0.0.[12].*no access.*0x00010006.*ACL' \
	info "$target?$names&initiator=${id_one//0/1}"
refuses '10.0.0.1:5555 .*no such target port.*0x00010003.*service GUID' \
	info "$target?id_ext=1&ioc_guid=2&initiator=$id_one"
refuses '10.0.0.1:5555 .*no such target port.*0x00010003' \
	"$BUILD/fuse/rdma-fuse" "$target" "$one"
refuses "no volume 'nothing'.*it has: $ram, $file, $device" \
	"$BUILD/fuse/rdma-fuse" "$target/nothing?$names&initiator=$id_one" "$one"
vm_fails mountpoint -q "$one"

step "mounts"
mount_start one "$uri_one" "$one"
fuse_one=$fuse
mount_start two --channels 2 -o max_write=128k "$target/1?$uri_two" "$two"
fuse_two=$fuse
cat "$VM_OUT/one.log" "$VM_OUT/two.log"
ls -ls "$one" "$two"
[ "$(stat -c %s "$one/$device")" = $((32 << 20)) ]

step "fsync is SYNCHRONIZE CACHE, O_DSYNC is FUA"
commands random_to "$one/$file"
sent 'LUN 001 .* WRITE_10 .* CDB 2a 00'
commands sync "$one/$file"
sent 'LUN 001 .* SYNCHRONIZE_CACHE'
dd if=/dev/urandom of="$VM_OUT/sent" bs=64k count=1 status=none
commands dd if="$VM_OUT/sent" of="$two/$file" bs=64k conv=notrunc oflag=dsync \
	status=none
sent 'LUN 001 .* WRITE_10 .* CDB 2a 08'
commands sync "$one/$ram"
[ ! -s "$VM_OUT/commands" ]

# fallocate ends with fsync.
step "a hole where zeroes are not promised is WRITE SAME without UNMAP"
commands fallocate -p -o 1M -l 2M "$one/$file"
sent 'LUN 001 .* WRITE_SAME_16 .* CDB 93 00' SYNCHRONIZE_CACHE
are_zeroes "$one/$file" 1 2
are_zeroes "$work/file.img" 1 2

step "a hole where they are promised is WRITE SAME with UNMAP"
random_to "$one/$device"
sync "$one/$device"
before=$(blocks "$work/loop.img")
commands fallocate -p -o 1M -l 4M "$one/$device"
sent 'LUN 002 .* WRITE_SAME_16 .* CDB 93 08' SYNCHRONIZE_CACHE
are_zeroes "$one/$device" 1 4
[ "$(blocks "$work/loop.img")" -le $((before - (3 << 11))) ]
commands fallocate -z -o 6M -l 1M "$one/$device"
sent 'LUN 002 .* WRITE_SAME_16 .* CDB 93 00' SYNCHRONIZE_CACHE
are_zeroes "$one/$device" 6 1

step "a target that refuses WRITE SAME is written zeroes"
random_to "$one/$ram"
commands fallocate -p -o 1M -l 1M "$one/$ram"
# The last command belongs to the fsync: WCE is off, but may have been on for a
# moment.
sent 'LUN 000 .* WRITE_SAME_16' 'LUN 000 .* (WRITE_10|SYNCHRONIZE_CACHE)'
commands fallocate -p -o 2M -l 1M "$one/$ram"
sent 'LUN 000 .* (WRITE_10|SYNCHRONIZE_CACHE)'
are_zeroes "$one/$ram" 1 2

step "without GET LBA STATUS all is data, up to the end"
seek_hole "$one/$device" 5000
[ "$(cat "$VM_OUT/seek")" = $((32 << 20)) ]
[ "$(blocks "$one/$device")" = $((32 << 11)) ]
step "fio verifies three volumes at once, with three channels"
fio_all
[ "$(vm_rnr_count)" = 0 ]

step "unmounting logs out"
for mount in one:$fuse_one two:$fuse_two; do
	kill "${mount#*:}"
	ends_well "${mount#*:}"
	vm_fails mountpoint -q "/mnt/${mount%:*}"
done

# The program exists only if the tests were built.
if [ -x "$BUILD/tests/functional/test_srpi" ]; then
	step "libsrpi under load reads what it wrote, discards among it"
	commands srpi_loads
	grep -q 'LUN 001 .* UNMAP' "$VM_OUT/commands"
	# It promises zeroes. UNMAP alone need not keep that promise.
	grep -q 'LUN 002 .* WRITE_SAME_16 .* CDB 93 08' "$VM_OUT/commands"
	[ "$(vm_rnr_count)" = 0 ]
fi

step "the target goes away under a mount"
mount_start lost --fast-io-fail-tmo 1 "$target/$device?$names&initiator=$id_one" "$one"
random_to "$one/$device"
echo 0 >/sys/kernel/config/target/srpt/*/tpgt_1/enable
wait_for 30 grep -q 'error: no connection to 10.0.0.1:5555' \
	"$VM_OUT/lost.log"
vm_fails dd if="$one/$device" of=/dev/null bs=4k count=1 2>"$VM_OUT/said"
grep 'Input/output error' "$VM_OUT/said"
kill "$fuse"
wait "$fuse" || true
vm_fails mountpoint -q "$one"

step "nothing is left, no receive queue was empty, nobody complained"
wait_for 10 nothing_is_held
vm_kernel_target_down
losetup -d "$loop"
[ "$(vm_rnr_count)" = 0 ]
vm_fails vm_dmesg_complaints
