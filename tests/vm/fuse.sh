#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# rdma-fuse on rdma-target over verbs, both run by an unprivileged user. fio
# verifies data with every kind of I/O and block size. There is a file system on
# the volume, and the volume has holes. However a program ends, it leaves
# nothing behind.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch/work
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

uri=srp+rdma://10.0.0.1:5555
one=/mnt/one two=/mnt/two

# Starts a background load on FILE, which runs as long as it gets answers; sets
# $load.
load_start() {
	"${nobody[@]}" fio --name=load --filename="$1" --direct=1 --size=8m \
		--ioengine=libaio --iodepth=32 --rw=randrw --bs=4k --time_based \
		--runtime=120 >"$VM_OUT/load.txt" 2>&1 &
	load=$!
	wait_for 30 _is_busy "$(_sent_packets)"
}

_sent_packets() {
	cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts
}

_is_busy() {
	[ "$(_sent_packets)" -gt $(($1 + 500)) ]
}

# load_breaks: waits for the end of the load, whose file is gone.
load_breaks() {
	vm_fails wait "$load"
}

blocks() {
	stat -c %b "$1"
}

vm_soft_roce
vm_scratch_fs /mnt/scratch 512
mkdir -p "$work" "$one" "$two"
chown nobody "$work" "$one" "$two"
as_nobody $((96 << 20))

step "the target starts, and lists its volumes"
"${nobody[@]}" truncate -s 64M "$work/disk.img"
target_start --verbose --threads 2 --backing "$work/disk.img" \
	--backing ram:16M,name=scratch
"${nobody[@]}" "$BUILD/initiator/rdma-info" "$uri"

step "two mounts"
mount_start one "$uri" "$one"
fuse_one=$fuse
mount_start two --channels 2 "$uri/scratch" "$two"
fuse_two=$fuse
cat "$VM_OUT/one.log" "$VM_OUT/two.log"
grep -q 'over RDMA (verbs)' "$VM_OUT/one.log"
grep -q '2 channels' "$VM_OUT/two.log"
"${nobody[@]}" ls -l "$one" "$two"

step "fio verifies both volumes at once"
fio_jobs "$VM_OUT/disk.fio" "$one/disk.img"
fio_jobs "$VM_OUT/ram.fio" "$two/scratch"
fio_run "$VM_OUT/disk.fio" &
other=$!
fio_run "$VM_OUT/ram.fio"
wait "$other"
[ "$(vm_rnr_count)" = 0 ]

step "what was written is in the file behind the volume"
"${nobody[@]}" dd if=/dev/urandom of="$work/sent" bs=1M count=2 status=none
"${nobody[@]}" cp --no-preserve=mode "$work/sent" "$work/sent.dd"
"${nobody[@]}" dd if="$work/sent" of="$one/disk.img" bs=512k seek=50 \
	conv=notrunc,fsync status=none
cmp -n $((2 << 20)) -i 0:$((25 << 20)) "$work/sent" "$work/disk.img"

step "a hole frees space in that file, and reads as zeroes"
before=$(blocks "$work/disk.img")
"${nobody[@]}" fallocate -p -o 1M -l 8M "$one/disk.img"
[ "$(blocks "$work/disk.img")" -le $((before - (7 << 11))) ]
"${nobody[@]}" cmp -n $((8 << 20)) -i $((1 << 20)):0 "$one/disk.img" /dev/zero
"${nobody[@]}" fallocate -z -o 700 -l 5000 "$one/scratch"

step "a file system"
"${nobody[@]}" mkfs.ext4 -q -F "$one/disk.img"
"${nobody[@]}" e2fsck -fn "$one/disk.img"
"${nobody[@]}" "$BUILD/initiator/rdma-info" "$uri/disk.img"

step "SIGTERM with I/O under way unmounts and exits with 0"
kill "$fuse_two"
ends_well "$fuse_two"
vm_fails mountpoint -q "$two"
load_start "$one/disk.img"
kill "$fuse_one"
ends_well "$fuse_one"
vm_fails mountpoint -q "$one"
load_breaks
# The target keeps queues and buffers for the next login. From now on, it must
# not hold more than now.
wait_for 30 holds_no_queue_pair "$target"
idle=$(holdings "$target")
echo "$idle"

step "fusermount3 -u ends a daemon"
"${nobody[@]}" "$BUILD/fuse/rdma-fuse" -P "$work/daemon.pid" "$uri/scratch" "$one"
daemon=$(cat "$work/daemon.pid")
"${nobody[@]}" dd if="$one/scratch" of=/dev/null bs=1M count=4 iflag=direct \
	status=none
"${nobody[@]}" fusermount3 -u "$one"
wait_for 30 test ! -e "/proc/$daemon"
[ ! -e "$work/daemon.pid" ]
wait_for 30 holds "$target" "$idle"

step "a client that is killed costs the target nothing"
mount_start killed --channels 2 "$uri/disk.img" "$one"
load_start "$one/disk.img"
ends_by_kill "$fuse"
load_breaks
"${nobody[@]}" fusermount3 -u "$one"
wait_for 30 holds "$target" "$idle"

step "SIGTERM ends a target whose clients are busy"
mount_start left --fast-io-fail-tmo 1 "$uri/disk.img" "$one"
load_start "$one/disk.img"
kill "$target"
ends_well "$target"
load_breaks
grep -q 'warning: lost the connection to 10.0.0.1:5555' "$VM_OUT/left.log"
kill "$fuse"
wait "$fuse" || true
vm_fails mountpoint -q "$one"

step "nothing is left, no receive queue was empty, nobody complained"
wait_for 10 nothing_is_held
[ "$(vm_rnr_count)" = 0 ]
vm_fails vm_dmesg_complaints
