#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# rdma-fuse --metrics-file and -o metrics_file: what the file says, when it cannot be written, and a file on
# the mount itself.
. "$(dirname "$0")/lib.sh"
t_needs_fuse
here=$(dirname "$0")
M=$T/mnt
L=$T/client.log
mkdir "$M" "$T/prom"
PROM=$T/prom/mount.prom

# value NAME LABELS WANTED: waits for the file that is written after the last change
value() {
	grep -Fqx "rdma_fuse_$1{mount=\"$M\"$2} $3" "$PROM"
}
becomes() { t_wait_for 20 value "$@" || { cat "$PROM" && false; }; }
is_good() { python3 "$here/exposition.py" <"$PROM"; }
T_LIMIT=
start_client() { # OPTION...
	t_mounts="$t_mounts $M"
	(cd "$T/prom" && exec $T_LIMIT rdma-fuse -f "$@" "$URI" "$M") 2>"$L" &
	client=$!
	t_pids="$t_pids $client"
	t_wait_for 10 test -e "$M/a" || t_bail "$(cat "$L")"
}
says() { t_wait_for 20 grep -qe "$1" "$L"; }
ends() { timeout 300 fusermount3 -u "$M" && t_ends "$client" || { cat "$L" && false; }; }

t_target --backing ram:8M,name=a --backing ram:512k,name=bad,fault=read:error

start_client -o metrics_file=mount.prom
t_check 'the file is there when the mount is' t_wait_for 5 test -s "$PROM"
dd if=/dev/zero of="$M/a" bs=64k count=3 conv=notrunc oflag=direct status=none
dd if="$M/a" of=/dev/null bs=4k count=7 iflag=direct status=none
sync -d "$M/a"
! dd if="$M/bad" of=/dev/null bs=4k count=1 iflag=direct status=none 2>/dev/null
t_check 'it counts reads' becomes volume_requests_total ',volume="a",op="read"' 7
t_check 'it is an exposition' is_good
t_check 'nothing lies beside it' sh -c "[ \"\$(ls '$T/prom')\" = mount.prom ]"
t_check 'bytes read' value volume_data_bytes_total ',volume="a",op="read"' 28672
t_check 'bytes written' value volume_data_bytes_total ',volume="a",op="write"' 196608
t_check 'flushes' value volume_requests_total ',volume="a",op="flush"' 1
t_check 'times of all reads' value volume_request_seconds_count ',volume="a",op="read"' 7
t_check 'what failed' value volume_errors_total ',volume="bad",op="read"' 1
t_check 'the size' value volume_size_bytes ',volume="bad"' 524288
t_check 'that it is connected' value connected '' 1

kill -9 "$T_TARGET"
t_check 'that it is not' becomes connected '' 0

mv "$T/prom" "$T/away"
t_check 'a file that cannot be written is in the log' says \
	"error: --metrics-file: $PROM: cannot write it: No such file"
mv "$T/away" "$T/prom"
t_check 'and that it is written again' says "--metrics-file: $PROM is written again"
t_check 'the mount ends' ends

# The daemon would wait for itself, if it wrote the file on its only thread.
t_target --backing ram:8M,name=a
start_client --metrics-file "$M/a/x"
t_check 'a file on the mount keeps nobody waiting' dd if="$M/a" of=/dev/null bs=4k \
	count=1 iflag=direct
t_check 'nor from the end' ends

# The limit is for the file of the log, too.
T_LIMIT='prlimit --fsize=1000'
start_client --metrics-file "$PROM"
t_check 'a file that would be larger than it may be is in the log' says \
	"error: --metrics-file: $PROM: cannot write it: File too large"
t_check 'and the mount goes on' dd if="$M/a" of=/dev/null bs=4k count=1 iflag=direct
t_check 'until it ends' ends
t_done
