#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rdma-fuse starts and ends properly, and survives a bad target.
. "$(dirname "$0")/lib.sh"
t_needs_fuse

M=$T/mnt
L=$T/client.log
mkdir "$M"
truncate -s 64M "$T/disk.img"
t_target --backing "$T/disk.img,name=disk" --backing ram:64M,name=scratch \
	--backing ram:16M,name=fixed,ro \
	--backing ram:1M,name=bad,fault=read:error:lba=8 --max-channels 3

mounted() { grep -q " $1 fuse.rdma-block" /proc/self/mounts; }
# start_client ARG...: in the foreground, as a job of this shell; sets $client
start_client() {
	t_mounts="$t_mounts $M"
	rdma-fuse -f "$@" "$URI" "$M" 2>"$L" &
	client=$!
	t_pids="$t_pids $client"
	t_wait_for 10 test -e "$M/disk" || t_bail "$(cat "$L")"
}
# ends_with STATUS: the client ends within 10 seconds with STATUS, without a
# mount left
ends_with() {
	t_wait_for 10 t_has_ended "$client" || return 1
	wait "$client"
	[ $? = "$1" ] && t_not_mounted "$M"
}
lines() { # CNT PATTERN, in the client's log
	cat "$L"
	[ "$(grep -Ec "$2" "$L")" = "$1" ]
}

# ---- as a daemon

daemon_answers() {
	t_mount -P "$T/pid" "$URI" "$M" && mounted "$M" && [ -s "$M/disk" ] &&
		kill -0 "$(cat "$T/pid")"
}
t_check 'the command returns when the mount answers' daemon_answers
parent_of() { sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status"; }
one_daemon() { [ "$(parent_of "$(cat "$T/pid")")" -ne $$ ]; }
t_check 'a daemon serves it' one_daemon
daemon_ends() {
	pid=$(cat "$T/pid")
	kill "$pid" && t_wait_for 10 t_is_gone "$pid" && t_not_mounted "$M" &&
		[ ! -e "$T/pid" ]
}
t_check 'SIGTERM unmounts and removes the pid file' daemon_ends
mute_daemon() {
	t_mount "$URI" "$M" <&- >&- 2>&- && [ -s "$M/disk" ] &&
		fusermount3 -u "$M"
}
t_check 'standard files closed: it mounts all the same' mute_daemon
# It waits for the end of its unmounter.
deaf_daemon_ends() {
	t_mounts="$t_mounts $M"
	sh -c 'trap "" CHLD; exec rdma-fuse -P "$0" "$@"' "$T/pid" "$URI" "$M" &&
		daemon_ends
}
t_check 'SIGTERM ends it also if its parent ignored SIGCHLD' deaf_daemon_ends

# ---- the end

for signal in INT TERM HUP; do
	start_client
	kill -$signal "$client"
	t_check "SIG$signal in the foreground: exit status 0" ends_with 0
done

start_client
has_no_rights() {
	grep -E '^(Cap(Prm|Eff|Amb)|NoNewPrivs):' "/proc/$client/status"
	[ "$(grep -Ec '^Cap(Prm|Eff|Amb):.0+$' "/proc/$client/status")" = 3 ] &&
		grep -q '^NoNewPrivs:.1$' "/proc/$client/status"
}
t_check 'who talks to the target has no rights' has_no_rights
mounter() { pgrep -P "$client"; }
MOUNTER=$(mounter)
fusermount3 -u "$M"
t_check 'fusermount3 -u ends it with 0' ends_with 0
t_check 'and the process that mounts' t_wait_for 5 t_is_gone "${MOUNTER:-1}"

start_client
exec 5<"$M/disk"
kill "$client"
t_check 'a mount in use is detached' ends_with 0
t_check 'and the log says so' lines 1 'in use: detached'
exec 5<&-

writes_all_answered() {
	start_client
	touch -d 2001-01-01 "$M/scratch"
	(cd "$T" && exec fio --name=w --filename="$M/scratch" --rw=randwrite \
		--bs=64k --direct=1 --ioengine=libaio --iodepth=32 \
		--time_based --runtime=60 --size=32M >/dev/null 2>&1) &
	fio=$!
	t_wait_for 10 writes_go || return 1
	kill "$client"
	ends_with 0 || return 1
	# fio gets its answers, and errors for later requests.
	t_wait_for 10 t_has_ended "$fio" && ! wait "$fio"
}
writes_go() { [ "$(stat -c %y "$M/scratch" | cut -c1-4)" != 2001 ]; }
if command -v fio >/dev/null; then
	t_check 'a signal amid writes: all are answered' writes_all_answered
else
	t_skip 'a signal amid writes: all are answered' 'no fio here'
fi

# ---- limits of the target

start_client --channels 4
t_check 'it says when it has fewer channels than it was to have' \
	lines 1 'warning: .*only 3 of 4 channels'
fusermount3 -u "$M"
t_check 'with which it mounts all the same' ends_with 0

# ---- the mount point

file_mount() {
	: >"$T/file"
	t_mount "$URI/disk" "$T/file" || return 1
	[ "$(stat -c %s "$T/file")" = $((64 << 20)) ] &&
		dd if=/dev/urandom of="$T/file" bs=1000 count=10 conv=notrunc,fsync &&
		cmp -n 10000 "$T/file" "$T/disk.img" && fusermount3 -u "$T/file"
}
t_check 'a regular file becomes the volume' file_mount

one_volume() { # HOW
	t_mount "$URI/$1" "$M" && [ "$(ls "$M")" = scratch ] &&
		fusermount3 -u "$M"
}
t_check 'a volume named' one_volume scratch
t_check 'a volume by its LUN' one_volume 1

read_only() { # OPTION...
	t_mount "$@" "$URI" "$M" || return 1
	! touch "$M/disk" 2>"$T/.err"
	status=$?
	dd if="$M/disk" of=/dev/null bs=1M count=1
	[ "$(stat -c %a "$M/disk")" = 400 ] && [ $status = 0 ] &&
		grep -q 'Read-only' "$T/.err"
	status=$?
	fusermount3 -u "$M"
	return $status
}
t_check 'read-only by -r' read_only -r
t_check 'read-only by -o ro' read_only -o ro

options_show() {
	t_mount -o fsname=a,noatime,max_write=128k,umask=077 "$URI" "$M" || return 1
	grep "^a $M fuse.rdma-block .*noatime.*max_read=131072" /proc/self/mounts &&
		[ "$(stat -c %a "$M/disk")" = 600 ] &&
		dd if="$M/disk" of=/dev/null bs=4M count=1
	status=$?
	fusermount3 -u "$M"
	return $status
}
t_check 'mount options' options_show

# A longer read should be split into several, which overlap.
longest_read() {
	t_mount "$URI" "$M" || return 1
	grep "$M fuse.rdma-block .*max_read=524288" /proc/self/mounts
	status=$?
	fusermount3 -u "$M"
	return $status
}
t_check 'the longest read' longest_read

as_user() {
	mkdir "$T/user"
	chown nobody "$T/user"
	t_mounts="$t_mounts $T/user"
	setpriv --reuid=nobody --regid=nogroup --clear-groups sh -ec '
		"$2" "$0" "$1"
		test -O "$1/disk"
		dd if=/dev/urandom of="$1/disk" bs=4k count=64 conv=notrunc,fsync
		fusermount3 -u "$1"' "$URI" "$T/user" "$T/rdma-fuse"
}
# libfuse mounts with the fusermount3 of the system, rdma-fuse unmounts with that in $PATH.
cannot_unmount() {
	mkdir -p "$T/user" "$T/bin"
	chown nobody "$T/user"
	printf '#!/bin/sh\nexit 1\n' >"$T/bin/fusermount3"
	chmod 755 "$T/bin" "$T/bin/fusermount3"
	t_new_log "$L"
	PATH=$T/bin:$PATH setpriv --reuid=nobody --regid=nogroup --clear-groups \
		"$T/rdma-fuse" -f "$URI" "$T/user" 2>"$L" &
	client=$!
	t_pids="$t_pids $client"
	t_wait_for 10 grep -q 'volume disk' "$L" && kill "$client" &&
		t_wait_for 10 t_has_ended "$client" || return 1
	wait "$client"
	[ $? = 1 ] && umount "$T/user" && lines 1 'error: cannot unmount' &&
		lines 0 ': unmounted'
}
# A user may have no access to the build directory.
cp "$BUILD/fuse/rdma-fuse" "$T/rdma-fuse"
runs_as_user() {
	setpriv --reuid=nobody --regid=nogroup --clear-groups \
		"$T/rdma-fuse" --version
}
if [ "$(id -u)" != 0 ]; then
	t_skip 'a user mounts' 'all of this is a user mounting'
elif ! t_users_may_mount; then
	t_skip 'a user mounts' 'users may not open /dev/fuse'
elif ! runs_as_user >/dev/null 2>&1; then
	t_skip 'a user mounts' 'user nobody cannot run rdma-fuse from there'
else
	t_check 'a user mounts' as_user
	t_check 'a mount that cannot be unmounted ends with 1' cannot_unmount
fi

# ---- a read-only volume

read_only_volume() {
	t_mount "$URI/fixed" "$M" || return 1
	! dd if=/dev/zero of="$M/fixed" count=1 conv=notrunc 2>"$T/.err"
	status=$?
	fusermount3 -u "$M"
	cat "$T/.err"
	[ $status = 0 ] && grep -q 'Read-only' "$T/.err"
}
t_check 'opening a read-only volume for writing says so' read_only_volume

# ---- a volume with a bad block

start_client
bad_block() {
	! dd if="$M/bad" of=/dev/null bs=512 skip=8 count=1
}
t_check 'a block that cannot be read is an error' bad_block
t_check 'and the log says what the target answered' \
	lines 1 'volume bad: read of 512 bytes at 4096 failed: Input/output error; .* MEDIUM ERROR: .* at block 8$'
fusermount3 -u "$M"
t_check 'a mount of it ends with 0' ends_with 0

# ---- the target stops answering

start_client
dd if=/dev/urandom of="$M/disk" bs=64k count=4 conv=notrunc status=none
kill -STOP "$T_TARGET"
dd if="$M/disk" of=/dev/null bs=4k count=1 2>/dev/null &
reader=$!
# The read has begun when its file is open.
t_wait_for 10 sh -c "ls -l /proc/$reader/fd | grep -q $M/disk"
cut_short() {
	kill "$client"
	t_has_ended "$client"
}
t_wait_for 10 cut_short
t_check 'cut short, it ends with 1 as writes may be lost' ends_with 1
t_check 'and says which' lines 1 'last flush of volume disk failed'
kill -CONT "$T_TARGET"
wait $reader

# ---- two mounts at one place

attr() { # FILE NAME
	python3 -c 'import os, sys
print(os.getxattr(int(sys.argv[1]) if sys.argv[1].isdigit() else sys.argv[1],
	"user.rdma-block." + sys.argv[2]).decode())' "$1" "$2"
}
start_client
older=$client
exec 7<"$M/disk"
one=$(attr 7 initiator 7<&7)
fusermount3 -uz "$M"
start_client 7<&-
another_identity() {
	two=$(attr "$M/disk" initiator)
	echo "$one $two"
	[ -n "$one" ] && [ -n "$two" ] && [ "$one" != "$two" ]
}
t_check 'while a detached mount lives, a new one is another initiator' \
	another_identity
t_check 'and says so' lines 1 \
	"another session has the identifier: process $older \(rdma-fuse\)"
both_work() {
	dd bs=4k count=1 <&7 >/dev/null &&
		dd if="$M/disk" of=/dev/null bs=4k count=1 &&
		[ "$(attr 7 reconnects 7<&7)" = 0 ] &&
		[ "$(attr "$M/disk" reconnects)" = 0 ]
}
t_check 'neither ends the session of the other' both_work
exec 7<&-
t_check 'the detached one ends with its last file' \
	t_wait_for 10 t_has_ended "$older"
fusermount3 -u "$M"
t_check 'and so does the new one' ends_with 0
# Whatever names of sockets a mount has, another user takes them.
same_identity() {
	start_client
	names=$(sed -n 's/.* @\(.*initiator.*\)/\1/p' /proc/net/unix)
	fusermount3 -u "$M" && ends_with 0
	python3 -c 'import os, socket, sys, time
os.setuid(65534)
all = [socket.socket(socket.AF_UNIX) for name in sys.argv[1:]]
for s, name in zip(all, sys.argv[1:]):
	# Mounts of others may live meanwhile.
	try: s.bind("\0" + name)
	except OSError: pass
print("taken", flush=True); time.sleep(1000)' $names >"$T/squatter" &
	squatter=$!
	t_pids="$t_pids $squatter"
	t_wait_for 10 grep -q taken "$T/squatter"
	start_client
	again=$(attr "$M/disk" initiator)
	kill $squatter
	fusermount3 -u "$M" && ends_with 0 && [ "$again" = "$one" ]
}
if [ "$(id -u)" = 0 ]; then
	t_check 'another user cannot take the identifier' same_identity
else
	t_skip 'another user cannot take the identifier' 'not root'
fi
HEX=0123456789abcdef0123456789abcdef
t_mounts="$t_mounts $M"
rdma-fuse -f "$URI?initiator=$HEX" "$M" 2>"$L" 7<&- &
client=$!
t_pids="$t_pids $client"
t_wait_for 10 test -e "$M/disk" || t_bail "$(cat "$L")"
mkdir "$T/other"
t_mounts="$t_mounts $T/other"
t_refused 'an identifier that is named and in use is refused' \
	"initiator=$HEX is in use: process $client \(rdma-fuse\)" \
	rdma-fuse "$URI?initiator=$HEX" "$T/other"
NAMED=$(echo "$URI" | sed 's/127\.0\.0\.1/localhost/')
if [ "$NAMED" = "$URI" ]; then
	t_skip 'also when the address is written as a name' 'not on loopback'
else
	t_refused 'also when the address is written as a name' \
		"initiator=$HEX is in use: process $client \(rdma-fuse\)" \
		rdma-fuse "$NAMED?initiator=$HEX" "$T/other"
fi
SECOND=$(echo "$URI" | sed 's/127\.0\.0\.1/127.0.0.9,&/')
if [ "$SECOND" = "$URI" ]; then
	t_skip 'also when it is the second address' 'not on loopback'
else
	t_refused 'also when it is the second address' \
		"initiator=$HEX is in use: process $client .* at 127.0.0.1:" \
		rdma-fuse "$SECOND?initiator=$HEX" "$T/other"
fi
# umount(8) returns before the process has flushed and logged out.
dd if=/dev/zero of="$M/disk" bs=4k count=1 conv=notrunc status=none
kill -STOP "$T_TARGET"
fusermount3 -u "$M"
(sleep 1; kill -CONT "$T_TARGET") &
# Three times, because the machine may be busy. A mount that does not wait is
# refused three times.
mounts_again() {
	t_mount "$URI?initiator=$HEX" "$T/other" ||
		t_mount "$URI?initiator=$HEX" "$T/other" ||
		t_mount "$URI?initiator=$HEX" "$T/other"
}
t_check 'and free as soon as its process has gone' mounts_again
ends_with 0
fusermount3 -u "$T/other"

# ---- the target goes away

start_client --fast-io-fail-tmo 0.2
dd if=/dev/urandom of="$M/disk" bs=64k count=4 conv=notrunc status=none
kill -9 "$T_TARGET"
fails_with_eio() {
	! dd if="$M/disk" of=/dev/null bs=4k count=1 2>"$T/.err" &&
		grep -q 'Input/output error' "$T/.err" &&
		! dd if=/dev/zero of="$M/disk" bs=4k count=1 conv=notrunc &&
		[ "$(stat -c %s "$M/disk")" = $((64 << 20)) ]
}
t_wait_for 10 grep -q 'error: no connection to .* fail with an I/O error' "$L"
t_check 'without its target, I/O fails with EIO' fails_with_eio
t_check 'the loss is logged once' lines 1 'warning: lost the connection'
kill "$client"
t_check 'it ends, with 1 as writes may be lost' ends_with 1
t_check 'and says that they may' lines 1 'last flush of volume disk failed'
t_done
