#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Lines of the log in the journal: their fields, and a journal that is away or hangs.
# This one is journal.py, in a mount namespace with a /run of its own.
here=${0%/*}
if [ -z "${IN_NAMESPACE-}" ]; then
	unshare -m true 2>/dev/null && IN_NAMESPACE=1 exec unshare -m "$0"
	echo '1..0 # SKIP needs root for a mount namespace'
	exit 0
fi
. "$here/lib.sh"
mount -t tmpfs none /run 2>/dev/null || t_skip_all 'may not mount here'
mkdir -p /run/systemd/journal

serve() {
	python3 "$here/journal.py" serve "$T/journal" &
	JOURNAL=$!
	t_pids="$t_pids $JOURNAL"
	t_wait_for 5 test -S /run/systemd/journal/socket
}
# says PATTERN: a line of the journal, which has its fields in the order of the alphabet
says() { t_wait_for 5 grep -Eq "$1" "$T/journal"; }
rdma-target() { exec python3 "$here/journal.py" run "$BUILD/target/rdma-target" "$@"; }
grows() {
	truncate -s "$1" "$T/a.img" && kill -HUP "$T_TARGET"
}
logs_in() { rdma-info "$URI"; }
# Has more lines at the level of debug than the target keeps.
works() { for _ in {1..40}; do logs_in || return; done; }

serve || t_bail 'no journal'
truncate -s 1M "$T/a.img"
t_target --backing "$T/a.img,name=a" -vv
t_check 'the target is reached' logs_in
t_check 'a login has its nexus, and the severity of a notice' says \
	'^\{"MESSAGE": "login of (0x[0-9a-f]{32}) from [^"]*", "NEXUS": "\1", "PRIORITY": "5", "SYSLOG_IDENTIFIER": "rdma-target"\}$'
t_check 'a volume that grows has its name and LUN' grows 2M
t_check 'in fields' says \
	'^\{"LUN": "0", "MESSAGE": "LUN 0 \(a\) has grown [^"]*", "PRIORITY": "5", "SYSLOG_IDENTIFIER": "rdma-target", "VOLUME": "a"\}$'
t_check 'a line about neither has neither' says \
	'^\{"MESSAGE": "hang-up signal[^"]*", "PRIORITY": "5", "SYSLOG_IDENTIFIER": "rdma-target"\}$'

rm /run/systemd/journal/socket
t_check 'without its socket' grows 3M
t_check 'lines go to stderr' says '^\{"STREAM": "LUN 0 \(a\) has grown to 6144 blocks'

kill -STOP "$JOURNAL"
t_check 'while it hangs, the target serves' works
kill -CONT "$JOURNAL"
# It may take a while to read what it has. Until then, more lines are lost.
logs_more() { # PATTERN
	grows +1M
	grep -Eq "$1" "$T/journal"
}
t_check 'then it says how many lines are lost' t_wait_for 5 logs_more \
	'"STREAM": "warning: [0-9]+ lines of the log are lost'
t_check 'and goes on' t_wait_for 5 logs_more \
	'"STREAM": "LUN 0 \(a\) has grown to ([89]|[1-9][0-9]+)[0-9]{3} blocks'

kill "$T_TARGET"
t_check 'it ends' wait "$T_TARGET"
t_check 'the last line comes, too' says '"STREAM": "stopped"'
kill "$JOURNAL"
wait "$JOURNAL" 2>/dev/null

# The variable is inherited, also by a program whose stderr is something else.
rdma-target() { JOURNAL_STREAM=1:1 exec "$BUILD/target/rdma-target" "$@"; }
t_target --backing ram:1M
kill "$T_TARGET"
wait "$T_TARGET"
t_check 'a stderr that is no stream of the journal gets the lines' \
	grep -qx 'rdma-target: stopped' "$T/target.log"
t_done
