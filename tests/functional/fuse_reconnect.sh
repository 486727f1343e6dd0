#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The mount outlives its target, which is killed, stopped, away for long, or
# replaced by another one. ROUNDS (default 6): how often the target is killed
# under load.
. "$(dirname "$0")/lib.sh"
t_needs_fuse
command -v fio >/dev/null || t_skip_all 'no fio here'
command -v python3 >/dev/null || t_skip_all 'no python3 here'

M=$T/mnt
L=$T/client.log
mkdir "$M"
truncate -s 256M "$T/disk.img"
truncate -s 256M "$T/other.img"
t_target --backing "$T/disk.img,name=disk"

mount_with() { # OPTION...
	: >"$L"
	t_mounts="$t_mounts $M"
	rdma-fuse -f "$@" "$URI${VOLUME:-}" "$M" 2>>"$L" &
	client=$!
	t_pids="$t_pids $client"
	t_wait_for 10 test -e "$M/disk" || t_bail "$(cat "$L")"
}
ends() {
	kill "$client" && t_wait_for 30 t_has_ended "$client" &&
		t_not_mounted "$M"
}
# The mount is already unmounted. The client ends only because of the signal, as
# long as a copy of the mount exists in some namespace.
ends_now() {
	kill "$client" 2>/dev/null
	t_wait_for 30 t_has_ended "$client"
}
# A supervisor sees it. What is mounted stays until it is unmounted.
gives_up() {
	t_wait_for 30 t_has_ended "$client" && { wait "$client"; [ $? = 1 ]; }
}
is_dead() {
	! sh -c ": >'$M/disk'" 2>"$T/.err" &&
		grep -q 'Transport endpoint is not connected' "$T/.err"
}
said() { # CNT PATTERN: waits until the client's log has CNT such lines
	t_wait_for 30 said_now "$@" || { cat "$L"; return 1; }
}
said_now() { [ "$(grep -Ec "$2" "$L")" = "$1" ]; }
attr() { # NAME: an extended attribute of the file
	python3 -c 'import os, sys
print(os.getxattr(sys.argv[1], "user.rdma-block." + sys.argv[2]).decode())' \
		"$M/disk" "$1"
}
is() { # NAME PATTERN
	attr "$1" >"$T/.attr" && cat "$T/.attr" && grep -Eq "^$2\$" "$T/.attr"
}
lists_fault() { rdma-info "$URI" 2>&1 | grep 'LUN [0-9]*: .*medium not present'; }
blocks() { stat -c %b "$T/disk.img"; }
more_blocks() { [ "$(blocks)" -gt "$1" ]; }

# ---- under load

round=0
# fio is running when the target ends, and gets no error.
load() { # SIGNAL
	before=$(blocks)
	(cd "$T" && exec fio --name=verify --filename="$M/disk" --direct=1 \
		--size=8M --offset=$((round * 8))M --verify=crc32c --do_verify=1 \
		--verify_fatal=1 --rw=randwrite --bs=4k --ioengine=libaio \
		--iodepth=16 --output-format=terse >"$T/fio.out" 2>&1) &
	fio=$!
	round=$(((round + 1) % 32))
	t_wait_for 30 more_blocks "$before"
	t_target_stop "$1"
	t_target_again --backing "$T/disk.img,name=disk"
	wait $fio || { cat "$T/fio.out" "$L"; return 1; }
}
for channels in 1 3; do
	mount_with --channels $channels
	n=0
	while [ $n -lt $((${ROUNDS:-6} / 2)) ]; do
		n=$((n + 1))
		t_check "killed under load, $channels channels, round $n" load KILL
		t_check 'and back' said $n 'again after .*continue'
		fallocate -p -o 0 -l 256M "$T/disk.img"
	done
	t_check "terminated under load, $channels channels" load TERM
	t_check 'and back' said $((n + 1)) 'again after .*continue'
	fallocate -p -o 0 -l 256M "$T/disk.img"
	t_check 'unmounts' ends
done

# ---- away for longer

mount_with --fast-io-fail-tmo 0.3 --dev-loss-tmo 600
t_check 'the state can be read' is state running
t_check 'and the target' is target "127.0.0.1:$T_PORT"
lists() {
	python3 -c 'import os, sys
print(*os.listxattr(sys.argv[1]), sep="\n")' "$M/disk" | grep -q '\.last_error$'
}
t_check 'attributes are listed' lists
read_only_attr() {
	! python3 -c 'import os, sys
os.setxattr(sys.argv[1], "user.rdma-block.state", b"lost")' "$M/disk"
}
t_check 'and cannot be set' read_only_attr
t_target_stop KILL
read_fails() {
	! dd if="$M/disk" of=/dev/null bs=4k count=1 iflag=direct 2>"$T/.err" &&
		cat "$T/.err" && grep -q 'Input/output error' "$T/.err"
}
t_check 'a read waits, then fails' read_fails
t_check 'it is said once that I/O fails' \
	said 1 'error: no connection to .* fail with an I/O error until'
t_check 'the state says so' is state fail-fast
t_check 'and why' is last_error '.*connection refused.*'
t_check 'the size can be seen all the while' \
	[ "$(stat -c %s "$M/disk")" = $((256 << 20)) ]
t_target_again --backing "$T/disk.img,name=disk"
t_check 'it is back' said 1 'again after .*continue'
t_check 'so says the state' is state running
t_check 'and how often' is reconnects 1
t_check 'a read works again' \
	dd if="$M/disk" of=/dev/null bs=4k count=1 iflag=direct

# ---- the volume grows

truncate -s 320M "$T/disk.img"
kill -HUP "$T_TARGET"
t_check 'a volume that grows is noticed, without any I/O' \
	said 1 'volume disk now has 320 MiB'
has_size() { [ "$(stat -c %s "$M/disk")" = $(($1 << 20)) ]; }
t_check 'and so does the file' t_wait_for 10 has_size 320
t_check 'its end can be written' dd if=/dev/zero of="$M/disk" bs=1M seek=319 \
	count=1 conv=notrunc oflag=direct
t_target_stop KILL
truncate -s 384M "$T/disk.img"
t_target_again --backing "$T/disk.img,name=disk"
t_check 'also while the target is away' \
	said 1 'volume disk now has 384 MiB'
t_check 'the file has the new size' t_wait_for 10 has_size 384
t_check 'and is back' said 2 'again after .*continue'

t_target_stop KILL
t_check 'unmounts without a target' fusermount3 -u "$M"
t_check 'and ends' ends_now

t_target_again --backing "$T/disk.img,name=disk"
mount_with --fast-io-fail-tmo 0.1 --dev-loss-tmo 0.3
t_target_stop KILL
t_check 'after dev_loss_tmo it is given up' said 1 'given up.*this is final'
t_check 'and rdma-fuse exits with 1' gives_up
t_target_again --backing "$T/disk.img,name=disk"
t_check 'nothing can be written in its place' is_dead
t_check 'unmounts when given up' fusermount3 -u "$M"

# ---- another volume in place of the one that the address names

VOLUME=/disk
mount_with
dd if="$M/disk" of=/dev/null bs=4k count=1 iflag=direct status=none
t_target_stop KILL
t_target_again --backing "$T/other.img,name=disk" --state-dir none
t_check 'another disk in its place is not taken for it' \
	said 1 'another volume is there now.*this is final'
t_check 'rdma-fuse exits with 1' gives_up
t_check 'nothing is written to it' is_dead
t_check 'unmounts' fusermount3 -u "$M"

t_target_stop KILL
t_target_again --backing ram:64M,name=disk
mount_with
dd if=/dev/zero of="$M/disk" bs=4k count=1 conv=notrunc oflag=direct status=none
t_target_stop KILL
t_target_again --backing ram:64M,name=disk
t_check 'memory that was lost is another volume' \
	said 1 'another volume is there now.*this is final'
t_check 'rdma-fuse exits with 1' gives_up
t_check 'it never reads as zeroes' is_dead
t_check 'unmounts' fusermount3 -u "$M"
t_target_stop KILL

# ---- another volume in front of it

# With a state directory, the LUN would stay free for it.
new_state() { rm -r "$STATE_DIRECTORY" && mkdir "$STATE_DIRECTORY"; }
new_state
t_target_again --backing "$T/disk.img,name=disk,serial=77"
mount_with
printf there | dd of="$M/disk" conv=notrunc,fsync status=none
t_target_stop KILL
new_state
t_target_again --backing "$T/other.img,name=other" --backing "$T/disk.img,name=disk,serial=77"
t_check 'a volume that has another LUN goes on' said 1 'again after .*continue'
has_its_data() { [ "$(dd if="$M/disk" bs=5 count=1 status=none)" = there ]; }
t_check 'with its data' has_its_data
t_check 'unmounts' ends
t_target_stop KILL

# ---- a volume beside it that cannot describe itself

t_target_again --backing ram:1M,name=beside,removable --backing "$T/disk.img,name=disk" \
	--control "$T/control"
if rdma-ctl --control "$T/control" volume eject beside; then
	t_check 'a volume is mounted beside one without a medium' mount_with
	t_check 'it can be read' has_its_data
	t_check 'a program that lists says what is missing' lists_fault
	t_check 'unmounts' ends
fi
t_target_stop KILL

# ---- another volume beside the one that is mounted

t_target_again --backing "$T/disk.img,name=disk" --backing ram:64M,name=beside
mount_with
VOLUME=
t_target_stop KILL
t_target_again --backing "$T/disk.img,name=disk"
t_check 'one that is not mounted may go' dd if="$M/disk" of=/dev/null bs=4k \
	count=1 iflag=direct status=none
t_target_stop KILL
t_target_again --backing "$T/disk.img,name=disk" --backing "$T/other.img,name=third"
t_check 'or become another one' dd if="$M/disk" of=/dev/null bs=4k \
	count=1 iflag=direct status=none
t_check 'unmounts' ends
t_target_stop KILL

# ---- a client that died

t_target_again --backing "$T/disk.img,name=disk"
mount_with
one=$(attr initiator)
kill -9 "$client"
t_wait_for 10 t_has_ended "$client"
fusermount3 -uzq "$M"
mount_with
t_check 'who comes back is the one that died' is initiator "$one"
t_check 'unmounts' ends
t_target_stop KILL

# ---- no answer

t_target_again --backing "$T/disk.img,name=disk"
mount_with --io-timeout 3
kill -STOP "$T_TARGET"
dd if="$M/disk" of=/dev/null bs=4k count=1 iflag=direct 2>"$T/.err" &
reader=$!
t_check 'a target that stopped is noticed' \
	said 1 'READ .* of LUN [0-9]+ had no answer for .* wait up to 15 s'
kill -CONT "$T_TARGET"
t_check 'it is back' said 1 'again after .*continue'
t_check 'the read worked' wait $reader
t_check 'and was sent twice' is replayed 1
t_check 'after its time was up' is timeouts 1
t_check 'unmounts' ends

# ---- the client is stopped while the target is away

mount_with --fast-io-fail-tmo 5 --dev-loss-tmo 5.5
t_target_stop KILL
dd if=/dev/zero of="$M/disk" bs=4k count=1 conv=notrunc oflag=direct \
	2>"$T/.err" &
writer=$!
said 1 'wait up to 5 s'
kill -STOP "$client"
t_target_again --backing "$T/disk.img,name=disk"
sleep 6 # longer than the two times
kill -CONT "$client"
t_check 'a stop of the client is not held against the target' wait $writer
t_check 'it is back' said 1 'again after .*continue'
t_check 'unmounts' ends
t_done
