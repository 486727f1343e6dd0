#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# A target that was killed may have writes in the kernel. Its successor serves
# the volume only when they are over. The disk is a volume of another target,
# mounted with rdma-fuse, so that it can be stopped during a write.
. "$(dirname "$0")/lib.sh"
t_needs_fuse

M=$T/disks
mkdir "$M" "$T/clients"

# ---- the disk
truncate -s 16M "$T/medium"
t_target --backing "$T/medium,name=disk"
DISK_TARGET=$T_TARGET
t_mount --io-timeout 300 "$URI" "$M"

go_on() { kill -CONT "$DISK_TARGET"; }
trap 'go_on; t_cleanup' EXIT

# ---- the target on it, and its successor
P=$((20000 + ($(od -An -N2 -tu2 /dev/urandom) % 12000)))
start() { # NAME
	rdma-target --listen "srp+tcp://127.0.0.1:$P" -P "$T/$1.pid" \
		--backing "$M/disk" 2>"$T/$1.log" >"$T/$1.out" &
	pid=$!
	t_pids="$t_pids $pid"
}
is_ready() { [ -s "$T/$1.pid" ]; }
says() { grep -Eq "$2" "$T/$1.log"; }

start first
first=$pid
t_check 'a target serves the disk' t_wait_for 30 is_ready first
t_refused 'a second one says who has it' "disk: is in use by process $first .rdma-target.\$" \
	rdma-target --quiet --listen "srp+tcp://127.0.0.1:$((P + 1))" \
	--backing "$M/disk"

# ---- killed during a write
mkdir "$T/mnt"
t_mount --io-timeout 300 --fast-io-fail-tmo off --dev-loss-tmo 60 \
	"srp+tcp://127.0.0.1:$P" "$T/mnt" || t_bail 'no mount'
mkfifo "$T/go"
python3 - "$T/mnt/disk" "$T/go" >"$T/writer" <<'END' &
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
print("open", flush=True)
open(sys.argv[2]).read()
sys.exit(os.pwrite(fd, b"1" * 4096, 0) != 4096)
END
writer=$!
t_pids="$t_pids $writer"
t_wait_for 10 test -s "$T/writer" || t_bail 'no writer'
kill -STOP "$DISK_TARGET"
# A thread that has not stopped yet would still read the write from its socket.
is_stopped() { # PID
	awk '/^Name:/ { ours = $2 !~ /^iou-/ }
		/^State:/ && ours && $2 != "T" { on = 1 }
		END { exit on }' /proc/"$1"/task/*/status
}
t_wait_for 10 is_stopped "$DISK_TARGET" || t_bail 'the disk goes on'
: >"$T/go"
# The target of the disk has been sent the data. From now on nothing can take
# the write back, and the kernel waits for it, even if the writer ends.
is_stuck() {
	ss -Htn "sport = :$T_PORT" | awk '$2 >= 4096 { found = 1 }
		END { exit !found }'
}
t_wait_for 10 is_stuck || t_bail 'the write does not get to the disk'
kill -KILL "$first"
start second
t_check 'its successor waits for the write' \
	t_wait_for 14 says second "waiting for the last I/O of process"
not_ready() { ! is_ready second && kill -0 "$pid"; }
t_check 'and does not serve meanwhile' not_ready
go_on
t_check 'it serves when the disk goes on' t_wait_for 30 is_ready second
dd if=/dev/zero bs=4k count=1 2>/dev/null | tr '\0' 1 >"$T/ones"
t_check 'the old write has landed before' cmp -n 4096 "$T/ones" "$T/medium"
t_check 'and is acknowledged in the end' wait "$writer"
newer() {
	tr 1 2 <"$T/ones" >"$T/twos" &&
		dd if="$T/twos" of="$T/mnt/disk" bs=4k count=1 oflag=direct \
			conv=notrunc,fsync
}
t_check 'a newer one is written' newer
kill -TERM "$pid"
ended() { ! kill -0 "$pid"; }
t_wait_for 20 ended
t_check 'and stays' cmp -n 4096 "$T/twos" "$T/medium"

# ---- the port belongs to a ring that has not ended yet
mkfifo "$T/let_go"
python3 - "$P" "$T/let_go" >"$T/holder" <<'END' &
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen()
print("holds it", flush=True)
open(sys.argv[2]).read()
END
t_pids="$t_pids $!"
t_wait_for 10 test -s "$T/holder" || t_bail "port $P is in use"
start third
sleeps() { grep -q nanosleep "/proc/$pid/wchan"; }
t_check 'a port that is in use is waited for' t_wait_for 10 sleeps
: >"$T/let_go"
t_check 'and taken' t_wait_for 30 is_ready third

# ---- in a container that is made anew: another machine ID, another host name
truncate -s 1M "$T/own"
mkdir "$T/state" "$T/state2" "$T/old" "$T/bin"
serial() { rdma-info "$URI" | awk '$1 == 0 { print $NF }'; }
serves() { # STATE-DIR: prints the serial number
	t_target --backing "$T/own,name=own" ${1:+--state-dir "$1"}
	serial
	t_target_stop TERM
}
here=$(serves none)
drawn=$(serves "$T/state")
: >"$T/old/$(printf %032x 1).lock" # that version kept no identifier
old=$(serves "$T/old")
is_new() { [ -n "$drawn" ] && [ "$drawn" != "$here" ] && [ "$drawn" != "$(serves "$T/state2")" ]; }
t_check 'machines of one image have different disks' is_new
t_check 'a state directory of an earlier version keeps its disks' [ "$old" = "$here" ]
says() { grep -E "$1" "$T/target.log"; }
not_kept='no reservation, saved mode value, job or LUN survives .*, and volumes without serial='
serves none >/dev/null
t_check 'without one a notice says what does not last' says "^.*--state-dir none: $not_kept"
serves >/dev/null
t_check 'one that is there by default is used' test -s "$STATE_DIRECTORY/id"
t_check 'and needs no notice' sh -c "! grep -q survives '$T/target.log'"
by_default() { (
	export STATE_DIRECTORY="$1"
	serves
); }
: >"$T/file"
by_default "$T/file" >/dev/null
t_check 'one that cannot be made is left out' says "no state directory $T/file: Not a directory: $not_kept"
mkdir -m 777 "$T/open"
chmod 777 "$T/open"
by_default "$T/open" >/dev/null
t_check 'so is one where others may write' says "no state directory $T/open: other users may write it: $not_kept"
t_check 'and nothing is made there' [ -z "$(ls "$T/open")" ]
mkdir "$T/away"
ln -s "$T/gone" "$T/away/$T_PORT"
ln -s "$T/gone" "$T/link"
for dir in "$T/away" "$T/link"; do
	t_refused 'one whose file system is not mounted is not left out' \
		"state directory $dir.*: No such file or directory; .*--state-dir none" \
		env STATE_DIRECTORY="$dir" rdma-target --listen "$URI" -b "$T/own"
done
if unshare -mu mount --bind /dev/null /etc/machine-id 2>/dev/null; then
	cat >"$T/bin/rdma-target" <<-END
		#!/bin/sh
		exec unshare -mu sh -c 'mount --bind /dev/null /etc/machine-id &&
			hostname other && exec "\$0" "\$@"' $BUILD/target/rdma-target "\$@"
	END
	chmod +x "$T/bin/rdma-target"
	PATH=$T/bin:$PATH
	t_check 'the disk is the same in a new container' [ "$(serves "$T/state")" = "$drawn" ]
	t_check 'that of an earlier version, too' [ "$(serves "$T/old")" = "$old" ]
	t_check 'without a state directory it is another one' [ "$(serves none)" != "$here" ]
else
	t_skip 'the disk is the same in a new container' 'may not unshare here'
fi

# ---- LUNs: an initiator that runs on would write to another disk
PATH=${PATH#"$T/bin:"}
truncate -s 1M "$T/a" "$T/b" "$T/c"
mkdir "$T/luns"
again() { # -b ... of one start
	rdma-info "$URI" >/dev/null
	t_target_stop TERM
	t_target_again --state-dir "$T/luns" "$@"
}
luns_are() { # "0:a 1:b"
	[ "$(sed -n 's/^  LUN \([0-9]*\) *\([a-z]*\) .*/\1:\2/p' "$T/target.log" |
		tr '\n' ' ')" = "$1 " ]
}
t_target --state-dir "$T/luns" -b "$T/a" -b "$T/b"
t_check 'volumes get LUNs in their order' luns_are '0:a 1:b'
again -b "$T/b" -b "$T/a"
t_check 'and keep them in another order' luns_are '1:b 0:a'
again -b "$T/b" -b "$T/c"
t_check 'a new one does not get that of one that is gone' luns_are '1:b 2:c'
t_target_stop TERM
t_refused 'nor by lun=' "volume 'c' cannot be LUN 0: initiators may still know it as the volume 'a' of before; .* or remove its line from $T/luns/luns.$T_PORT\$" \
	rdma-target --listen "$URI" --state-dir "$T/luns" -b "$T/c,lun=0"
t_target_again --state-dir "$T/luns" -b "$T/b" --control "$T/ctl"
ctl() { rdma-ctl --control "$T/ctl" "$@" 2>&1; }
if command -v rdma-ctl >/dev/null; then
	t_check 'nor while the target runs' sh -c \
		"rdma-ctl --control '$T/ctl' volume add '$T/c,lun=0' 2>&1 | grep -q 'know it as the volume .a. of before'"
	t_check 'unless the administrator says so' ctl volume forget a
	t_check 'then another one gets it' ctl volume add "$T/c,lun=0"
	t_check 'a volume that is served is not forgotten' sh -c \
		"! rdma-ctl --control '$T/ctl' volume forget b 2>/dev/null"
	again -b "$T/c" -b "$T/b"
	t_check 'after the next start, too' luns_are '0:c 1:b'
else
	t_skip 'an administrator forgets LUNs' 'no rdma-ctl here'
fi
t_target_stop TERM
mkdir "$T/unseen"
t_target_again --state-dir "$T/unseen" -b "$T/a"
t_target_stop TERM
t_check 'a start that fails has an address of another machine' sh -c \
	"! rdma-target --listen srp+tcp://192.0.2.1:$T_PORT --state-dir '$T/unseen' -b '$T/b' 2>/dev/null"
t_target_again --state-dir "$T/unseen" -b "$T/c"
t_check 'a LUN that no initiator has seen is free' luns_are '0:c'
t_target_stop TERM

# ---- the state directory by default: one for each port
t_target -b "$T/a"
rdma-info "$URI" >/dev/null
t_refused 'a target of the same port has the same state' \
	"state directory .*/$T_PORT is in use by .*rdma-target.*: .*--state-dir" \
	rdma-target --quiet --listen "srp+tcp://127.0.0.2:$T_PORT" -b "$T/b"
rdma-target --listen "srp+tcp://127.0.0.1:$((T_PORT + 1))" -b "$T/b" >"$T/other.log" 2>&1 &
other=$!
t_pids="$t_pids $other"
t_check 'one of another port serves beside it' t_wait_for 10 grep -q 'rdma-fuse srp' "$T/other.log"
kill "$other"
wait "$other"
t_target_stop TERM
t_target_again -b "$T/c"
t_check 'it survives a restart' luns_are '1:c'
t_target_stop TERM

# ---- another port is the first one: initiators that came by it still know the LUNs
at() { URI=srp+tcp://127.0.0.1:$((T_PORT + $1)); }
# other_first NAME OPTION...: of two ports, the second one is the first one at the next start
other_first() {
	name=$1
	shift
	at 2
	second=$URI
	at 0
	t_target_again -b "$T/a" -b "$T/b" --listen "$second" "$@"
	rdma-info "$second" >/dev/null
	t_target_stop TERM
	at 2
	t_target_again -b "$T/b" "$@"
	t_check "LUNs stay when another port is the first one, $name" luns_are '1:b'
	t_target_stop TERM
}
# moves NAME OPTION...: the same of a port that came while the target ran
moves() {
	name=$1
	shift
	at 0
	first=$URI
	t_target_again -b "$T/a" -b "$T/b" --control "$T/ctl" "$@"
	at 3
	ctl listen add "$URI" && ctl listen remove "$first"
	rdma-info "$URI" >/dev/null
	t_target_stop TERM
	t_target_again -b "$T/b" "$@"
	t_check "... and when a target has moved to another port, $name" luns_are '1:b'
	t_target_stop TERM
}
mkdir "$T/moves"
rm -r "$STATE_DIRECTORY"
other_first 'by default'
other_first 'with --state-dir' --state-dir "$T/moves"
if command -v rdma-ctl >/dev/null; then
	moves 'by default'
	moves 'with --state-dir' --state-dir "$T/moves"
else
	t_skip '... and when a target has moved to another port' 'no rdma-ctl here'
fi
# ---- the option goes, which named the directory that is the place by default
rm -r "$STATE_DIRECTORY"
mkdir "$STATE_DIRECTORY"
at 0
t_target_again -b "$T/a" -b "$T/b" --state-dir "$STATE_DIRECTORY"
rdma-info "$URI" >/dev/null
t_target_stop TERM
t_target_again -b "$T/b"
t_check 'LUNs stay without --state-dir if that named the place by default' luns_are '1:b'
t_target_stop TERM
rm -r "$STATE_DIRECTORY"
mkdir "$STATE_DIRECTORY"
: >"$STATE_DIRECTORY/$(printf %032x 1)" # of a version that kept no LUNs
t_target_again -b "$T/a"
t_check '... also of an earlier version' test -e "$STATE_DIRECTORY/luns.$T_PORT"
t_target_stop TERM
rm -r "$STATE_DIRECTORY"

at 0
t_target_again -b "$T/a" --listen "$second"
t_target_stop TERM
t_target_again -b "$T/a"
at 2
t_refused 'another target with such a port is told whose it is' \
	"in use by .*; if port $((T_PORT + 2)) is none of its ports any more, remove .*/$T_PORT/port.$((T_PORT + 2))\$" \
	rdma-target --quiet --listen "$URI" -b "$T/b"
t_target_stop TERM
echo x >"$T/moves/port.$((T_PORT + 2))"
t_refused 'a port of nobody is refused' "port.$((T_PORT + 2)): it is damaged" \
	rdma-target --listen "$URI" --state-dir "$T/moves" -b "$T/b"
cp -r "$STATE_DIRECTORY/$T_PORT" "$STATE_DIRECTORY/9"
echo 9 >"$STATE_DIRECTORY/9/port.$((T_PORT + 2))"
t_refused 'a port of two targets, too' "port $((T_PORT + 2)) was one of the target .*--state-dir" \
	rdma-target --listen "$URI" -b "$T/b"
t_done
