#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The kernel's initiator, ib_srp with its default options, on rdma-target: it
# logs in with the line that the target prints, verifies data, makes file
# systems, discards, resets, and leaves nothing behind.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"

work=/mnt/scratch
log=$VM_OUT/target.log

show_log() {
	echo "the target's log:"
	tail -n 40 "$log"
}

target_start() {
	"$BUILD/target/rdma-target" --pidfile "$work/pid" "$@" >"$log" 2>&1 &
	target=$!
	wait_for 60 test -s "$work/pid"
	# A person would paste this line of the output.
	login=$(grep -o 'id_ext=.*,dest=10\.0\.0\.1:5555' "$log")
	id_ext=${login#id_ext=} id_ext=${id_ext%%,*}
	ioc_guid=${login#*ioc_guid=} ioc_guid=${ioc_guid%%,*}
}

target_stop() {
	kill "$target"
	wait "$target"
}

# Logs in and sets disks[].
kernel_login() {
	local list
	list=$(vm_kernel_login --disks 2 "$id_ext" "$ioc_guid" 10.0.0.1:5555 "$@")
	mapfile -t disks <<<"$list"
}

logout_is_seen() {
	[ "$(grep -c ': logout of' "$log")" = "$(grep -c ': login of' "$log")" ]
}

# The target's resources: descriptors and RDMA objects.
holdings() {
	echo "$(find "/proc/$target/fd" -mindepth 1 | wc -l)" \
		"$(rdma resource show qp | grep -c "pid $target ")" \
		"$(rdma resource show mr | grep -c "pid $target ")" \
		"$(rdma resource show cm_id | grep -c "pid $target ")"
}

fio_verify() {
	fio --name=verify --filename="$1" --direct=1 --ioengine=libaio \
		--rw="$2" --bs="$3" --iodepth="$4" --size="$5" \
		--verify=crc32c --verify_fatal=1 --do_verify=1 \
		--output="$VM_OUT/fio" >/dev/null 2>&1 || {
		cat "$VM_OUT/fio"
		return 1
	}
}

# Succeeds if I/O of disk $1 is in flight.
is_busy() {
	awk '{ exit $1 + $2 == 0 }' "/sys/block/${1#/dev/}/inflight"
}

trap 'status=$?; [ $status = 0 ] || show_log' EXIT

vm_soft_roce
vm_scratch_fs "$work" 1024
truncate -s 256M "$work/disk.img"

step "the target starts"
target_start --verbose --threads 2 --backing "$work/disk.img" \
	--backing ram:64M,name=scratch
cat "$log"

step "login with the defaults: $login"
kernel_login
disk=${disks[0]} ram=${disks[1]}
[ "$(blockdev --getsize64 "$disk")" = $((256 << 20)) ]
[ "$(blockdev --getsize64 "$ram")" = $((64 << 20)) ]
[ "$(grep -c ': login of' "$log")" = 2 ]
grep -q 'immediate data granted' "$log"
dmesg | grep 'using immediate data'

step "what comes back is what was sent"
dd if=/dev/urandom of="$VM_OUT/sent" bs=1M count=8 status=none
for dev in "$disk" "$ram"; do
	dd if="$VM_OUT/sent" of="$dev" bs=1M seek=3 oflag=direct status=none
	dd if="$dev" of="$VM_OUT/came" bs=64k skip=48 count=128 iflag=direct \
		status=none
	cmp "$VM_OUT/sent" "$VM_OUT/came"
done
blockdev --flushbufs "$disk"
cmp -n $((8 << 20)) "$VM_OUT/sent" "$work/disk.img" 0 $((3 << 20))

step "fio verifies, at full queue depth, small and large, disk and memory"
fio_verify "$disk" randwrite 4k 128 8M
fio_verify "$disk" randwrite 512-16k 64 6M
fio_verify "$disk" write 512k 16 32M
fio_verify "$ram" randwrite 4k 128 8M
fio_verify "$ram" randrw 512-128k 32 8M

step "discard is offered and frees space in the file"
lsblk -D "$disk"
[ "$(cat "/sys/block/${disk#/dev/}/queue/discard_max_bytes")" -gt 0 ]
before=$(stat -c %b "$work/disk.img")
blkdiscard -o 0 -l $((8 << 20)) "$disk"
[ "$(stat -c %b "$work/disk.img")" -lt "$before" ]
blkdiscard -z -o 0 -l $((4 << 20)) "$disk"
cmp -n $((8 << 20)) "$disk" /dev/zero

step "the cache mode is told"
[ "$(cat "/sys/block/${disk#/dev/}/queue/write_cache")" = 'write back' ]

step "file systems"
for dev in "$disk" "$ram"; do
	mkfs.ext4 -q -F "$dev"
	mkdir -p "$work/mnt"
	mount -o discard "$dev" "$work/mnt"
	cp "$VM_OUT/sent" "$work/mnt/file"
	sync
	umount "$work/mnt"
	e2fsck -fn "$dev" >/dev/null 2>&1
	mount "$dev" "$work/mnt"
	cmp "$VM_OUT/sent" "$work/mnt/file"
	umount "$work/mnt"
done

step "LUN resets under load lose nothing"
fio_verify "$disk" randwrite 4k 32 8M &
load=$!
for _ in 1 2 3 4 5; do
	sg_reset -d "$disk"
	kill -0 "$load" 2>/dev/null || break
done
wait "$load"
grep -q 'LOGICAL UNIT RESET\|LUN RESET' "$log"

step "logging out and in leaks nothing"
vm_kernel_logout
wait_for 30 logout_is_seen
before=$(holdings)
kernel_login
vm_kernel_logout
wait_for 30 logout_is_seen
is_as_before() { [ "$(holdings)" = "$before" ]; }
wait_for 30 is_as_before

step "larger transfers, many descriptors, tables in initiator memory"
target_stop
target_start --verbose --verbose --backing "$work/disk.img" \
	--backing ram:64M,name=scratch
modprobe -r ib_srp
modprobe ib_srp indirect_sg_entries=2048 cmd_sg_entries=4 allow_ext_sg=1 \
	never_register=Y
kernel_login max_sect=8192 queue_size=64
fio_verify "${disks[0]}" write 4M 4 32M
fio_verify "${disks[1]}" randwrite 1M 8 16M
# Neighbours in the disk are apart in memory if the page cache took them in another order.
fio --name=scattered --filename="${disks[1]}" --rw=randwrite --bs=4k --size=8M \
	--end_fsync=1 --output="$VM_OUT/fio" >/dev/null 2>&1
grep -q 'reads its table of [0-9]* descriptors' "$log"
vm_kernel_logout
modprobe -r ib_srp
modprobe ib_srp use_imm_data=N
kernel_login
fio_verify "${disks[0]}" randwrite 4k 64 2M
vm_kernel_logout

target_stop

step "too little lockable memory is an error that says what to do"
refusal=$(ulimit -l 8192; setpriv --reuid=65534 --regid=65534 --clear-groups \
	--bounding-set=-all "$BUILD/target/rdma-target" --backing ram:1M 2>&1) && false
echo "$refusal"
[ "$(wc -l <<<"$refusal")" = 1 ]
# of each of the two threads
grep -q 'cannot lock 16 MiB .*at most 8 MiB may be locked.*--buffers' \
	<<<"$refusal"

step "the target restarts under a logged-in host"
target_start --verbose --backing "$work/disk.img" \
	--backing ram:64M,name=scratch
modprobe -r ib_srp
kernel_login
for port in /sys/class/srp_remote_ports/*; do
	echo 1 >"$port/reconnect_delay"
done
dd if="$VM_OUT/sent" of="${disks[0]}" bs=1M oflag=direct status=none
target_stop
grep -q 'stopped' "$log"
[ ! -e "$work/pid" ]
dd if="${disks[0]}" of="$VM_OUT/came" bs=1M count=8 iflag=direct status=none &
reader=$!
target_start --verbose --backing "$work/disk.img" \
	--backing ram:64M,name=scratch
wait "$reader"
cmp "$VM_OUT/sent" "$VM_OUT/came"

step "SIGTERM with I/O under way is clean"
fio --name=load --filename="${disks[0]}" --direct=1 --ioengine=libaio \
	--rw=randwrite --bs=4k --iodepth=32 --time_based --runtime=60 \
	--output="$VM_OUT/fio" >/dev/null 2>&1 &
load=$!
wait_for 30 is_busy "${disks[0]}"
target_stop
grep -q 'stopped' "$log"
vm_kernel_logout
wait "$load" || true

step "no receive queue was empty, nobody complained"
[ "$(vm_rnr_count)" = 0 ]
vm_fails vm_dmesg_complaints
# It warns of nothing but that everybody may connect.
complains() {
	grep -E 'warning|error' "$log" | grep -v 'nothing is authenticated'
}
vm_fails complains
