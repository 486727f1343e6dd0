#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# A mount is killed with SIGKILL while it writes, and started again. The target
# accepts the next login at once and keeps nothing of the old one. No block is
# mixed or goes back to an older value. Meanwhile, another client continues to
# work.
P_COUNT=${P_COUNT:-3}
. "$(dirname "$0")/lib.sh"
t_needs_fuse

M=$T/mnt
mkdir "$M"
truncate -s 64M "$T/disk.img"
p_target --backing "$T/disk.img,name=disk" --control "$T/control"

# Always the same initiator: its login replaces what is left of the old one.
start_client() {
	rdma-fuse -f "$URI/disk?initiator=70726f6f66000000000000000000c11e" "$M" \
		2>>"$T/client.log" &
	client=$!
	t_pids="$t_pids $client"
	t_mounts=$M
	t_wait_for 20 test -e "$M/disk"
}
kill_client() {
	kill -9 "$client"
	wait "$client"
	fusermount3 -uzq "$M"
	t_wait_for 10 t_not_mounted "$M"
}

fds() { ls "/proc/$T_TARGET/fd" | wc -l; }
resident() { # KiB
	sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$T_TARGET/status"
}
nexuses_left() { # the log omits lines if there are many
	rdma-ctl --control "$T/control" --json session list |
		jq '.sessions | length'
}
is() { # CMD VALUE
	[ "$($1)" = "$2" ]
}

kills() {
	start_client || return 1
	p_load --seed "$P_SEED" "$M/disk" "$URI/disk" || return 1
	fds_before=$(fds)
	while p_go_on; do
		p_random 200
		p_ask ops $((20 + P_RANDOM)) || return 1
		kill_client 2>/dev/null
		p_note "turn $p_turn: the mount is dead"
		p_ask since
		start_client || return 1
		p_note and made anew
		p_ask round && p_times || return 1
		# The first few turns fill caches that later ones use.
		[ $p_turn -gt 10 ] || before=$(resident)
		[ $((p_turn % 10)) != 0 ] ||
			echo "# after $p_turn kills: $(resident) KiB, $(fds) files"
	done
	after=$(resident)
	p_end
}
kills
t_result $? "kill -9 of the client, $p_turn times: no write lost or mixed"
p_tell_times 'next login until the next answer'
t_check "usable within ${P_WITHIN:-any number of} s of each restart" p_all_within
t_check 'the target has no file open for any of them' \
	t_wait_for 10 is fds $((fds_before - 1))
t_check 'and no login but that of the last mount' t_wait_for 10 is nexuses_left 1
if [ $p_turn -gt 20 ]; then
	echo "# target: $before KiB resident after 10 kills, $after after $p_turn"
	t_check 'and no memory: less than 4 KiB more for each kill' \
		test "$after" -le $((before + 4 * p_turn))
fi
kill_client 2>/dev/null
t_done
