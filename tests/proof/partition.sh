#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Target and clients are disconnected from each other, or stop for a while, for
# less and for more time than their timeouts. No acknowledged write is lost, no
# block is mixed, no old write overwrites a newer one, and all clients continue
# afterwards.
P_COUNT=${P_COUNT:-3}
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.sh"
t_needs_fuse

M=$T/mnt
mkdir "$M"
truncate -s 64M "$T/disk.img"
p_own_net
p_target --rdma-timeout 2 --keepalive 2 --backing "$T/disk.img,name=disk"
p_client "$M"

kinds='stop_client stop_target'
[ -z "$P_NET" ] ||
	kinds='link_down stop_client stop_target swallow cut_connections'

# Takes the $kinds by turns, so that each of them has short and long durations.
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
		p_note "turn $p_turn: $kind $span" || return 1
		$kind "$span"
		p_note over
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
t_check "usable within ${P_WITHIN:-any number of} s of each" p_all_within
t_check 'the mount ends well' fusermount3 -u "$M"
t_done
