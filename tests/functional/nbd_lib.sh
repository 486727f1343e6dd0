# SPDX-License-Identifier: BSD-2-Clause
# Tests with NBD servers. Source this file in place of lib.sh, which it
# includes. All tests are skipped if a program is missing.
#
#   serve ARG...       starts nbdkit at the socket $S; sets $SERVER
#   serve_tcp ARG...   the same at a port of 127.0.0.1; sets $P
#   serve_port ARG...  the same at port $P
#   stop, crash        end the server by SIGTERM or SIGKILL
#   uri [EXPORT]       prints the SPEC of a volume at the socket
#   keeps SPEC         rdma-target --check-plugin; $T/checked has its output
. "$(dirname "$0")/lib.sh"

RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/nbd
export RDMA_BLOCK_PLUGIN_PATH
[ -e "$RDMA_BLOCK_PLUGIN_PATH/rdma-block-plugin-nbd.so" ] ||
	t_skip_all 'built without libnbd'
# Debian: nbdkit, qemu-utils, qemu-system-common, gnutls-bin.
for program in nbdkit qemu-img qemu-storage-daemon fio python3; do
	command -v $program >/dev/null || t_skip_all "no $program here"
done
S=$T/server

has_pid() { [ -s "$S.pid" ]; }

serve() {
	rm -f "$S" "$S.pid"
	nbdkit -f -U "$S" -P "$S.pid" "$@" >"$T/nbdkit.log" 2>&1 &
	SERVER=$!
	t_pids="$t_pids $SERVER"
	t_wait_for 10 has_pid || t_bail "$(cat "$T/nbdkit.log")"
}

stop() {
	kill "$SERVER"
	wait "$SERVER" 2>/dev/null
}

crash() {
	kill -9 "$SERVER"
	wait "$SERVER" 2>/dev/null
}

uri() { echo "nbd:nbd+unix:///${1-}?socket=$S"; }

keeps() { # SPEC
	rdma-target --check-plugin "$1" >"$T/checked"
	status=$?
	cat "$T/checked"
	[ $status = 0 ] && grep -q '^opens .*ok' "$T/checked"
}

serve_tcp() {
	P=$((20000 + ($(od -An -N2 -tu2 /dev/urandom) % 12000)))
	serve_port "$@"
}

serve_port() {
	rm -f "$S.pid"
	nbdkit -f -i 127.0.0.1 -p "$P" -P "$S.pid" "$@" >"$T/nbdkit.log" 2>&1 &
	SERVER=$!
	t_pids="$t_pids $SERVER"
	t_wait_for 10 has_pid || t_bail "$(cat "$T/nbdkit.log")"
}
