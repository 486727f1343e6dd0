#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Layers that come with rdma-target: qos, and log, whose file fio replays.
. "$(dirname "$0")/lib.sh"

RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/log:$BUILD/plugins/qos
export RDMA_BLOCK_PLUGIN_PATH

t_refused 'a log without a file' 'needs file=PATH' \
	rdma-target --backing ram:1M,layer=log
t_refused 'a log that cannot be written' 'file=/nosuch/log: No such file' \
	rdma-target --backing ram:1M,layer=log,file=/nosuch/log
t_refused 'no limit' 'needs a limit: iops= or bps=' \
	rdma-target --backing ram:1M,layer=qos
keeps() { rdma-target --check-plugin "$1"; }
t_check 'log keeps the contract' keeps "ram:16M,layer=log,file=$T/checked.log"
t_check 'both on each other' keeps \
	"ram:16M,layer=log,file=$T/both.log,layer=qos,bps=256M"

[ -z "${SANITIZED-}" ] || t_done
t_needs_fuse
for program in fio jq; do
	command -v $program >/dev/null || t_skip_all "no $program here"
done
mkdir "$T/mnt"
t_target --threads 2 --backing "ram:32M,name=d,layer=log,file=$T/io.log" \
	--backing "ram:32M,name=slow,layer=qos,iops=200,burst=10"
t_mount "$URI" "$T/mnt" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
load() {
	fio --name=l --filename="$T/mnt/d" --direct=1 --size=8M --rw=randrw \
		--bs=4k --ioengine=libaio --iodepth=8 --fsync=64 \
		--output-format=terse
}
t_check 'fio runs on the volume with a log' load
# 100 reads at 200 per second, however slow the machine is.
is_limited() {
	begin=$(date +%s%N)
	fio --name=l --filename="$T/mnt/slow" --direct=1 --size=400k \
		--rw=randread --bs=4k --ioengine=libaio --iodepth=8 \
		--output-format=terse &&
		[ $(($(date +%s%N) - begin)) -ge 480000000 ]
}
t_check 'qos lets no more pass than its limit' is_limited
fusermount3 -u "$T/mnt"
kill "$T_TARGET"
wait "$T_TARGET"

begins_right() { head -1 "$T/io.log" | grep -qx 'fio version 2 iolog'; }
t_check 'the log is one of fio' begins_right
lines() { grep -Ec "^disk $1 [0-9]+ [0-9]+$" "$T/io.log"; }
# 2048 requests of 4 KiB; the kernel may have read a few more.
has_all() { [ $(($(lines 'read') + $(lines 'write'))) -ge 2048 ] &&
	[ "$(lines sync)" -ge 1 ]; }
t_check 'every request is in it' has_all
truncate -s 32M "$T/replayed"
replays() {
	(cd "$T" && fio --name=r --read_iolog="$T/io.log" \
		--replay_redirect="$T/replayed" --replay_no_stall=1 \
		--ioengine=psync --output-format=json --output="$T/r.json") &&
		jq -e --argjson reads "$(lines read)" --argjson writes \
			"$(lines write)" '.jobs[0] | .read.total_ios == $reads
			and .write.total_ios == $writes' "$T/r.json"
}
t_check 'fio replays it' replays
t_done
