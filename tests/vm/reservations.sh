#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Two sessions of the kernel's initiator fence each other off one disk of
# rdma-target, as the nodes of a cluster do, across a kill -9 of the target.
# Also the other state of a unit that survives, and that a unit can grow. The disk
# is a file, or an image of Ceph RBD that keeps the reservations (VM_STORE=rbd).
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"

work=/mnt/scratch
# shellcheck source=tests/vm/disk_store.sh
. "${VM_LIB%/*}/disk_store.sh"
log=$VM_OUT/target.log

show_log() {
	echo "the target's log:"
	tail -n 40 "$log"
}

target_start() {
	rm -f "$work/pid"
	"$BUILD/target/rdma-target" --pidfile "$work/pid" \
		--state-dir "$work/state" --backing "$store$as_gateway" \
		>>"$log" 2>&1 &
	target=$!
	wait_for 60 test -s "$work/pid"
	login=$(grep -o 'id_ext=.*,dest=10\.0\.0\.1:5555' "$log" | tail -n 1)
	id_ext=${login#id_ext=} id_ext=${id_ext%%,*}
	ioc_guid=${login#*ioc_guid=} ioc_guid=${ioc_guid%%,*}
}

# Logs in two initiator ports; sets a and b, the disk as each of them sees it.
login_both() {
	a=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.0.0.1:5555 \
		initiator_ext=000000000000000a)
	b=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.0.0.1:5555 \
		initiator_ext=000000000000000b)
	[ "$a" != "$b" ]
	clear_attention "$a"
	clear_attention "$b"
}

# The next command gets any pending unit attention.
clear_attention() {
	sg_turs "$1" >/dev/null 2>&1 || sg_turs "$1" >/dev/null 2>&1 ||
		sg_turs "$1"
}

# One block, written past the page cache.
can_write() {
	dd if=/dev/zero of="$1" bs=4k count=1 oflag=direct status=none \
		2>/dev/null
}

can_read() {
	dd if="$1" of=/dev/null bs=4k count=1 iflag=direct status=none \
		2>/dev/null
}

keys() {
	sg_persist --in --read-keys "$1" 2>/dev/null | grep -c '^ *0x'
}

trap 'status=$?; [ $status = 0 ] || show_log' EXIT

vm_soft_roce
vm_scratch_fs "$work" 1536
store_start
as_gateway=
[ "$store_kind" = file ] || as_gateway=,gateways=1,gateway=1,role=active
mkdir "$work/state"
target_start

step "two initiator ports log in"
login_both

step "both register, to last; one reserves for registrants only"
sg_persist --out --register --param-sark=a --param-aptpl "$a"
sg_persist --out --register --param-sark=b --param-aptpl "$b"
sg_persist --out --reserve --param-rk=a --prout-type=5 "$a"
sg_persist --in --read-full-status "$a"
[ "$(keys "$b")" = 2 ]
can_write "$a"
can_write "$b"

step "who unregisters is shut out of writing, not of reading"
sg_persist --out --register --param-rk=b --param-sark=0 --param-aptpl "$b"
vm_fails can_write "$b"
can_read "$b"
sg_persist --out --register --param-sark=b --param-aptpl "$b"
can_write "$b"

step "kill -9 and restart: all of it is still there"
kill -9 "$target"
wait "$target" || true
vm_kernel_logout
target_start
login_both
[ "$(keys "$a")" = 2 ]
sg_persist --in --read-reservation "$b" | grep -i 'registrants only'
can_write "$a"
can_write "$b"

step "one fences the other, which is told and shut out"
sg_persist --out --preempt-abort --param-rk=b --param-sark=a --prout-type=5 "$b"
clear_attention "$a"
vm_fails can_write "$a"
can_write "$b"
[ "$(keys "$a")" = 1 ]

step "clear: everyone may again, also after a restart"
sg_persist --out --clear --param-rk=b "$b"
can_write "$a"
vm_kernel_logout
kill "$target"
wait "$target"
target_start
login_both
[ "$(keys "$a")" = 0 ]
can_write "$a"

step "the write cache goes off, and stays off"
for file in /sys/class/scsi_disk/*/cache_type; do
	[ "$store_kind" = rbd ] || [ "$(cat "$file")" = 'write back' ]
done
echo 'write through' >"$file"
kill -9 "$target"
wait "$target" || true
vm_kernel_logout
target_start
login_both
for file in /sys/class/scsi_disk/*/cache_type; do
	[ "$(cat "$file")" = 'write through' ]
done

step "the disk grows under its initiators"
store_grow 96
# A target learns by itself of the size of an image.
[ "$store_kind" = rbd ] || kill -HUP "$target"
wait_for 30 grep -q 'has grown' "$log"
clear_attention "$a"
for disk in "$a" "$b"; do
	echo 1 >"/sys/block/${disk#/dev/}/device/rescan"
	[ "$(blockdev --getsize64 "$disk")" = $((96 << 20)) ]
done
dd if=/dev/urandom of="$a" bs=1M seek=90 count=4 oflag=direct status=none

step "log pages, target port groups, opcodes as sg3_utils reads them"
sg_logs --page=0x2f "$a"
sg_rtpg "$a"
sg_stpg --optimized "$a"
sg_opcodes "$a" >/dev/null
sg_modes "$a" >/dev/null
sg_vpd --page=ei "$a"

step "nobody complained"
vm_kernel_logout
kill "$target"
wait "$target"
store_end
vm_fails vm_dmesg_complaints
echo "passed"
