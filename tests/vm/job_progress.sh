#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# SANITIZE of the kernel's initiator: rdma-ctl says how far it is and how long it takes. The
# log and the events tell of its end.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
command -v sg_sanitize >/dev/null || { vm_say 'no sg_sanitize here'; exit 77; }
work=/run/work
mkdir -p "$work"
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"

ctl() {
	"$BUILD/ctl/rdma-ctl" --control "$work/control" "$@"
}

lists() { # PATTERN
	ctl volume list | grep -E "$1"
}

vm_soft_roce
target_start --control "$work/control" --listen srp+rdma://10.0.0.1 \
	--backing ram:256M,name=job,fault=write:delay=1000,fault=zero:delay=1000
target_names
disk=$(vm_kernel_login "$id_ext" "$ioc_guid" 10.0.0.1:5555)
ctl events >"$VM_OUT/events.txt" 2>/dev/null &
events=$!
wait_for 30 grep -q begin "$VM_OUT/events.txt"
dd if=/dev/urandom of="$disk" bs=64k count=1 oflag=direct status=none

step "an estimate, while it runs"
sg_sanitize --overwrite --zero --early --quick "$disk"
wait_for 30 lists '^0 +job .* sanitizing, [0-9]+ %, about 0:0[0-9]:[0-9]{2} to go;'

step "and the end"
wait_for 60 lists '^0 +job .* ready;'
wait_for 30 grep -Eq ' job-done ' "$VM_OUT/events.txt"
cat "$VM_OUT/events.txt"
wait_for 30 grep -q 'SANITIZE is done' "$VM_OUT/target.log"
dd if="$disk" bs=64k count=1 iflag=direct status=none | cmp -n 65536 - /dev/zero

vm_kernel_logout
kill "$target"
ends_well "$target"
wait "$events" || true
