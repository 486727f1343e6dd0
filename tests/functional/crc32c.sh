#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The layer crc32c: if a byte changes on the disk, the read fails. Neither a
# kill of the target nor the loss of a cache makes a good block look bad.
. "$(dirname "$0")/lib.sh"

RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/crc32c:$BUILD/plugins/nbd
export RDMA_BLOCK_PLUGIN_PATH
S=$T/sums

refused() { # NAME PATTERN SPEC
	t_refused "$1" "$2" rdma-target --backing "$3"
}
keeps() { rdma-target --check-plugin "$1"; }

truncate -s 16M "$T/disk" "$T/other"
refused 'no file named' 'd: crc32c: needs sums=PATH' \
	"$T/disk,name=d,layer=crc32c"
refused 'a file that is not there' 'there is no such file; add init=on' \
	"$T/disk,layer=crc32c,sums=$S"
t_check 'keeps the contract on a file' keeps \
	"$T/disk,layer=crc32c,sums=$S,init=on"
t_check 'again, with what the file has' keeps "$T/disk,layer=crc32c,sums=$S"
t_check 'with blocks of 4096 bytes' keeps \
	"$T/other,block-size=4096,layer=crc32c,sums=$T/4k,init=on,sync=off"
t_check 'on memory, which is new each time' keeps \
	"ram:16M,layer=crc32c,sums=$T/ram,init=on"
t_check 'on memory once more' keeps "ram:16M,layer=crc32c,sums=$T/ram,init=on"
refused 'sums of blocks of another size' \
	'checksums of blocks of 512 bytes.*have 4096; add block-size=512' \
	"$T/disk,block-size=4096,layer=crc32c,sums=$S"
refused 'sums of another disk' 'has the checksums of another store' \
	"$T/other,layer=crc32c,sums=$S"
echo text >"$T/text"
refused 'what is no file of checksums' 'is no file of checksums' \
	"$T/disk,layer=crc32c,sums=$T/text"
truncate -s 8M "$T/disk"
refused 'a disk that is smaller now' \
	'of a volume of 16777216 bytes, this one has 8388608' \
	"$T/disk,layer=crc32c,sums=$S"
truncate -s 32M "$T/disk"

[ -z "${SANITIZED-}" ] || t_done
t_needs_fuse
command -v fio >/dev/null || t_skip_all 'no fio here'
mkdir "$T/mnt"

start() { # SPEC
	t_target --threads 2 --backing "$1"
	t_mount "$URI" "$T/mnt" 2>"$T/mount.log" ||
		t_bail "$(cat "$T/mount.log")"
}
end_with() { # SIGNAL
	fusermount3 -uz "$T/mnt"
	kill "-$1" "$T_TARGET"
	wait "$T_TARGET" 2>/dev/null
}
DISK="$T/disk,name=d,layer=crc32c,sums=$S"
writes_all() {
	head -c 33554432 /dev/urandom >"$T/data" &&
		dd if="$T/data" of="$T/mnt/d" bs=1M conv=fsync,notrunc
}
reads() { # FIRST-BLOCK BLOCKS
	dd if="$T/mnt/d" of=/dev/null bs=4k skip="$1" count="$2" iflag=direct
}
has_data() { cmp "$T/data" "$T/mnt/d"; }
fails() { ! "$@"; }
flip() { # BYTE-OFFSET
	byte=$(od -An -tu1 -j "$1" -N 1 "$T/disk")
	# shellcheck disable=SC2059
	printf "\\$(printf %o $((byte ^ 1)))" |
		dd of="$T/disk" bs=1 seek="$1" conv=notrunc 2>/dev/null
}
says() { grep -q "$1" "$T/target.log"; }
not_said() { ! grep 'checksum' "$T/target.log"; }

start "$DISK"
t_check 'a volume that has grown is written' writes_all
t_check 'and read' has_data
end_with TERM

t_check 'a byte changes on the disk' flip $((4096 * 1000 + 700))
start "$DISK"
t_check 'the read fails' fails reads 1000 1
t_check 'the log names volume and block' says \
	'd: crc32c: block 8001 does not match its checksum: it is'
t_check 'the log of the command has the same block' says \
	'LUN 0 (d): READ.*at block 800[01]'
t_check 'the neighbours are read' reads 992 8
t_check 'and those behind it' reads 1001 8
rewrites() {
	dd if="$T/data" of="$T/mnt/d" bs=4k skip=1000 seek=1000 count=1 \
		oflag=direct conv=notrunc && has_data
}
t_check 'the block is good when it is written again' rewrites
end_with TERM

# A disk that has lost writes: it has the older data.
cp "$T/disk" "$T/before"
start "$DISK"
t_check 'writes all again' writes_all
end_with KILL
dd if="$T/before" of="$T/disk" bs=4k seek=5 skip=5 count=1 conv=notrunc \
	2>/dev/null
start "$DISK"
t_check 'a flushed write that is lost is found after a kill' fails reads 5 1
end_with TERM
dd if="$T/data" of="$T/disk" bs=4k seek=5 skip=5 count=1 conv=notrunc \
	2>/dev/null

# A copy keeps holes: it does not read what the volume reports as deallocated.
copies() { srpcopy "$URI/d" "$T/copy"; }
fallocate -p -o $((4096 * 600)) -l 4096 "$T/disk"
start "$DISK"
t_check 'a lost block is no hole for a copy' fails copies
t_check 'which says so' says 'd: crc32c: block 4800 does not match'
dd if="$T/data" of="$T/mnt/d" bs=4k seek=600 skip=600 count=1 oflag=direct \
	conv=notrunc 2>/dev/null
t_check 'it copies the volume when the block is written' copies
t_check 'as it was' cmp "$T/data" "$T/copy"
end_with TERM

load() {
	fio --name=l --filename="$T/mnt/d" --direct=1 --size=4M --norandommap \
		--rw=randwrite --bsrange=4k-64k --ioengine=libaio \
		--iodepth=16 --fsync="$1" --time_based --runtime=60 \
		--output-format=terse >"$T/fio" 2>&1 &
	LOAD=$!
	t_pids="$t_pids $LOAD"
}
has_written() { [ "$(od -An -tu8 -j 24 -N 8 "$S")" -gt "$was" ]; }
# A flush that succeeds must not settle faults that the last life has left.
all_is_good() {
	dd if="$T/data" of="$T/mnt/d" bs=4k seek=8000 count=1 \
		conv=notrunc,fsync &&
		dd if="$T/mnt/d" of=/dev/null bs=1M iflag=direct && not_said
}
# kill_round FSYNC: the file's count of flushes shows that there was load
kill_round() {
	start "$DISK"
	was=$(($(od -An -tu8 -j 32 -N 8 "$S") - 65536 + 3))
	load "$1"
	t_wait_for 20 has_written
	status=$?
	kill -9 "$T_TARGET"
	wait "$T_TARGET" 2>/dev/null
	fusermount3 -uz "$T/mnt"
	kill -9 "$LOAD"
	wait "$LOAD" 2>/dev/null
	[ $status = 0 ] || return 1
	[ -z "${2-}" ] || return 0
	start "$DISK"
	all_is_good
	status=$?
	end_with TERM
	return $status
}
for fsync in 7 50 200; do
	t_check "no false mismatch after a kill under load, fsync=$fsync" \
		kill_round $fsync
done
kill_twice() { kill_round 100 unread && kill_round 100; }
t_check 'no false mismatch after two kills, unread in between' kill_twice

reads_beside_writes() {
	fio --name=w --filename="$T/mnt/d" --direct=1 --size=64k \
		--norandommap --rw=randrw --bsrange=4k-16k --ioengine=libaio \
		--iodepth=32 --loops=40 --output-format=terse && not_said
}
start "$DISK"
t_check 'reads of what is being written find no mismatch' reads_beside_writes
end_with TERM

# An existing disk: a block gets its checksum when it is read.
head -c 33554432 /dev/urandom >"$T/disk"
rm "$S"
start "$DISK,init=on"
t_check 'an existing disk is read' reads 0 8192
end_with TERM
flip $((4096 * 77))
start "$DISK,init=on"
t_check 'and then checked' fails reads 77 1
zeroes() {
	fallocate -z -o 1M -l 2M "$T/mnt/d" &&
		fallocate -p -o 8M -l 2M "$T/mnt/d" && sync "$T/mnt/d" &&
		reads 256 512 && reads 2048 512
}
t_check 'zeroed and deallocated blocks are read' zeroes
end_with TERM
flip $((1048576 + 8))
start "$DISK"
t_check 'a zeroed block that is not zero any more is found' fails reads 256 1
end_with TERM

# The layer flushes the store before some writes. If that flush fails, the write
# fails, too. If the target is killed then, nobody else knows of the error.
again() {
	t_new_log
	rdma-target --listen "$LISTEN" --backing "$DISK" \
		>"$T/target.log" 2>&1 &
	T_TARGET=$!
	t_pids="$t_pids $T_TARGET"
	t_wait_for 10 t_target_is_up
}
write_at() { # BLOCK
	dd if="$T/data" of="$T/mnt/d" bs=4k seek="$1" count=1 oflag=direct \
		conv=notrunc
}
start "$DISK,fault=write:error:lba=80-87"
LISTEN=$URI
t_check 'a block is written' write_at 1
t_check 'the write of another one fails' fails write_at 10
kill -9 "$T_TARGET"
wait "$T_TARGET" 2>/dev/null
t_check 'after a kill the target serves again' again
t_check 'and the flush fails' fails sync "$T/mnt/d"
t_check 'the log says why' says 'a write failed before this start'
end_with TERM

# A store that loses unflushed data, like a disk in a power cut.
command -v nbdkit >/dev/null && [ -e "$BUILD/plugins/nbd/rdma-block-plugin-nbd.so" ] ||
	t_done
N=$T/nbd
serve_nbd() {
	rm -f "$N" "$N.pid"
	nbdkit -f -U "$N" -P "$N.pid" --filter=error --filter=cache \
		file "$T/disk" cache=writeback error-pread-rate=100% \
		error-file="$T/unreadable" >"$T/nbdkit.log" 2>&1 &
	SERVER=$!
	t_pids="$t_pids $SERVER"
	t_wait_for 10 test -s "$N.pid" || t_bail "$(cat "$T/nbdkit.log")"
}
rm "$S"
DISK="nbd:nbd+unix:///?socket=$N,name=d,layer=crc32c,sums=$S,init=on"
power_cut() {
	serve_nbd
	start "$DISK"
	was=$(($(od -An -tu8 -j 32 -N 8 "$S") - 65536 + 3))
	load "$1"
	t_wait_for 20 has_written
	status=$?
	kill -9 "$SERVER" "$T_TARGET"
	wait "$T_TARGET" 2>/dev/null
	wait "$SERVER" 2>/dev/null
	fusermount3 -uz "$T/mnt"
	kill -9 "$LOAD"
	wait "$LOAD" 2>/dev/null
	[ $status = 0 ] || return 1
	serve_nbd
	start "$DISK"
	all_is_good
	status=$?
	end_with TERM
	kill "$SERVER"
	wait "$SERVER"
	return $status
}
serve_nbd
start "$DISK"
t_check 'all blocks of a store with a cache are written' writes_all
end_with TERM
kill "$SERVER"
wait "$SERVER"
for fsync in 7 50 200; do
	t_check "no false mismatch after a cache is lost, fsync=$fsync" \
		power_cut $fsync
done

# A block that a power cut has torn cannot be read. When it is written again, it
# is good.
write_block() {
	dd if="$T/data" of="$T/mnt/d" bs=4k seek=40 count=1 oflag=direct \
		conv=notrunc
}
serve_nbd
start "$DISK"
t_check 'a block is written, and not flushed' write_block
end_with KILL
kill -9 "$SERVER"
wait "$SERVER"
serve_nbd
start "$DISK"
: >"$T/unreadable"
t_check 'it cannot be read after the cut' fails reads 40 1
t_check 'it can be written' write_block
rm "$T/unreadable"
t_check 'and is read then' reads 40 1
end_with TERM
t_done
