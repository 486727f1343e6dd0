#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# libfabric is loaded by who asks for srp+ofi://, and by nobody else.
. "$(dirname "$0")/lib.sh"

is_linked() {
	for file in target/rdma-target fuse/rdma-fuse initiator/rdma-info \
		initiator/libsrpi.so; do
		readelf -dW "$BUILD/$file" | grep NEEDED
	done | grep -i fabric
}

is_not_linked() {
	! is_linked
}

# The sandbox is closed behind it.
lists_by() {
	rdma-info "$1${URI#srp+ofi}" >"$T/stdout"
	status=$?
	cat "$T/stdout" "$T/target.log"
	[ $status = 0 ] && grep -q ' disk  *16 MiB ' "$T/stdout"
}

is_mapped() {
	grep -q libfabric "/proc/$T_TARGET/maps"
}

is_not_mapped() {
	! is_mapped
}

truncate -s 16M "$T/disk.img"
t_check 'no program is linked with it' is_not_linked
T_HOST=srp+ofi://127.0.0.1
t_target --backing "$T/disk.img,name=disk"
t_check 'a target that listens by it has it' is_mapped
t_check 'serves srp+ofi://' lists_by srp+ofi
t_check 'and srp+tcp://' lists_by srp+tcp
kill "$T_TARGET"
t_wait_for 10 t_is_gone "$T_TARGET"

T_HOST=srp+tcp://127.0.0.1
t_target --backing "$T/disk.img,name=disk"
t_check 'another has not' is_not_mapped

# In the place of the real one.
mkdir "$T/lib"
echo 'not a library' >"$T/lib/libfabric.so.1"
why='srp\+ofi:// needs libfabric, which cannot be loaded .*libfabric\.so\.1:.*srp\+tcp://'
t_refused 'a target says what is missing' "$why" \
	env LD_LIBRARY_PATH="$T/lib" \
	rdma-target --backing ram:1M --listen srp+ofi://127.0.0.1:5
t_refused 'and so does a client' "$why" \
	env LD_LIBRARY_PATH="$T/lib" rdma-info srp+ofi://127.0.0.1:5
t_done
