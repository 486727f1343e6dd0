#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Tests the judge: targets that lie on purpose must be detected. An honest
# target with an equally bad cache must not be reported.
. "$(dirname "$0")/lib.sh"
export RDMA_BLOCK_PLUGIN_PATH="$BUILD/tests/plugins"

disk() { # SPEC-OPTION...
	rm -f "$T/disk.img" "$T/load.out"
	truncate -s 16M "$T/disk.img"
	p_target --backing "$T/disk.img,name=disk,layer=volatile$1"
}

# Kills the target and starts it again, up to COUNT times.
run() { # COUNT LOAD-OPTION...
	p_left=$1
	shift
	p_load --seed "$P_SEED" --blocks 512 --max-blocks 8 "$@" $mounted "$URI/disk" ||
		return 1
	while [ $p_left -gt 0 ]; do
		p_left=$((p_left - 1))
		p_ask ops 300 || return 1
		p_ask kill "$T_TARGET" || return 1
		wait "$T_TARGET" 2>/dev/null
		p_target_again
		t_wait_for 30 p_target_serves || return 1
		p_ask round || return 1
	done
	p_end
}

# Also through a mount, if the machine allows one.
through_mount() {
	[ -e /dev/fuse ] && command -v fusermount3 >/dev/null || return 0
	mkdir -p "$T/mnt"
	t_mount "$URI/disk" "$T/mnt" 2>"$T/mount.log" || return 1
	mounted=$T/mnt/disk
}

is_found_out() { # PATTERN
	exec 7>&- 8<&-
	wait "$P_LOAD"
	[ $? = 1 ] && grep -E "^VIOLATION.*($1)" "$T/load.out"
}

mounted=
disk ''
through_mount || t_bail "$(cat "$T/mount.log")"
run 5 --volatile --flush-every 8 >"$T/.out" 2>&1
t_result $? 'a cache that is lost with the target, and flushed when asked'
[ -z "$mounted" ] || fusermount3 -u "$T/mnt"
mounted=
kill "$T_TARGET"
wait "$T_TARGET" 2>/dev/null

disk ,fault=flush:lie
! run 20 --volatile --flush-every 8 >"$T/.out" 2>&1
t_result $? 'a target that answers a flush and does not flush is found out'
t_check 'for losing what was flushed' is_found_out 'acknowledged and flushed'
kill "$T_TARGET" 2>/dev/null
wait "$T_TARGET" 2>/dev/null

disk ,fault=write:stale=20:every=5
! run 20 --flush-every 0 >"$T/.out" 2>&1
t_result $? 'a target that does a write once more, later, is found out'
t_check 'for bringing back an old value' is_found_out 'old one|overwritten before|acknowledged later'
t_done
