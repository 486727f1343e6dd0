#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Parts 2 and 3 of docs/tutorial.md: over verbs, and with the kernel as initiator. One
# guest plays both machines.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
vm_soft_roce
vm_scratch_fs /mnt/scratch 512
modprobe fuse

TMPDIR=/mnt/scratch D_AS=vm/tutorial bash "${VM_LIB%/*}/../functional/tutorial.sh" |
	tee "$VM_OUT/tutorial.tap"
grep -q '^1\.\.[1-9]' "$VM_OUT/tutorial.tap"
vm_fails grep -q '^not ok' "$VM_OUT/tutorial.tap"
