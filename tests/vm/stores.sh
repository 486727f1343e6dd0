#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Volumes whose data is on other servers: nbdkit in memory and with a file,
# qcow2 on a snapshot, the kernel's SRP target, and another rdma-target. fio
# verifies all of them at once, through the kernel's initiator and through
# rdma-fuse.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

for program in nbdkit qemu-img qemu-io qemu-storage-daemon; do
	command -v "$program" >/dev/null || { echo "no $program"; exit 77; }
done
for plugin in nbd srp; do
	[ -e "$BUILD/plugins/$plugin/rdma-block-plugin-$plugin.so" ] ||
		{ echo "built without the store $plugin"; exit 77; }
done
export RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/nbd:$BUILD/plugins/srp
export LD_LIBRARY_PATH=$BUILD/initiator
initiator=0123456789abcdef0123456789abcdef
# The names of the volumes, in the order of their LUNs.
names=(memory file qcow2 kernel ours)

# server NAME COMMAND...: starts a server, and waits for its socket
# $work/NAME.sock.
server() {
	local name=$1
	shift
	"$@" >"$VM_OUT/$name.log" 2>&1 &
	servers+=($!)
	wait_for 60 test -S "$work/$name.sock"
}

nbd_servers() {
	truncate -s 32M "$work/file.img"
	server memory nbdkit -f -U "$work/memory.sock" memory 32M
	server file nbdkit -f -U "$work/file.sock" file "$work/file.img"
	qemu-img create -q -f qcow2 "$work/base.qcow2" 32M
	qemu-io -f qcow2 -c 'write -q -P 0x42 0 32M' "$work/base.qcow2"
	qemu-img create -q -f qcow2 -b "$work/base.qcow2" -F qcow2 \
		"$work/top.qcow2"
	server qcow2 qemu-storage-daemon --blockdev \
		"driver=qcow2,node-name=disk,file.driver=file,file.filename=$work/top.qcow2,discard=unmap" \
		--nbd-server "addr.type=unix,addr.path=$work/qcow2.sock,max-connections=8" \
		--export type=nbd,id=e,node-name=disk,name=disk,writable=on
}

# Finds the disk of scsi_debug, and sets $small.
find_small() {
	small=$(ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/* \
		2>/dev/null) || return
	small=/dev/${small##*/}
	[ -b "$small" ]
}

below_start() {
	truncate -s 32M "$work/below.img"
	"$BUILD/target/rdma-target" --pidfile "$work/below.pid" \
		--state-dir "$work/below.state" \
		--listen srp+rdma://10.0.0.1:5557 \
		--backing "$work/below.img,name=below" >"$VM_OUT/below.log" 2>&1 &
	below=$!
	wait_for 60 _is_ready "$below" "$work/below.pid"
}

# fio_all NAME PATH...: verifies 4 MiB of each PATH, from 4 MiB on, all at once.
fio_all() {
	local jobs=$VM_OUT/$1.fio path
	shift
	{
		printf '[global]\ndirect=1\nthread=1\nioengine=libaio\n'
		printf 'iodepth=16\nrw=randwrite\nbsrange=4k-128k\n'
		printf 'offset=4m\nsize=4m\nfsync=32\n'
		printf 'verify=crc32c\nverify_fatal=1\ndo_verify=1\n'
		printf 'verify_state_save=0\n'
		for path; do
			printf '[%s]\nfilename=%s\n' "${path##*/}" "$path"
		done
	} >"$jobs"
	fio_run "$jobs"
}

# same DISK FILE: the disk has the data of the file.
same() {
	cmp "$2" <(dd if="$1" bs=1M iflag=direct status=none)
}

servers=()
vm_soft_roce
vm_scratch_fs "$work" 1024
mkdir "$work/state" "$work/below.state" /mnt/all

step "the servers start"
nbd_servers
modprobe scsi_debug dev_size_mb=32 lbpu=1 lbpws=1 lbprz=1 unmap_granularity=128 \
	unmap_alignment=8
wait_for 20 find_small
vm_kernel_target --initiator "$initiator" ram:32M "$small"
names_of_kernel="id_ext=$VM_ID_EXT&ioc_guid=$VM_IOC_GUID&initiator=$initiator"
kernel="srp+rdma://$VM_TARGET_DEST/RAMDISK-MCP?$names_of_kernel"
below_start

# The disk, and the kernel's target with it, say that unmapped blocks read as zeroes.
# The disk only unmaps whole 64 KiB, and ignores the rest of an UNMAP, and of a WRITE
# SAME with the UNMAP bit.
step "a disk that ignores parts of an UNMAP is a store that keeps the contract"
"$BUILD/target/rdma-target" --check-plugin \
	"srp:srp+rdma://$VM_TARGET_DEST/IBLOCK?$names_of_kernel" | tee "$VM_OUT/check"
grep -q '^unmapping.* ok$' "$VM_OUT/check"

step "one target serves all of them"
target_start --verbose --state-dir "$work/state" --threads 2 \
	--listen srp+rdma://10.0.0.1:5556 \
	--backing "nbd:nbd+unix:///?socket=$work/memory.sock,name=memory" \
	--backing "nbd:nbd+unix:///?socket=$work/file.sock,name=file" \
	--backing "nbd:nbd+unix:///disk?socket=$work/qcow2.sock,name=qcow2" \
	--backing "srp:$kernel,name=kernel" \
	--backing "srp:srp+rdma://10.0.0.1:5557/below,name=ours"

step "fio verifies them through the kernel's initiator"
target_names
list=$(vm_kernel_login --disks ${#names[@]} "$id_ext" "$ioc_guid" 10.0.0.1:5556)
mapfile -t disks <<<"$list"
lsblk -o NAME,SIZE,VENDOR,MODEL "${disks[@]}"
fio_all kernel "${disks[@]}"
blockdev --flushbufs "${disks[1]}" "${disks[4]}"
same "${disks[1]}" "$work/file.img"
same "${disks[4]}" "$work/below.img"

step "and through rdma-fuse"
mount_start mount srp+rdma://10.0.0.1:5556 /mnt/all
# Both ways show the same data.
cmp "/mnt/all/kernel" <(dd if="${disks[3]}" bs=1M iflag=direct status=none)
vm_kernel_logout
fio_all fuse "${names[@]/#//mnt/all/}"
kill "$fuse"
ends_well "$fuse"

step "everything ends"
kill "$target"
ends_well "$target"
kill "$below"
ends_well "$below"
kill "${servers[@]}"
wait "${servers[@]}" || true
qemu-img check -q "$work/top.qcow2"
step "the snapshot is what it was, and shows where nothing was written"
for range in "$work/base.qcow2 0 32M" "$work/top.qcow2 16M 16M"; do
	read -r image from len <<<"$range"
	qemu-io -r -f qcow2 -c "read -P 0x42 $from $len" "$image" |
		tee "$VM_OUT/read"
	vm_fails grep -q failed "$VM_OUT/read"
done

step "nothing is left"
wait_for 10 nothing_is_held
vm_kernel_target_down
[ "$(vm_rnr_count)" = 0 ]
vm_fails vm_dmesg_complaints
