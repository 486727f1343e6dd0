# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Functions for programs that run in the guest of scripts/vm:
#
#     . "$VM_LIB"
#
# A function that cannot do its work prints one line to stderr and returns 1, so
# that `set -e` ends the program. Deadlines are in seconds; the guest is slow, and
# shares a busy host, so they are long. They only bound how long a failure takes:
# everything here waits for what it needs, not for time to pass.

vm_say() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

# wait_for SECONDS COMMAND...: until COMMAND succeeds.
wait_for() {
	local deadline=$((SECONDS + $1))
	shift
	until "$@"; do
		if [ "$SECONDS" -ge "$deadline" ]; then
			vm_say "waited in vain for: $*"
			return 1
		fi
		sleep 0.1
	done
}

_vm_port_is_active() {
	grep -q ACTIVE "/sys/class/infiniband/$1/ports/1/state"
}

# vm_soft_roce [INTERFACE]: makes the dummy interface (default d0) with the
# addresses 10.0.0.1 and 10.0.0.2 (and fe80::5054:ff:fe12:3456), an MTU of 9000
# and on it the RDMA device rxe0. Both addresses are on the one device: whoever
# connects from either to the other goes through it.
vm_soft_roce() {
	local interface=${1:-d0} address

	modprobe -a dummy crc32_generic rdma_rxe ib_uverbs rdma_ucm || return
	ip link add "$interface" address 52:54:00:12:34:56 mtu 9000 type dummy || return
	for address in 10.0.0.1/24 10.0.0.2/24; do
		ip address add "$address" dev "$interface" || return
	done
	ip link set "$interface" up || return
	rdma link add rxe0 type rxe netdev "$interface" || return
	wait_for 20 _vm_port_is_active rxe0
	wait_for 20 test -c /dev/infiniband/rdma_cm
}
