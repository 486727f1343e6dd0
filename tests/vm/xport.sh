#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The transport on real verbs: first the special promises of the verbs provider,
# then the contract of all providers.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"

vm_soft_roce
"$BUILD/tests/vm/test_verbs"
T_PROVIDER=verbs T_ADDR=10.0.0.1 "$BUILD/tests/unit/test_xport"

# No SEND had to wait for a receive buffer, and nothing is left except the queue
# pair of the connection manager.
[ "$(vm_rnr_count)" = 0 ]
vm_fails grep -v 'type GSI' <<<"$(rdma resource show qp)"
