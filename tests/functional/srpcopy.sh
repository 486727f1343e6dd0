#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# srpcopy: between files, volumes and streams, with holes.
. "$(dirname "$0")/srpcopy_lib.sh"

# 64 MiB with 6 MiB of data, also at unaligned places, and with zeroes that are
# data.
truncate -s $SIZE image
random image $((3 * MIB)) $((5 * MIB))
random image 40000999 70001
dd if=/dev/zero of=image bs=1M seek=50 count=1 conv=notrunc status=none
random image $((SIZE - 4096)) 4096
kib() { du -k "$1" | cut -f1; }
# A file system counts some blocks of its own.
is_sparse() { [ "$(kib "$1")" -lt 7168 ]; }
same() { cmp image "$1" && is_sparse "$1"; }
truncate -s $SIZE v1 v2
truncate -s 63M small
t_target --backing v1 --backing v2 --backing small --backing ram:64M,name=wp,ro

# ---- all directions

old v1 v2
from_file() { srpcopy image "$URI/v1" && same v1; }
t_check 'a file to a volume, over old data' from_file
from_volume() { srpcopy "$URI/v1" "$URI/v2" && same v2; }
t_check 'a volume to a volume of the same target' from_volume
to_file() { srpcopy "$URI/v2" back && same back; }
t_check 'a volume to a new file' to_file
to_old_file() { truncate -s 70M back && random back 0 $((70 * MIB)) && srpcopy "$URI/v2" back && same back; }
t_check 'a volume to an older and larger file' to_old_file
between_files() { rm back && srpcopy image back && same back; }
t_check 'a file to a file' between_files
to_stream() { srpcopy "$URI/v1" - | cmp - image; }
t_check 'a volume to standard output' to_stream
file_to_stream() { srpcopy image - | cmp - image; }
t_check 'a file to standard output' file_to_stream
from_stream() { old v1 && cat image | srpcopy - "$URI/v1" && same v1; }
t_check 'standard input to a volume' from_stream
stream_to_file() { old back && cat image | srpcopy - back && same back; }
t_check 'standard input to a file' stream_to_file
stream_to_stream() { cat image | srpcopy - - | cmp - image; }
t_check 'standard input to standard output' stream_to_stream
# Streams with O_NONBLOCK, as another program may have left them.
slow_streams() {
	python3 -c '
import os, subprocess, sys, time
os.set_blocking(1, True)
r, w = os.pipe()
r2, w2 = os.pipe()
for fd in r, w2:
    os.set_blocking(fd, False)
p = subprocess.Popen(["srpcopy", "-r", "4", "-", "-"], stdin=r, stdout=w2)
os.close(r); os.close(w2)
data = os.urandom(3000001)
if os.fork() == 0:
    os.close(r2)
    with os.fdopen(w, "wb") as f: f.write(data)
    os._exit(0)
os.close(w)
time.sleep(0.1)
with os.fdopen(r2, "rb") as f: assert f.read() == data
assert p.wait() == 0'
}
t_check 'streams that do not block' slow_streams
from_middle() { (dd bs=1M count=3 of=/dev/null status=none; srpcopy - back) <image && cmp -i $((3 * MIB)):0 image back; }
t_check 'standard input in the middle of a file' from_middle
empty() { : >none && srpcopy none back && [ ! -s back ] && srpcopy - back </dev/null && [ ! -s back ]; }
t_check 'an empty file, and an empty stream' empty
ends_odd() {
	head -c 1000001 /dev/urandom >odd && old v1 && cp v1 before &&
		srpcopy odd "$URI/v1" && cmp -n 1000001 odd v1 &&
		cmp -i 1000001 before v1
}
t_check 'what a volume has behind the source stays' ends_odd
one_by_one() { srpcopy -r 1 -s 4k image "$URI/v1" && cmp image v1; }
t_check 'one request of 4 KiB at a time' one_by_one
large_requests() { old v1 && srpcopy -r 3 -s 16M --channels 2 image "$URI/v1" && same v1; }
t_check 'requests of 16 MiB, two channels' large_requests
zeroes_kept() { rm -f full back && cp --sparse=never image full && srpcopy -S 0 full back && cmp full back && ! is_sparse back; }
t_check '--sparse 0 writes zeroes' zeroes_kept
zeroes_found() { rm back && srpcopy full back && same back; }
t_check 'zeroes in the data become holes' zeroes_found
to_device() {
	old back && loop=$(losetup --show -f back) || return 1
	t_loops=$loop
	srpcopy --verify "$URI/v1" "$loop" && srpcopy "$loop" other
	status=$?
	losetup -d "$loop"
	t_loops=
	[ $status = 0 ] && cmp image back && cmp image other
}
if [ "$(id -u)" = 0 ] && losetup -f >/dev/null 2>&1; then
	t_check 'a block device' to_device
else
	t_skip 'a block device' 'needs root and loop devices'
fi

# ---- refusals

before=$(cksum small)
t_refused 'a smaller volume' "small is smaller than image: 66060288 bytes .63 MiB., not 67108864" \
	srpcopy image "$URI/small"
t_check 'nothing was written' [ "$(cksum small)" = "$before" ]
stream_too_long() { cat image | fails 'standard input is longer than the 66060288 bytes of' srpcopy - "$URI/small"; }
t_check 'a stream that is longer than the volume' stream_too_long
t_refused 'the same volume' 'are the same volume' srpcopy "$URI/v1" "$URI/0"
t_refused 'the same volume, by another address' 'are the same volume' \
	srpcopy "$URI/v1" "srp+tcp://localhost:$T_PORT/v1"
ln -f image link
t_refused 'the same file' 'image and link are the same file' srpcopy image link
t_refused 'the same file as standard output' 'are the same file' sh -c 'srpcopy image - >>image'
t_refused 'a volume that is read-only' "/wp is read-only" srpcopy image "$URI/wp"
t_refused 'a volume that is not there' "no volume 'nope'.* has: v1, v2" srpcopy image "$URI/nope"
t_refused 'no volume' 'names no volume' srpcopy image "$URI"
t_refused 'no source' 'no SOURCE' srpcopy
t_refused 'no destination' 'no DESTINATION' srpcopy image
t_refused 'a directory' 'is a directory' srpcopy . "$URI/v1"
t_refused 'a file that is not there' 'nothere: No such file' srpcopy nothere "$URI/v1"
t_refused 'nobody listens' '127.0.0.1:1[^0-9].*refused' srpcopy image srp+tcp://127.0.0.1:1/v1
t_refused '--resume of a stream' "not with '-'" srpcopy --resume state - "$URI/v1"
t_refused '--verify of a pipe' 'cannot be read again' sh -c 'cat image | srpcopy --verify /dev/stdin back'
t_refused 'a full pipe that is closed' 'cannot write to standard output: Broken pipe' \
	sh -c 'srpcopy image - | head -c 1 >/dev/null; exit 1'
t_refused 'a request size that is none' '--request-size' srpcopy -s 5k image back

# ---- compare and verify

t_check '--verify' srpcopy --verify image "$URI/v1"
t_check '--compare of what is equal' srpcopy --compare image "$URI/v1"
flip() { # FILE OFFSET
	python3 -c 'import os, sys
fd, at = os.open(sys.argv[1], os.O_RDWR), int(sys.argv[2])
os.pwrite(fd, bytes([os.pread(fd, 1, at)[0] ^ 1]), at)' "$1" "$2"
}
for at in 0 12345678 40001000 $((SIZE - 1)); do
	flip v1 $at
	t_refused "--compare finds a flipped bit at $at" \
		"v1 differs from image at byte $at\$" srpcopy --compare image "$URI/v1"
	flip v1 $at
done
flip v1 60000000
flip v1 20000000
t_refused '--compare names the first of two' 'at byte 20000000$' \
	srpcopy --compare "$URI/v1" image
t_check 'and changes nothing' eval '! cmp -s image v1'
t_refused '--compare with what is shorter' 'small is smaller than image' \
	srpcopy --compare image "$URI/small"
# A target that says of data that it is a hole, and leaves old data in a hole.
t_target_stop TERM
t_target_again --backing "$T/v1,layer=hollow" --backing "$T/v2,layer=hollow"
cp image v1
cp image v2
flip v2 60000000
t_refused '--compare reads what both call a hole' 'v2 differs from .*v1 at byte 60000000$' \
	srpcopy --compare "$URI/v1" "$URI/v2"
flip v2 60000000
t_check 'and finds it equal' srpcopy --compare "$URI/v1" "$URI/v2"
# The hole reads as zeros: the data there must not begin with one.
[ "$(head -c $((3 * MIB + 1)) image | tail -c 1 | od -An -tu1)" -ne 0 ] ||
	flip v1 $((3 * MIB))
t_refused '--verify finds data that the source calls a hole' \
	"back differs from .*v1 at byte $((3 * MIB))\$" \
	srpcopy --verify "$URI/v1" back
random v1 0 4096
t_refused '--verify finds old data in a hole' 'v1 differs from image at byte [0-9]{1,4}$' \
	srpcopy --verify image "$URI/v1"

# ---- errors

t_target_stop TERM
t_target_again --backing "$T/v1,name=r,fault=read:error:lba=10000-10007" \
	--backing "$T/v2,name=w,fault=write:error:lba=16384-16391" \
	--backing "$T/small,name=f,fault=flush:error"
t_refused 'a read that fails' "cannot read srp.*/r at [0-9]*: MEDIUM ERROR.* at block 10000" \
	srpcopy "$URI/r" back
t_refused 'a write that fails' "cannot write to srp.*/w at [0-9]*: MEDIUM ERROR.* at block 16384" \
	srpcopy -s 4k -S 0 full "$URI/w"
head -c 1M image >little
t_refused 'a flush that fails' "cannot flush srp.*/f: " srpcopy little "$URI/f"
verify_fails() { fails 'cannot read .*MEDIUM ERROR' srpcopy --verify full "$URI/r"; }
t_check 'a --verify that cannot read' verify_fails
full_disk() {
	fails 'No space left|File too large' sh -c 'ulimit -f 2048; srpcopy -S 0 full limited'
}
t_check 'a file that cannot grow' full_disk

# ---- progress

t_target_stop TERM
t_target_again --backing v1 --backing v2
silent() { srpcopy image "$URI/v1" 2>err && [ ! -s err ]; }
t_check 'no progress without a terminal' silent
lines() { srpcopy --progress image "$URI/v1" 2>err && grep -q '^100% 64 MiB of 64 MiB copied' err && ! grep -q "$(printf '\r')" err; }
t_check '--progress prints lines' lines
bar() { script -qec "srpcopy image '$URI/v1'" /dev/null >out && grep -q '\[=*\] 100% 64 MiB of 64 MiB' out; }
if command -v script >/dev/null; then
	t_check 'a terminal gets a bar' bar
	quiet() { script -qec "srpcopy -q image '$URI/v1'" /dev/null >out && [ ! -s out ]; }
	t_check '-q prints nothing' quiet
else
	t_skip 'a terminal gets a bar' 'no script here'
	t_skip '-q prints nothing' 'no script here'
fi

# ---- beside a mount

mounted() {
	mkdir -p mnt && t_mount "$URI" "$T/mnt" 2>err || return 1
	srpcopy "$URI/v1" mnt/v2 && cmp v1 v2 &&
		srpcopy --compare mnt/v1 "$URI/v2" &&
		fails 'are the same volume' srpcopy mnt/v1 "$URI/v1" &&
		fails 'are the same volume' srpcopy "$URI/v1" mnt/v1 &&
		truncate -s 65M larger &&
		fails 'cannot set the size of mnt/v1 .*too large' srpcopy larger mnt/v1 &&
		cmp v1 v2
	status=$?
	fusermount3 -u mnt
	return $status
}
if [ -e /dev/fuse ] && command -v fusermount3 >/dev/null; then
	t_check 'a file of rdma-fuse is its volume' mounted
else
	t_skip 'a file of rdma-fuse is its volume' 'no FUSE here'
fi
t_done
