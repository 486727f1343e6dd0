#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Two targets serve one RBD image to a mount and a session that know both. By
# turns, the OSD, the monitor, the active target and the standby target are
# killed, and the active one is frozen until the other one has taken over. No
# acknowledged write is lost, no block is mixed, and late writes of a target do
# not arrive.
P_COUNT=${P_COUNT:-5}
. "$(dirname "$0")/../functional/rbd_lib.sh"
r_needs_ceph --store bluestore --size 2147483648

M=$T/mnt
mkdir "$M"
rbd create -s 64M img
ARGS=failover=auto,failover-after=1

is_active() { # NUMBER: true if its log last said that it is active
	grep -E '\(img\): (active|in standby)' "$T/log.$1" | tail -n 1 |
		grep -q '): active'
}
one_is_active() { is_active 1 || is_active 2; }
pick_active() { # sets $ACTIVE and $STANDBY
	t_wait_for 60 one_is_active || return 1
	ACTIVE=1 STANDBY=2
	is_active 1 || ACTIVE=2 STANDBY=1
}
kill_gateway() { # NUMBER: and restarts it; keeps a part of its log
	eval "pid=\$GATE_$1 port=\$PORT_$1"
	kill -9 "$pid" && { wait "$pid"; :; }
	cat "$T/log.$1" >>"$T/old.$1"
	r_gateway "$1" "$ARGS" "$port"
}

start_daemon() { # osd|mon: another program may use its port
	for try in 1 2 3 4 5; do
		! "$src/scripts/ceph" start "$C" "$1" || return 0
		sed 's/^/# /' "$C/start.log" | tail -n 5
	done
	return 1
}
# The next daemon needs the files that this one has locked until it is gone.
kill_daemon() { # osd|mon
	pid=$(cat "$C/$1.pid")
	kill -9 "$pid" && t_wait_for 30 t_is_gone "$pid" && start_daemon "$1"
}
osd() { kill_daemon osd; }
monitor() { kill_daemon mon; }
active() {
	kill_gateway "$ACTIVE" && t_wait_for 60 one_is_active
}
standby() { kill_gateway "$STANDBY"; }
freeze() {
	eval "pid=\$GATE_$ACTIVE"
	kill -STOP "$pid"
	t_wait_for 60 is_active "$STANDBY"
	taken=$?
	# The other target has newer commands. The commands that the frozen one
	# had must not be executed now.
	[ $taken != 0 ] || p_ask ops 20
	kill -CONT "$pid"
	[ $taken = 0 ] && t_wait_for 60 knows_it "$ACTIVE"
}
knows_it() { ! is_active "$1"; }

kinds='active osd freeze standby monitor'
pick_kind() {
	set -- $kinds
	shift $(((p_turn - 1) % $#))
	kind=$1
}

turns() {
	p_load --seed "$P_SEED" "$M/img" "$BOTH/img" || return 1
	while p_go_on; do
		pick_kind
		p_random 100
		p_ask ops $((20 + P_RANDOM)) && pick_active || return 1
		p_note "turn $p_turn: $kind, $ACTIVE is active" || return 1
		$kind || { echo "# $kind"; return 1; }
		p_note over
		p_ask since
		p_ask round && p_times || return 1
		echo "$kind $P_USABLE" >>"$T/kinds"
	done
	p_end
}

r_gateway 1 "$ARGS,role=active"
r_gateway 2 "$ARGS"
BOTH=srp+tcp://127.0.0.1:$PORT_1,127.0.0.1:$PORT_2
t_mounts="$t_mounts $M"
rdma-fuse -f --io-timeout 2 --fast-io-fail-tmo 300 "$BOTH/img" "$M" \
	2>"$T/client.log" &
client=$!
t_pids="$t_pids $client"
t_wait_for 20 test -e "$M/img" || t_bail "$(cat "$T/client.log")"

turns
t_result $? "killed or frozen $p_turn times: no write lost, mixed or late"
p_tell_times 'usable after the end of it'
awk '{ n[$1]++; s[$1] += $2; if ($2 > m[$1]) m[$1] = $2 }
	END { for (k in n) printf "#   %s: %d times, mean %.3f, max %.3f\n", \
		k, n[k], s[k] / n[k], m[k] }' "$T/kinds" | sort
t_check 'no flush failed' eval '! grep -e "may have lost" -e "flush.*failed" \
	"$T/client.log"'
t_check 'the mount ends well' fusermount3 -u "$M"
t_done
