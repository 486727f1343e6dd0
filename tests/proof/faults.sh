# SPDX-License-Identifier: BSD-2-Clause
# Faults of a target and a client. Source this file after lib.sh.
#
#   p_own_net         a network of its own for the target, if permitted: then
#                     $P_NET is not empty, and p_target starts it there
#   p_client DIR      mount all volumes at DIR: sets $P_CLIENT and $P_TIMES
#   things            the functions below; each takes its duration in seconds

P_NET=
# Durations that are shorter and longer than the timeouts.
SHORT=0.3
LONG=4
P_TIMES=io_timeout=1,fast_io_fail_tmo=2,reconnect_delay=0.2

p_ns=proof-$$
p_if=pf$$
p_here=10.253.$(($$ / 250 % 250)).$(($$ % 250 + 1))
p_there=10.254.$(($$ / 250 % 250)).$(($$ % 250 + 1))

p_undo_net() {
	ip netns del "$p_ns" 2>/dev/null
	ip link del "$p_if" 2>/dev/null
	ip route del unreachable "$p_there" metric 9999 2>/dev/null
}

# Without its link, the target must not be looked for elsewhere.
p_make_net() {
	[ "$(id -u)" = 0 ] && ip netns add "$p_ns" &&
		ip link add "$p_if" type veth peer name "$p_if" netns "$p_ns" &&
		ip addr add "$p_here" peer "$p_there" dev "$p_if" &&
		ip link set "$p_if" up &&
		ip route add unreachable "$p_there" metric 9999 &&
		ip -n "$p_ns" addr add "$p_there" peer "$p_here" dev "$p_if" &&
		ip -n "$p_ns" link set "$p_if" up &&
		ip -n "$p_ns" link set lo up && ip netns exec "$p_ns" true
}

p_own_net() {
	trap 't_cleanup; p_undo_net' EXIT
	if ! p_make_net 2>/dev/null; then
		p_undo_net
		echo '# no network namespace here: only what can be done without'
		return
	fi
	P_NET=yes
	T_HOST=srp+tcp://$p_there
	# Only with exec: the script knows the process ID.
	mkdir "$T/bin"
	printf '#!/bin/sh\nexec ip netns exec %s %s "$@"\n' "$p_ns" \
		"$BUILD/target/rdma-target" >"$T/bin/rdma-target"
	chmod +x "$T/bin/rdma-target"
	PATH="$T/bin:$PATH"
}

p_client() {
	t_mounts="$t_mounts $1"
	rdma-fuse -f -o $P_TIMES "$URI" "$1" 2>>"$T/client.log" &
	P_CLIENT=$!
	t_pids="$t_pids $P_CLIENT"
	t_wait_for 20 test -e "$1/disk" || t_bail "$(cat "$T/client.log")"
}

stop_target() {
	kill -STOP "$T_TARGET"
	sleep "$1"
	kill -CONT "$T_TARGET"
}

stop_client() {
	kill -STOP "$P_CLIENT"
	sleep "$1"
	kill -CONT "$P_CLIENT"
}

link_down() {
	ip link set "$p_if" down
	sleep "$1"
	ip link set "$p_if" up
}

# The connections stay, and all data that is sent is dropped.
swallow() {
	ip -n "$p_ns" addr del "$p_there" peer "$p_here" dev "$p_if"
	sleep "$1"
	ip -n "$p_ns" addr add "$p_there" peer "$p_here" dev "$p_if"
}

cut_connections() {
	ss -K dst "$p_there" dport = "$T_PORT" >/dev/null 2>&1
}
