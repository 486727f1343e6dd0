#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Stores that change places between the kill of a target and its next start.
# Some are device-mapper devices, which exchange their numbers and keep their
# UUIDs.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"

modprobe -a loop dm_mod
wait_for 20 test -c /dev/loop-control
wait_for 20 test -c /dev/mapper/control
dmsetup version

# On a file system that reports when a file was made.
vm_scratch_fs /mnt/scratch
mount --bind /mnt/scratch /tmp
ROUNDS=8 CMOCKA_MESSAGE_OUTPUT=TAP "$BUILD/tests/functional/test_which_store" |
	tee /run/which_store.out
grep -q 'ok .*devices with UUIDs' /run/which_store.out
