#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What users expect of the mounted file.
. "$(dirname "$0")/lib.sh"
t_needs_fuse

M=$T/mnt
F=$M/disk
SIZE=$((64 << 20))
mkdir "$M"
truncate -s $SIZE "$T/disk.img"
t_target --backing "$T/disk.img,name=disk" --backing ram:64M,name=scratch
t_mount "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"

py() { python3 -c "import os, sys
f = '$F'
$1"; }
# fails FILE-ERROR CMD...: CMD fails with this errno text
fails() {
	t_why=$1
	shift
	! "$@" 2>"$T/.err" || return 1
	cat "$T/.err"
	grep -q "$t_why" "$T/.err"
}
blocks() { stat -c %b "$1"; }
used() { df --output=used -B512 "$M" | tail -1; }
sum() { sha256sum <"$1"; }
same() { [ "$(sum "$1")" = "$(sum "$2")" ]; }
random() { # OFFSET LEN: writes random data to the file
	dd if=/dev/urandom of="$F" bs=64k conv=notrunc oflag=seek_bytes \
		iflag=count_bytes seek="$1" count="$2" status=none
}
zero_at() { # OFFSET LEN
	cmp -n "$2" -i "$1:0" "$F" /dev/zero
}

# ---- the output of stat

shows_volumes() { [ "$(ls "$M" | tr '\n' ' ')" = 'disk scratch ' ]; }
t_check 'a directory shows a file for each volume' shows_volumes
t_check 'size is the volume size' test "$(stat -c %s "$F")" = $SIZE
t_check 'mode is 0600' test "$(stat -c %a "$F")" = 600
t_check 'the owner is who mounted' test "$(stat -c %u "$F")" = "$(id -u)"
t_check 'an empty sparse volume has no blocks' test "$(blocks "$F")" = 0

# A file system counts its own records of a file's blocks as blocks of the file:
# a few blocks, and more when a hole splits an extent.
records=128

blocks_grow() {
	before=$(used)
	random 0 $((8 << 20)) && sync "$F"
	grown=$(($(used) - before))
	[ "$(blocks "$F")" = 16384 ] && [ $grown -ge 16384 ] &&
		[ $grown -le $((16384 + records)) ]
}
t_check 'st_blocks and df grow as data are written' blocks_grow

mtime_moves() {
	touch -d 2001-01-01 "$F"
	[ "$(stat -c %y "$F" | cut -c1-4)" = 2001 ] || return 1
	random 0 512
	[ "$(stat -c %y "$F" | cut -c1-4)" != 2001 ]
}
t_check 'mtime moves with writes' mtime_moves

# ---- holes

punch_frees() {
	random 0 $((8 << 20)) && sync "$F"
	backing=$(blocks "$T/disk.img")
	fallocate -p -o 1M -l 4M "$F" && sync "$F" || return 1
	[ $((backing - $(blocks "$T/disk.img"))) -ge $((8192 - records)) ] &&
		[ "$(blocks "$F")" = 8192 ] && zero_at 1048576 4194304
}
t_check 'fallocate -p frees space in the backing file' punch_frees

punch_unaligned() {
	random 0 20000
	dd if="$F" of="$T/want" bs=20000 count=1 status=none
	fallocate -p -o 700 -l 9001 "$F" || return 1
	fallocate -p -o 10000 -l 7 "$F" || return 1
	fallocate -z -o 10240 -l 13 "$F" || return 1
	for r in '700 9001' '10000 7' '10240 13'; do
		dd if=/dev/zero of="$T/want" bs=1 seek=${r% *} count=${r#* } \
			conv=notrunc status=none
	done
	cmp -n 20000 "$T/want" "$F"
}
t_check 'a hole of odd bytes zeroes just these' punch_unaligned

zero_range() {
	random 0 $((2 << 20))
	fallocate -z -o 4096 -l 1M "$F" && zero_at 4096 1048576
}
t_check 'fallocate -z zeroes' zero_range
t_check 'fallocate within the size changes nothing' fallocate -l 1M "$F"
t_check 'fallocate beyond the size says so' \
	fails 'too large' fallocate -o 63M -l 2M "$F"
t_check 'a hole may reach beyond the size' \
	fallocate -p -o 63M -l 4M "$F"

finds_holes() {
	fallocate -p -o 0 -l $SIZE "$F"
	random $((16 << 20)) $((1 << 20))
	py "
fd = os.open(f, os.O_RDONLY)
m = 1 << 20
assert os.lseek(fd, 5, os.SEEK_HOLE) == 5
assert os.lseek(fd, 0, os.SEEK_DATA) == 16 * m
assert os.lseek(fd, 16 * m + 3, os.SEEK_DATA) == 16 * m + 3
assert os.lseek(fd, 16 * m, os.SEEK_HOLE) == 17 * m
assert os.lseek(fd, 0, os.SEEK_END) == 64 * m
for pos in 17 * m, 64 * m, 80 * m:
    try:
        os.lseek(fd, pos, os.SEEK_DATA)
        sys.exit('data at %d' % pos)
    except OSError as e:
        assert e.errno == 6, e
"
}
t_check 'SEEK_HOLE and SEEK_DATA find what there is' finds_holes

# ---- size is fixed

t_check 'truncate to the same size' truncate -s $SIZE "$F"
t_check 'truncate to less is invalid' \
	fails 'Invalid argument' truncate -s 1M "$F"
t_check 'truncate to more is too large' \
	fails 'File too large' truncate -s +1M "$F"
t_check 'truncate of the path is invalid' \
	fails 'Invalid argument' py 'os.truncate(f, 0)'

o_trunc_keeps() {
	random 0 4096
	dd if="$F" of="$T/want" bs=4096 count=1 status=none
	: >"$F" # open(O_TRUNC)
	[ "$(stat -c %s "$F")" = $SIZE ] && cmp -n 4096 "$T/want" "$F"
}
t_check 'O_TRUNC leaves size and data as they are' o_trunc_keeps

# qemu-img convert does this: it sets size 0, sets the old size, then writes its
# data.
size_to_0_and_back() {
	random 0 1048576
	py "
m = 1 << 20
fd, other = os.open(f, os.O_RDWR), os.open(f, os.O_RDWR)
old = os.pread(other, m, 0)
os.ftruncate(fd, 0)
assert os.fstat(other).st_size == os.lseek(other, 0, os.SEEK_END) == $SIZE
# The data stay until the old size is set.
assert os.pread(other, m, 0) == os.pread(fd, m, 0) == old
os.pwrite(other, b'other', 70000)
os.ftruncate(fd, $SIZE)
want = bytearray(m)
want[70000:70005] = b'other'
assert os.pread(other, m, 0) == want
os.ftruncate(fd, $SIZE) # a second time changes nothing
assert os.pread(other, m, 0) == want
for size in 1, $SIZE - 1:
    try:
        os.ftruncate(other, size)
        sys.exit('the size may be %d' % size)
    except OSError as e:
        assert e.errno == 22, e
"
}
t_check 'a size of 0 and back zeroes all but what others wrote' size_to_0_and_back
killed_at_size_0() {
	random 0 4096
	dd if="$F" of="$T/want" bs=4096 count=1 status=none
	! py "
os.ftruncate(os.open(f, os.O_RDWR), 0)
os.kill(os.getpid(), 9)" || return 1
	[ "$(stat -c %s "$F")" = $SIZE ] && cmp -n 4096 "$T/want" "$F" &&
		fails 'Invalid argument' truncate -s 1M "$F"
}
t_check 'a program that dies at size 0 leaves size and data' killed_at_size_0

past_end() {
	py "
fd = os.open(f, os.O_RDWR)
end = $SIZE
assert os.pwrite(fd, bytes(1000), end - 700) == 700
assert len(os.pread(fd, 1000, end - 700)) == 700
assert os.pread(fd, 1000, end) == b''
assert os.pread(fd, 1000, end + 5000) == b''
for pos in end, end + 12345:
    try:
        os.pwrite(fd, b'x', pos)
        sys.exit('wrote at %d' % pos)
    except OSError as e:
        assert e.errno == 27, e
"
}
t_check 'a write at the end is short, past it EFBIG; a read is empty' past_end
t_check 'appending says EFBIG' \
	fails 'too large' dd if=/dev/zero of="$F" oflag=append conv=notrunc count=1

# ---- cp

copies_dense() {
	dd if=/dev/urandom of="$T/image" bs=1M count=64 status=none
	cp "$T/image" "$F" && cp "$F" "$T/back" && same "$T/image" "$T/back"
}
t_check 'cp of an image, and back' copies_dense

copies_sparse() { # over the data of the last copy
	rm "$T/image"
	truncate -s $SIZE "$T/image"
	mkfs.ext4 -qF "$T/image"
	cp "$T/image" "$F" && cp "$F" "$T/back" && same "$T/image" "$T/back"
}
t_check 'cp of an image with holes over old data' copies_sparse

copies_smaller() {
	random 0 $((32 << 20))
	truncate -s 16M "$T/small"
	dd if=/dev/urandom of="$T/small" bs=1000 seek=3000 count=1000 \
		conv=notrunc status=none
	cp "$T/small" "$F" && cmp -n $((16 << 20)) "$T/small" "$F" &&
		! zero_at $((16 << 20)) 4096
}
t_check 'cp of a smaller image with holes touches no more' copies_smaller

# ---- other programs, as in the table of rdma-fuse(8)

# tried PROGRAM NAME CMD...
tried() {
	local program=$1 name=$2
	shift 2
	if command -v "$program" >/dev/null; then
		t_check "$name" "$@"
	else
		t_skip "$name" "no $program here"
	fi
}
# The image has holes, and the file has old data at these places.
old_data() { random 0 $((SIZE + (1 << 20))); }

qemu_img_convert() { # ARG...
	old_data
	qemu-img convert "$@" -f raw -O raw "$T/image" "$F" &&
		qemu-img compare -f raw -F raw "$T/image" "$F" &&
		cmp "$T/image" "$F"
}
tried qemu-img 'qemu-img convert' qemu_img_convert
tried qemu-img 'qemu-img convert -n' qemu_img_convert -n
tried qemu-img 'qemu-img info' eval 'qemu-img info -f raw "$F" | grep -q "($SIZE bytes)"'
tried qemu-img 'qemu-img map' qemu-img map -f raw "$F"
qemu_img_smaller() {
	old_data
	qemu-img convert -f raw -O raw "$T/small" "$F" &&
		cmp -n $((16 << 20)) "$T/small" "$F"
}
tried qemu-img 'qemu-img convert of a smaller image' qemu_img_smaller
qemu_img_larger() {
	truncate -s $((SIZE + (1 << 20))) "$T/larger"
	fails 'File too large' qemu-img convert -f raw -O raw "$T/larger" "$F"
}
tried qemu-img 'qemu-img convert of a larger image is refused' qemu_img_larger
qemu_img_create() {
	old_data
	qemu-img create -q -f raw "$F" $SIZE && zero_at 0 $SIZE
}
tried qemu-img 'qemu-img create' qemu_img_create
qcow2_on_it() {
	old_data
	qemu-img convert -f raw -O qcow2 "$T/small" "$F" &&
		qemu-img check -q -f qcow2 "$F" &&
		qemu-img compare -q -f raw -F qcow2 "$T/small" "$F" &&
		qemu-img create -q -f qcow2 "$F" 32M &&
		qemu-img check -q -f qcow2 "$F" &&
		[ "$(stat -c %s "$F")" = $SIZE ]
}
tried qemu-img 'a qcow2 image on it' qcow2_on_it
# As on a disk, whose size cannot change either.
qcow2_preallocated() {
	fails 'Could not resize' qemu-img create -q -f qcow2 -o preallocation=falloc "$F" 32M &&
		fails 'Could not resize' qemu-img create -q -f qcow2 -o preallocation=full "$F" 32M &&
		qemu-img create -q -f qcow2 -o preallocation=metadata "$F" 32M &&
		qemu-img check -q -f qcow2 "$F"
}
tried qemu-img 'a qcow2 image on it whose blocks are allocated' qcow2_preallocated
qemu_io_writes() { qemu-io -f "$1" -c 'write 1M 1M' "$F" >&2; }
format_that_grows() { # FORMAT
	qemu-img create -q -f "$1" "$F" 32M &&
		fails 'write failed' qemu_io_writes "$1"
}
for format in vmdk qed; do
	tried qemu-img "an image of $format, which would grow" format_that_grows "$format"
done
# In a virtual machine, KVM may not start the machine of libguestfs.
export LIBGUESTFS_BACKEND=direct LIBGUESTFS_BACKEND_SETTINGS=force_tcg
guestfish_writes() {
	mkfs.ext4 -qF "$F"
	timeout 120 guestfish --format=raw -a "$F" run : list-filesystems : \
		mount /dev/sda / : write /hello world >"$T/guestfish" 2>&1
	cat "$T/guestfish"
	grep -q '^/dev/sda: ext4' "$T/guestfish" && e2fsck -fn "$F" &&
		[ "$(debugfs -R 'cat hello' "$F" 2>/dev/null)" = world ]
}
if ! command -v guestfish >/dev/null || guestfish -a /dev/null run >"$T/.out" 2>&1; then
	tried guestfish 'guestfish' guestfish_writes
else
	t_skip 'guestfish' "guestfish starts no machine here"
fi
copies_all_sparse() {
	old_data
	cp --sparse=always "$T/image" "$F" && cmp "$T/image" "$F"
}
t_check 'cp --sparse=always' copies_all_sparse
rsyncs() {
	old_data
	rsync --inplace "$T/image" "$F" && cmp "$T/image" "$F"
}
tried rsync 'rsync --inplace' rsyncs
rsyncs_sparse() {
	old_data
	rsync --inplace --sparse "$T/image" "$F" && cmp "$T/image" "$F"
}
tried rsync 'rsync --inplace --sparse' rsyncs_sparse
dd_copies() { # ARG...
	old_data
	dd if="$T/image" of="$F" bs=1M status=none "$@" && cmp "$T/image" "$F"
}
t_check 'dd' dd_copies
t_check 'dd oflag=direct conv=fsync' dd_copies oflag=direct conv=fsync
# dd does not tell the file system about zeroes that it skips at the end.
dd_sparse() {
	cp "$T/image" "$T/full" && echo end | dd of="$T/full" bs=1 \
		seek=$((SIZE - 4)) conv=notrunc status=none || return 1
	old_data
	dd if="$T/full" of="$F" bs=1M conv=sparse status=none &&
		cmp "$T/full" "$F" && rm "$T/full"
}
t_check 'dd conv=sparse' dd_sparse
dd_sparse_end() {
	old_data
	dd if="$T/image" of="$F" bs=1M conv=sparse status=none &&
		! cmp -s "$T/image" "$F" &&
		fallocate -p -o 0 -l $SIZE "$F" &&
		dd if="$T/image" of="$F" bs=1M conv=sparse,notrunc status=none &&
		cmp "$T/image" "$F"
}
t_check 'dd conv=sparse of zeroes at the end needs fallocate -p' dd_sparse_end
truncates() {
	old_data
	truncate -s 0 "$F" && truncate -s $SIZE "$F" && ! zero_at 0 4096 &&
		[ "$(stat -c %s "$F")" = $SIZE ]
}
t_check 'truncate, as two programs' truncates
makes_ext4() {
	old_data
	mkfs.ext4 -qF "$F" && e2fsck -fn "$F"
}
tried mkfs.ext4 'mkfs.ext4 -F' makes_ext4
runs_fio() {
	(cd "$T" && fio --name=f --filename="$F" --size=4M --bs=4k --direct=1 \
		--rw=randrw --ioengine=libaio --iodepth=8 --verify=crc32c)
}
tried fio 'fio' runs_fio
rm -f "$T/image" "$T/back" "$T/small"

# ---- unaligned and concurrent writes

# Each writer has its own bytes in every block that it shares with others.
odd_writers() {
	py "
import threading
LEN, N, ROUNDS = 333, 8, 60
fd = os.open(f, os.O_RDWR)
def work(n):
    for i in range(ROUNDS):
        pos = (i * N + n) * LEN
        os.pwrite(fd, bytes([1 + (i + n) % 255]) * LEN, pos)
threads = [threading.Thread(target=work, args=(n,)) for n in range(N)]
[t.start() for t in threads]
[t.join() for t in threads]
data = os.pread(fd, LEN * N * ROUNDS, 0)
for i in range(ROUNDS):
    for n in range(N):
        pos = (i * N + n) * LEN
        assert data[pos:pos + LEN] == bytes([1 + (i + n) % 255]) * LEN, (i, n)
"
}
t_check 'writers of bytes in the same blocks undo nothing' odd_writers

odd_sizes() {
	py "
import random
random.seed(7)
fd = os.open(f, os.O_RDWR)
want = bytearray(os.pread(fd, 4 << 20, 0))
for i in range(400):
    n = random.choice([1, 2, 511, 512, 513, 4095, 4097, 70001, 1048577])
    n = random.randint(1, n)
    pos = random.randint(0, len(want) - n)
    data = os.urandom(n)
    assert os.pwrite(fd, data, pos) == n
    want[pos:pos + n] = data
    pos = random.randint(0, len(want) - n)
    assert os.pread(fd, n, pos) == want[pos:pos + n], (i, pos, n)
assert os.pread(fd, len(want), 0) == want
"
}
t_check 'reads and writes of odd sizes at odd places' odd_sizes

synchronous() {
	for flag in dsync sync direct,dsync; do
		dd if=/dev/zero of="$F" bs=4k count=8 oflag=$flag conv=notrunc ||
			return 1
	done
	dd if=/dev/zero of="$F" bs=4k count=8 conv=notrunc,fsync &&
		dd if=/dev/zero of="$F" bs=4k count=8 conv=notrunc,fdatasync
}
t_check 'O_SYNC, O_DSYNC, fsync and fdatasync' synchronous

mapped() {
	py "
import mmap
fd = os.open(f, os.O_RDWR)
os.pwrite(fd, b'hello', 8192)
try:
    m = mmap.mmap(fd, 16384)
except OSError as e:
    assert e.errno == 19, e # the kernel does not support it before 6.6
    sys.exit(0)
assert m[8192:8197] == b'hello'
m[0:3] = b'abc'
m.flush()
assert os.pread(fd, 3, 0) == b'abc'
"
}
t_check 'mmap, where the kernel can' mapped

# ---- operations that are not possible

t_check 'rm is not permitted' fails 'not permitted' rm -f "$F"
t_check 'rename is not permitted' fails 'not permitted' mv "$F" "$M/other"
t_check 'a new file is not permitted' fails 'not permitted' touch "$M/new"
t_check 'mkdir is not permitted' fails 'not permitted' mkdir "$M/new"
t_check 'chmod is not permitted' fails 'not permitted' chmod 666 "$F"
t_check 'chmod to what it is' chmod 600 "$F"
t_check 'it is not executable' test ! -x "$F"
t_check 'there is no other file' fails 'No such file' stat "$M/other"
xattrs() { py "
try:
    os.getxattr(f, 'user.any')
except OSError as e:
    assert e.errno == 61, e
assert os.getxattr(f, 'user.rdma-block.state') == b'running'"; }
t_check 'extended attributes are those of the connection' xattrs

# ---- file systems

mkfs_and_check() {
	mkfs.ext4 -qF "$F" && e2fsck -fn "$F"
}
t_check 'mkfs.ext4 -F and e2fsck on the file' mkfs_and_check

loop_mount() {
	loop=$(losetup --direct-io=on --show -f "$F") || return 1
	t_loops=$loop
	mkdir -p "$T/fs"
	mkfs.ext4 -qF "$loop" && mount "$loop" "$T/fs" || return 1
	dd if=/dev/urandom of="$T/fs/a" bs=1M count=20 status=none
	sum=$(sum "$T/fs/a")
	umount "$T/fs" && mount "$loop" "$T/fs" || return 1
	[ "$(sum "$T/fs/a")" = "$sum" ] && rm "$T/fs/a" && fstrim "$T/fs"
	status=$?
	umount "$T/fs" && e2fsck -fn "$loop" && losetup -d "$loop" && t_loops= &&
		[ $status = 0 ]
}
if [ "$(id -u)" = 0 ] && losetup -f >/dev/null 2>&1; then
	t_check 'a loop device with direct I/O, a file system on it' loop_mount
else
	t_skip 'a loop device with direct I/O, a file system on it' \
		'needs root and loop devices'
fi

t_check 'unmounts' fusermount3 -u "$M"

# ---- a read-only mount

t_mount -r "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
ro_keeps() {
	sum "$T/disk.img" >"$T/want"
	fails 'Read-only' truncate -s 0 "$F" &&
		fails 'Read-only' cp "$T/mount.log" "$F" &&
		sum "$T/disk.img" | cmp - "$T/want"
}
t_check 'a read-only mount refuses a size of 0 and O_TRUNC' ro_keeps
ro_convert() {
	fails 'Read-only' qemu-img convert -f raw -O raw "$T/disk.img" "$F"
}
tried qemu-img 'qemu-img convert to a read-only mount is refused' ro_convert
t_check 'it unmounts' fusermount3 -u "$M"
t_done
