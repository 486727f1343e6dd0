#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Target and clients are cut off from each other, or stop for a while: shorter
# and longer than their timeouts. Nothing acknowledged is lost, nothing is
# mixed, no old write lands on a newer one, and all goes on afterwards.
P_COUNT=${P_COUNT:-3}
. "$(dirname "$0")/lib.sh"
t_needs_fuse

M=$T/mnt
mkdir "$M"
truncate -s 64M "$T/disk.img"

# Shorter than what they wait for, and longer.
SHORT=0.3
LONG=4
times=io_timeout=1,fast_io_fail_tmo=2,reconnect_delay=0.2

# ---- a network of its own for the target, if we may

NS=proof-$$
IF=pf$$
A=10.253.$(($$ / 250 % 250)).$(($$ % 250 + 1))
B=10.254.$(($$ / 250 % 250)).$(($$ % 250 + 1))
has_net=
undo_net() {
	ip netns del "$NS" 2>/dev/null
	ip link del "$IF" 2>/dev/null
}
make_net() {
	[ "$(id -u)" = 0 ] && ip netns add "$NS" &&
		ip link add "$IF" type veth peer name "$IF" netns "$NS" &&
		ip addr add "$A" peer "$B" dev "$IF" && ip link set "$IF" up &&
		ip -n "$NS" addr add "$B" peer "$A" dev "$IF" &&
		ip -n "$NS" link set "$IF" up && ip -n "$NS" link set lo up
}
trap 't_cleanup; undo_net' EXIT
if make_net 2>/dev/null; then
	has_net=yes
	T_HOST=srp+tcp://$B
	ip netns exec "$NS" true || t_bail 'the network namespace cannot be entered'
	# The processes in it have the IDs that the script knows.
	mkdir "$T/bin"
	printf '#!/bin/sh\nexec ip netns exec %s %s "$@"\n' "$NS" \
		"$BUILD/target/rdma-target" >"$T/bin/rdma-target"
	chmod +x "$T/bin/rdma-target"
	PATH="$T/bin:$PATH"
else
	undo_net
	echo '# no network namespace here: only what can be done without'
fi

p_target --rdma-timeout 2 --keepalive 2 --backing "$T/disk.img,name=disk"
rdma-fuse -f -o $times "$URI/disk" "$M" 2>"$T/client.log" &
client=$!
t_pids="$t_pids $client"
t_mounts=$M
t_wait_for 20 test -e "$M/disk" || t_bail "$(cat "$T/client.log")"

# ---- what can be done to them

stop_target() {
	kill -STOP "$T_TARGET"
	sleep "$1"
	kill -CONT "$T_TARGET"
}
stop_client() {
	kill -STOP "$client"
	sleep "$1"
	kill -CONT "$client"
}
link_down() {
	ip link set "$IF" down
	sleep "$1"
	ip link set "$IF" up
}
cut_connections() {
	ss -K dst "$B" dport = "$T_PORT" >/dev/null 2>&1
}
# The connections stay, and all that is sent is swallowed.
swallow() {
	ip -n "$NS" addr del "$B" peer "$A" dev "$IF"
	sleep "$1"
	ip -n "$NS" addr add "$B" peer "$A" dev "$IF"
}

if [ -n "$has_net" ]; then
	kinds='link_down stop_client stop_target swallow cut_connections'
else
	kinds='stop_client stop_target'
fi

# One of $kinds by turns; long and short so that each is both, in time.
pick() {
	set -- $kinds
	i=$((p_turn - 1))
	span=$LONG
	[ $(((i + i / $# * (1 - $# % 2)) % 2)) = 0 ] || span=$SHORT
	shift $((i % $#))
	kind=$1
}

cuts() {
	p_load --seed "$P_SEED" "$M/disk" "$URI/disk" || return 1
	while p_go_on; do
		pick
		p_random 100
		p_ask ops $((20 + P_RANDOM)) || return 1
		$kind "$span"
		p_ask since
		p_ask round && p_times || return 1
		echo "$kind $span $P_USABLE" >>"$T/kinds"
	done
	p_end
}
cuts
t_result $? "cut off or stopped $p_turn times: no write lost, mixed or late"
p_tell_times 'usable after the end of it'
awk '{ k = $1 " " $2; n[k]++; s[k] += $3; if ($3 > m[k]) m[k] = $3 }
	END { for (k in n) printf "#   %s s: %d times, mean %.3f, max %.3f\n", \
		k, n[k], s[k] / n[k], m[k] }' "$T/kinds" | sort
echo "# lost connections: $(grep -c 'lost' "$T/client.log") lines in the client's log"
t_check "usable within ${P_WITHIN:-any number of} s of each" p_all_within
t_check 'the mount ends well' fusermount3 -u "$M"
t_done
