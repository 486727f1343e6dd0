#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The transport on real verbs: what the verbs provider promises of its own, then
# the contract of all providers.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"

vm_soft_roce
"$BUILD/tests/vm/test_verbs"
T_PROVIDER=verbs T_ADDR=10.0.0.1 "$BUILD/tests/unit/test_xport"

# Nobody had to wait for a receive buffer, and nothing is left but the queue pair
# of the connection manager.
[ "$(vm_rnr_count)" = 0 ]
vm_fails grep -v 'type GSI' <<<"$(rdma resource show qp)"
