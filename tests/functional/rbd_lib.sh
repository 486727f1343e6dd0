# SPDX-License-Identifier: BSD-2-Clause
# Tests with a Ceph cluster. Source this file in place of lib.sh, which it
# includes.
#
#   r_needs_ceph [ARG...]   starts a cluster in $C (scripts/ceph up), and ends
#                           it with the test; skips all tests without Ceph
#   refused NAME PATTERN SPEC
#                           one test: rdma-target refuses SPEC with one line that
#                           matches PATTERN
#   r_gateway NUMBER ARG [PORT [AS]]
#                           starts target NUMBER of two that serve the image
#                           rbd/img, or one that has the number AS by mistake;
#                           sets GATE_NUMBER and PORT_NUMBER
#   r_gateway_stop NUMBER   ends it with SIGTERM
#   r_said NUMBER PATTERN CNT
#                           its log has CNT lines that match PATTERN
. "$(dirname "$0")/lib.sh"

src=$(cd "$(dirname "$0")/../.." && pwd)
C=$T.ceph
RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/rbd
CEPH_CONF=$C/ceph.conf
export RDMA_BLOCK_PLUGIN_PATH CEPH_CONF
unset CEPH_ARGS CEPH_KEYRING

# In this order: if the cluster is gone, a target takes long to end.
r_cleanup() {
	t_cleanup
	[ ! -e "$C/ceph.conf" ] || "$src/scripts/ceph" down "$C"
}

r_needs_ceph() {
	[ -e "$RDMA_BLOCK_PLUGIN_PATH/rdma-block-plugin-rbd.so" ] ||
		t_skip_all 'built without librbd'
	"$src/scripts/ceph" install 2>"$T/install" ||
		t_skip_all "$(cat "$T/install")"
	t_needs_fuse
	trap r_cleanup EXIT
	"$src/scripts/ceph" up "$C" "$@" 2>"$T/up" || t_bail "$(cat "$T/up")"
}

refused() {
	t_refused "$1" "$2" timeout 60 rdma-target \
		--listen srp+tcp://127.0.0.1:1 --backing "$3"
}

r_gateway() {
	for r_try in 1 2 3 4 5; do
		port=${3:-$((20000 + ($(od -An -N2 -tu2 /dev/urandom) % 12000)))}
		: >"$T/log.$1"
		rdma-target --listen "srp+tcp://127.0.0.1:$port" \
			--backing "rbd:rbd/img,gateways=2,gateway=${4:-$1},$2" \
			>"$T/log.$1" 2>&1 &
		pid=$!
		eval "GATE_$1=$pid PORT_$1=$port"
		t_pids="$t_pids $pid"
		t_wait_for 30 r_serves "$1" $pid && return
		grep -q 'in use' "$T/log.$1" || break
	done
	t_bail "$(cat "$T/log.$1")"
}

r_serves() {
	grep -q 'rdma-fuse srp' "$T/log.$1" || t_is_gone "$2"
	! t_is_gone "$2" && grep -q 'rdma-fuse srp' "$T/log.$1"
}

r_gateway_stop() {
	eval "pid=\$GATE_$1"
	kill "$pid"
	wait "$pid"
}

r_said() { [ "$(grep -c "$2" "$T/log.$1")" -ge "$3" ]; }
