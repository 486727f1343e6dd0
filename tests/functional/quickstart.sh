#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# scripts/quickstart: its tour, the picture at its end, and what it leaves on
# the machine.
. "$(dirname "$0")/lib.sh"
t_needs_fuse
for program in fio jq ninja; do
	command -v $program >/dev/null || t_skip_all "no $program here"
done
export TMPDIR=$T
SCRIPT=$(dirname "$0")/../../scripts/quickstart

tour() {
	"$SCRIPT" --no-install --tour --build "$BUILD" </dev/null >"$T/tour" 2>&1 &
	t_pids=$!
	wait $! || { cat "$T/tour" && false; }
}

# bars GROUP BETTER COLUMNS: reading and writing, here and elsewhere, on one scale: the
# longest bar has 30 characters. COLUMNS figures, of which the second is a line of -.
bars() {
	awk -v group="$1" '/^$/ { here = 0 } here; index($0, group) { here = 1 }' "$T/tour" \
		>"$T/rows"
	grep "$1" "$T/tour" | tee -a "$T/rows" | grep -q "$2 is better" || return
	sed '$d' "$T/rows" | awk -v columns="$3" '
		/^  (read|write), this mount +[0-9.]+ / { here++ }
		!/^  (read|write), .* [0-9.]+  +#+-*$/ { bad = 1 }
		length($NF) > longest { longest = length($NF) }
		gsub(/ [0-9.]+/, "&") != columns || index($0, "#") != 41 { bad = 1 }
		END { exit bad || here != 2 || NR < 2 || longest != 30 }' || { cat "$T/rows" && false; }
}

is_beside() { # NAME: so are two bars in each group
	[ "$(grep -cE "^  (read|write), $1 .*#" "$T/tour")" = 6 ]
}

# What commands print is shown, but for those of ninja.
shows_output() {
	grep -qE '^  rdma-target .* serves on' "$T/tour" &&
		grep -qE '^  rdma-fuse: logged in' "$T/tour" &&
		grep -qE '^  .*/disk.img: [0-9]+/[0-9]+ files' "$T/tour"
}

copies_a_file() {
	grep -q '^\$ mount -o loop ' "$T/tour" && grep -qE '^  .* 8388608 .* copy$' "$T/tour" &&
		grep -qE '^  ext4 mounted.*content intact' "$T/tour"
}

# The two lines work. mount(8) runs programs of the system's directories only.
fstab_works() {
	mkdir "$T/volumes" "$T/disk" &&
		mount --bind "$BUILD/fuse" /usr/local/sbin &&
		truncate -s 64M "$T/disk.img" && mkfs.ext4 -qF "$T/disk.img" &&
		t_target --backing "$T/disk.img" &&
		sed -n "s|^  srp://ADDRESS:[0-9]*  /mnt|$URI  $T|p; s|^  /mnt\(.*  \)/mnt/|$T\1$T/|p" \
			"$T/tour" >"$T/fstab" || return
	cat "$T/fstab"
	[ "$(wc -l <"$T/fstab")" = 2 ] && mount -a -T "$T/fstab" && touch "$T/disk/here"
	status=$?
	umount "$T/disk" && umount "$T/volumes" && return $status
}

# ninja is one that builds nothing.
shows_progress() {
	mkdir "$T/bin"
	printf '#!/bin/sh\necho "[7/9] Compiling a thing"\nexit 1\n' >"$T/bin/ninja"
	chmod +x "$T/bin/ninja"
	PATH=$T/bin:$PATH script -qec "'$SCRIPT' --no-install --build '$BUILD'" /dev/null \
		>"$T/terminal" </dev/null
	cat -v "$T/terminal"
	grep -q 'build  *7 of 9' "$T/terminal" && grep -q 'cannot build' "$T/terminal"
}

programs_exist() {
	sed -n 's/^\$ \([^ ]*\).*/\1/p' "$T/tour" | sort -u >"$T/programs"
	cat "$T/programs"
	grep -q 'rdma-target$' "$T/programs" && grep -q 'rdma-fuse$' "$T/programs" || return
	while read -r program; do
		command -v "$program" >/dev/null || return
	done <"$T/programs"
}

# A sentence precedes the commands of each step, and what they print.
sentences_precede() {
	awk '/^$/ { said = 0 } /^[A-Za-z].*\.$/ { said = 1 }
		/^\$ / && !said { print; bad = 1 } END { exit bad }' "$T/tour"
}

nothing_is_left() {
	! grep " $T/rdma-block" /proc/self/mounts &&
		! pgrep -af "$T/rdma-block" && ! ls -d "$T"/rdma-block.*
}

t_check 'the tour ends with success' tour
t_check 'what the programs keep is gone with it' rmdir "$STATE_DIRECTORY"
mkdir -m 755 "$STATE_DIRECTORY"
t_check 'bars of latency, p50 and p99' bars 'Latency of 4 KiB' Shorter 2
t_check 'bars of requests a second' bars '4 KiB at depth 32' Longer 1
t_check 'bars of throughput' bars '128 KiB at depth 8' Longer 1
t_check 'what commands print is shown' shows_output
if [ "$(stat -f -c %T /dev/shm)" = tmpfs ]; then
	t_check 'tmpfs is beside it' is_beside tmpfs
else
	t_skip 'tmpfs is beside it' 'no tmpfs here'
fi
if command -v nbdkit >/dev/null && command -v nbdfuse >/dev/null; then
	t_check 'nbdkit is beside it' is_beside nbdkit
else
	t_skip 'nbdkit is beside it' 'no nbdkit here'
fi
if [ "$(id -u)" = 0 ] && losetup -f >/dev/null 2>&1; then
	t_check 'a file is copied to the mounted ext4' copies_a_file
	if [ "$T_ALONE" = yes ] && [ -e /sbin/mount.fuse3 ]; then
		t_check 'the lines of fstab work' fstab_works
	fi
fi
if command -v script >/dev/null; then
	t_check 'a terminal sees how far the build is' shows_progress
fi
t_check 'each command names a program that exists' programs_exist
t_check 'a sentence precedes the commands of a step' sentences_precede
t_check 'nothing is left mounted, running or on disk' nothing_is_left
t_mounts=$(echo "$T"/rdma-block.*/mnt)
pkill -f "$T/rdma-block"
t_done
