#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# docs/tutorial.md: runs each command in order, and expects the output that the page
# shows.
# $D_AS chooses the parts (doc_lib.sh). Default: the one without RDMA and Ceph.
. "$(dirname "$0")/doc_lib.sh"
[ "$D_AS" = vm/tutorial ] || d_alone
if [ "$D_AS" = tutorial_ceph ]; then
	. "$(dirname "$0")/rbd_lib.sh"
	r_needs_ceph
else
	. "$(dirname "$0")/lib.sh"
fi
t_needs_fuse
command -v fio >/dev/null || t_skip_all 'no fio here'
[ "$D_AS" = vm/tutorial ] || [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ] ||
	t_skip_all 'this machine has an RDMA device: these parts are for one without'
PAGE=$(realpath "$(dirname "$0")/../../docs/tutorial.md")
t_mounts=$T/try/mnt
d_here="s|/tmp/try|$T/try|g"
cd "$T" || t_bail "no $T"
d_page "$PAGE"
cd /
t_done
