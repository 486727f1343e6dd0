#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# fio writes, reads back and compares, in all usual ways.
. "$(dirname "$0")/lib.sh"
t_needs_fuse
command -v fio >/dev/null || t_skip_all 'no fio here'

M=$T/mnt
mkdir "$M"
truncate -s 256M "$T/disk.img"
t_target --backing "$T/disk.img,name=disk" \
	--backing ram:64M,name=scratch,block-size=4096
t_mount --channels 2 "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"

verify() { # FILE FIO-OPTION...
	file=$1
	shift
	(cd "$T" && fio --name=verify --filename="$M/$file" --direct=1 \
		--size=24M --verify=crc32c --do_verify=1 --verify_fatal=1 \
		--rw=randwrite --output-format=terse "$@")
}

# Multiples of 101, so that each block holds whole pieces of the size that fio
# verifies, which is the greatest common divisor of the smallest and the largest
# size. fio 3.39 refuses a size that has no room for its header.
unaligned=101/20:707/20:4141/20:69993/20:1000001/20
for engine in libaio io_uring psync; do
	t_check "$engine, 512 bytes" \
		verify disk --ioengine=$engine --bs=512 --size=1M --iodepth=32
	for bs in 4k 64k 1M; do
		t_check "$engine, $bs" \
			verify disk --ioengine=$engine --bs=$bs --iodepth=32
	done
	t_check "$engine, unaligned sizes" \
		verify disk --ioengine=$engine --bs_unaligned=1 --iodepth=16 \
		--bssplit=$unaligned
done
t_check '4096-byte blocks, 4k' \
	verify scratch --ioengine=libaio --bs=4k --iodepth=32
t_check '4096-byte blocks, 512 bytes' \
	verify scratch --ioengine=libaio --bs=512 --size=1M --iodepth=32
t_check '4096-byte blocks, unaligned sizes' \
	verify scratch --ioengine=libaio --bs_unaligned=1 --iodepth=16 \
	--bssplit=$unaligned
t_check 'depth 256' \
	verify disk --ioengine=libaio --bs=4k --iodepth=256
t_check 'four jobs at once' \
	verify disk --ioengine=libaio --bs=16k --iodepth=16 --numjobs=4 \
	--size=16M --offset_increment=32M --group_reporting
t_check 'sequential, 4 MiB' \
	verify disk --ioengine=io_uring --rw=write --bs=4M --iodepth=4 --size=128M
t_check 'through the page cache of nobody: not direct' \
	verify disk --ioengine=psync --direct=0 --bs=10k
t_check 'with an fsync now and then' \
	verify disk --ioengine=libaio --bs=4k --iodepth=16 --size=4M --fsync=16
t_check 'synchronous writes' \
	verify disk --ioengine=psync --bs=4k --size=2M --sync=dsync
t_check 'vectors' \
	verify disk --ioengine=pvsync2 --bs=128k

t_check 'unmounts' fusermount3 -u "$M"
t_done
