#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# kill -9 of the target, and of a client, over verbs and under load. proof-load
# checks that no acknowledged data is lost or mixed. All other programs
# continue, and nothing of the killed process is left.
#
#   VM_KILLS           how often the target is killed under rdma-fuse (default 2)
#   VM_KILLS_KERNEL    how often under the kernel's initiator and rdma-fuse, both
#                      on the same blocks (default 1)
#   VM_KILLS_CLIENT    how often rdma-fuse is killed (default 2)
#   VM_KILLS_WITHIN    seconds within which the mount must be usable after each
#                      restart of the target (default: any number)
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

uri=srp+rdma://10.0.0.1:5555
mnt=/mnt/one
# The login of the new client replaces what is left of the previous one.
client_id=70726f6f66000000000000000000c11e
kills=${VM_KILLS:-2}
kills_kernel=${VM_KILLS_KERNEL:-1}
kills_client=${VM_KILLS_CLIENT:-2}

again() {
	target_start --backing "$work/disk.img,name=disk"
}

# kill_target FILE: kills it under load, starts another, and waits until all
# clients are served again. Adds the time that this took to FILE.
kill_target() {
	local killed=$target

	proof_ask ops $((20 + RANDOM % 200))
	proof_ask kill "$killed"
	wait "$killed" 2>/dev/null || true
	wait_for 10 left_nothing "$killed"
	rm "$work/target.pid" # now: the time of target_start counts
	proof_ask since
	again
	proof_ask round
	proof_times "$1"
}

# Succeeds if the kernel has no object of the dead process $1. It stores the
# thread that made an object; the objects of the target belong to its main
# thread, or to threads with its name.
left_nothing() {
	printf 'resource show %s\n' qp cm_id cq mr pd >"$work/kinds"
	rdma -b "$work/kinds" >"$work/left" || return
	! grep -E " pid $1 | comm rdma-target" "$work/left"
}

client_start() {
	mount_start client "$uri/disk?initiator=$client_id" "$mnt"
	client=$fuse
}

client_kill() {
	proof_ask ops $((20 + RANDOM % 200))
	ends_by_kill "$client"
	umount -l "$mnt"
}

# holds_about PROCESS WHAT: like holds. But receive buffers that channels share
# stay registered until the last one of their region has been used. So there may
# be fewer regions, or more: one for each of the two channels of a login that
# came before the end of the old one, and one for each receive that an old
# channel may have lost when it failed.
holds_about() {
	local now

	now=$(holdings "$1")
	[ "$(grep -v '^mr' <<<"$now")" = "$(grep -v '^mr' <<<"$2")" ] &&
		[ "$(_regions "$now")" -le $(($(_regions "$2") + 4)) ]
}

_regions() {
	sed -n 's/^mr //p' <<<"$1"
}

resident() {
	awk '/VmRSS/ { print $2 }' "/proc/$target/status"
}

vm_soft_roce
vm_scratch_fs "$work" 256
mkdir "$mnt"
truncate -s 64M "$work/disk.img"
again

step "the target is killed $kills times under rdma-fuse"
client_start
proof_start "$mnt/disk"
for ((i = 0; i < kills; i++)); do
	kill_target "$VM_OUT/mount"
done
proof_end
tell_times "$VM_OUT/mount" "usable after the restart"
awk -v within="${VM_KILLS_WITHIN:-1000}" '$1 > within { exit 1 }' "$VM_OUT/mount"

step "and $kills_kernel times under the kernel's initiator and rdma-fuse"
target_names
disk=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.0.0.1:5555)
ib_srp_pauses 1
proof_start "$mnt/disk" "$disk"
for ((i = 0; i < kills_kernel; i++)); do
	kill_target "$VM_OUT/both"
done
proof_end
tell_times "$VM_OUT/both" "usable by both after the restart"
vm_kernel_logout "$disk"

step "rdma-fuse is killed $kills_client times, another mount works on"
mkdir /mnt/two
mount_start other "$uri/disk" /mnt/two
other=$fuse
proof_start "$mnt/disk" /mnt/two/disk
busy=$(holdings "$target")
for ((i = 0; i < kills_client; i++)); do
	client_kill
	proof_ask since
	client_start
	proof_ask round
	proof_times "$VM_OUT/client"
	[ "$i" != 9 ] || before=$(resident)
	[ $((i % 10)) != 9 ] ||
		echo "regions after $((i + 1)) kills: $(_regions "$(holdings "$target")")"
done
proof_end
tell_times "$VM_OUT/client" "next login until the next answer"
wait_for 30 holds_about "$target" "$busy" || {
	vm_say "the target holds:" "$(holdings "$target")"
	exit 1
}
if [ "$kills_client" -gt 20 ]; then
	echo "target resident: $before KiB after 10 kills, $(resident) KiB now"
	[ "$(resident)" -le $((before + 4 * kills_client)) ]
fi

step "they log out, and no queue pair is left"
kill "$client" "$other"
ends_well "$client"
ends_well "$other"
wait_for 30 holds_no_queue_pair "$target"
kill "$target"
ends_well "$target"
wait_for 10 nothing_is_held
vm_fails vm_dmesg_complaints
