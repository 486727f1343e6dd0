#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# A mount with an address on each of two fake devices (tests/verbs). Devices are removed
# and come back in all orders: what is there takes logins, and the mount goes on.
# ROUNDS (default 4): how often by turns.
. "$(dirname "$0")/lib.sh"
t_needs_fuse
[ -z "${SANITIZED-}" ] || t_skip_all 'programs cannot load sanitized code'

export LD_PRELOAD="$BUILD/tests/verbs/fake-verbs.so" FAKE_VERBS_AWAY="$T/away" \
	FAKE_VERBS='fake0=127.0.0.1 fake1=127.0.0.2'
port=$((20000 + ($(od -An -N2 -tu2 /dev/urandom) % 12000)))
M=$T/mnt
L=$T/client.log
mkdir "$M"
: >"$T/away"
: >"$L"
truncate -s 16M "$T/disk.img"

host() { echo "127.0.0.$(($1 + 1))"; }
serves() { grep -q 'serves on' "$T/target.log" || t_is_gone "$T_TARGET"; }
# CNT FILE PATTERN: waits for so many lines, or prints the file.
said() { t_wait_for 30 said_now "$@" || { cat "$2"; return 1; }; }
said_now() { [ "$(grep -Ec "$3" "$2")" -ge "$1" ]; }
logs_in() { # DEVICE
	rdma-info "srp+rdma://$(host "$1"):$port" ||
		{ cat "$T/target.log"; return 1; }
}
is_refused() { ! logs_in "$1"; }
away() { # NAME...
	echo "$@" >"$T/away"
}
was_removed() { said "$2" "$T/target.log" "RDMA device fake$1 was removed"; }
listens() { said "$2" "$T/target.log" "listening on $(host "$1"):$port over RDMA now"; }
# CNT DEVICE: the mount has gone there so often.
has_moved() { said "$1" "$L" "connected to $(host "$2"):$port .*in place of"; }
works() {
	head -c 256k /dev/urandom >"$T/random"
	dd if="$T/random" of="$M/disk" bs=64k oflag=direct conv=notrunc,fsync status=none &&
		dd if="$M/disk" bs=64k count=4 iflag=direct status=none |
		cmp - "$T/random"
}

# A fake device listens by a socket, which the sandbox does not allow.
rdma-target --threads 3 --no-sandbox --listen "srp+rdma://127.0.0.1:$port" \
	--listen "srp+rdma://127.0.0.2:$port" \
	--backing "$T/disk.img,name=disk" >"$T/target.log" 2>&1 &
T_TARGET=$!
t_pids="$t_pids $T_TARGET"
t_wait_for 10 serves
t_mounts="$t_mounts $M"
rdma-fuse -f --channels 2 --fast-io-fail-tmo off \
	"srp+rdma://127.0.0.1:$port,127.0.0.2:$port" "$M" 2>>"$L" &
client=$!
t_pids="$t_pids $client"
t_wait_for 10 test -e "$M/disk" || t_bail "$(cat "$L" "$T/target.log")"
t_check 'it works' works

i=0
while [ $i -lt "${ROUNDS:-4}" ]; do
	device=$((i % 2)) other=$(((i + 1) % 2)) cnt=$((i / 2 + 1))
	away "fake$device"
	t_check "fake$device is removed" was_removed $device $cnt
	t_check "fake$other takes logins" logs_in $other
	t_check 'the mount goes there' has_moved $cnt $other
	t_check 'and works' works
	away
	t_check "fake$device is back" listens $device $cnt
	t_check 'and takes logins' logs_in $device
	i=$((i + 1))
done
cnt=$((${ROUNDS:-4} / 2))
for first in 0 1; do
	cnt=$((cnt + 1))
	away fake0 fake1
	t_check 'both are removed' was_removed 0 $cnt
	t_check 'both' was_removed 1 $cnt
	away "fake$((1 - first))"
	t_check "fake$first comes first" listens $first $cnt
	t_check 'and takes logins' logs_in $first
	t_check 'the mount works' works
	away
	t_check 'the other one comes' listens $((1 - first)) $cnt
	t_check 'and takes logins, too' logs_in $((1 - first))
done
t_check 'the mount ends' kill "$client"
t_check 'with status 0' t_ends "$client"
kill "$T_TARGET"
t_check 'and so does the target' t_ends "$T_TARGET"
t_done
