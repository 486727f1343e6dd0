#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# A target, or one volume of several, that does not answer. Requests that need
# no target are answered all the same, and the other volumes continue to work.
. "$(dirname "$0")/lib.sh"
t_needs_fuse
command -v python3 >/dev/null || t_skip_all 'no python3 here'
[ -w "$T_ENABLE" ] || [ "$(cat "$T_ENABLE" 2>/dev/null)" != Y ] ||
	t_skip_all 'over io_uring requests that wait keep their places'

M=$T/mnt
L=$T/client.log
mkdir "$M"
t_target --backing ram:64M,name=disk --backing ram:64M,name=other \
	--backing ram:64M,name=stuck,fault=write:stuck

# Without a time limit for answers: a request that hangs stays. Over io_uring, requests
# that wait would keep their places.
start_client() { t_offering N mount_and_wait "$@"; }
mount_and_wait() {
	t_mounts="$t_mounts $M"
	rdma-fuse -f --io-timeout off "$@" "$M" 2>"$L" &
	client=$!
	t_pids="$t_pids $client"
	t_wait_for 10 mounted || t_bail "$(cat "$L")"
}
mounted() { grep -q " $M fuse.rdma-block" /proc/self/mounts && [ -d "$M" ]; }
cat >"$T/writers.py" <<'END'
import os, sys, threading
# FILE CNT LEN: starts CNT threads; each writes once, to a place of its own
path, cnt, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
fd = os.open(path, os.O_RDWR)
failed = []
begun = threading.Semaphore(0)

def write(n):
    begun.release()
    try:
        if os.pwrite(fd, bytes([1 + n % 255]) * size, n * size) != size:
            failed.append(n)
    except OSError as e:
        failed.append(n)

threads = [threading.Thread(target=write, args=(n,)) for n in range(cnt)]
for t in threads:
    t.start()
for t in threads:
    begun.acquire()
print("begun", flush=True)
for t in threads:
    t.join()
for n in range(cnt):
    if not failed and os.pread(fd, size, n * size) != bytes([1 + n % 255]) * size:
        failed.append(n)
sys.exit(1 if failed else 0)
END
attr() { # FILE NAME
	python3 -c 'import os, sys
print(os.getxattr(sys.argv[1], "user.rdma-block." + sys.argv[2]).decode())' \
		"$1" "$2"
}
writers() { # FILE CNT LEN: in the background; sets $writers
	: >"$T/begun"
	python3 "$T/writers.py" "$@" >"$T/begun" &
	writers=$!
	t_pids="$t_pids $writers"
	t_wait_for 30 grep -q begun "$T/begun"
}
# all threads wait for the kernel
asleep() {
	[ "$(grep -h '^State:' /proc/"$writers"/task/*/status |
		grep -c '[DS] (')" -ge "$1" ]
}

# ---- the target hangs

start_client "$URI"
stat "$M/disk" >/dev/null
kill -STOP "$T_TARGET"
writers "$M/disk" 300 4096
t_wait_for 30 asleep 300
t_check 'stat(1) with 300 writes waiting' timeout 30 stat "$M/disk"
t_check 'of another volume' timeout 30 stat "$M/other"
state() { [ "$(timeout 30 python3 -c 'import os, sys
print(os.getxattr(sys.argv[1], "user.rdma-block.state").decode())' "$M/disk")" \
	= running ]; }
t_check 'the state' state
t_check 'the directory' timeout 30 ls -l "$M"
t_check 'df(1)' timeout 30 df "$M"
t_check 'open(2)' timeout 30 sh -c ": <'$M/other'"
kill -CONT "$T_TARGET"
t_check 'and all is written when it answers again' wait $writers
writers "$M/disk" 100 524288
t_check 'long writes, more than there are slots' wait $writers

# ---- one volume hangs

writers "$M/stuck" 300 4096
t_wait_for 30 asleep 300
t_check 'another volume works beside one that is stuck' timeout 60 sh -c \
	"python3 '$T/writers.py' '$M/other' 200 8192"
t_check 'and can be read' timeout 30 cmp -n 8192 "$M/other" "$M/other"
t_check 'the stuck one can be looked at' timeout 30 stat "$M/stuck"
kill -USR1 "$T_TARGET"
end_of_stuck() {
	kill -USR1 "$T_TARGET"
	t_has_ended "$writers"
}
t_check 'and goes on when it is let go' t_wait_for 60 end_of_stuck
fusermount3 -u "$M"
t_check 'it ends' t_wait_for 30 t_has_ended "$client"

# ---- the mount ends while the target hangs

start_client "$URI/disk"
kill -STOP "$T_TARGET"
writers "$M/disk" 300 4096
t_wait_for 30 asleep 300
timeout 30 stat "$M/disk" >/dev/null
cut_short() {
	kill "$client"
	t_has_ended "$client"
}
t_check 'a mount with 300 writes waiting can be ended' t_wait_for 30 cut_short
t_check 'the writes have failed' t_wait_for 30 t_has_ended "$writers"
kill -CONT "$T_TARGET"
t_done
