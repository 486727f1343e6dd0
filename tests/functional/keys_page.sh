#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# docs/keys.md: runs each command in order, and expects the output that the page shows.
. "$(dirname "$0")/doc_lib.sh"
. "$(dirname "$0")/lib.sh"
command -v rdma-ctl >/dev/null || t_skip_all 'built without jansson'
command -v openssl >/dev/null || t_skip_all 'no openssl'
t_needs_fuse
PAGE=$(realpath "$(dirname "$0")/../../docs/keys.md")
mkdir "$T/try"
t_mounts=$T/try/mnt
d_here="s|/tmp/try|$T/try|g; s|:5599|:$((20000 + RANDOM % 12000))|g"
d_same() { sed -E 's/0x[0-9a-f]{32}/INITIATOR/; s/ +$//'; }
d_page "$PAGE"
wait
t_result $? 'the target has ended'
t_done
