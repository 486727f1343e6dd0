#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# TLS over TCP with records of the kernel: the contract of the transport, and what only
# TLS has.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"

modprobe tls
T_PROVIDER=tls "$BUILD/tests/unit/test_xport"
"$BUILD/tests/unit/test_tls"
cat /proc/net/tls_stat
# The kernel had both directions of connections. test_tls sends bad records.
stat() {
	awk -v name="$1" '$1 == name { print $2 }' /proc/net/tls_stat
}
[ "$(stat TlsTxSw)" -gt 0 ]
[ "$(stat TlsRxSw)" -gt 0 ]
[ "$(stat TlsCurrTxSw)" = 0 ]
[ "$(stat TlsCurrRxSw)" = 0 ]
