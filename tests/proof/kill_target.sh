#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The target is killed with SIGKILL while clients write, and started again. All
# acknowledged data is there, no block is mixed, and all clients continue.
P_COUNT=${P_COUNT:-5}
. "$(dirname "$0")/lib.sh"
t_needs_fuse

M=$T/mnt
mkdir "$M"
truncate -s 64M "$T/disk.img"
# The seed selects one of 16 combinations.
p_pick block 512 4096
p_pick direct off on
p_pick threads 1 2
p_pick channels 1 3
echo "# block-size=$block,direct=$direct, --threads $threads, --channels $channels"
p_target --threads "$threads" \
	--backing "$T/disk.img,name=disk,block-size=$block,direct=$direct"
t_mount --channels "$channels" "$URI/disk" "$M" 2>"$T/mount.log" ||
	t_bail "$(cat "$T/mount.log")"

kills() {
	p_load --seed "$P_SEED" --block-size "$block" "$M/disk" "$URI/disk" || return 1
	while p_go_on; do
		p_random 300
		p_ask ops $((20 + P_RANDOM)) && p_ask kill "$T_TARGET" || return 1
		wait "$T_TARGET" 2>/dev/null
		p_ask since
		began=$(date +%s%N)
		p_target_again
		t_wait_for 30 p_target_serves || return 1
		echo $((($(date +%s%N) - began) / 1000000)) >>"$T/starts"
		p_ask round && p_times || return 1
	done
	p_end
}
kills
t_result $? "kill -9 of the target, $p_turn times: no write lost or mixed"
p_tell_times 'usable after the new process was started'
paste "$T/times" "$T/starts" | awk '{ print $2 / 1000, $1 - $2 / 1000 }' |
	sort -n | awk '{ s[NR] = $1; c = $2 > 0 ? $2 : 0; sum += c
		if (c > max) max = c }
	END { printf "# of which the target took until it listened: median " \
		"%.3f, max %.3f;\n#  and the slower of mount and session from " \
		"then on: mean %.3f, max %.3f\n", s[int((NR + 1) / 2)], s[NR], \
		sum / NR, max }'
t_check "usable within ${P_WITHIN:-any number of} s of each restart" p_all_within
t_check 'the mount ends well' fusermount3 -u "$M"
t_done
