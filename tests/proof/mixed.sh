#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Everything at once: two mounts and a session of the library use one volume of
# a disk that is slow, and sometimes fails or gets stuck. Clients and writers
# are killed, stopped and disconnected. Nothing is lost, and memory does not
# grow.
[ -n "${P_SECONDS-}" ] || P_COUNT=${P_COUNT:-20}
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.sh"
t_needs_fuse

mkdir "$T/one" "$T/two"
truncate -s 64M "$T/disk.img"
p_own_net
p_target --rdma-timeout 2 --keepalive 2 --threads 2 --backing "$T/disk.img,name=disk\
,fault=any:delay=20:chance=1%:seed=$P_SEED\
,fault=write:error:chance=0.1%:seed=$P_SEED\
,fault=read:error:chance=0.1%:seed=$P_SEED\
,fault=write:torn:chance=0.05%:seed=$P_SEED\
,fault=write:stuck:chance=0.01%:seed=$P_SEED"
p_client "$T/one"

two() {
	rdma-fuse -f -o $P_TIMES "$URI?initiator=70726f6f66000000000000000000c11e" \
		"$T/two" 2>>"$T/client.log" &
	second=$!
	t_pids="$t_pids $second"
	t_wait_for 30 test -e "$T/two/disk"
}
t_mounts="$t_mounts $T/two"

# Stuck requests continue to the disk now.
unstick() { kill -USR1 "$T_TARGET"; }
kill_second() {
	kill -9 "$second"
	wait "$second" 2>/dev/null
	p_note the mount at two is dead
	fusermount3 -uzq "$T/two"
	# Stuck requests of the old client delay the login of the new one.
	unstick
	two && p_note and made anew
}
kill_writer() { p_ask writer; }
nothing() { p_ask ops 2000; }

kinds='nothing kill_second kill_writer stop_client stop_target unstick nothing'
[ -z "$P_NET" ] || kinds="$kinds link_down swallow cut_connections"

# KiB of the target and of the first mount. Both run until the end.
resident() {
	for pid in "$T_TARGET" "$P_CLIENT"; do
		sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status"
	done
}

turns() {
	two || return 1
	p_load --seed "$P_SEED" --timeout 120 "$T/one/disk" "$T/two/disk" \
		"$URI/disk" || return 1
	while p_go_on; do
		set -- $kinds
		p_random $#
		shift "$P_RANDOM"
		kind=$1
		p_random 2
		span=$SHORT
		[ "$P_RANDOM" = 0 ] || span=$LONG
		p_random 200
		p_ask ops $((20 + P_RANDOM)) || return 1
		p_note "turn $p_turn: $kind $span" || return 1
		$kind "$span" || return 1
		p_note over
		unstick
		p_ask round || return 1
		echo "$(p_seconds) $(resident | tr '\n' ' ')" >>"$T/memory"
		echo "$kind" >>"$T/kinds"
	done
	unstick
	p_end
}

# Releases requests that got stuck at other times.
unstick_always() {
	while sleep 1; do
		kill -USR1 "$T_TARGET" 2>/dev/null
	done
}
unstick_always &
t_pids="$t_pids $!"
turns
t_result $? "all at once, $p_turn turns: no write lost, mixed or late"
echo "# $(sort "$T/kinds" | uniq -c | tr -s ' \n' ' ')"
echo "# ${P_ANSWER-}"
grep -c 'lost the connection' "$T/client.log" |
	sed 's/^/# connections of the mounts that were lost: /'

# Fits a straight line to the samples after the first fifth.
slope() { # COLUMN NAME
	awk -v c="$1" -v name="$2" '
		{ t[NR] = $1; m[NR] = $c }
		END {
			for (i = int(NR / 5) + 1; i <= NR; i++) {
				n++; x += t[i]; y += m[i]
				xx += t[i] * t[i]; xy += t[i] * m[i]
			}
			d = n * xx - x * x
			s = d ? (n * xy - x * y) / d : 0
			grown = s * (t[NR] - t[int(NR / 5) + 1])
			printf "# %s: %d KiB on average of %d samples over %d s," \
				" %.2f KiB a minute\n", name, y / n, n, \
				t[NR] - t[int(NR / 5) + 1], s * 60
			exit grown > 1024 && grown > y / n / 50
		}' "$T/memory"
}
is_flat() { # COLUMN NAME
	slope "$@" >"$T/.out"
	status=$?
	cat "$T/.out"
	t_result $status "the memory of $2 stays flat"
}
# It takes a while until all memory was used once.
if [ "$(p_seconds)" -ge 300 ]; then
	is_flat 2 'the target'
	is_flat 3 'the mount'
fi
kill -9 "$second"
wait "$second" 2>/dev/null
t_check 'the mount ends well' fusermount3 -u "$T/one"
t_done
