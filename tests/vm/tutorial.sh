#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What documents do over verbs, and with the kernel as initiator and target. One guest plays
# both machines.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
vm_soft_roce
vm_scratch_fs /mnt/scratch 512
modprobe fuse
hostname storage

for page in readme discover_page tutorial; do
	# Multicast of RDMA CM asks the routes for the group, too. They go when a link goes down.
	ip route replace 239.0.0.0/8 dev d0
	wait_for 20 _vm_port_is_active rxe0
	TMPDIR=/mnt/scratch D_AS=vm/tutorial bash "${VM_LIB%/*}/../functional/$page.sh" |
		tee "$VM_OUT/tap"
	grep -q '^1\.\.[1-9]' "$VM_OUT/tap"
	vm_fails grep -q '^not ok' "$VM_OUT/tap"
done
