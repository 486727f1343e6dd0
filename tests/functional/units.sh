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

# At most SCORE tenths of "exposure", 100 being all.
is_contained() { # FILE SCORE
	cp "$BUILD/$1" "$T/$(basename "$1" | sed 's/@/@test/')"
	systemd-analyze security --offline=true --no-pager --threshold="$2" \
		"$T/$(basename "$1" | sed 's/@/@test/')" | sed -n '$p;/^✗/p'
	systemd-analyze security --offline=true --no-pager --threshold="$2" \
		"$T/$(basename "$1" | sed 's/@/@test/')" >/dev/null
}

for unit in $UNITS; do
	t_check "${unit#*/} is started again until it works" comes_back "$unit"
done
for unit in fuse/rdma-fuse@.service discover/rdma-discover.service; do
	if systemd-analyze security --help 2>/dev/null | grep -q -- --offline; then
		t_check "${unit#*/} is contained" is_contained "$unit" 40
	else
		t_skip "${unit#*/} is contained" 'no systemd-analyze security --offline here'
	fi
done
t_done
