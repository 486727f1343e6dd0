#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# A mount with two addresses: first two relays of one target, which the test
# cuts; then two targets that do not belong together. ROUNDS (default 3): how
# often each address is cut under load.
. "$(dirname "$0")/lib.sh"
t_needs_fuse
command -v fio >/dev/null || t_skip_all 'no fio here'
command -v python3 >/dev/null || t_skip_all 'no python3 here'

here=$(cd "$(dirname "$0")" && pwd)
M=$T/mnt
L=$T/client.log
mkdir "$M"

# relay NAME [PORT]: starts a relay to port $TO; sets PORT_NAME and RELAY_NAME
relay() {
	for try in 1 2 3 4 5; do
		port=${2:-$((20000 + ($(od -An -N2 -tu2 /dev/urandom) % 12000)))}
		: >"$T/relay.$1"
		python3 "$here/relay.py" "$port" "$TO" >"$T/relay.$1" 2>&1 &
		eval "RELAY_$1=$! PORT_$1=$port"
		t_pids="$t_pids $!"
		t_wait_for 10 relay_is_up "$1" $! &&
			grep -q ready "$T/relay.$1" && return
	done
	t_bail "$(cat "$T/relay.$1")"
}
relay_is_up() { grep -q ready "$T/relay.$1" || t_is_gone "$2"; }
cut() { # NAME
	eval "pid=\$RELAY_$1"
	kill -9 "$pid" && { wait "$pid"; :; }
}
mount_two() { # URI OPTION...
	uri=$1
	shift
	: >"$L"
	t_mounts="$t_mounts $M"
	rdma-fuse -f "$@" "$uri" "$M" 2>>"$L" &
	client=$!
	t_pids="$t_pids $client"
	t_wait_for 10 test -e "$M/disk" || t_bail "$(cat "$L")"
}
ends() {
	kill "$client" && t_wait_for 30 t_has_ended "$client" &&
		t_not_mounted "$M"
}
said() { # CNT PATTERN: waits until the client's log has CNT such lines
	t_wait_for 30 said_now "$@" || { cat "$L"; return 1; }
}
said_now() { [ "$(grep -Ec "$2" "$L")" -ge "$1" ]; }
attr() { # NAME PATTERN: an extended attribute of the file
	python3 -c 'import os, sys
print(os.getxattr(sys.argv[1], "user.rdma-block." + sys.argv[2]).decode())' \
		"$M/disk" "$1" >"$T/.attr" && cat "$T/.attr" &&
		grep -Eq "^$2\$" "$T/.attr"
}
addresses() { # STATE STATE
	attr addresses "127.0.0.1:$PORT_A $1, 127.0.0.1:$PORT_B $2"
}
blocks() { stat -c %b "$T/disk.img"; }
more_blocks() { [ "$(blocks)" -gt "$1" ]; }
can_read() {
	timeout 60 dd if="$M/disk" of=/dev/null bs=4k count=1 iflag=direct
}

# ---- two addresses of one target

truncate -s 256M "$T/disk.img"
t_target --backing "$T/disk.img,name=disk,serial=1234"
TO=$T_PORT
relay A
relay B
TWO=srp+tcp://127.0.0.1:$PORT_A,127.0.0.1:$PORT_B/disk
mount_two "$TWO"
t_check 'the first address is used' addresses 'in use' untried
t_check 'the log names both' \
	said 1 "addresses: 127.0.0.1:$PORT_A in use, 127.0.0.1:$PORT_B untried"
t_check 'rdma-info knows both' eval 'rdma-info "$TWO" |
	grep -x "address 127.0.0.1:$PORT_B: untried"'

round=0
# fio is running when the address is cut, and gets no error.
load() { # CUT OTHER
	before=$(blocks)
	(cd "$T" && exec fio --name=verify --filename="$M/disk" --direct=1 \
		--size=8M --offset=$((round * 8))M --verify=crc32c --do_verify=1 \
		--verify_fatal=1 --rw=randwrite --bs=4k --ioengine=libaio \
		--iodepth=16 --fsync=64 --output-format=terse \
		>"$T/fio.out" 2>&1) &
	fio=$!
	round=$(((round + 1) % 32))
	t_wait_for 30 more_blocks "$before"
	cut "$1"
	wait $fio || { cat "$T/fio.out" "$L"; return 1; }
}
n=0
while [ $n -lt "${ROUNDS:-3}" ]; do
	n=$((n + 1))
	t_check "the first address is cut under load, round $n" load A
	t_check 'the second one takes over' \
		said $n "connected to 127.0.0.1:$PORT_B .*in place of 127.0.0.1:$PORT_A"
	t_check 'so say the attributes' addresses down 'in use'
	relay A "$PORT_A"
	t_check "the second address is cut under load, round $n" load B
	t_check 'the first one takes over' \
		said $n "connected to 127.0.0.1:$PORT_A .*in place of 127.0.0.1:$PORT_B"
	relay B "$PORT_B"
	fallocate -p -o 0 -l 256M "$T/disk.img"
done
same_initiator() { # by other addresses, and at this mount point
	attr initiator "$INITIATOR"
}
attr initiator '.*' >/dev/null
INITIATOR=$(cat "$T/.attr")
t_check 'no write was lost' \
	eval '! grep -e "may have lost" -e "flush.*failed" "$L"'
t_check 'unmounts' ends

# ---- no stale write

# The first write hangs in the disk when its address is cut. The client sends it
# again through the other address, and a newer write after it. The first one
# must not reach the disk last: the target answers the login through the other
# address only when that write is done.
put() { # BYTE
	head -c 4096 /dev/zero | tr '\000' "$1" |
		timeout 120 dd of="$M/disk" bs=4k count=1 conv=notrunc \
			oflag=direct iflag=fullblock
}
holds() { # BYTE
	timeout 60 dd if="$M/disk" bs=4k count=1 iflag=direct 2>/dev/null |
		tr -d "$1" >"$T/.rest" && [ ! -s "$T/.rest" ]
}
old_and_new() {
	put 1 &
	old=$!
	t_wait_for 30 sent_more 0 && cut A && wait $old && put 2
}
sent_more() { # CNT: commands since the mount
	attr commands '.*' >/dev/null
	[ "$(cat "$T/.attr")" -gt $((sent + $1)) ]
}
T_PLAIN="$T_PORT $T_TARGET" PLAIN_A=$PORT_A PLAIN_B=$PORT_B
truncate -s 16M "$T/slow.img"
cut A
cut B
t_target --backing "$T/slow.img,name=disk,fault=write:delay=3000:lba=0-7:count=1"
TO=$T_PORT
relay A
relay B
mount_two "srp+tcp://127.0.0.1:$PORT_A,127.0.0.1:$PORT_B/disk"
t_check 'a mount by other addresses is the same initiator' same_initiator
attr commands '.*' >/dev/null
sent=$(cat "$T/.attr")
t_check 'a write that hangs is repeated by the other address' old_and_new
t_check 'the other address is in use' addresses down 'in use'
t_check 'the newer write stays' holds 2
t_check 'unmounts' ends
kill "$T_TARGET" && wait "$T_TARGET"
t_check 'also on the disk' eval '[ "$(head -c 4096 "$T/slow.img" | tr -d 2 |
	wc -c)" = 0 ]'
cut B
set -- $T_PLAIN
T_PORT=$1 T_TARGET=$2 TO=$1
relay A "$PLAIN_A"
relay B "$PLAIN_B"

# ---- both addresses are cut

mount_two "$TWO" --fast-io-fail-tmo 0.5 --dev-loss-tmo 600
cut A
cut B
t_check 'I/O fails when both addresses are away for too long' \
	eval '! can_read && said 1 "none of the 2 addresses could be used for"'
t_check 'so say the attributes' addresses down down
relay B "$PORT_B"
t_check 'the address that is back first is used' \
	said 1 "connected to 127.0.0.1:$PORT_B .*reads and writes continue"
t_check 'and I/O works' can_read
t_check 'unmounts' ends
relay A "$PORT_A"

# ---- a target that does not belong with the first

# second ARG...: replaces the second address
second() {
	t_first="$T_PORT $T_TARGET"
	t_target "$@"
	set -- $t_first $T_PORT $T_TARGET
	T_PORT=$1 T_TARGET=$2 PORT_B=$3 SECOND=$4
}
end_second() { kill "$SECOND" && { wait "$SECOND"; :; }; }
cut B
truncate -s 256M "$T/other.img"
second --backing "$T/other.img,name=disk,serial=5678"
mount_two "srp+tcp://127.0.0.1:$PORT_A,127.0.0.1:$PORT_B/disk"
cut A
t_check 'another volume is refused' \
	said 1 "of 127.0.0.1:$PORT_B: another volume is there now"
t_check 'so say the attributes' addresses down 'another volume'
relay A "$PORT_A"
t_check 'the first address is used again' said 1 'again after .*continue'
t_check 'and I/O works' can_read
t_check 'it was said once' \
	[ "$(grep -c 'another volume is there' "$L")" = 1 ]
t_check 'unmounts' ends
end_second

second --backing "$T/other.img,name=disk,serial=1234"
mount_two "srp+tcp://127.0.0.1:$PORT_A,127.0.0.1:$PORT_B/disk"
cut A
t_check 'the same volume of an unknown target is not used' \
	said 1 "of 127.0.0.1:$PORT_B: another target shows it"
t_check 'so say the attributes' addresses down unsafe
relay A "$PORT_A"
t_check 'the first address is used again' said 1 'again after .*continue'
t_check 'and I/O works' can_read
t_check 'unmounts' ends
end_second
cut A
t_refused 'no address leads to a target' \
	'none of the 2 addresses can be used: \(1\) cannot log in .*\(2\) cannot' \
	rdma-fuse "srp+tcp://127.0.0.1:$PORT_A,127.0.0.1:$PORT_B/disk" "$M"
t_refused 'an address that is given twice' "address 'a' is given twice" \
	rdma-fuse srp+tcp://a,a/disk "$M"
t_done
