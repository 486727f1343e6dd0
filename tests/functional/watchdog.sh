#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The heartbeat for the service manager: it stops while a worker hangs, and the
# log says what the worker was doing.
. "${0%/*}/lib.sh"
t_needs_fuse

beats() { grep -c WATCHDOG=1 "$T/notified"; }
more_than() { [ "$(beats)" -gt "$1" ]; }
beats_on() { t_wait_for 5 more_than "$(beats)"; }
says() { t_wait_for 10 grep -Eq "$1" "$T/target.log"; }
# Waits until notify.py has written all datagrams that were sent before.
marks=0
notified_all() {
	marks=$((marks + 1))
	python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(sys.argv[2].encode(), sys.argv[1])' \
		"$T/notify" "MARK=$marks" &&
		t_wait_for 5 grep -q "\"MARK=$marks\"" "$T/notified"
}
# Expects no heartbeat. The pause only gives a wrong one time to arrive.
hangs() { # PATTERN
	says "error: worker [01] has hung for [0-9]+ s: $1; the service manager" ||
		return 1
	local before
	notified_all || return 1
	before=$(beats)
	sleep 1.2
	notified_all || return 1
	[ "$(beats)" = "$before" ]
}
# The FIFO is removed while it is open for writing: no call of the store finds it
# without a writer, also if the client sends its command again.
goes_on() { # NUMBER OF "goes on" LINES
	exec 8<>"$T/hang"
	rm "$T/hang"
	wait $reader 2>/dev/null
	exec 8>&-
	t_wait_for 5 sh -c "[ \$(grep -c 'worker . goes on' '$T/target.log') -ge $1 ]" &&
		beats_on
}

python3 "${0%/*}/notify.py" "$T/notify" "$T/notified" &
manager=$!
t_pids="$t_pids $manager"
t_wait_for 5 test -S "$T/notify" || t_bail 'no socket'

control=()
! command -v rdma-ctl >/dev/null || control=(--control "$T/control")
NOTIFY_SOCKET=$T/notify WATCHDOG_USEC=4000000 T_THREADS=2
export NOTIFY_SOCKET WATCHDOG_USEC
t_target "${control[@]}" --backing \
	"$BUILD/tests/plugins/rdma-block-plugin-hang.so:$T/hang,name=odd"
t_check 'the target tells that it is ready' t_wait_for 5 grep -q READY=1 "$T/notified"
t_check 'and that it is alive' beats_on
mkdir "$T/mnt"
t_mount "$URI" "$T/mnt"
t_check 'also while it serves' beats_on

mkfifo "$T/hang"
dd if="$T/mnt/odd" of=/dev/null bs=512 skip=1024 count=1 iflag=direct status=none &
reader=$!
t_check 'a worker that hangs in a store stops it' hangs \
	'READ.* of 1 blocks at LBA 1024, LUN 0, tag [0-9a-f]{16}: on the disk; the store does not return from: read'
t_check 'when it returns, the target is alive again' goes_on 1

mkfifo "$T/hang"
kill -HUP "$T_TARGET"
t_check 'so does one that hangs outside of commands' hangs 'outside of commands'
t_check 'and it is alive again' goes_on 2

fusermount3 -u "$T/mnt"
kill "$T_TARGET"
t_check 'it ends' wait "$T_TARGET"
t_check 'it tells that it stops' t_wait_for 5 grep -q STOPPING=1 "$T/notified"

# ---- without a watchdog

unset WATCHDOG_USEC
t_target --backing ram:1M
t_check 'nobody asks: there is no thread for it' sh -c \
	"! grep -q heartbeat /proc/$T_TARGET/task/*/comm"
kill "$T_TARGET"
wait "$T_TARGET"
export WATCHDOG_USEC=1000000 WATCHDOG_PID=1
t_target --backing ram:1M
t_check 'nor when another process is asked' sh -c \
	"! grep -q heartbeat /proc/$T_TARGET/task/*/comm"
kill "$T_TARGET"
wait "$T_TARGET"

# ---- a service manager that hangs

unset WATCHDOG_PID
t_target --backing ram:1M
kill -STOP $manager
python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect(sys.argv[1])
s.setblocking(False)
try:
    while True:
        s.send(b"FILLS=1")
except BlockingIOError:
    pass' "$T/notify"
kill "$T_TARGET"
t_check 'the target ends although its service manager hangs' \
	t_wait_for 10 t_has_ended "$T_TARGET"
kill -CONT $manager
t_done
