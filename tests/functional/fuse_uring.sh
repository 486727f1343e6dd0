#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# FUSE over io_uring: a mount uses it if the kernel offers it. However a mount
# ends, with requests in flight, nothing hangs and nothing is left behind.
T_URING=1
. "$(dirname "$0")/lib.sh"
t_needs_fuse
command -v fio >/dev/null || t_skip_all 'no fio here'

M=$T/mnt
L=$T/client.log
mkdir "$M"
t_target --backing ram:64M,name=disk

mount_and_wait() {
	t_mounts="$t_mounts $M"
	rdma-fuse -vf "$URI" "$M" 2>"$L" &
	client=$!
	t_pids="$t_pids $client"
	t_wait_for 10 test -e "$M/disk" || t_bail "$(cat "$L")"
}
start_client() { t_offering Y mount_and_wait; }
ended() { # PID STATUS
	t_wait_for 15 t_has_ended "$1" || return 1
	wait "$1"
	t_status=$?
	echo "exit status $t_status"
	[ $t_status = "$2" ]
}
attr() {
	python3 -c 'import os, sys
print(os.getxattr(sys.argv[1], "user.rdma-block." + sys.argv[2]).decode())' \
		"$M/disk" "$1"
}
# load: writes and reads endlessly, on both processors; sets $fio
load() {
	touch -d 2001-01-01 "$M/disk"
	(cd "$T" && exec fio --name=w --filename="$M/disk" --rw=randrw \
		--bsrange=4k-256k --direct=1 --ioengine=libaio --iodepth=64 \
		--numjobs=2 --thread --time_based --runtime=60 --size=64M \
		>"$T/fio.log" 2>&1) &
	fio=$!
	t_pids="$t_pids $fio"
	t_wait_for 10 load_runs
}
load_runs() { [ "$(stat -c %y "$M/disk" | cut -c1-4)" != 2001 ]; }
load_failed() {
	t_wait_for 15 t_has_ended "$fio" && ! wait "$fio"
}
connection() { # the directory of the mount in the kernel's control file system
	mountpoint -q /sys/fs/fuse/connections ||
		mount -t fusectl none /sys/fs/fuse/connections
	echo "/sys/fs/fuse/connections/$(sed -n \
		"s|^[0-9]* [0-9]* [0-9]*:\([0-9]*\) / $M .*|\1|p" \
		/proc/self/mountinfo)"
}
# Those whose answers the client has already do not count: it would be awake.
request_waits() {
	[ "$(cat "$1/waiting")" -gt 0 ] &&
		! grep -q '^State:.[^S]' "/proc/$client/task"/*/status &&
		[ "$(cat "$1/waiting")" -gt 0 ]
}

# ---- the interface in use

is_used() { cat "$L" && [ "$(attr requests)" = io_uring ] && grep -q "over io_uring: " "$L"; }
# Only INIT and FORGET requests come through read().
start_client
t_check 'it is used, and says so' is_used
verified() {
	(cd "$T" && fio --name=v --filename="$M/disk" --rw=randwrite \
		--bssplit=4k/60:128k/30:1m/10 --direct=1 --ioengine=libaio \
		--iodepth=100 --size=32M --verify=crc32c --numjobs=2 \
		--offset_increment=32M)
}
t_check 'what was written is read, with more requests than entries' verified
fusermount3 -u "$M"
t_check 'fusermount3 -u ends it with 0' ended "$client" 0

not_offered() {
	t_offering N mount_and_wait
	[ "$(attr requests)" = read ] && cat "$M/disk" >/dev/null &&
		fusermount3 -u "$M" && ended "$client" 0
}
t_check 'where it is not offered, requests are read' not_offered

# ---- ends under load

signalled() {
	start_client && load || return 1
	kill "$client"
	ended "$client" 0 && load_failed && t_not_mounted "$M"
}
t_check 'a signal: all that is under way is answered' signalled

detached() {
	start_client && load || return 1
	fusermount3 -uz "$M" && t_not_mounted "$M" || return 1
	kill "$fio"
	t_wait_for 15 t_has_ended "$fio"
	ended "$client" 0
}
t_check 'detached: it ends when the last file is closed' detached

aborted() {
	start_client && load || return 1
	echo 1 >"$(connection)/abort" || return 1
	t_wait_for 15 t_has_ended "$client" && load_failed || return 1
	umount -l "$M"
	t_not_mounted "$M"
}
t_check 'aborted by the kernel: all ends' aborted

killed() {
	start_client && load || return 1
	kill -9 "$client"
	ended "$client" 137 && load_failed || return 1
	! stat "$M/disk" 2>"$T/.err" && grep 'not connected' "$T/.err" &&
		fusermount3 -u "$M" && t_not_mounted "$M"
}
t_check 'killed: programs get errors, and it can be unmounted' killed

stopped() { # requests that the target has get no answer for a while
	start_client && load || return 1
	kill -STOP "$T_TARGET"
	t_wait_for 10 request_waits "$(connection)" || return 1
	kill "$client"
	t_wait_for 10 t_not_mounted "$M"
	t_more=$?
	kill "$client"
	ended "$client" 1
	t_status=$?
	kill -CONT "$T_TARGET"
	[ $t_more$t_status = 00 ] && load_failed
}
t_check 'cut short by a second signal' stopped

again() {
	start_client && is_used && verified &&
		fusermount3 -u "$M" && ended "$client" 0
}
t_check 'and all goes on as before' again
t_done
