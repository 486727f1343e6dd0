#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The store rbd on a real cluster: the written data, extents, sizes, snapshots,
# and what happens when daemons of the cluster die.
. "$(dirname "$0")/rbd_lib.sh"
command -v fio >/dev/null || t_skip_all 'no fio here'
r_needs_ceph

M=$T/mnt
mkdir "$M"

keeps() { # SPEC
	rdma-target --check-plugin "$1" >"$T/checked"
	status=$?
	cat "$T/checked"
	[ $status = 0 ] && grep -q '^opens .*ok' "$T/checked"
}

# verify FILE MIB FIO-ARG...
verify() {
	file=$1
	size=$2
	shift 2
	(cd "$T" && fio --name=verify --filename="$file" --direct=1 \
		--size="${size}M" --verify=crc32c --do_verify=1 \
		--verify_fatal=1 --rw=randwrite --bs=4k --ioengine=libaio \
		--iodepth=32 --output-format=terse "$@")
}

mount_all() {
	t_mount "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
}
umount_all() { fusermount3 -u "$M"; }
end_target() {
	kill "$T_TARGET"
	wait "$T_TARGET"
}

# The bytes of the image that the cluster stores.
used_bytes() {
	rbd diff "$1" | awk '{ sum += $2 } END { print sum + 0 }'
}

serial_of() {
	rdma-info "$URI" | awk -v name="$1" '$2 == name { print $NF }'
}

punch_frees() {
	before=$(used_bytes img)
	fallocate -p -o 8M -l 8M "$M/img" || return
	after=$(used_bytes img)
	echo "$before bytes before, $after after"
	[ $((before - after)) -ge 8388608 ]
}

# 64 KiB at 40 MiB, in an image that is empty there.
finds_extents() {
	dd if=/dev/urandom of="$M/img" bs=64k seek=640 count=1 \
		conv=notrunc,fsync 2>/dev/null || return
	python3 - "$M/img" <<'END'
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
at = 32 << 20
data = os.lseek(fd, at, os.SEEK_DATA)
hole = os.lseek(fd, data, os.SEEK_HOLE)
print(data, hole)
assert data == 40 << 20, data
assert data + (64 << 10) <= hole <= data + (4 << 20), hole
END
}

has_size() { [ "$(stat -c %s "$M/$1")" = "$2" ]; }

grows() {
	rbd resize --no-progress -s 96M img &&
		t_wait_for 5 has_size img $((96 << 20)) &&
		verify "$M/img" 4 --offset=80M
}

snapshot_is_fixed() {
	cmp -n 1048576 "$T/before" "$M/old" || return
	! dd if=/dev/zero of="$M/old" bs=4k count=1 conv=notrunc,fsync \
		2>/dev/null
}

# ---- errors in a SPEC ----

rbd create -s 64M img
rbd create -s 64M checked
rbd create -s 64M spare
rbd namespace create rbd/ns
rbd create -s 16M rbd/ns/inside
ceph auth get-or-create client.weak mon 'allow r' \
	osd 'allow r pool=other' -o "$T/weak" >/dev/null
printf '[client.admin]\n\tkey = %s\n' "$(ceph-authtool -p -n client.weak \
	"$T/weak")" >"$T/wrong"
sed 's/^mon host.*/mon host = 127.0.0.1:1/' "$C/ceph.conf" >"$T/nobody.conf"

refused 'an image that is not there' 'rbd:rbd/nosuch: there is no such image' \
	rbd:rbd/nosuch
refused 'a snapshot that is not there' 'there is no such image or snapshot' \
	rbd:rbd/img@nosuch
refused 'a pool that is not there' "the cluster has no pool 'nosuch'" \
	rbd:nosuch/img
refused 'no pool' 'is not POOL/IMAGE' rbd:img
refused 'no configuration' 'cannot read the configuration .*: No such file' \
	"rbd:rbd/img,conf=$T/nosuch"
refused 'no keyring' 'cannot read the keyring .*: No such file' \
	"rbd:rbd/img,keyring=$T/nosuch"
refused 'a wrong key' 'the cluster refuses client.admin: its key' \
	"rbd:rbd/img,keyring=$T/wrong"
refused 'a user without rights' 'client.weak may not open it' \
	"rbd:rbd/img,id=weak,keyring=$T/weak"
refused 'no cluster' 'no monitor of the cluster answers' \
	"rbd:rbd/img,conf=$T/nobody.conf,timeout=1"
refused 'zero copy with a time-out' 'zero-copy=on needs timeout=0' \
	"rbd:rbd/img,zero-copy=on"

# ---- the contract, a mount ----

t_check 'an image keeps the contract' keeps rbd:rbd/checked
t_check 'so it does without copies' keeps rbd:rbd/checked,zero-copy=on,timeout=0
t_check 'so does an image of a namespace' keeps rbd:rbd/ns/inside

t_target --backing rbd:rbd/img --backing rbd:rbd/ns/inside
serial=$(serial_of img)
mount_all
t_check 'fio verifies' verify "$M/img" 16
t_check 'extents are seen' finds_extents
t_check 'what is punched out is freed' punch_frees
t_check 'a resize reaches the mount' grows
t_check 'fio verifies in a namespace' verify "$M/inside" 4
head -c 1048576 "$M/img" >"$T/before"
rbd snap create --no-progress img@old 2>"$T/snap"
dd if=/dev/urandom of="$M/img" bs=1M count=1 conv=notrunc,fsync 2>/dev/null
t_check 'unmounts' umount_all
end_target
t_check 'ends with 0' [ $? = 0 ]

t_target --backing rbd:rbd/img,name=img --backing rbd:rbd/img@old,name=old
mount_all
t_check 'the image is the same disk after a restart' \
	[ -n "$serial" -a "$(serial_of img)" = "$serial" ]
t_check 'a snapshot is another disk' [ "$(serial_of old)" != "$serial" ]
t_check 'a snapshot stays as it was, and is read-only' snapshot_is_fixed
umount_all
end_target

# ---- daemons that die ----

# fio writes while CMD runs, and verifies all that it wrote.
verify_during() { # CMD...
	verify "$M/img" 16 --rate_iops=4000 --time_based=0 --loops=3 \
		>"$T/fio.log" 2>&1 &
	fio=$!
	t_pids="$t_pids $fio"
	t_wait_for 10 wrote_some && "$@" && wait $fio && return
	cat "$T/fio.log"
	return 1
}
wrote_some() { [ "$(used_bytes img)" -gt 4194304 ]; }

osd_dies() {
	kill -9 "$(cat "$C/osd.pid")"
	sleep 1
	"$src/scripts/ceph" start "$C" osd
}
mon_dies() {
	kill -9 "$(cat "$C/mon.pid")"
	sleep 1
	"$src/scripts/ceph" start "$C" mon
}

# No daemon answers: the write fails and does not hang, and the volume works
# again when the OSD does. Initiators do not repeat the write: the target logs
# this once.
write_fails() {
	! timeout 60 dd if=/dev/zero of="$M/img" bs=4k count=1 conv=notrunc \
		oflag=direct 2>"$T/dd" && grep -q 'Input/output error' "$T/dd" &&
		[ "$(grep -c 'has not answered for 2 s' "$T/target.log")" = 1 ]
}
dead_osd_is_an_error() {
	kill -9 "$(cat "$C/osd.pid")"
	write_fails && "$src/scripts/ceph" start "$C" osd &&
		t_wait_for 10 verify "$M/img" 1
}

# The map of OSDs changes between the kill of the OSD and its return. A client that
# has asked for the next map then has one without the return, and must ask again. A
# client with a watch asks every second: this one has opened a snapshot, without.
up_from() { ceph osd dump | sed -n 's/^osd.0 .*up_from \([0-9]*\).*/\1/p'; }
is_up_anew() { [ "$(up_from)" -gt "$before" ]; }
read_survives() {
	before=$(up_from)
	pid=$(cat "$C/osd.pid")
	kill -9 "$pid" && t_wait_for 10 t_is_gone "$pid"
	dd if="$M/old" of=/dev/null bs=4k count=1 iflag=direct 2>"$T/dd" &
	dd=$!
	for n in 1 2; do
		sleep 0.2
		ceph osd blocklist add "127.0.0.1:0/$n" 2>/dev/null
	done
	began=$(date +%s)
	"$src/scripts/ceph" start "$C" osd
	t_wait_for 30 is_up_anew
	took=$(($(date +%s) - began))
	wait $dd
}
reads_old() { dd if="$M/old" of=/dev/null bs=4k count=1 iflag=direct; }
# The read fails 9 s after it was sent. That says nothing if the OSD took most of them.
finds_the_osd() {
	for try in 1 2 3 4 5; do
		read_survives && return
		echo "the OSD took $took s: $(cat "$T/dd")"
		[ $took -ge 5 ] || return
		t_wait_for 10 reads_old
	done
}

"$src/scripts/ceph" down "$C"
"$src/scripts/ceph" up "$C" --store bluestore 2>"$T/up" || t_bail "$(cat "$T/up")"
rbd create -s 64M img
t_target --backing rbd:rbd/img
mount_all
t_check 'an OSD is killed under load, and nothing is lost' \
	verify_during osd_dies
t_check 'a monitor is killed under load' verify_during mon_dies
t_check 'the sandbox lets librbd connect again' \
	kill -0 "$T_TARGET"
umount_all
end_target
rbd snap create --no-progress img@old 2>"$T/snap"
t_target --backing rbd:rbd/img@old,name=old,timeout=9
mount_all
t_check 'an OSD that is back is found, whatever else the map tells' finds_the_osd
umount_all
end_target
t_target --backing rbd:rbd/img,timeout=2
mount_all
t_check 'an OSD that stays away is an error' dead_osd_is_an_error
umount_all
blocklist() { ceph osd blocklist ls 2>/dev/null; }
before=$(blocklist | wc -l)
end_target
# The OSD may get the write later, for example if it was cut off, and must refuse it.
t_check 'the end of the target shuts out its write that got no answer' \
	[ "$(blocklist | wc -l)" = $((before + 1)) ]
t_target --backing rbd:rbd/img
mount_all
t_check 'the next target writes' verify "$M/img" 1
umount_all
before=$(blocklist | wc -l)
end_target
t_check 'a target without such writes shuts nobody out' \
	[ "$(blocklist | wc -l)" = "$before" ]
t_done
