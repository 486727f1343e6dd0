#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The store nbd on the real servers nbdkit and qemu-storage-daemon: the written
# data, and servers that fail, are slow, are killed and start again.
. "$(dirname "$0")/nbd_lib.sh"

fails() { ! "$@"; }
has_step() { grep -q "^$1.* ok$" "$T/checked"; }

# ---- the contract

serve memory 64M
t_check 'memory keeps the contract' keeps "$(uri)"
for step in "writes with FUA" zeroing unmapping extents; do
	t_check "passed through: $step" has_step "$step"
done
stop
serve --filter=multi-conn memory 64M multi-conn-mode=disable
t_check 'so does a server without multi-conn' keeps "$(uri)"
stop
serve --filter=blocksize-policy memory 64M blocksize-minimum=4096 \
	blocksize-preferred=64k blocksize-maximum=64k blocksize-error-policy=error
t_check 'so does one that takes 64 KiB at a time' keeps "$(uri),block-size=4096"
t_refused 'a block size of 512 needs more than that server has' 'block' \
	rdma-target --backing "$(uri),block-size=512"
stop
serve --filter=blocksize-policy memory 64M blocksize-minimum=8192 \
	blocksize-preferred=64k
t_refused 'no I/O below 8 KiB' 'no I/O smaller than 8192.*blocksize' \
	rdma-target --backing "$(uri)"
stop
truncate -s 64M "$T/file.img"
serve file "$T/file.img"
t_check 'a file keeps it' keeps "$(uri)"
stop
serve -r file "$T/file.img"
t_check 'a read-only export, too' keeps "$(uri)"
t_check 'which nobody can write' grep -q 'skipped: the volume is read-only' \
	"$T/checked"
stop
serve --filter=nozero --filter=noextents memory 64M \
	zeromode=none
t_check 'a server without zero and extents' keeps "$(uri)"
stop
t_refused 'a server that is not there' \
	'cannot connect: .*; is the NBD server running' \
	rdma-target --backing "$(uri)"
t_refused 'a text that is no URI' 'cannot connect: NBD URI' \
	rdma-target --backing nbd:nothing
says_rest() { # SIZE BYTES PARAM: how many bytes at the end are not served
	serve memory "$1"
	t_target --backing "$(uri),name=rest$3"
	grep "the last $2 bytes .* are left out" "$T/target.log"
	said=$?
	t_target_stop TERM
	stop
	return $said
}
t_check 'a size that is no multiple of 512' says_rest 1048677 101 ''
t_check 'one that is no multiple of the block size' says_rest 1049088 512 \
	,block-size=4096
t_check 'one that is, of which nothing is said' fails says_rest 1048576 '.*' ''

# ---- a server that cannot make writes stable

serve eval get_size='echo 1M' pread='dd if=/dev/zero bs=1k count=64 status=none |
	head -c "$3"' pwrite='cat >/dev/null'
t_refused 'a server without flush and FUA' \
	'nothing makes writes stable.*trust-server=on' \
	rdma-target --backing "$(uri),name=u"
# says WANT PARAM: the start, a listing and a metric say so, or none of them
says() {
	t_target --control "$T/ctl" --backing "$(uri),name=u$2"
	{
		grep "LUN 0" "$T/target.log"
		rdma-ctl --control "$T/ctl" volume list
		rdma-ctl --control "$T/ctl" metrics |
			sed -n 's/^.*volume_never_stable.* 1$/writes never stable/p'
	} | tee "$T/said"
	t_target_stop TERM
	[ "$(grep -c 'writes never stable' "$T/said")" = "$1" ]
}
if [ -e "$BUILD/ctl/rdma-ctl" ]; then
	t_check 'is served if it is trusted, and each listing says so' \
		says 3 ,trust-server=on
	t_check 'is served if nobody can write' says 0 ,ro
fi
stop

# ---- TCP, by host name
serve_tcp memory 64M
t_check 'over TCP, with the short form of the URI' keeps "nbd://localhost:$P"
stop

if [ -n "${SANITIZED-}" ]; then
	t_done
fi
t_needs_fuse
M=$T/mnt
mkdir "$M"

verify() { # FILE SIZE
	(cd "$T" && fio --name=verify --filename="$M/$1" --direct=1 \
		--size="$2" --verify=crc32c --do_verify=1 --verify_fatal=1 \
		--rw=randwrite --bsrange=4k-128k --ioengine=libaio --iodepth=32 \
		--output-format=terse)
}

end_target() {
	fusermount3 -u "$M" && kill "$T_TARGET" && wait "$T_TARGET"
}

# ---- memory

serve memory 64M
t_target --threads 2 --backing "$(uri),name=m"
t_mount "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
t_check 'fio verifies on memory' verify m 32M
t_check 'unmounts and ends' end_target
stop

# ---- qcow2 on a snapshot

start_qsd() {
	rm -f "$S"
	qemu-storage-daemon --pidfile "$S.pid" \
		--blockdev "driver=qcow2,node-name=disk,file.driver=file,file.filename=$T/top.qcow2,discard=unmap" \
		--nbd-server "addr.type=unix,addr.path=$S,max-connections=8" \
		--export type=nbd,id=e,node-name=disk,name=disk,writable=on \
		>"$T/qsd.log" 2>&1 &
	SERVER=$!
	t_pids="$t_pids $SERVER"
	t_wait_for 10 test -S "$S" || t_bail "$(cat "$T/qsd.log")"
}

qemu-img create -q -f qcow2 "$T/base.qcow2" 64M
qemu-io -f qcow2 -c 'write -q -P 0x42 0 64M' "$T/base.qcow2"
qemu-img create -q -f qcow2 -b "$T/base.qcow2" -F qcow2 "$T/top.qcow2"
start_qsd
t_target --threads 2 --backing "$(uri disk),name=q"
t_mount "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
t_check 'fio verifies on qcow2' verify q 16M
t_check 'unmounts and ends' end_target
stop
reads_below() {
	qemu-io -r -f qcow2 -c "read -P 0x42 $1" "$2" | tee /dev/stderr |
		grep -q 'read .* bytes' &&
		! qemu-io -r -f qcow2 -c "read -P 0x42 $1" "$2" |
		grep -q 'failed'
}
t_check 'what was not written comes from the snapshot' \
	reads_below '32M 32M' "$T/top.qcow2"
t_check 'which is as it was' reads_below '0 64M' "$T/base.qcow2"
t_check 'the image is whole' qemu-img check -q "$T/top.qcow2"

# ---- a server that fails

serve --filter=error memory 64M error=EIO error-pwrite-rate=100% \
	error-file="$T/fail" error-pread-rate=0
t_target --backing "$(uri),name=e"
t_mount "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
one_write() { # PATTERN
	dd if=/dev/zero bs=4k count=1 2>/dev/null | tr '\0' "$1" |
		dd of="$M/e" bs=4k count=1 conv=notrunc,fsync oflag=direct 2>&1
}
t_check 'a write is done' one_write a
touch "$T/fail"
t_check 'a write that the server fails is failed' fails one_write b
rm "$T/fail"
starts_with() { # CHAR FILE
	[ "$(dd if="$2" bs=4k count=1 iflag=direct 2>/dev/null | head -c 1)" = "$1" ]
}
t_check 'the data is what it was' starts_with a "$M/e"
t_check 'and the next write is done' one_write c
t_check 'ends' end_target
stop

# ---- a slow server beside a fast volume

serve --filter=delay memory 64M delay-read=1 rdelay=1
t_target --threads 1 --backing "$(uri),name=slow" --backing ram:16M,name=fast
t_mount "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
# Reads of the fast volume complete while a read of the slow volume is in
# progress.
dd if="$M/slow" of=/dev/null bs=4k count=20 iflag=direct 2>/dev/null &
slow=$!
is_ahead() {
	for n in 1 2 3 4 5; do
		dd if="$M/fast" of=/dev/null bs=4k count=200 iflag=direct \
			2>/dev/null || return 1
	done
	! t_is_gone $slow
}
t_check 'a slow server holds nobody else up' is_ahead
kill $slow 2>/dev/null
wait $slow 2>/dev/null
t_check 'ends' end_target
stop

# ---- a slow request beside others of its connection

# The read of the first block waits until the file "open" exists. That block is
# full of "a", the others of zeroes.
serve eval thread_model='echo parallel' get_size='echo 1M' pread="
	if [ \$4 = 0 ]; then
		touch '$T/held'
		until [ -e '$T/open' ]; do sleep 0.02; done
		head -c \$3 /dev/zero | tr '\0' a
	else
		head -c \$3 /dev/zero
	fi"
t_target --threads 1 --backing "$(uri),name=held"
t_mount "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
dd if="$M/held" of="$T/first" bs=4k count=1 iflag=direct 2>/dev/null &
first=$!
t_wait_for 60 test -e "$T/held" || t_bail 'the server has no request'
others_end() {
	timeout 60 fio --name=others --filename="$M/held" --direct=1 \
		--rw=read --bs=4k --offset=4k --size=400k --ioengine=libaio \
		--iodepth=8 --output-format=terse && ! t_is_gone $first
}
t_check 'others of the connection end while a request is held' others_end
has_its_answer() {
	wait $first && [ "$(tr -d a <"$T/first" | wc -c)" = 0 ] &&
		[ "$(wc -c <"$T/first")" = 4096 ]
}
touch "$T/open"
t_check 'which gets its own answer when the server sends it' has_its_answer
t_check 'ends' end_target
stop

# ---- a server that is killed under load and starts again

has_written() { [ "$T/file.img" -nt "$T/mark" ] || t_is_gone $fio; }
kill_in_turns() { # TIMES: kills the server while fio runs, with new writes each time
	for n in $(seq "$1"); do
		touch "$T/mark"
		sleep 0.5
		t_wait_for 60 has_written
		t_is_gone $fio && break
		crash
		serve file "$T/file.img"
	done
}

# survives PARAM: fio's data is correct after five kills
survives() {
	(cd "$T" && exec fio --name=load --filename="$M/k" --direct=1 --size=64M \
		--rw=randwrite --bs=4k --ioengine=libaio --iodepth=16 \
		--time_based --runtime=5 --verify=crc32c --verify_fatal=1 \
		--do_verify=1 --output-format=terse) >"$T/fio.log" 2>&1 &
	fio=$!
	kill_in_turns 5
	wait $fio
	status=$?
	tail -5 "$T/fio.log"
	grep nbd "$T/target.log" | tail -5
	[ $status = 0 ] && grep -q 'connected to the server again' "$T/target.log"
}
flushes() { python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.fsync(fd)' "$M/k"; }

serve file "$T/file.img"
t_target --threads 2 --backing "$(uri),name=k"
t_mount "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
t_check 'fio verifies while the server is killed' survives
t_check 'no flush is acknowledged that might have lost writes' fails flushes
t_check 'the log says why' t_wait_for 5 grep -q \
	'flushes fail from now on: the connection was lost before' \
	"$T/target.log"
end_target
t_target --threads 2 --backing "$(uri),name=k,trust-server=on"
t_mount "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
t_check 'again, with a server that is trusted' survives
t_check 'then a flush is done' flushes
clean_restart() {
	crash
	serve file "$T/file.img"
	flushes
}
t_check 'ends' end_target
t_target --backing "$(uri),name=k"
t_mount "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
t_check 'a flush after a flush loses nothing' clean_restart
t_check 'ends' end_target

# ---- a server that stays down

t_target --backing "$(uri),name=k,wait=1,trust-server=on"
t_mount --io-timeout 300 "$URI" "$M" 2>"$T/mount.log" ||
	t_bail "$(cat "$T/mount.log")"
# write_then_flush [PID]: kills PID between the write and the flush
write_then_flush() { python3 -c '
import mmap, os, signal, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
os.pwrite(fd, mmap.mmap(-1, 4096), 0)
for pid in sys.argv[2:]:
    os.kill(int(pid), signal.SIGKILL)
os.fsync(fd)' "$M/k" "$@"; }
t_check 'a flush fails when the server is away' fails write_then_flush $SERVER
wait "$SERVER" 2>/dev/null
reads() { dd if="$M/k" of=/dev/null bs=4k count=1 iflag=direct; }
t_check 'I/O fails when the server stays away' fails reads
t_check 'the log says so' t_wait_for 5 grep -q 'away for 1 seconds: I/O fails' \
	"$T/target.log"
truncate -s 32M "$T/small.img"
serve file "$T/small.img"
t_check 'another export is not taken for it' t_wait_for 10 grep -q \
	'the export is smaller than it was' "$T/target.log"
crash
serve file "$T/file.img"
t_check 'the right one is' t_wait_for 30 reads
t_check 'flushes are done again' write_then_flush
t_check 'ends' end_target
stop

# ---- no wait for a server that is away

serve memory 64M
t_target --backing "$(uri),name=k,wait=0"
t_mount --io-timeout 300 "$URI" "$M" 2>"$T/mount.log" ||
	t_bail "$(cat "$T/mount.log")"
t_check 'a read' reads
crash
reads >/dev/null 2>&1 &
reader=$!
t_check 'with wait=0, I/O fails at once' t_wait_for 5 t_has_ended $reader
t_check 'the log says so' t_wait_for 5 grep -q 'away for 0 seconds: I/O fails' \
	"$T/target.log"
serve memory 64M
t_check 'a server that is back is used' t_wait_for 30 reads
t_check 'ends' end_target
stop

# ---- a server that dies at a request, each time

# A shell is the parent of nbdkit's own command: it kills nbdkit.
again() {
	while :; do
		rm -f "$S"
		nbdkit -f -U "$S" eval get_size='echo 64M' pread='
			[ $4 -lt 1048576 ] || kill -9 $PPID
			head -c $3 /dev/zero' 2>/dev/null
		echo >>"$T/deaths"
	done
}
rm -f "$S"
again &
again=$!
t_pids="$t_pids $again"
t_wait_for 10 test -S "$S"
t_target --backing "$(uri),name=k,wait=2"
t_mount --io-timeout 300 "$URI" "$M" 2>"$T/mount.log" ||
	t_bail "$(cat "$T/mount.log")"
kills() { dd if="$M/k" of=/dev/null bs=4k count=1 skip=256 iflag=direct; }
t_check 'a request that kills the server is failed' fails kills
t_check 'after several attempts, with pauses' \
	test "$(wc -l <"$T/deaths")" -lt 50
t_check 'others are not' reads
t_check 'ends' end_target
kill $again
pkill -P $again

# ---- a server that answers all requests but one

# Reads from 1 MiB on wait until there is no file "stuck".
touch "$T/stuck"
serve eval thread_model='echo parallel' get_size='echo 64M' pread="
	if [ \$4 -ge 1048576 ]; then
		echo >>'$T/requests'
		while [ -e '$T/stuck' ]; do sleep 0.1; done
	fi
	head -c \$3 /dev/zero"
t_target --threads 1 --backing "$(uri),name=one,timeout=1,wait=2"
t_mount --io-timeout 300 "$URI" "$M" 2>"$T/mount.log" ||
	t_bail "$(cat "$T/mount.log")"
read_at() { dd if="$M/one" of=/dev/null bs=4k count=1 skip="$1" iflag=direct; }
read_at 256 2>/dev/null &
stuck=$!
# The server is never silent meanwhile.
answered=0
while ! t_has_ended $stuck && read_at 0 2>/dev/null; do
	answered=$((answered + 1))
done
t_check 'a request that is always stuck fails' fails wait $stuck
t_check 'others are answered meanwhile' test "$answered" -gt 10
t_check 'the log names it' t_wait_for 5 grep -q 'has not answered a read for 1 seconds' \
	"$T/target.log"
rm "$T/requests"
read_at 256 2>/dev/null &
stuck=$!
is_sent_again() { [ "$(wc -l <"$T/requests")" -gt 1 ]; }
t_wait_for 60 is_sent_again
rm "$T/stuck"
t_check 'one that is stuck for a while is done' wait $stuck
t_check 'ends' end_target
stop

# ---- a target that is stopped for longer than its timeout

serve eval thread_model='echo parallel' get_size='echo 64M' can_write='exit 0' \
	can_flush='exit 0' flush='exit 0' pread='head -c $3 /dev/zero' pwrite="
	cat >/dev/null
	if [ \$4 = 4096 ]; then
		touch '$T/begun'
		while [ -e '$T/held' ]; do sleep 0.1; done
		touch '$T/written'
	fi"
touch "$T/held"
t_target --threads 1 --backing "$(uri),name=late,timeout=1,wait=30"
t_mount --io-timeout 300 "$URI" "$M" 2>"$T/mount.log" ||
	t_bail "$(cat "$T/mount.log")"
write_at() { # BLOCK [CONV]
	dd if=/dev/zero of="$M/late" bs=4k count=1 seek="$1" oflag=direct \
		conv=notrunc"${2-}" 2>"$T/dd.log"
}
t_check 'a write that is not flushed' write_at 0
write_at 1 &
late=$!
t_wait_for 30 test -e "$T/begun"
kill -STOP "$T_TARGET"
rm "$T/held"
t_wait_for 30 test -e "$T/written"
sleep 2 # longer than the timeout
kill -CONT "$T_TARGET"
t_check 'a write that was answered meanwhile is done' wait $late
t_check 'and a flush' write_at 0 ,fsync
t_check 'the server is not blamed' fails grep 'has not answered' \
	"$T/target.log"
t_check 'ends' end_target
stop

# A server that accepts connections and does not answer.
mkdir -p "$T/mnt"
serve --filter=delay memory 64M rdelay=3600
t_target --backing "$(uri),name=silent,timeout=1,wait=2"
t_mount "$URI" "$T/mnt" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
t_check 'I/O of a silent server fails' fails dd if="$T/mnt/silent" of="$T/x" \
	bs=4k count=1 iflag=direct
t_check 'the log says so' t_wait_for 5 grep -q 'has not answered a read for 1 seconds' \
	"$T/target.log"
crash
serve memory 64M
t_check 'one that answers is used again' t_wait_for 30 dd \
	if="$T/mnt/silent" of="$T/x" bs=4k count=1 iflag=direct
fusermount3 -u "$T/mnt"
kill "$T_TARGET"
wait "$T_TARGET"
t_check 'ends' [ $? = 0 ]
stop
t_done
