#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# An image of Ceph RBD behind two targets. fio verifies it through the kernel's
# initiator. Then the active target is killed under load, again and again: below
# dm-multipath, over the kernel's initiator, and below rdma-fuse. proof-load
# checks that no acknowledged data is lost and that no old data is read.
#
#   VM_RBD             how often it is killed, for each of them (default 4)
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

times=${VM_RBD:-4}
scripts=${VM_LIB%/*}/../../scripts
for program in ceph-osd ceph-mon rbd dmsetup sg_turs; do
	command -v "$program" >/dev/null || { echo "no $program"; exit 77; }
done
[ -e "$BUILD/plugins/rbd/rdma-block-plugin-rbd.so" ] ||
	{ echo "built without the store rbd"; exit 77; }
export RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/rbd
export CEPH_CONF=$work/ceph/ceph.conf

# gateway NUMBER [ARG]: starts a target; its process is ${gate[NUMBER]}. A second is
# too short for failover-after here: the cluster of an emulated guest may not pass on
# a beat for that long.
gate=(0 0 0)
gateway() {
	local n=$1 log=$VM_OUT/gateway$1.log
	: >"$log"
	rm -f "$work/gate$n.pid"
	"$BUILD/target/rdma-target" --pidfile "$work/gate$n.pid" \
		--listen "srp+rdma://10.0.0.$n:555$n" --backing \
		"rbd:rbd/img,name=img,gateways=2,gateway=$n,failover=auto,failover-after=10${2+,$2}" \
		>>"$log" 2>&1 &
	gate[n]=$!
	wait_for 60 _is_ready "${gate[n]}" "$work/gate$n.pid"
}
gateway_names() { # NUMBER: sets id_ext and ioc_guid
	local login

	login=$(grep -o 'id_ext=.*,dest=' "$VM_OUT/gateway$1.log" | tail -n 1)
	id_ext=${login#id_ext=} id_ext=${id_ext%%,*}
	ioc_guid=${login#*ioc_guid=} ioc_guid=${ioc_guid%%,*}
}
takes_over() { grep -q 'takes over' "$VM_OUT/gateway$1.log"; }
# The active target is killed, and the other one takes over; then it is
# restarted.
active=1
fail_over() {
	local other=$((3 - active))

	ends_by_kill "${gate[active]}"
	wait_for 60 takes_over "$other"
	proof_ask round
	: >"$VM_OUT/gateway$other.log"
	gateway "$active"
	active=$other
}

vm_soft_roce
vm_scratch_fs "$work" 1536
modprobe -a dm_multipath dm_round_robin scsi_dh_alua
mkdir /mnt/one

step "a cluster starts"
"$scripts/ceph" up "$work/ceph" --size 536870912
rbd create -s 64M img
gateway 1 role=active

# Alone: if another target took over from it, there would be no path to that one.
step "fio verifies the image through the kernel's initiator"
gateway_names 1
disk1=$(vm_kernel_login --disks 1 "$id_ext" "$ioc_guid" 10.0.0.1:5551)
fio_jobs "$VM_OUT/kernel.fio" "$disk1"
# A disk does not accept a part of a block.
sed -i '/^\[odd\]/,$d' "$VM_OUT/kernel.fio"
fio_run "$VM_OUT/kernel.fio"

step "both are one disk, with a path by each"
gateway 2
knows_active() { grep -q 'in standby .*; 1 is active' "$VM_OUT/gateway2.log"; }
wait_for 60 knows_active
gateway_names 2
disk2=$(vm_kernel_login --disks 1 "$id_ext" "$ioc_guid" 10.0.0.2:5552)
for disk in "$disk1" "$disk2"; do
	sg_vpd --page=di "$disk" | grep 'naa' || true
	sg_rtpg "$disk" >"$VM_OUT/rtpg.${disk##*/}"
done
cmp "$VM_OUT/rtpg.${disk1##*/}" "$VM_OUT/rtpg.${disk2##*/}"
# The table that multipathd would make: a group for each path, by ALUA.
table="0 $(blockdev --getsz "$disk1") multipath 1 queue_if_no_path 1 alua 2 1"
for disk in "$disk1" "$disk2"; do
	table+=" round-robin 0 1 1 $(cat "/sys/class/block/${disk##*/}/dev") 1"
done
dmsetup create one --table "$table"
dmsetup mknodes
wait_for 20 test -b /dev/mapper/one

# The work of multipathd's path checker.
check_paths() {
	local disk

	while nap 0.5; do
		for disk in "$disk1" "$disk2"; do
			! timeout 20 sg_turs "$disk" >/dev/null 2>&1 ||
				dmsetup message one 0 "reinstate_path $(cat \
					"/sys/class/block/${disk##*/}/dev")"
		done
	done
}
check_paths 2>"$VM_OUT/paths.log" &
checker=$!
ib_srp_pauses 1

step "$times times the active one is killed below dm-multipath"
proof_start /dev/mapper/one
for ((i = 0; i < times; i++)); do
	proof_ask ops 50
	fail_over
done
proof_end
kill "$checker"
wait "$checker" || true
dmsetup remove --retry one
vm_kernel_logout

step "$times times below rdma-fuse"
mount_start mount --fast-io-fail-tmo off \
	srp+rdma://10.0.0.1:5551,10.0.0.2:5552/img /mnt/one
fio_jobs "$VM_OUT/fuse.fio" /mnt/one/img
fio_run "$VM_OUT/fuse.fio"
proof_start /mnt/one/img
for ((i = 0; i < times; i++)); do
	proof_ask ops 50
	fail_over
done
proof_end
kill "$fuse"
ends_well "$fuse"

step "everything ends"
kill "${gate[1]}"
ends_well "${gate[1]}"
kill "${gate[2]}"
ends_well "${gate[2]}"
"$scripts/ceph" down "$work/ceph"
wait_for 10 nothing_is_held
vm_fails vm_dmesg_complaints
