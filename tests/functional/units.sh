#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The files of the units, as they are installed.
. "$(dirname "$0")/lib.sh"

UNITS="target/rdma-target.service target/rdma-target@.service fuse/rdma-fuse@.service
	discover/rdma-discover.service"

# has FILE SECTION LINE
has() {
	sed -n "/^\[$2\]/,/^\[/p" "$BUILD/$1" | grep -Fx "$3"
}
comes_back() { # FILE
	has "$1" Unit StartLimitIntervalSec=0 && has "$1" Service Restart=on-failure
}

for unit in $UNITS; do
	t_check "${unit#*/} is started again until it works" comes_back "$unit"
done
t_done
