#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Listeners over RDMA are added and removed while the kernel's initiator writes and reads
# back. The target starts with TCP only: it opens the RDMA device for the first of them.
set -euo pipefail

# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"
PATH=$BUILD/ctl:$PATH

ctl() {
	rdma-ctl --control "$work/control" "$@"
}

# load_start NAME DISK OFFSET: until load_end NAME, fio writes 4 MiB of its own and verifies
# them, again and again.
load_start() {
	rm -f "$work/stop.$1"
	until [ -e "$work/stop.$1" ]; do
		fio --name="$1" --filename="$2" --offset="$3" --direct=1 --thread \
			--size=4m --ioengine=libaio --iodepth=16 --rw=randwrite \
			--bsrange=512-64k --verify_state_save=0 --verify=crc32c \
			--verify_fatal=1 --do_verify=1 >"$VM_OUT/$1.txt" 2>&1 || exit 1
	done &
	loads[$1]=$!
	wait_for 30 busy "$2"
}

load_end() { # NAME
	touch "$work/stop.$1"
	ends_well "${loads[$1]}" || {
		cat "$VM_OUT/$1.txt"
		return 1
	}
}

load_goes_on() { # NAME
	kill -0 "${loads[$1]}"
}

# busy DISK: commands are in flight.
busy() {
	grep -qv '^ *0 *0$' "/sys/block/${1#/dev/}/inflight"
}

trap 'status=$?; dmesg >"$VM_OUT/dmesg"; [ $status = 0 ] || show_logs' EXIT
declare -A loads
vm_soft_roce
vm_scratch_fs "$work" 256
truncate -s 64M "$work/disk.img"
target_start --control "$work/control" --threads 2 --listen srp+tcp://127.0.0.1:5599 \
	--backing "$work/disk.img,name=disk"
holds_no_queue_pair "$target"

step "a first listener over RDMA"
ctl listen add srp+rdma://10.0.0.1
ctl status >"$VM_OUT/status"
grep -q ' srp+rdma://10.0.0.1' "$VM_OUT/status"
refuses 'listens there already' ctl listen add srp+rdma://10.0.0.1:5555
refuses 'does not have that address' ctl listen add srp+rdma://10.9.9.9
"$BUILD/discover/rdma-discover" -c 10.0.0.1 >"$VM_OUT/names"
id_ext=$(sed -n 's/^id_ext=\([0-9a-f]*\),.*/\1/p' "$VM_OUT/names")
ioc_guid=$(sed -n 's/.*,ioc_guid=\([0-9a-f]*\),.*/\1/p' "$VM_OUT/names")
first=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.0.0.1:5555)
load_start first "$first" 0

step "a second one, during I/O"
ctl listen add srp+rdma://10.0.0.2:5556
second=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.0.0.2:5556 \
	initiator_ext=0000000000000002)
load_start second "$second" 16m
load_goes_on first

step "the first one goes, and both initiators work on"
ctl listen remove srp+rdma://10.0.0.1
load_goes_on first
load_goes_on second
[ "$(ctl session list | grep -c '^0x')" = 2 ]
vm_fails "$BUILD/initiator/rdma-info" srp+rdma://10.0.0.1
vm_fails vm_kernel_login "$id_ext" "$ioc_guid" 10.0.0.1:5555 \
	initiator_ext=0000000000000003
load_end first

step "it comes back, again and again"
for ((i = 0; i < 10; i++)); do
	ctl listen add srp+rdma://10.0.0.1
	"$BUILD/initiator/rdma-info" srp+rdma://10.0.0.1 >/dev/null
	ctl listen remove srp+rdma://10.0.0.1
done
load_goes_on second

step "TCP goes, and RDMA is the only one"
ctl listen remove srp+tcp://127.0.0.1:5599
refuses 'it is the only one' ctl listen remove srp+rdma://10.0.0.2:5556
vm_kernel_logout "$first"
load_goes_on second
load_end second

step "nothing is left, and nobody complained"
vm_kernel_logout
wait_for 60 holds_no_queue_pair "$target"
kill "$target"
ends_well "$target"
nothing_is_held
vm_fails vm_dmesg_complaints
