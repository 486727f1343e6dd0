#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# A mount with the addresses of two targets that serve one RBD image. fio writes
# and verifies while the active target is killed, with manual and with automatic
# fencing.
. "$(dirname "$0")/rbd_lib.sh"
r_needs_ceph
command -v fio >/dev/null || t_skip_all 'no fio here'
command -v python3 >/dev/null || t_skip_all 'no python3 here'

M=$T/mnt
L=$T/client.log
mkdir "$M"

client_said() { # CNT PATTERN
	t_wait_for 30 client_said_now "$@" || { cat "$L"; return 1; }
}
client_said_now() { [ "$(grep -Ec "$2" "$L")" -ge "$1" ]; }
addresses() { # STATE STATE
	python3 -c 'import os, sys
print(os.getxattr(sys.argv[1], "user.rdma-block.addresses").decode())' \
		"$M/img" >"$T/.attr" && cat "$T/.attr" &&
		grep -qx "127.0.0.1:$PORT_1 $1, 127.0.0.1:$PORT_2 $2" "$T/.attr"
}
commands() {
	python3 -c 'import os, sys
print(os.getxattr(sys.argv[1], "user.rdma-block.commands").decode())' "$M/img"
}
more_commands() { [ "$(commands)" -gt $(($1 + 200)) ]; }

# load CMD...: fio is writing when CMD runs, and gets no error
load() {
	before=$(commands)
	(cd "$T" && exec fio --name=verify --filename="$M/img" --direct=1 \
		--size=8M --verify=crc32c --do_verify=1 --verify_fatal=1 \
		--rw=randwrite --bs=4k --ioengine=libaio --iodepth=16 \
		--fsync=64 --rate_iops=,300 --output-format=terse \
		>"$T/fio.out" 2>&1) &
	fio=$!
	t_wait_for 60 more_commands "$before"
	"$@"
	wait $fio || { cat "$T/fio.out" "$L"; return 1; }
	# An idle mount notices nothing.
	timeout 60 dd if="$M/img" of=/dev/null bs=4k count=1 iflag=direct
}
kill_gateway() { # NUMBER
	eval "pid=\$GATE_$1"
	kill -9 "$pid" && { wait "$pid"; :; }
}

ceph auth get-or-create client.gate mon 'profile rbd' \
	osd 'profile rbd pool=rbd' -o "$T/gate" >/dev/null
USER_OF="id=gate,keyring=$T/gate"
rbd create -s 64M img

# At first, the second address is the active one.
r_gateway 2 "$USER_OF,role=active"
r_gateway 1 "$USER_OF,failover=auto,failover-after=1"
t_check 'the first one is in standby' \
	t_wait_for 10 r_said 1 'in standby (target port group 1 of 2; 2 is' 1
t_mounts="$t_mounts $M"
rdma-fuse -f --io-timeout 2 --fast-io-fail-tmo 300 \
	"srp+tcp://127.0.0.1:$PORT_1,127.0.0.1:$PORT_2/img" "$M" 2>"$L" &
client=$!
t_pids="$t_pids $client"
t_wait_for 10 test -e "$M/img" || t_bail "$(cat "$L")"
t_check 'the active address is used' addresses standby 'in use'

t_check 'the active target is killed under load' load kill_gateway 2
t_check 'the other one takes over' client_said 1 \
	"connected to 127.0.0.1:$PORT_1 .*in place of 127.0.0.1:$PORT_2"
t_check 'so say the attributes' addresses 'in use' down

by_hand() {
	kill_gateway 1
	r_gateway 2 "$USER_OF,role=active" "$PORT_2"
}
t_check 'one is killed, and the other one started as active' load by_hand
t_check 'that takes over' client_said 1 \
	"connected to 127.0.0.1:$PORT_2 .*in place of 127.0.0.1:$PORT_1"

# The old target is alive and fenced: it answers NOT READY.
r_gateway 1 "$USER_OF" "$PORT_1"
t_check 'the one that is back is in standby' \
	t_wait_for 10 r_said 1 'in standby (target port group 1 of 2; 2 is' 1
moved() {
	r_gateway_stop 1
	r_gateway 1 "$USER_OF,role=active" "$PORT_1"
}
t_check 'one takes over from the other, which lives' load moved
t_check 'the mount follows' client_said 2 \
	"connected to 127.0.0.1:$PORT_1 .*in place of 127.0.0.1:$PORT_2"
t_check 'the other one is in standby' addresses 'in use' standby

# The active target freezes. When it continues, it holds commands of the mount
# that the other target has executed in the meantime, and the other target has
# executed newer ones, too.
r_gateway_stop 2
r_gateway 2 "$USER_OF,failover=auto,failover-after=1" "$PORT_2"
t_check 'the other one is there again' \
	t_wait_for 10 r_said 2 'in standby (target port group 2 of 2; 1 is' 1
froze() {
	kill -STOP "$GATE_1"
	client_said 2 \
		"connected to 127.0.0.1:$PORT_2 .*in place of 127.0.0.1:$PORT_1" &&
		kill -CONT "$GATE_1"
}
t_check 'the active one freezes under load, and wakes up' load froze
t_check 'it knows that it was fenced' \
	t_wait_for 30 r_said 1 'has taken the image over' 1
t_check 'the mount stays with the other one' addresses down 'in use'
t_check 'no write was lost' \
	eval '! grep -e "may have lost" -e "flush.*failed" "$L"'
sed -n 's/.*again after \([0-9.]*\) s.*/# failed over in \1 s/p' "$L"
kill "$client"
t_check 'unmounts' t_wait_for 30 t_has_ended "$client"
t_done
