#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What hangs beside the target stops none of its workers: other volumes, logins, rdma-ctl
# and a signal to stop go on.
. "$(dirname "$0")/control_lib.sh"
t_needs_fuse

M=$T/mnt
mkdir "$M"
reads() { timeout 20 dd if="$M/$1" of=/dev/null bs=4k count="$2" iflag=direct status=none; }
logs_in() { timeout 20 rdma-info "$URI"; }
is_managed() { timeout 20 rdma-ctl --control "$S" status; }
ends() { t_wait_for 10 t_has_ended "$T_TARGET" && wait "$T_TARGET"; }

# ---- the reader of the log

mkfifo "$T/pipe"
exec 7<>"$T/pipe"
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
t_done
