#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Two targets that serve one RBD image, one at a time: which one is active, what
# the other one answers, and that a target which was frozen writes nothing more.
. "$(dirname "$0")/rbd_lib.sh"
r_needs_ceph

mount_gateway() { # URI DIR
	t_mount "$1" "$2" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
}
put() { # FILE BLOCK-FILE
	timeout 60 dd if="$2" of="$1" bs=64k count=1 oflag=direct conv=notrunc
}
holds() { # FILE BLOCK-FILE
	timeout 60 dd if="$1" bs=64k count=1 iflag=direct 2>/dev/null |
		cmp - "$2"
}
get() { # FILE
	timeout 60 dd if="$1" of=/dev/null bs=64k count=1 iflag=direct
}
is_refused() { # CMD...
	! "$@" 2>"$T/dd" && grep -q 'Input/output error' "$T/dd"
}
serial_at() {
	rdma-info "$1" | awk '$2 == "img" { print $NF }'
}

for n in 1 2 3 4; do
	head -c 65536 /dev/urandom >"$T/block.$n"
done
# Users with the proper rights: those of 'profile rbd', no more.
ceph auth get-or-create client.gate mon 'profile rbd' \
	osd 'profile rbd pool=rbd' -o "$T/gate" >/dev/null
USER_OF="id=gate,keyring=$T/gate"
rbd create -s 64M img
rbd create -s 16M --image-feature layering plain
rbd create -s 16M cached
rbd config image set rbd/cached rbd_cache true
rbd create -s 16M logged
rbd config image set rbd/logged rbd_persistent_cache_mode ssd
rbd create -s 16M unfenced
rbd config image set rbd/unfenced rbd_blocklist_on_break_lock false

refused 'an image without the lock' 'lacks the feature exclusive-lock' \
	rbd:rbd/plain,gateway=1,gateways=2
refused 'an image with a cache' 'the image has rbd_cache on' \
	rbd:rbd/cached,gateway=1,gateways=2
refused 'an image that keeps writes on the machine of the target first' \
	'rbd_persistent_cache_mode' rbd:rbd/logged,gateway=1,gateways=2
refused 'an image whose lock can be broken without a fence' \
	'sets rbd_blocklist_on_break_lock' rbd:rbd/unfenced,gateway=1,gateways=2
refused 'a gateway too many' 'gateway=N,gateways=M: M is 1 to 8' \
	rbd:rbd/img,gateway=3,gateways=2
refused 'a role that there is not' 'role=boss: it is active or standby' \
	rbd:rbd/img,gateway=1,gateways=2,role=boss
refused 'a role without a gateway' 'need gateway=N and gateways=M' \
	rbd:rbd/img,role=active

mkdir "$T/a" "$T/b"
r_gateway 1 "$USER_OF,role=active"
A=$GATE_1 URI_A=srp+tcp://127.0.0.1:$PORT_1
# librados makes its threads before the target drops its capabilities.
has_no_capabilities() { # PID: except those for locked memory and low ports
	awk '/^CapPrm/ && $2 !~ /^000000000000[04][04]00$/ { print FILENAME, $2; bad = 1 }
		END { exit bad }' "/proc/$1"/task/*/status
}
t_check 'no thread keeps capabilities' has_no_capabilities "$A"
r_gateway 2 "$USER_OF,failover=auto,failover-after=3"
B=$GATE_2 URI_B=srp+tcp://127.0.0.1:$PORT_2
t_check 'the second one hears of the first' \
	t_wait_for 10 r_said 2 'in standby (target port group 2 of 2; 1 is' 1
t_check 'both show the same disk' \
	[ -n "$(serial_at "$URI_A")" -a \
	"$(serial_at "$URI_A")" = "$(serial_at "$URI_B")" ]
mount_gateway "$URI_A" "$T/a"
mount_gateway "$URI_B" "$T/b"
t_check 'the active one writes' put "$T/a/img" "$T/block.1"
t_check 'the one in standby does not' \
	is_refused put "$T/b/img" "$T/block.2"
t_check 'nor does it read' is_refused get "$T/b/img"

# The target reads the data of the write while it is frozen, or later. Whatever
# it had begun, the write must not succeed once the other target serves.
freeze_and_fail_over() {
	kill -STOP "$A"
	put "$T/a/img" "$T/block.3" 2>"$T/late" &
	late=$!
	t_wait_for 30 r_said 2 '(img): active' 1 && put "$T/b/img" "$T/block.4"
}
t_check 'the other one takes over from one that is frozen' freeze_and_fail_over
# If the machine of the first one is paused for a day, its writes must still fail.
fence_lasts() {
	ceph osd blocklist ls 2>/dev/null >"$T/blocklist"
	cat "$T/blocklist"
	until=$(date -d "$(awk '{ print $2; exit }' "$T/blocklist")" +%s) &&
		[ "$until" -gt $(($(date +%s) + 300 * 86400)) ]
}
t_check 'it stays shut out for long' fence_lasts
kill -CONT "$A"
wait "$late"
t_check 'the late write fails' [ $? != 0 ]
t_check 'the fenced one knows' t_wait_for 10 r_said 1 'has taken the image over' 1
t_check 'what the new one wrote is there' holds "$T/b/img" "$T/block.4"
t_check 'the fenced one is in standby, and hears of the new one' \
	t_wait_for 10 r_said 1 'in standby (target port group 1 of 2; 2 is' 1
t_check 'it refuses writes' is_refused put "$T/a/img" "$T/block.3"
fusermount3 -u "$T/a"

# The fenced target has a new RADOS client, so it can take over again.
kill "$A"
wait "$A"
t_check 'the fenced one ends with 0' [ $? = 0 ]
r_gateway 1 "$USER_OF,role=active"
A=$GATE_1 URI_A=srp+tcp://127.0.0.1:$PORT_1
mount_gateway "$URI_A" "$T/a"
t_check 'role=active takes over at once' holds "$T/a/img" "$T/block.4"
t_check 'the other one is in standby again' \
	t_wait_for 10 r_said 2 'in standby (target port group 2 of 2; 1 is' 2
t_check 'it refuses reads again' is_refused get "$T/b/img"
kill -9 "$A"
t_check 'it takes over from one that is dead' \
	t_wait_for 30 r_said 2 '(img): active' 2
t_check 'and reads what that wrote' holds "$T/b/img" "$T/block.4"
fusermount3 -uz "$T/a"
fusermount3 -u "$T/b"
kill "$B"
wait "$B"
t_check 'ends with 0' [ $? = 0 ]

# Targets whose beats are always late must not take over from each other for ever.
r_gateway 1 "$USER_OF,role=active,failover=auto,failover-after=1"
A=$GATE_1
r_gateway 2 "$USER_OF,failover=auto,failover-after=1"
B=$GATE_2
# The other one becomes active for the CNTth time.
is_late() { # PID NUMBER OTHER CNT
	kill -STOP "$1"
	t_wait_for 60 r_said "$3" '(img): active' "$4"
	status=$?
	kill -CONT "$1"
	[ $status = 0 ] && t_wait_for 30 is_standby "$2" "$3"
}
is_standby() { # NUMBER OTHER
	grep '(img): ' "$T/log.$1" | tail -n 1 |
		grep -q "in standby (target port group $1 of 2; $2 is"
}
t_check 'the second one hears of the first again' \
	t_wait_for 10 r_said 2 'in standby (target port group 2 of 2; 1 is' 1
t_check 'the beats of the first one are late' is_late "$A" 1 2 1
t_check 'then those of the second one' is_late "$B" 2 1 2
t_check 'then those of the first one again' is_late "$A" 1 2 2
has_waited_longer() {
	r_said 2 'takes over again, after .* failover-after=1 is too short' 1 &&
		! r_said 2 'for 3 s; takes over again' 1
}
t_check 'the second one waits longer the second time' has_waited_longer
kill "$A" "$B"
wait "$A" "$B"

r_gateway 1 "$USER_OF,role=active"
A=$GATE_1
r_gateway 2 "$USER_OF,failover=auto,failover-after=1" "" 1
B=$GATE_2
t_check 'the number of another target is noticed' \
	t_wait_for 30 r_said 2 'another target is active with gateway=1; each' 1
t_check 'without a takeover' eval "! r_said 2 'takes over' 1"
kill "$A" "$B"
wait "$A" "$B"
t_done
