#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The store srp: a target serves a volume of another target, which is killed
# under load and starts again.
. "$(dirname "$0")/lib.sh"

RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/srp
LD_LIBRARY_PATH=$BUILD/initiator
export RDMA_BLOCK_PLUGIN_PATH LD_LIBRARY_PATH

truncate -s 64M "$T/disk" "$T/checked" "$T/ro" "$T/through"
t_target --backing "$T/disk,name=disk" --backing "$T/checked,name=checked" \
	--backing "$T/ro,name=ro,ro" \
	--backing "$T/through,name=through,write-through"
BELOW=$T_TARGET
BELOW_URI=$URI
keeps() { rdma-target --check-plugin "srp:$1"; }
t_check 'a volume keeps the contract' keeps "$BELOW_URI/checked"
t_check 'a read-only one, too' keeps "$BELOW_URI/ro"
t_target --backing "srp:$BELOW_URI/through,name=again"
reports() { # URI VOLUME FLAGS
	rdma-info "$1" | awk -v name="$2" -v what="$3" '
		$2 == name { found = $0 ~ what } END { exit !found }'
}
t_check 'the volume below has no cache' reports "$BELOW_URI" through ' rw,fua'
t_check 'it may get one later: writes have to be flushed' \
	reports "$URI" again ' rw,write-cache'
kill "$T_TARGET"
wait "$T_TARGET"
t_refused 'a volume that is not there' "nosuch" \
	rdma-target --backing "srp:$BELOW_URI/nosuch"
t_refused 'which of several?' 'several volumes' \
	rdma-target --backing "srp:$BELOW_URI"
t_refused 'a target that is not there' 'refused' \
	rdma-target --backing srp:srp+tcp://127.0.0.1:1/x

[ -z "${SANITIZED-}" ] || t_done
t_needs_fuse
command -v fio >/dev/null || t_skip_all 'no fio here'
mkdir "$T/mnt"
kill "$BELOW"
wait "$BELOW"
# It forgets what it owes: the flush that is lost is one of the target above.
t_target --state-dir none --backing "$T/disk,name=disk"
BELOW=$T_TARGET
BELOW_URI=$URI
t_target --threads 2 --backing "srp:$BELOW_URI/disk,name=again"
t_mount "$URI" "$T/mnt" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
verify() {
	(cd "$T" && fio --name=v --filename="$T/mnt/again" --direct=1 --size=32M \
		--rw=randwrite --bsrange=4k-1m --ioengine=libaio --iodepth=16 \
		--verify=crc32c --do_verify=1 --verify_fatal=1 \
		--output-format=terse "$@")
}
t_check 'fio verifies' verify
is_up() { grep -q 'rdma-fuse srp' "$T/below.log"; }
restart() { # [,KEY=VALUE]...
	kill -9 "$BELOW"
	wait "$BELOW" 2>/dev/null
	: >"$T/below.log"
	rdma-target --listen "$BELOW_URI" --state-dir none \
		--backing "$T/disk,name=disk${1-}" >"$T/below.log" 2>&1 &
	BELOW=$!
	t_pids="$t_pids $BELOW"
	t_wait_for 20 is_up
}
survives() {
	verify --time_based --runtime=5 >"$T/fio.log" 2>&1 &
	fio=$!
	for n in 1 2 3; do
		sleep 1
		restart || return 1
	done
	wait $fio
	status=$?
	tail -3 "$T/fio.log"
	[ $status = 0 ] && grep -q 'the session is running' "$T/target.log"
}
t_check 'fio verifies while the target below is killed' survives
same() { cmp "$T/disk" "$T/mnt/again"; }
t_check 'the data is that of the volume below' same
fusermount3 -u "$T/mnt"
kill "$T_TARGET"
wait "$T_TARGET"
t_check 'ends with 0' [ $? = 0 ]

# An outage that is longer than wait=: data that could not be flushed is flushed
# later.
t_target --backing "srp:$BELOW_URI/disk,name=again,wait=1"
t_mount "$URI" "$T/mnt" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
writes() { dd if="$T/checked" of="$T/mnt/again" bs=64k count=1 conv=notrunc; }
flushes() { sync "$T/mnt/again"; }
fails() { ! "$@"; }
t_check 'a write is done' writes
kill -9 "$BELOW"
wait "$BELOW" 2>/dev/null
t_check 'a flush fails while the target below is away' fails flushes
t_check 'which was asked for' t_wait_for 5 grep -q 'SYNCHRONIZE CACHE' "$T/target.log"
t_check 'the target below comes back' restart
t_check 'and a flush is done again' t_wait_for 10 flushes
fusermount3 -u "$T/mnt"
kill "$T_TARGET"
wait "$T_TARGET"
t_check 'ends with 0' [ $? = 0 ]

# The target below loses a write. The first flush after the loss gets no answer.
# The target above tells its own initiator, and must also tell the others.
mkdir "$T/other"
t_target --backing "srp:$BELOW_URI/disk,name=again,wait=1"
t_mount "$URI" "$T/mnt" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
t_mount "$URI" "$T/other" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
writes_other() {
	dd if="$T/checked" of="$T/other/again" bs=64k seek=1 count=1 conv=notrunc
}
flushes_other() { sync "$T/other/again"; }
is_lost() { grep -q 'may have lost writes' "$T/target.log"; }
cp "$T/disk" "$T/earlier"
t_check 'both initiators write' writes
t_check 'the other one, too' writes_other
mv "$T/earlier" "$T/disk"
t_check 'the target below loses that' restart ,fault=flush:stuck
t_check 'which is noticed' t_wait_for 10 is_lost
flushes &
sync=$!
is_stuck() { grep -q 'is stuck' "$T/below.log"; }
t_check 'a flush has no answer' t_wait_for 10 is_stuck
kill -9 "$BELOW"
wait $sync
t_check 'it fails' [ $? != 0 ]
t_check 'the target below comes back once more' restart
t_check 'the flush of the other initiator fails, too' fails flushes_other
for dir in mnt other; do fusermount3 -u "$T/$dir"; done
for pid in $T_TARGET $BELOW; do kill "$pid" && wait "$pid"; done

# The target is killed while a write of it is stuck in the target below, and
# starts again. The client repeats the write, then makes a newer one, which must
# not be overwritten by the first one.
truncate -s 16M "$T/slow"
t_target --backing "$T/slow,name=disk,fault=write:stuck:lba=0-7:count=1"
BELOW=$T_TARGET
BELOW_URI=$URI
mv "$T/target.log" "$T/below.log"
t_target --backing "srp:$BELOW_URI/disk,name=again"
t_mount "$URI" "$T/mnt" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
put() { # BYTE
	head -c 4096 /dev/zero | tr '\000' "$1" |
		timeout 120 dd of="$T/mnt/again" bs=4k count=1 conv=notrunc \
			oflag=direct iflag=fullblock
}
disk_holds() { # BYTE
	head -c 4096 "$T/slow" | tr -d "$1" >"$T/.rest" && [ ! -s "$T/.rest" ]
}
lets_go() {
	kill -USR1 "$BELOW" && t_wait_for 10 disk_holds 1
}
put 1 2>"$T/put.log" &
old=$!
t_check 'a write is stuck in the target below' t_wait_for 10 is_stuck
t_target_stop KILL
t_target_again --backing "srp:$BELOW_URI/disk,name=again"
t_check 'the disk goes on' lets_go
t_check 'the write is repeated' wait $old
t_check 'a newer one is made' put 2
t_check 'which stays' disk_holds 2
t_done
