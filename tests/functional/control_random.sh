#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Random configurations (volumes, rules, limits, addresses) are applied one after
# the other, while fio verifies a volume that stays. In one of ten rounds the
# target is killed during the change. After the restart, it has the state before
# or after that change.
# T_ROUNDS: number of rounds (default 100); T_SEED: seed.
. "$(dirname "$0")/lib.sh"
command -v rdma-ctl >/dev/null || t_skip_all 'built without jansson'
command -v fio >/dev/null || t_skip_all 'no fio here'
t_needs_fuse
S=$T/control
ROUNDS=${T_ROUNDS:-100}
RANDOM=${T_SEED:-$$}
echo "# T_SEED=${T_SEED:-$$}"

ctl() { rdma-ctl --control "$S" "$@"; }

# The names in configuration $1, and the names that the target serves.
names_in() { grep -o '"name": "[a-z0-9]*"' "$1" | cut -d'"' -f4 | sort | xargs; }
names_served() { ctl volume list | awk 'NR > 1 { print $2 }' | sort | xargs; }

one_of() { # WORD...
	shift $((RANDOM % $#))
	echo "$1"
}

# random_config FILE: the volume that stays, and some of eight other volumes.
# The mount does not see the others: it would wait for them to return.
random_config() {
	local i port=${URI##*:}
	{
		echo "{ \"max-logins\": $((RANDOM % 100 + 50)),"
		echo "\"max-host-logins\": $((RANDOM % 20 + 10)),"
		one_of '"allow": "all",' '"allow": [ "127.0.0.1", "10.1.1.1" ],'
		one_of '' "\"listen\": \"srp+tcp://127.0.0.2:$port\"," \
			"\"listen\": [ \"srp+tcp://127.0.0.2:$port\",
			\"srp+tcp://127.0.0.3:$port\" ],"
		echo '"backing": ['
		for i in 0 1 2 3 4 5 6 7; do
			[ $((RANDOM % 2)) = 0 ] ||
				echo "  { \"store\": \"$T/v$i\", \"name\": \"v$i\"," \
					"\"lun\": $((i + 1))," \
					"\"allow\": \"10.9.9.$((RANDOM % 2))\" },"
		done
		echo "  { \"store\": \"$T/disk\", \"name\": \"stays\"," \
			"\"lun\": 0 } ] }"
	} >"$1"
}

start_again() {
	t_new_log
	rdma-target --listen "$URI" --config "$T/conf/c.json" --auto-save \
		--control "$S" --threads 2 >"$T/target.log" 2>&1 &
	T_TARGET=$!
	t_pids="$t_pids $T_TARGET"
	t_wait_for 10 t_target_is_up
}

# Kills the target while it applies $T/next.json.
killed() {
	local ctl n before after is
	before=$(names_served)
	after=$(names_in "$T/next.json")
	ctl apply --prune --force "$T/next.json" >/dev/null 2>&1 &
	ctl=$!
	for ((n = RANDOM % 8000; n > 0; n--)); do :; done
	kill -9 "$T_TARGET"
	wait "$ctl" "$T_TARGET" 2>/dev/null
	start_again || return 1
	is=$(names_served)
	if [ "$is" = "$before" ] && ctl diff --prune "$T/now.json" >/dev/null; then
		return
	fi
	if [ "$is" = "$after" ] && ctl diff --prune "$T/next.json"; then
		finished=$((finished + 1))
		cp "$T/next.json" "$T/now.json"
		return
	fi
	echo "before: $before; after: $after; but: $is"
	ctl diff --prune "$T/now.json"
	return 1
}

applied() {
	ctl apply --prune --force "$T/next.json" >/dev/null &&
		[ "$(names_served)" = "$(names_in "$T/next.json")" ] &&
		[ "$(names_in "$T/conf/c.json")" = "$(names_in "$T/next.json")" ] &&
		ctl diff --prune "$T/next.json" && ctl diff --prune "$T/conf/c.json" &&
		cp "$T/next.json" "$T/now.json"
}

round() {
	random_config "$T/next.json"
	if [ $((RANDOM % 10)) = 0 ]; then
		kills=$((kills + 1))
		killed
	else
		applied
	fi
}

truncate -s 16M "$T/disk"
truncate -s 1M "$T"/v{0,1,2,3,4,5,6,7}
mkdir "$T/mnt" "$T/conf"
URI=srp+tcp://127.0.0.1:1 # until there is one
sed -n '/backing/,$p' <(random_config /dev/stdout) | sed '1s/^/{/' >"$T/conf/c.json"
cp "$T/conf/c.json" "$T/now.json"
t_target --config "$T/conf/c.json" --auto-save --control "$S" --threads 2
t_mounts="$t_mounts $T/mnt"
rdma-fuse -f -v "$URI/stays" "$T/mnt" >"$T/fuse.log" 2>&1 &
t_pids="$t_pids $!"
t_wait_for 10 grep -q "^rdma-fuse: $T/mnt" "$T/fuse.log" || t_bail 'no mount'
fio --name=v --filename="$T/mnt/stays" --size=16M --bs=16k --rw=randwrite \
	--verify=crc32c --verify_fatal=1 --do_verify=1 --loops=1000000 --iodepth=8 \
	--ioengine=libaio --direct=1 --rate_iops=300 --verify_state_save=0 >"$T/fio" 2>&1 &
fio=$!
bad=0 kills=0 finished=0
for ((round = 0; round < ROUNDS && bad == 0; round++)); do
	round >"$T/.out" 2>&1 || bad=1
done
t_result $bad "$round configurations, $kills of them with a kill -9, $finished of which were whole"
! t_is_gone $fio
t_result $? 'fio goes on'
kill $fio 2>/dev/null
wait $fio
cat "$T/fio" "$T/fuse.log" >"$T/.out"
grep -q 'err= 0' "$T/fio" && ! grep -Eq 'verify: bad|io_u error' "$T/fio"
t_result $? 'and has found no wrong block'
t_done
