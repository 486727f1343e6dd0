#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The power of the target's machine is cut at each flush of a file system's
# life, and between flushes. The file system is ext4 on a loop device, on a
# mount of a target whose backing file is recorded. After each cut, the file
# system is sound, and has all data that fsync confirmed.
P_COUNT=${P_COUNT:-12}
. "$(dirname "$0")/lib.sh"
t_needs_fuse
[ "$(id -u)" = 0 ] || t_skip_all 'needs root, for loop devices and mounts'
for tool in losetup mkfs.ext4 e2fsck; do
	command -v $tool >/dev/null || t_skip_all "no $tool here"
done
losetup -f >/dev/null 2>&1 || t_skip_all 'no loop device here'

M=$T/mnt
R=$T/recorded
FS=$T/fs
mkdir "$M" "$R" "$FS" "$T/after"
truncate -s 64M "$T/disk.img" "$T/image"
t_mounts=$R
proof-record "$T/disk.img" "$T/log" "$R" -s -f 2>"$T/record.log" &
t_pids="$t_pids $!"
t_wait_for 10 test -e "$R/disk" || t_bail "$(cat "$T/record.log")"
p_target --backing "$R/disk,name=disk"
t_mount "$URI/disk" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
loop=$(losetup --direct-io=on --show -f "$M/disk") || t_bail 'no loop device'
t_loops=$loop

flush_cnt() { proof-replay "$T/log" | wc -l; }

# ---- a file system's life; the target is killed in the middle

live() {
	mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "$loop" &&
		mount "$loop" "$FS" && sync -f "$FS" || return 1
	mkdir "$FS/a" "$FS/b" && sync -f "$FS" || return 1
	begin=$(flush_cnt)
	proof-files work "$FS/a" "$T/a" "$T/log" $((P_COUNT * 2)) "$P_SEED" &
	a=$!
	proof-files work "$FS/b" "$T/b" "$T/log" $((P_COUNT * 2)) "1$P_SEED" &
	b=$!
	t_wait_for 60 work_goes_on
	kill -9 "$T_TARGET"
	wait "$T_TARGET" 2>/dev/null
	p_target_again
	wait $a && wait $b && umount "$FS" && losetup -d "$loop"
}
work_goes_on() { [ "$(flush_cnt)" -gt $((begin + P_COUNT / 2)) ]; }
t_check 'files are made, changed and removed; the target is killed meanwhile' live
t_loops=
fusermount3 -u "$M"

# ---- the state after a power cut

sound() { # STABLE UPTO
	after=$(losetup --show -f "$T/after.img") || return 1
	t_loops=$after
	mount "$after" "$T/after" &&
		proof-files check "$T/after/a" "$T/a" "$1" "$2" &&
		proof-files check "$T/after/b" "$T/b" "$1" "$2"
	status=$?
	umount "$T/after" && losetup -d "$after" && t_loops= || return 1
	[ $status = 0 ] && e2fsck -fn "$T/after.img"
}

cut() { # STABLE UPTO: all stable writes, and some of the others
	cp --sparse=always "$T/image" "$T/after.img"
	if [ "$1" != "$2" ]; then
		proof-replay "$T/log" "$T/after.img" "$1" "$2" "$P_SEED$1" ||
			return 1
	fi
	if ! sound "$1" "$2" >"$T/cut.out" 2>&1; then
		echo "power cut after record $1 of the log, with some up to $2:"
		cat "$T/cut.out"
		return 1
	fi
}

# P_COUNT cuts, spread over all flushes after the first sync.
cuts() {
	proof-replay "$T/log" >"$T/flushes"
	total=$(($(wc -l <"$T/flushes") - begin))
	step=$((total / P_COUNT))
	[ $step -gt 0 ] || step=1
	cut_cnt=0
	done_to=0
	n=$begin
	while at=$(sed -n "${n}p;${n}q" "$T/flushes") && [ -n "$at" ]; do
		next=$(sed -n "$((n + 1))p;$((n + 1))q" "$T/flushes")
		proof-replay "$T/log" "$T/image" "$done_to" "$at" || return 1
		done_to=$at
		cut "$at" "$at" && cut "$at" "${next:-$at}" || return 1
		cut_cnt=$((cut_cnt + 2))
		n=$((n + step))
	done
	[ $cut_cnt -gt 0 ]
}
cuts >"$T/.out" 2>&1
t_result $? "${cut_cnt-0} power cuts, at flushes and between them: all sound"
echo "# $(wc -l <"$T/flushes") flushes in the log, $(grep -c '^stable' "$T/a" "$T/b" | tr '\n' ' ')times a file was made stable"

# ---- the check itself: it must fail if the order of flushes is lost

lose_one() {
	at=$(sed -n "$((begin + total / 2))p" "$T/flushes")
	rm "$T/image"
	truncate -s 64M "$T/image"
	proof-replay "$T/log" "$T/image" 0 "$at" "$P_SEED" || return 1
	! cut "$at" "$at"
}
t_check 'a disk that keeps half of what was flushed is found out' lose_one
t_done
