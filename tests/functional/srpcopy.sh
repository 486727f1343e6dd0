#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# srpcopy: between files, volumes and streams, with holes; killed and resumed;
# with a target that goes away and comes back.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || t_skip_all 'no python3 here'
RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/qos:$BUILD/tests/plugins
export RDMA_BLOCK_PLUGIN_PATH
cd "$T" || exit 1

MIB=$((1 << 20))
SIZE=$((64 * MIB))
random() { # FILE OFFSET LEN
	dd if=/dev/urandom of="$1" bs=64k conv=notrunc oflag=seek_bytes \
		iflag=count_bytes seek="$2" count="$3" status=none
}
# 64 MiB with 6 MiB of data, also at unaligned places, and with zeroes that are
# data.
truncate -s $SIZE image
random image $((3 * MIB)) $((5 * MIB))
random image 40000999 70001
dd if=/dev/zero of=image bs=1M seek=50 count=1 conv=notrunc status=none
random image $((SIZE - 4096)) 4096
old() { # FILE...: fills the files with old data
	for file; do random "$file" 0 $SIZE; done
}
kib() { du -k "$1" | cut -f1; }
# A file system counts some blocks of its own.
is_sparse() { [ "$(kib "$1")" -lt 7168 ]; }
same() { cmp image "$1" && is_sparse "$1"; }
fails() { # PATTERN CMD...: exits with 1, and the last line matches PATTERN
	pattern=$1
	shift
	"$@" >out 2>err
	[ $? = 1 ] && cat err && tail -n 1 err | grep -Eq "$pattern"
}

truncate -s $SIZE v1 v2 slow
truncate -s 63M small
SLOW="$T/slow,name=slow,layer=qos,bps=16M"
VOLATILE="$T/slow,name=slow,layer=volatile,layer=qos,bps=16M"
t_target --backing v1 --backing v2 --backing small \
	--backing ram:64M,name=wp,ro --backing "$SLOW"

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
t_target_again --backing v1 --backing v2 --backing "$SLOW"
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

# ---- killed, and resumed

state() { sed -n "s/^$1: //p" state; }
is_on_the_way() { [ "$(state done)" -gt 0 ]; }
start() { # SOURCE DESTINATION: a copy in the background, with a state file
	rm -f state
	srpcopy --resume state "$1" "$2" 2>err &
	copy=$!
	t_wait_for 6 is_on_the_way || { cat err; return 1; }
}
ends() { # SIGNAL STATUS
	kill "-$1" $copy
	wait $copy
	status=$?
	cat err
	[ $status = "$2" ]
}
random image 0 $SIZE # without holes: the copy takes 4 seconds
continues() { # SOURCE DESTINATION: only the rest is copied
	begin=$(state done)
	srpcopy -v --resume state "$1" "$2" 2>err || { cat err; return 1; }
	cat err
	python3 - "$begin" <<'END'
import re, sys
begin = int(sys.argv[1])
found = re.search(r'copied ([0-9.]+) MiB', open('err').read())
assert begin > 0 and float(found[1]) <= ((64 << 20) - begin) / (1 << 20), begin
END
}
killed() {
	old slow && start image "$URI/slow" && ends KILL 137 &&
		cmp -n "$(state done)" image slow && ! cmp -s image slow &&
		continues image "$URI/slow" && cmp image slow && [ ! -e state ]
}
t_check 'kill -9, and resumed' killed
interrupted() {
	old slow && start image "$URI/slow" && ends INT 1 &&
		[ "$(wc -l <err)" = 2 ] && tail -n 1 err |
		grep -q 'interrupted after .* run the same' &&
		[ "$(state last)" = 1 ] && cmp -n "$(state done)" image slow
}
t_check 'SIGINT leaves a state' interrupted
# ---- a state that is no longer valid
cp state saved
t_refused 'another destination' 'the destination has another identity' \
	srpcopy --resume state image "$URI/v1"
t_refused 'another source' 'the source has another identity' \
	srpcopy --resume state full "$URI/slow"
touch -r image time
touch image
t_refused 'a source that was touched' 'the source has another modification time' \
	srpcopy --resume state image "$URI/slow"
touch -r time image
truncate -s 63M image
touch -r time image
t_refused 'a source of another size' 'the source has another size now than in state .66060288, was 67108864.*remove state' \
	srpcopy --resume state image "$URI/slow"
t_refused 'a file that is no state' 'is not a state file' srpcopy --resume err image "$URI/slow"
head -n 5 saved >state
t_refused 'a part of a state' 'is not a state file' srpcopy --resume state image "$URI/slow"
t_refused 'a state in no directory' 'cannot write no/state: No such file' \
	srpcopy --resume no/state image "$URI/slow"
cp saved state
random image $((63 * MIB)) $MIB
touch -r time image
rest_continues() { continues image "$URI/slow" && cmp image slow; }
t_check 'the state still continues the copy' rest_continues

from_slow() {
	rm -f back && start "$URI/slow" back && ends KILL 137 &&
		cmp -n "$(state done)" slow back &&
		continues "$URI/slow" back && cmp slow back
}
t_check 'kill -9 of a copy to a file, and resumed' from_slow
# Killed after the first state was saved, and before the file got its size.
cat >first_state.py <<'END'
import os, sys
print('srpcopy state 1')
for what, st in zip(('source', 'destination'), map(os.stat, sys.argv[1:])):
    print(f'{what}: file {os.major(st.st_dev)}:{os.minor(st.st_dev)} {st.st_ino}')
    print(f'{what} size: {st.st_size}')
    print(f'{what} mtime: {st.st_mtime_ns // 10**9}.{st.st_mtime_ns % 10**9:09}')
print('done: 0\nlast: 0')
END
unsized() { # SIZE of the old file
	truncate -s 8M holes && random holes $MIB 4096 &&
		rm -f back && random back 0 "$1" &&
		python3 first_state.py holes back >state &&
		srpcopy --resume state holes back 2>err
	status=$?
	cat err
	[ $status = 0 ] && cmp holes back
}
t_check 'kill -9 before a longer file is cut, and resumed' unsized $((9 * MIB))
t_check 'kill -9 before a shorter file grows, and resumed' unsized 4096
# ramfs has no fallocate(2); all holes are zeroed at once.
cannot_zero() {
	mkdir -p ram && rm -f holes back && truncate -s 8M holes &&
		random back 0 $((8 * MIB)) || return 1
	for at in 1 3 5 7; do
		random holes $((at * MIB)) 4096
	done
	unshare -rm sh -c 'mount -t ramfs none ram && cp back ram &&
		python3 first_state.py holes ram/back >state &&
		srpcopy --resume state holes ram/back && cmp holes ram/back'
}
if unshare -rm mount -t ramfs none . 2>/dev/null; then
	t_check 'a file that cannot be zeroed without writing' cannot_zero
else
	t_skip 'a file that cannot be zeroed without writing' 'no unshare here'
fi
file_changes() {
	rm -f back && start "$URI/slow" back && ends INT 1 && touch back &&
		fails 'the destination has another modification time' \
			srpcopy --resume state "$URI/slow" back
}
t_check 'a destination that was touched' file_changes
without_state() {
	srpcopy image "$URI/slow" 2>err &
	copy=$!
	written() { ! cmp -s image slow && [ "$(kib slow)" -gt 0 ]; }
	fallocate -p -o 0 -l $SIZE slow
	t_wait_for 20 written && ends TERM 1 && grep -q 'interrupted; the copy is not' err
}
t_check 'SIGTERM without a state file' without_state

# ---- a target that goes away

for signal in KILL TERM; do
	comes_back() {
		old slow && start image "$URI/slow" || return 1
		t_target_stop $signal
		t_target_again --backing "$T/v1" --backing "$T/v2" --backing "$SLOW"
		wait $copy || { cat err; return 1; }
		cat err
		grep -q 'the copy waits for the connection' err &&
			grep -q 'the copy continues' err && cmp image slow &&
			[ ! -e state ]
	}
	t_check "the target of the destination comes back after SIG$signal" comes_back
done
# Its cache is gone, and one flush says so. What it had is to be copied again.
shown() { grep -c ' copied' err; }
is_shown_more() { [ "$(shown)" -gt "$lines" ]; }
cache_is_lost() {
	t_target_stop TERM
	t_target_again --backing "$VOLATILE" && old slow && rm -f state
	srpcopy --progress --resume state image "$URI/slow" 2>err &
	copy=$!
	t_wait_for 6 is_on_the_way && lines=$(shown) &&
		t_wait_for 6 is_shown_more || { cat err; return 1; }
	t_target_stop KILL
	t_target_again --backing "$VOLATILE"
	wait $copy
	status=$?
	cat err state
	[ $status = 1 ] && grep -q 'cannot flush .*/slow' err &&
		cmp -n "$(state done)" image slow &&
		continues image "$URI/slow" && cmp image slow
	status=$?
	t_target_stop TERM
	t_target_again --backing "$T/v1" --backing "$T/v2" --backing "$SLOW"
	return $status
}
t_check 'the cache of the destination is lost with its target' cache_is_lost
source_comes_back() {
	rm -f back
	start "$URI/slow" back || return 1
	t_target_stop KILL
	t_target_again --backing "$T/v1" --backing "$T/v2" --backing "$SLOW"
	wait $copy || { cat err; return 1; }
	cmp slow back
}
t_check 'the target of the source comes back' source_comes_back
stays_away() {
	old slow
	rm -f state
	srpcopy --wait 1 --resume state image "$URI/slow" 2>err &
	copy=$!
	t_wait_for 6 is_on_the_way || return 1
	t_target_stop KILL
	wait $copy
	status=$?
	t_target_again --backing "$T/v1" --backing "$T/v2" --backing "$SLOW"
	cat err
	[ $status = 1 ] && tail -n 1 err | grep -q 'cannot .*/slow.*127.0.0.1' &&
		continues image "$URI/slow" && cmp image slow
}
t_check 'one that stays away ends the copy, which is resumed' stays_away
hangs() {
	start image "$URI/slow" || return 1
	kill -STOP "$T_TARGET"
	kill -INT $copy
	t_wait_for 6 grep -q 'a second signal ends at once' err
	kill -INT $copy
	wait $copy
	status=$?
	kill -CONT "$T_TARGET"
	[ $status = 1 ] && cat err && continues image "$URI/slow" && cmp image slow
}
t_check 'a second SIGINT ends at once' hangs

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
# A file of rdma-fuse keeps the size of its volume.
mount_resumes() {
	head -c 63M image >shorter && old slow && cp slow before &&
		t_mount "$URI" "$T/mnt" 2>err || return 1
	start shorter mnt/slow && ends KILL 137 &&
		continues shorter mnt/slow && [ ! -e state ]
	status=$?
	fusermount3 -u mnt
	[ $status = 0 ] && cmp -n $((63 * MIB)) shorter slow &&
		cmp -i $((63 * MIB)) before slow
}
if [ -e /dev/fuse ] && command -v fusermount3 >/dev/null; then
	t_check 'a file of rdma-fuse is its volume' mounted
	t_check 'kill -9 of a copy to a larger file of rdma-fuse, and resumed' mount_resumes
else
	t_skip 'a file of rdma-fuse is its volume' 'no FUSE here'
	t_skip 'kill -9 of a copy to a larger file of rdma-fuse, and resumed' 'no FUSE here'
fi
# ---- a write of a copy that was killed

# A comparison goes on meanwhile. It must not have the identifier of copies.
t_target_stop TERM
cp v1 twin
t_target --backing v1,layer=qos,bps=16M,fault=write:stuck:count=1
has_login() { grep -q 'login of' "$T/target.log"; }
is_stuck() { grep -q 'is stuck' "$T/target.log"; }
srpcopy --compare twin "$URI/v1" 2>compare.err &
compare=$!
t_wait_for 10 has_login
kill -STOP $compare
leaves_a_write() {
	srpcopy back "$URI/v1" 2>err &
	copy=$!
	t_wait_for 10 is_stuck && ends KILL 137
}
random back 0 $((4 * MIB))
truncate -s $((4 * MIB)) back
t_check 'a copy is killed with a write that is stuck' leaves_a_write
kill -KILL $compare
wait $compare 2>/dev/null
t_check 'no other copy begins before that is done' \
	fails 'cannot log in' srpcopy image "$URI/v1"
kill -USR1 "$T_TARGET"
then_copies() { t_wait_for 10 srpcopy image "$URI/v1" && cmp image v1; }
t_check 'then it does' then_copies
t_done
