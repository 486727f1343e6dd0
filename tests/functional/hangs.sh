#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What hangs beside the target stops none of its workers: other volumes, logins, rdma-ctl
# and a signal to stop go on.
. "$(dirname "$0")/control_lib.sh"
t_needs_fuse

PATH="$BUILD/tests/functional:$PATH"
M=$T/mnt
mkdir "$M" "$T/second"
reads() { timeout 20 dd if="$M/$1" of=/dev/null bs=4k count="$2" iflag=direct status=none; }
logs_in() { timeout 20 rdma-info "$URI"; }
is_managed() { timeout 20 rdma-ctl --control "$S" status; }
# Without a unit attention. It is refused when its turn comes.
is_changed() { exits 1 timeout 20 rdma-ctl --control "$S" volume eject $OTHER; }
sends() { echo a cdb "$@" >&8; }
ctl_later() {
	rdma-ctl --control "$S" "$@" &
	LATER=$!
}
ends() { t_wait_for 10 t_has_ended "$T_TARGET" && wait "$T_TARGET"; }

# What hangs concerns nobody else.
workers_go_on() {
	t_check '... reads of another volume go on' reads $OTHER 64
	t_check '... so do flushes' writes
	t_check '... and logins' logs_in
	t_check '... and rdma-ctl' is_managed
}
others_go_on() {
	workers_go_on
	t_check '... also if it changes something' is_changed
}

# ---- the reader of the log

mkfifo "$T/pipe"
exec 7<>"$T/pipe"
OTHER=disk
T_PORT=$((20000 + ($(od -An -N2 -tu2 /dev/urandom) % 12000)))
URI=srp+tcp://127.0.0.1:$T_PORT
# The pipe has room for some hundred lines, and each READ is one.
rdma-target --listen "$URI" --control "$S" -v -v --backing ram:1M,name=disk >"$T/pipe" 2>&1 7>&- &
T_TARGET=$!
t_pids="$t_pids $T_TARGET"
until [[ ${line-} == *'rdma-fuse srp'* ]]; do
	read -r -t 10 line <&7 || t_bail 'the target does not start'
done
t_mount "$URI" "$M"
fills() { for _ in 1 2 3 4 5 6 7 8; do reads disk 256 || return; done; }
t_check 'reads go on while nobody reads the log' fills
t_check 'so do logins' logs_in
t_check 'and rdma-ctl' is_managed
tells_of_lost() {
	dd if="$T/pipe" iflag=nonblock status=none >>"$T/log" 2>/dev/null
	grep -Eq '^rdma-target: warning: [0-9]+ lines of the log are lost' "$T/log"
}
t_check 'the log tells how many lines are lost' t_wait_for 10 tells_of_lost
# The first one was being written when the lines before it were read.
t_check 'the others are whole' eval '! grep -Ev "^rdma-target: [^ ].*[^:]\$" "$T/log"'
t_check 'reads fill it again' fills
kill "$T_TARGET"
t_check 'a signal ends the target while nobody reads the log' ends
fusermount3 -uz "$M"
exec 7>&-

# ---- a file server

HANG=$T/hang
mkdir "$HANG" "$T/server"
hang_fs "$HANG" "$T/server" &
t_pids="$! $t_pids"
t_mounts="$t_mounts $T/server"
t_wait_for 5 test -f "$T/server/disk" || t_bail 'no file system'
truncate -s 64M "$T/healthy"
# Linux lets io_uring use such a file like one of a disk: by threads for regular files.
OVER=
mkdir "$T/over" "$T/upper" "$T/work"
if mount -t overlay -o "lowerdir=$T/server,upperdir=$T/upper,workdir=$T/work" none "$T/over" 2>/dev/null; then
	t_mounts="$T/over $t_mounts"
	truncate -s 64M "$T/over/beside"
	OVER="--backing $T/over/disk,name=over,ro --backing $T/over/beside,name=beside"
fi
# A disk of the kernel whose blocks lie on another such server.
DISK=
if [ "$(id -u)" = 0 ] && losetup -f >/dev/null 2>&1; then
	mkdir "$T/behind"
	hang_fs "$HANG" "$T/behind" &
	t_pids="$! $t_pids"
	t_mounts="$t_mounts $T/behind"
	t_wait_for 5 test -f "$T/behind/disk" || t_bail 'no file system'
	t_loops=$(losetup --show -f "$T/behind/disk") && DISK="--backing $t_loops,name=dev"
fi
serves_far() { # ARG...
	t_target --control "$S" --threads 1 --backing "$T/server/disk,name=far" \
		--backing "$T/healthy,name=disk" "$@"
	t_mount "$URI" "$M"
}
writes() { timeout 20 dd if=/dev/zero of="$M/$OTHER" bs=4k count=8 conv=fsync,notrunc status=none; }
# hangs NAME WHAT CMD...: the file server does not answer NAME, which CMD asks for
hangs() {
	: >"$HANG/$1"
	t_check "$2 hangs" "${@:3}"
	t_check '... in the server' t_wait_for 10 test -s "$HANG/$1"
	others_go_on
	rm "$HANG/$1"
}

# ---- changes by rdma-ctl

mkdir "$T/later"
hang_fs "$HANG" "$T/later" &
t_pids="$! $t_pids"
t_mounts="$t_mounts $T/later"
t_wait_for 5 test -f "$T/later/disk" || t_bail 'no file system'
# Direct I/O is tried, which rdma-ctl does not do when it opens the file.
LATER_DISK="$T/later/disk,name=later,direct=on"
mkdir -m 755 "$T/config"
echo '{}' >"$T/config/c.json"
new=(--volumes-from "$T/later")
[ -z "${SANITIZED-}" ] || new=() # it needs the sandbox
serves_far --config "$T/config/c.json" "${new[@]}"
hangs getattr 'a question about the size' ctl_later volume resize far
t_check 'it is answered when the server answers' wait "$LATER"
hangs read 'a volume that is added' ctl_later volume add "$LATER_DISK"
t_check 'it is there when the server answers' wait "$LATER"
t_check 'as the others are' shows far disk later
t_check 'it is removed' ctl volume remove --force later
# rdma-target opens the file itself, and once more for each worker.
opens_itself() {
	: >"$HANG/read"
	echo "{\"backing\": [\"$LATER_DISK\"]}" >"$T/config/c.json"
	kill -HUP "$T_TARGET"
	t_check 'a file of a configuration hangs' t_wait_for 10 test -s "$HANG/read"
	: >"$HANG/open"
	rm "$HANG/read"
	t_check 'it hangs when it is opened again' t_wait_for 10 test -s "$HANG/open"
	workers_go_on
	rm "$HANG/open"
	t_check 'it is there when the server answers' t_wait_for 10 shows far disk later
}
[ -n "${SANITIZED-}" ] || opens_itself
fusermount3 -u "$M"
t_target_stop TERM

# ---- commands

serves_far --stop-timeout 1 \
	--backing ram:1M,name=layer,fault=read:stuck:lba=8 \
	$OVER $DISK
mkfifo "$T/commands"
exec 8<>"$T/commands"
pr_client <"$T/commands" >"$T/answers" 8>&- &
t_pids="$t_pids $!"
echo "a login ${URI#*://} 1" >&8
answers() { [ "$(wc -l <"$T/answers")" = "$1" ]; }
# A first command gets the unit attention of the login.
sends 00 0
t_wait_for 5 answers 2 || t_bail "$(cat "$T/answers")"
hangs lseek 'GET LBA STATUS' sends 9e120000000000000000000000180000 24
t_check 'it is answered when the server answers' t_wait_for 10 answers 3
hangs getattr 'LOG SENSE' sends 4d004000000000010000 4
t_check 'it is answered when the server answers' t_wait_for 10 answers 4
hangs getattr 'a hang-up signal' kill -HUP "$T_TARGET"
# gives_up NAME WHAT ARG...: rdma-ctl is refused after --stop-timeout
gives_up() {
	: >"$HANG/$1"
	t_refused "$2 is given up" "volume '.*': .*its store has not answered for 1 s" \
		timeout 20 rdma-ctl --control "$S" volume "${@:3}"
	rm "$HANG/$1"
}
gives_up getattr 'a question about the size' resize far
gives_up read 'a volume that is added' add "$LATER_DISK"
t_check 'it can be added when the server answers' t_wait_for 10 ctl volume add "$LATER_DISK"
t_check 'and removed' ctl volume remove --force later
# Many more than io_uring makes threads for I/O on regular files: four for each processor.
# By two initiators, as a mount leaves some of its requests to other volumes.
MANY=64
MOUNTS=("$M" "$T/second")
t_mount "$URI" "$T/second"
is_hung() { [ "$(stat -c %s "$HANG/$1")" -ge "$2" ]; }
has_in_flight() {
	[ "$(rdma-ctl --control "$S" metrics |
		awk '/^rdma_target_requests_in_flight/ { n += $NF } END { print n + 0 }')" -ge "$1" ]
}
# Of blocks that the page cache does not have.
reads_many() { # VOLUME HUNDREDTH
	READERS=
	for n in $(seq $MANY); do
		dd if="${MOUNTS[n % 2]}/$1" of=/dev/null bs=4k count=1 skip="$n$2" iflag=direct status=none &
		READERS="$READERS $!"
	done
	t_wait_for 10 has_in_flight $MANY
}
hangs read "each of many READs" reads_many far 00
t_check 'they are answered when the server answers' wait $READERS
if [ -n "$OVER" ]; then
	OTHER=beside
	hangs read "each of many READs of a file that takes threads" reads_many over 50
	t_check 'they are answered when the server answers' wait $READERS
else
	t_skip 'READs of a file that takes threads' 'no overlay here'
fi
OTHER=disk

fusermount3 -u "$T/second"

# ---- a disk

# reads_one VOLUME BLOCK
reads_one() {
	dd if="$M/$1" of=/dev/null bs=4k count=1 skip="$2" iflag=direct status=none &
	READERS=$!
}
if [ -n "$DISK" ]; then
	hangs read 'a READ of a disk' reads_one dev 9000
	t_check 'it is answered when the disk answers' wait $READERS
else
	t_skip 'a READ of a disk' 'needs root and a loop device'
fi

# ---- a layer

reads_one layer 1
t_check 'a READ hangs in a layer' t_wait_for 10 grep -q 'is stuck' "$T/target.log"
others_go_on
kill -USR1 "$T_TARGET"
t_check 'it is answered when the layer goes on' wait $READERS

# ---- the end, meanwhile

# A layer and a plugin that hang at the end: see drain.sh.
# A disk takes the flush of the end no more than the READ.
tells_of() { grep -Eq "error: volume '$1'.* its store (does not|has not) answer" "$T/target.log"; }
: >"$HANG/read"
reads_one far 9900
[ -z "$DISK" ] || reads_one dev 19000
t_check 'READs hang' t_wait_for 10 is_hung read "$([ -n "$DISK" ] && echo 2 || echo 1)"
: >"$HANG/getattr"
ctl_later volume resize far
t_check 'so does a question about the size' t_wait_for 10 is_hung getattr 1
kill "$T_TARGET"
t_check 'a signal ends the target without the file server' t_wait_for 20 tells_of far
t_check 'the question is refused' exits 1 wait "$LATER"
[ -z "$DISK" ] || t_check 'and without the disk' t_wait_for 20 tells_of dev
rm "$HANG/read" "$HANG/getattr"
fusermount3 -uz "$M"
t_ends "$T_TARGET"
STATUS=$?
t_check 'which the exit status says' test $STATUS = 1
t_check 'of no other volume' eval '! grep "error: volume" "$T/target.log" | grep -Ev "far|dev"'
[ -z "$DISK" ] || losetup -d "$t_loops" && t_loops=
t_done
