#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# docs/discover.md: each command is run, in its order, and prints what the page says.
# $D_AS=vm/tutorial: those that need RDMA.
. "$(dirname "$0")/doc_lib.sh"
[ "$D_AS" = vm/tutorial ] || d_alone
. "$(dirname "$0")/lib.sh"
PATH=$BUILD/discover:$PATH
t_needs_fuse
if [ "$D_AS" != vm/tutorial ]; then
	[ -z "$(ls /sys/class/infiniband 2>/dev/null)" ] ||
		t_skip_all 'this machine has an RDMA device: these parts are for one without'
	hostname storage
fi
PAGE=$(realpath "$(dirname "$0")/../../docs/discover.md")
t_mounts=$T/try/mnt
d_here="s|/tmp/try|$T/try|g"
cd "$T" || t_bail "no $T"
d_page "$PAGE"
cd /
t_done
