#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A target on one RDMA device is found from another, over a cable: by each carrier
# alone. The lines of rdma-discover -c log the kernel in; the daemon does so by
# itself, another one mounts, and each once, however often the target restarts.
#
#   VM_DISCOVER        how often it restarts, at random moments (default 6)
#   VM_DISCOVER_SEED   of these moments
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"
PATH=$BUILD/discover:$BUILD/fuse:$PATH

times=${VM_DISCOVER:-6}
seed=${VM_DISCOVER_SEED:-$RANDOM}
RANDOM=$seed

serve() {
	target_start --listen srp+rdma://10.1.0.1 --discovery link0 \
		--backing "$work/disk.img,name=disk"
}

# find_by CARRIER ARG...: a target answers by that carrier, and its RDMA address
# works
find_by() {
	rdma-discover --json --carrier "$@" >"$VM_OUT/found.json" || return
	grep -q '"uri": "srp+rdma://10.1.0.1:5555"' "$VM_OUT/found.json" &&
		grep -q '"usable": true' "$VM_OUT/found.json"
}
# two_find_by CARRIER ARG...: so do two clients at once.
two_find_by() {
	local other

	rdma-discover --json --carrier "$@" >"$VM_OUT/other.json" &
	other=$!
	find_by "$@" || {
		wait "$other"
		return 1
	}
	wait "$other" && grep -q '"uri": "srp+rdma://10.1.0.1:5555"' "$VM_OUT/other.json"
}

logins() { # how many logins the kernel has to $line's target
	local host cnt=0

	for host in /sys/class/scsi_host/host*/id_ext; do
		[ "$(cat "$host" 2>/dev/null)" != "0x$id_ext" ] ||
			cnt=$((cnt + 1))
	done
	echo $cnt
}
is_logged_in() { [ "$(logins)" = 1 ]; }
is_logged_out() { [ "$(logins)" = 0 ]; }
# Bypasses the cache. A host that has lost its target blocks the read for a
# while.
reads() {
	local disk

	disk=$(find /sys/class/scsi_host/host*/device/target*/*/block/* -maxdepth 0 \
		2>/dev/null | head -n 1)
	[ -n "$disk" ] && timeout 60 dd if="/dev/${disk##*/}" of=/dev/null bs=4k \
		count=1 iflag=direct status=none 2>/dev/null
}

is_mounted_once() { [ "$(grep -c " $work/mnt fuse.rdma-block " /proc/mounts)" = 1 ]; }
# Bypasses the cache, as above.
mount_reads() {
	timeout 60 dd if="$work/mnt/disk" of=/dev/null bs=4k count=1 iflag=direct \
		status=none 2>/dev/null
}

# restarts: at any moment the target is killed, or ended, and is gone for a while.
restarts() {
	nap "$((RANDOM % 4)).$((RANDOM % 10))"
	if ((RANDOM % 2)); then
		ends_by_kill "$target"
	else
		kill "$target"
		ends_well "$target"
	fi
	nap "$((RANDOM % 8)).$((RANDOM % 10))"
	serve
}

# remove DEVICE: which must return, whoever uses it
remove() {
	local pid

	rdma link delete "$1" &
	pid=$! # no signal ends it while the kernel waits
	wait_for 6 ended "$pid" || {
		vm_say "rdma link delete $1 does not return; these have a device open:"
		find /proc/[0-9]*/fd -lname '/dev/infiniband/uverbs*' -printf '%p %l\n'
		exit 1
	}
	wait "$pid"
}
ended() { ! kill -0 "$1" 2>/dev/null; }
device_again() { # DEVICE INTERFACE
	remove "$1"
	rdma link add "$1" type rxe netdev "$2"
	wait_for 20 _vm_port_is_active "$1"
}
finds_tcp() {
	rdma-discover --json --carrier rdma -i link1 | grep -q '"uri": "srp+tcp://10.1.0.1:5555"'
}
finds_only_tcp() {
	rdma-discover --json --carrier unicast 10.1.0.1 >"$VM_OUT/found.json" &&
		grep -q '"uri": "srp+tcp://10.1.0.1:5555"' "$VM_OUT/found.json" &&
		! grep -q 'srp+rdma' "$VM_OUT/found.json"
}
holds_file() { # PROCESS PREFIX
	find "/proc/$1/fd" -lname "$2*" | grep -q .
}
is_left() { # DEVICE: by the daemon
	! rdma resource show qp link "$1/1" | grep -q 'type UD .*comm rdma-discover'
}

vm_two_hosts
vm_scratch_fs "$work" 128
truncate -s 64M "$work/disk.img"
modprobe ib_srp
# For multicast, the RDMA CM also looks for a route to the group.
ip route add 239.0.0.0/8 dev link1 table main
serve

step "by each carrier alone"
wait_for 20 find_by rdma -i link1
wait_for 20 find_by multicast -i link1
wait_for 20 find_by unicast 10.1.0.1
grep -q '"by": "rxe1"' "$VM_OUT/found.json"

step "by two clients at once, by each carrier"
wait_for 20 two_find_by rdma -i link1
wait_for 20 two_find_by multicast -i link1
wait_for 20 two_find_by unicast 10.1.0.1

step "the kernel takes the line as it is"
line=$(rdma-discover -c 10.1.0.1)
id_ext=${line#id_ext=}
id_ext=${id_ext%%,*}
echo "$line" >/sys/class/infiniband_srp/srp-rxe1-1/add_target
wait_for 20 reads
is_logged_in

step "the daemon takes over that login; another one mounts"
echo "a dest=10.1.0.1,tl_retry_count=3" >"$work/rules"
rdma-discover --daemon -f "$work/rules" --period 2 -i link1 \
	>"$VM_OUT/daemon.log" 2>&1 &
daemon=$!
wait_for 20 grep -q 'is there already' "$VM_OUT/daemon.log"
mkdir "$work/mnt"
echo "a dest=10.1.0.1,mount=$work/mnt,volume=disk" >"$work/rules.mount"
rdma-discover --daemon -f "$work/rules.mount" --period 2 -i link1 \
	>"$VM_OUT/daemon.mount.log" 2>&1 &
mounter=$!
wait_for 60 mount_reads
is_mounted_once

step "both are there, once, after each of $times restarts; seed $seed"
for ((i = 1; i <= times; i++)); do
	restarts
	wait_for 60 reads
	wait_for 60 mount_reads
	is_logged_in
	is_mounted_once
	echo "restart $i: back"
done
kill "$mounter"
wait "$mounter"
fusermount3 -u "$work/mnt"

step "a login that was removed is made again"
for port in /sys/class/srp_remote_ports/*/delete; do
	echo 1 >"$port"
done
wait_for 30 grep -q 'is no more' "$VM_OUT/daemon.log"
wait_for 60 reads
is_logged_in

step "the target says that it goes, and the kernel is logged out"
echo "a dest=10.1.0.1,gone=remove" >"$work/rules"
for port in /sys/class/srp_remote_ports/*/delete; do
	echo 1 >"$port"
done
wait_for 30 is_logged_out
kill -HUP "$daemon"
kill "$daemon"
wait "$daemon"
rdma-discover --daemon -f "$work/rules" --period 2 -i link1 \
	>"$VM_OUT/daemon.log" 2>&1 &
daemon=$!
wait_for 60 grep -Eq 'login of the kernel: (done|is there already)' "$VM_OUT/daemon.log"
is_logged_in
kill "$target"
ends_well "$target"
wait_for 60 is_logged_out

step "it comes, is killed and cannot say so, and the kernel is logged out"
serve
wait_for 60 is_logged_in
ends_by_kill "$target"
wait_for 60 is_logged_out

step "the device of the target goes and comes"
serve
wait_for 60 is_logged_in
device_again rxe0 link0
wait_for 60 find_by rdma -i link1
wait_for 60 is_logged_in

step "the device of the daemon goes and comes"
device_again rxe1 link1
wait_for 60 find_by rdma -i link1
wait_for 60 is_logged_in
kill "$target"
ends_well "$target"

step "one device goes and comes after the other"
serve
for ((i = 0; i < 4; i++)); do
	device_again rxe1 link1
	device_again rxe0 link0
done
wait_for 60 find_by rdma -i link1
kill "$target"
ends_well "$target"

step "a device comes to a target that has chosen TCP without one"
remove rxe0
target_start --listen srp://10.1.0.1 --discovery link0 --backing ram:1M
wait_for 20 finds_only_tcp
rdma link add rxe0 type rxe netdev link0
wait_for 60 find_by unicast 10.1.0.1
kill "$target"
ends_well "$target"

step "the device of a target goes that uses it for nothing but queries"
target_start --listen srp+tcp://10.1.0.1 --discovery link0 --backing ram:1M
wait_for 60 finds_tcp
device_again rxe0 link0
wait_for 60 finds_tcp
kill "$target"
ends_well "$target"

step "a device goes that the daemon no longer asks by"
kill "$daemon"
wait "$daemon"
rdma-discover --daemon -f "$work/rules" --period 1 >"$VM_OUT/daemon.log" 2>&1 &
daemon=$!
wait_for 20 holds_file "$daemon" /dev/infiniband/uverbs
ip link set link1 down
wait_for 20 is_left rxe1
remove rxe1

step "nothing is left"
kill "$daemon"
wait "$daemon"
for port in /sys/class/srp_remote_ports/*/delete; do
	echo 1 >"$port" || true
done
! vm_dmesg_complaints
