#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# docs/operate.md: runs each command in order, and expects the output that the page
# shows.
. "$(dirname "$0")/doc_lib.sh"
. "$(dirname "$0")/lib.sh"
command -v rdma-ctl >/dev/null || t_skip_all 'built without jansson'
t_needs_fuse
PAGE=$(realpath "$(dirname "$0")/../../docs/operate.md")
DAY=$T/day
mkdir "$DAY"
t_mounts=$DAY/mnt
export RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/qos
d_here="s|/tmp/day|$DAY|g; s|:5599|:$((20000 + RANDOM % 12000))|g"

# Removes values that differ each time.
d_same() {
	sed -E 's/[0-9-]{10} [0-9:]{8}/DATE/; s/0x[0-9a-f]{32}/INITIATOR/; s/ [.]{2,} / .. /
		s/ \(localhost\) */ /; s/^(INITIATOR +ADDRESS) +/\1 /; s/process [0-9]+(, [0-9]+ threads)?/process/
		s/rdma-target [0-9.]+,/rdma-target,/; s/ +$//
		/^target sessions|read.s [0-9]/s/[0-9.]+([mu]?s)?|-\//N/g; s/N[-N/]+/N/g'
}

sed -n '/^```json/,/^```/p' "$PAGE" | grep -v '^```' | sed "$d_here" >"$DAY/rdma-target.json"
d_page "$PAGE"
wait
t_result $? 'the target has ended'
t_done
