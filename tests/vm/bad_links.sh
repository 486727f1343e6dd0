#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Two hosts with a bad cable between them: packets are lost, delayed, reordered,
# doubled or broken, or there is no link for a while, for less and for more time
# than the timeouts of both ends. No written data is lost or mixed, and all
# clients continue. The kernel's initiator and rdma-fuse use the same volume of
# rdma-target. rdma-fuse also uses a volume of the kernel's target.
#
#   VM_LINKS        the kinds of cable in terms of tc-netem(8), with commas
#                   between; "all" of them
#   VM_FLAPS        how often the cable loses all or is unplugged under two
#                   mounts by rdma-fuse of the same blocks (default 1)
#   VM_FLAPS_KERNEL the same under the kernel's initiator
#                   and rdma-fuse (default 1; a dozen can crash ib_srp of Linux 6.1)
#   VM_LINK_KIB     how much fio writes and verifies through each cable, by each
#                   initiator (default 64; a lost packet can cost two seconds)
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

all_links='loss 1%,loss 5%,delay 20ms,delay 5ms 3ms,delay 5ms reorder 25% 50%
duplicate 5%,corrupt 1%,rate 20mbit,loss 2% delay 10ms 2ms duplicate 1%'
links=${VM_LINKS:-loss 1%,delay 5ms duplicate 2%}
[ "$links" != all ] || links=${all_links//$'\n'/,}
flaps=${VM_FLAPS:-1}
flaps_kernel=${VM_FLAPS_KERNEL:-1}
kib=${VM_LINK_KIB:-64}

mnt=/mnt/one two=/mnt/two lio=/mnt/lio

# fio_verify NAME FILE OFFSET
fio_verify() {
	timeout 300 fio --name="$1" --filename="$2" --offset="$3" --size="${kib}k" \
		--direct=1 --thread --ioengine=libaio --iodepth=16 \
		--rw=randwrite --bsrange=512-16k --verify=crc32c --do_verify=1 \
		--verify_fatal=1 --verify_state_save=0 >"$VM_OUT/$1.fio" 2>&1 || {
		cat "$VM_OUT/$1.fio"
		return 1
	}
}

all_verify() {
	local job jobs=()

	fio_verify kernel "$disk" 0 &
	jobs+=($!)
	fio_verify fuse "$mnt/disk" 32m &
	jobs+=($!)
	fio_verify lio "$lio" 0 &
	jobs+=($!)
	for job in "${jobs[@]}"; do
		wait "$job"
	done
}

# Interrupts the link for a time that no client notices.
blink() {
	sleep 0.5
}

mounts_are_lost() {
	client_is_lost one && client_is_lost two
}

both_are_lost() {
	ib_srp_is_lost && client_is_lost one
}

# A minute is longer than any timeout here.
short_unplug() {
	vm_cable_unplug
	blink
	vm_cable_plug
}

long_unplug() {
	vm_cable_unplug
	wait_for 60 "$who"_are_lost
	vm_cable_plug
}

short_silence() {
	vm_cable loss 100%
	blink
	vm_cable
}

long_silence() {
	vm_cable loss 100%
	wait_for 60 "$who"_are_lost
	vm_cable
}

# flap COUNT WHO THROUGH...: interrupts the link COUNT times, in one of the ways
# ${kinds[@]}, under load through each THROUGH. WHO names them: mounts or both.
flap() {
	local count=$1 who=$2 i kind

	shift 2
	proof_start "$@"
	for ((i = 1; i <= count; i++)); do
		kind=${kinds[i % ${#kinds[@]}]}
		proof_ask ops $((10 + RANDOM % 50))
		$kind
		# Reads and checks all blocks after every fifth interruption.
		# Each time that is one of another kind.
		[ $((i % 5)) = 0 ] || [ "$i" = "$count" ] || continue
		proof_ask since
		proof_ask round
		proof_times "$VM_OUT/$who.$kind"
		echo "[$SECONDS s] $i, the last a $kind: $proof_said"
	done
	proof_end
	for kind in "${kinds[@]}"; do
		[ ! -e "$VM_OUT/$who.$kind" ] ||
			tell_times "$VM_OUT/$who.$kind" \
				"usable by $who after $kind"
	done
}

vm_two_hosts
# By default, ib_srp registers memory with a work request for each command. If
# packets are lost, soft-RoCE executes that request again, which fails
# (rdma_rxe: rxe_reg_fast_mr: mr->lkey = 0x6fd not free), and sends nothing
# more: the disk hangs until the SCSI layer gives up, one and a half minutes
# later.
modprobe ib_srp never_register=Y
vm_scratch_fs "$work" 256
mkdir "$mnt" "$two"
truncate -s 64M "$work/disk.img"
truncate -s 16M "$work/lio.img"
touch "$lio"
target_start --verbose --listen srp+rdma://10.1.0.2 \
	--backing "$work/disk.img,name=disk"
target_names
disk=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.1.0.2:5555)
mount_start one srp+rdma://10.1.0.2 "$mnt"
fuse_one=$fuse

# The kernel's target is another port of the same host.
vm_kernel_target --device rxe1 --port 5556 "$work/lio.img"
names="id_ext=$VM_ID_EXT&ioc_guid=$VM_IOC_GUID"
names+="&initiator=$(vm_kernel_initiator_id)"
mount_start lio "srp+rdma://10.1.0.2:5556/0?$names" "$lio"
fuse_lio=$fuse

IFS=, read -r -a list <<<"$links"
for link in "${list[@]}"; do
	step "fio verifies through: $link"
	# shellcheck disable=SC2086 # words
	vm_cable $link
	all_verify
	vm_cable
	echo "logins at rdma-target so far: $(grep -c ': login of' "$VM_OUT/target.log")"
done
kill "$fuse_lio" "$fuse_one"
ends_well "$fuse_lio"
ends_well "$fuse_one"
vm_kernel_logout "$disk"
vm_kernel_target_down

# With these options the mounts notice sooner, so that more happens in the time.
sooner=(-o io_timeout=3,reconnect_delay=0.5)
step "no link, $flaps times, under two mounts"
kinds=(short_silence long_silence short_unplug long_unplug)
mount_start one "${sooner[@]}" srp+rdma://10.1.0.2 "$mnt"
fuse_one=$fuse
mount_start two "${sooner[@]}" srp+rdma://10.1.0.2 "$two"
flap "$flaps" mounts "$mnt/disk" "$two/disk"
kill "$fuse"
ends_well "$fuse"

step "and $flaps_kernel times under the kernel's initiator and rdma-fuse"
if [ "$flaps_kernel" != 0 ]; then
	disk=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.1.0.2:5555 tl_retry_count=2)
	ib_srp_pauses 1
	flap "$flaps_kernel" both "$mnt/disk" "$disk"
	vm_kernel_logout "$disk"
fi

step "all end well"
kill "$fuse_one"
ends_well "$fuse_one"
wait_for 60 holds_no_queue_pair "$target"
kill "$target"
ends_well "$target"
wait_for 10 nothing_is_held
vm_fails vm_dmesg_complaints
