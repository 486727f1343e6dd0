#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A write is stuck in a slow disk while its initiator logs in again. Does it
# overwrite a newer write? The same experiment runs with rdma-target and, for
# comparison, with the kernel's targets:
#
#   1. The target has W1, which is stuck in its disk.
#   2. The initiator closes the connection and makes a new one.
#   3. It sends W1 again, which is written. Then W2 for the same block is
#      written and acknowledged. (Only if the target accepts the login.)
#   4. The disk continues with the first W1.
#
# The medium must have W2. For rdma-target, the test checks this. For the
# kernel's targets, it only reports the result.
#
# "multipath" is dm-multipath on two logins of ib_srp, which are two initiators to
# the target. After the loss of the first one, it uses the second one.
#
#   VM_STALE_ROWS    the rows to run, as "target/initiator/how"; "all" of them
#   VM_STALE_WAIT    the maximum seconds that the disk stays stuck after the
#                    connection request to the target (default 5; multipath: 25,
#                    as it uses the other path when that request was refused)
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"
# shellcheck source=tests/vm/nvme.sh
. "${VM_LIB%/*}/nvme.sh"

all_rows='rdma-target/ib_srp/reset rdma-target/ib_srp/cut
rdma-target/multipath/reset ib_srpt/multipath/reset
rdma-target/rdma-fuse/timeout rdma-target/rdma-fuse/cut
ib_srpt/ib_srp/reset ib_srpt/ib_srp/cut
ib_srpt/rdma-fuse/timeout ib_srpt/rdma-fuse/cut
nvmet-rdma/nvme-rdma/reset nvmet-rdma/nvme-rdma/cut'
rows=${VM_STALE_ROWS:-rdma-target/ib_srp/reset rdma-target/multipath/reset
rdma-target/rdma-fuse/timeout ib_srpt/ib_srp/reset}
[ "$rows" != all ] || rows=$all_rows

control=$work/control
table=$VM_OUT/table

# note WHAT: writes it to the kernel's log, so that all events are in order.
note() {
	echo "<6>$*" >/dev/kmsg
}

# note_log PROCESS NAME: notes all that it writes to NAME.log from now on.
note_log() {
	tail -n 0 -F --pid="$1" "$VM_OUT/$2.log" 2>/dev/null |
		while read -r line; do
			note "$line"
		done &
}

# history: prints the notes since step 1 of this row.
history() {
	dmesg | sed -n '/ --- '"$rows_done"'$/,$p'
}

# noted PATTERN: succeeds if it was noted.
noted() {
	history | grep -q "$1"
}

# --- the targets -------------------------------------------------------------

rdma-target_start() {
	target_start --verbose --listen srp+rdma://10.1.0.2 --backing /dev/nbd0
	login=$(grep -o 'id_ext=.*,dest=10\.1\.0\.2:5555' "$VM_OUT/target.log" |
		tail -n 1)
	id_ext=${login#id_ext=} id_ext=${id_ext%%,*}
	ioc_guid=${login#*ioc_guid=} ioc_guid=${ioc_guid%%,*}
	note_log "$target" target
}

# After this, any process can use the disk at once.
rdma-target_stop() {
	kill "$target"
	ends_well "$target"
	python3 -c 'import os; os.open("/dev/nbd0", os.O_RDWR | os.O_EXCL)'
}

ib_srpt_start() {
	local id

	id=$(vm_kernel_initiator_id)
	vm_kernel_target --device rxe1 --initiator "0000000000000001${id:16}" \
		/dev/nbd0
	id_ext=$VM_ID_EXT ioc_guid=$VM_IOC_GUID
}

ib_srpt_stop() {
	vm_kernel_target_down
}

nvmet-rdma_start() {
	vm_nvme_target /dev/nbd0
}

nvmet-rdma_stop() {
	vm_nvme_target_down
}

# --- the initiators ----------------------------------------------------------

ib_srp_login() {
	local port

	disk=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.1.0.2:5555 \
		tl_retry_count=2)
	for port in /sys/class/srp_remote_ports/*; do
		echo 1 >"$port/reconnect_delay"
	done
}

ib_srp_reset() {
	sg_reset --host --no-escalate "$disk"
}

ib_srp_is_lost() {
	! grep -qx running /sys/class/srp_remote_ports/*/state
}

ib_srp_logout() {
	vm_kernel_logout "$disk"
}

# ib_srp with two paths, which are two initiators to the target.
multipath_login() {
	local port paths table=

	paths=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.1.0.2:5555 \
		tl_retry_count=2)
	first=$paths
	first_port=$(echo /sys/class/srp_remote_ports/*)
	paths+=" $(vm_kernel_login "$id_ext" "$ioc_guid" 10.1.0.2:5555 \
		tl_retry_count=2 initiator_ext=1)"
	for port in /sys/class/srp_remote_ports/*; do
		echo 1 >"$port/reconnect_delay"
		echo 1 >"$port/fast_io_fail_tmo"
	done
	modprobe -a dm_multipath dm_round_robin
	for port in $paths; do
		table+=" round-robin 0 1 1 $port 1000"
	done
	dmsetup create both --table \
		"0 $(blockdev --getsz "$first") multipath 0 0 2 1$table"
	dmsetup mknodes
	disk=/dev/mapper/both
}

multipath_reset() {
	sg_reset --host --no-escalate "$first"
}

multipath_is_lost() {
	! grep -qx running "$first_port/state"
}

multipath_logout() {
	dmsetup remove both
	vm_kernel_logout
}

rdma-fuse_login() {
	local names="id_ext=$id_ext&ioc_guid=$ioc_guid"

	names+="&initiator=$(vm_kernel_initiator_id)"
	disk=$work/volume
	touch "$disk"
	mount_start client --io-timeout "$io_timeout" \
		"srp+rdma://10.1.0.2/0?$names" "$disk"
	note_log "$fuse" client
}

rdma-fuse_is_lost() {
	[ "$(tail -n 1 "$VM_OUT/client.log" | grep -c 'wait .*for the connection$')" = 1 ]
}

rdma-fuse_logout() {
	kill "$fuse"
	ends_well "$fuse"
}

nvme-rdma_login() {
	vm_nvme_login reconnect_delay=1 nr_io_queues=1
	disk=/dev/nvme0n1
}

nvme-rdma_reset() {
	echo 1 >/sys/class/nvme/nvme0/reset_controller
}

nvme-rdma_is_lost() {
	! grep -qx live /sys/class/nvme/nvme0/state
}

nvme-rdma_logout() {
	vm_nvme_logout
}

# --- the experiment ----------------------------------------------------------

put() {
	dd if="$work/$1" of="$disk" bs=4k count=1 seek=256 oflag=direct \
		conv=notrunc status=none
	note "initiator: $1 acknowledged"
}

both_writes() {
	put W1
	put W2
}

# Step 2, in three ways: the connection ends while the first W1 is stuck.

# Because the administrator of the initiator requests it.
tear_by_reset() {
	"$1_reset" &
	resetter=$!
}

# Because the initiator has waited too long for the answer to W1.
tear_by_timeout() {
	true &
	resetter=$!
}

# No packet passes until the initiator has given up the old connection and asked
# for another one. The target has then learned neither of the new connection nor
# of the end of the old one.
tear_by_cut() {
	vm_cable loss 100%
	note "the cable is cut"
	dd if="$disk" of=/dev/null bs=4k count=1 iflag=direct status=none &
	resetter=$!
	wait_for 120 "$1_is_lost"
	note "initiator: connection given up"
	wait_for 60 vm_is_connecting rxe0
	vm_cable
	note "the cable is whole again"
}

# Succeeds if the target has got more connection requests than $1.
has_asked() {
	[ "$(vm_logins_seen rxe1)" -gt "$1" ]
}

is_let_in() {
	! "$1_is_lost"
}

# Succeeds if W2 is acknowledged, or the time $1 has passed.
has_gone_on() {
	noted 'initiator: W2 acknowledged' || [ "$SECONDS" -ge "$1" ]
}

# Succeeds if the disk has executed all that was sent.
is_settled() {
	noted 'W1 that was stuck is written' && noted 'disk: W2 has come'
}

# tell_history: prints the history from step 2 on, which is 0 s.
tell_history() {
	history | sed -nE 's/^\[ *([0-9]+\.[0-9]+)\] /\1 /p' | awk '
		/step 2/ { since = $1 }
		/ib_srpt receiving failed/ { next }
		since { printf "  %+7.2f s  %s\n", $1 - since,
			substr($0, length($1) + 2) }'
}

# row TARGET INITIATOR HOW
row() {
	local target_kind=$1 initiator=$2 how=$3 medium writer seen verdict
	local wait_s=5

	step "$initiator on $target_kind, $how"
	rm -f "$work/medium"
	note "--- $rows_done"
	io_timeout=30
	[ "$how" != timeout ] || io_timeout=2
	[ "$initiator" != multipath ] || wait_s=25
	"${target_kind}_start"
	"${initiator}_login"
	echo "hold W1" >"$control"
	both_writes &
	writer=$!
	wait_for 60 noted 'W1 has come, and is stuck'
	seen=$(vm_logins_seen rxe1)
	note "step 2: $how"
	"tear_by_$how" "$initiator"
	wait_for 60 has_asked "$seen"
	note "the target has got the request for a new connection"
	wait_for 120 has_gone_on $((SECONDS + ${VM_STALE_WAIT:-$wait_s}))
	note "the disk goes on"
	echo release >"$control"
	wait "$writer" || note "initiator: a write failed"
	wait "$resetter" || note "initiator: the other command failed"
	wait_for 60 is_settled
	wait_for 120 is_let_in "$initiator"
	echo "dump $work/medium" >"$control"
	wait_for 20 test -e "$work/medium"
	medium=$(dd if="$work/medium" bs=4k skip=256 count=1 status=none | head -c 2)
	tell_history
	verdict="$target_kind $initiator $how $medium"
	echo "$verdict" | tee -a "$table"
	"${initiator}_logout"
	"${target_kind}_stop"
	rows_done=$((rows_done + 1))
	[ "$target_kind" != rdma-target ] || [ "$medium" = W2 ]
}

trap 'status=$?; [ $status = 0 ] || { tell_history; show_logs; }' EXIT
# The kernel must not drop any note.
sysctl -qw kernel.printk_devkmsg=on
rows_done=0
vm_two_hosts
vm_scratch_fs "$work" 64
mkfifo "$control"
for name in W1 W2; do
	head -c 4096 <(yes "$name") >"$work/$name"
done
modprobe nbd max_part=0
python3 "${VM_LIB%/*}/slow_disk.py" /dev/nbd0 16 "$control" &
wait_for 60 grep -qx 32768 /sys/block/nbd0/size

for each in $rows; do
	# shellcheck disable=SC2086 # three words
	row ${each//\// }
done
echo end >"$control"
wait

step "what the medium held in the end ($(uname -r))"
cat "$table"
vm_fails vm_dmesg_complaints
