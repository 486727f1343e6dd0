#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A start serves what is there, and takes in what comes later (docs/waiting.md).
. "$(dirname "$0")/control_lib.sh"

PATH="$BUILD/tests/functional:$PATH"
has_logged() { grep -Eq "$1" "$T/target.log"; }
status_shows() { ctl status >"$T/status" && cat "$T/status" && grep -Eq "$1" "$T/status"; }
ends() { t_wait_for 10 t_has_ended "$T_TARGET" && wait "$T_TARGET"; }
free_port() { echo $((20000 + SRANDOM % 12000)); }

# ---- an address

ADDR=198.51.100.7
LATE=srp+tcp://$ADDR:$(free_port)
few=(--listen "srp+tcp://127.0.0.1:$(free_port)" --listen "$LATE" --backing ram:1M,name=m)
t_refused 'a command ends without an address' "$ADDR.*this machine does not have that address" \
	rdma-target "${few[@]}"
t_refused 'so does a target with --strict' "$ADDR.*this machine does not have that address" \
	rdma-target --strict --control "$S" "${few[@]}"
t_target --control "$S" --listen "$LATE" --backing ram:1M,name=m
t_check 'a target waits for an address' has_logged "not listening on $ADDR.* yet: this machine"
t_check 'and serves by the other one' sees m
t_check 'the status tells what is waited for' status_shows "^not here yet +${LATE/+/.}"
if [ "$T_ALONE" = yes ] && ip addr add $ADDR/32 dev lo; then
	logs_in() { rdma-info "$LATE"; }
	t_check 'it is served when it comes' t_wait_for 2 logs_in
	t_check 'and is listed with the others' status_shows "^(listens on|  ) +${LATE/+/.}"
	ip addr del $ADDR/32 dev lo
else
	t_skip 'it is served when it comes' 'no network of its own'
	t_skip 'and is listed with the others' 'no network of its own'
fi
t_check 'a signal ends the target' eval 'kill "$T_TARGET" && ends'

# ---- a file

mkdir -m 755 "$T/config" "$T/disks"
LATE=$T/disks/late
config() { # SPEC...
	printf '"%s"\n' "$@" | paste -sd, | sed 's/.*/{"backing": [&]}/' >"$T/config/c.json"
}
starts() { t_target --config "$T/config/c.json" --control "$S" "$@"; }
# At the same port: initiators take it for the same target.
again() { t_target_again --config "$T/config/c.json" --control "$S"; }
lists() { volume_list && grep -Eq "$1" "$T/list"; } # PATTERN
has_lun() { lists "^$2 +$1 .* ready;"; } # NAME LUN
is_away() { lists "^$2 +$1 .* not here yet since .*: .*$3.*, (next attempt in|being tried)"; } # NAME LUN WHY
stops() { kill "$T_TARGET" && t_ends "$T_TARGET"; }

config "$LATE" ram:1M,name=m
t_refused 'a target with --strict ends without a file' 'disks/late: does not exist' \
	rdma-target --strict --config "$T/config/c.json"
t_refused 'so does a command' 'disks/late: does not exist' rdma-target --backing "$LATE"
starts
t_check 'a target with a configuration waits for a file' is_away late 0 'does not exist'
t_check 'with a warning' has_logged "warning: volume 'late' is not here yet: .*does not exist"
t_check 'and serves the others, under the LUNs of their places' has_lun m 1
has_opener() { pgrep -P "$T_TARGET" -x stores; }
has_no_opener() { ! has_opener; }
t_check 'a process of its own is to open it' has_opener
t_check 'the status names it' status_shows '^volumes +2; not ready: late$'
is_counted() { ctl metrics | grep -E 'volume_state.*late.*not here yet'; }
t_check 'so do the metrics' is_counted
t_refused 'nobody else gets its name' "two volumes have the name 'late'" \
	ctl volume add ram:1M,name=late
t_check 'nor its LUN' ctl volume add ram:1M,name=n
t_check '... which is the next one' has_lun n 2
t_check 'that one goes' ctl volume remove n
truncate -s 1M "$LATE"
t_check 'it is served when it comes' t_wait_for 2 has_lun late 0
t_check 'with a notice' t_wait_for 2 has_logged "volume 'late' is served as LUN 0 now"
t_check 'initiators see it' sees late
t_check 'nothing more is to be opened' t_wait_for 2 has_no_opener
t_check 'a signal ends the target' stops

# ---- a configuration that is not here yet

mv "$LATE" "$T/away"
again
changes_nothing() { ctl "$@" "$T/config/c.json" >"$T/changes" 2>&1; cat "$T/changes"; ! grep -Eq 'late|add|remove' "$T/changes"; }
t_check 'after a restart it has its LUN' is_away late 0 'does not exist'
t_check 'for diff it is there' changes_nothing diff
t_check 'for apply, too' changes_nothing apply
t_check 'and for a reload' eval 'ctl reload && is_away late 0 "does not exist"'
t_check 'its rules can change' ctl volume allow late 192.0.2.1
t_check 'it is saved' eval 'ctl save && grep -q late "$T/config/c.json"'
mv "$T/away" "$LATE"
t_check 'it comes' t_wait_for 2 has_lun late 0
t_check 'with its new rules' lists 'late .*; for 192.0.2.1$'
t_check 'a signal ends the target' stops
mv "$LATE" "$T/away"
starts
t_check 'what is not here yet can be removed' ctl volume remove late
t_check 'it is not listed any more' shows m
mv "$T/away" "$LATE"
t_check 'it does not come' shows m
t_check 'a signal ends the target' stops

# ---- other disks

config "$LATE,allow=all" ram:1M,name=m
starts
t_check 'an initiator knows a LUN' sees late
t_check 'a signal ends the target' stops
config "$T/disks/other,lun=0" ram:1M,name=m,lun=7
again
t_check 'another disk is waited for under its LUN' is_away other 0 'does not exist'
truncate -s 1M "$T/disks/other"
t_check 'it is not served when it comes' t_wait_for 2 is_away other 0 'initiators may still know it as'
t_check 'the others are' has_lun m 7
t_check 'a signal ends the target' stops
rm "$T/disks/other"
rm -r "$STATE_DIRECTORY"
mkdir -m 755 "$STATE_DIRECTORY"
refuses() { # NAME PATTERN SPEC...
	config "${@:3}"
	t_refused "$1" "$2" timeout 20 rdma-target --config "$T/config/c.json"
}
refuses 'two volumes of one name end a start' "two volumes have the name 'other'" \
	"$T/disks/other" ram:1M,name=other
refuses 'so do two of one LUN' "is LUN 3, too" "$T/disks/other,lun=3" ram:1M,name=m,lun=3
refuses 'and of one serial number' 'are the same disk' \
	"$T/disks/other,serial=S" ram:1M,name=m,serial=S
refuses 'and a file that is given twice' 'is given twice' "$LATE" "$LATE,name=again"
refuses 'and a plugin that is not there' "there is no plugin 'nope'" nope:x ram:1M,name=m
refuses 'and a parameter that a plugin does not have' "no parameter 'colour'" \
	"$T/disks/other,layer=qos,colour=red" ram:1M,name=m

# ---- nothing but what is not here yet

# Without a volume, Linux would never ask again: so it must log in again.
config "$T/disks/alone"
starts
t_check 'with no volume, initiators are refused' exits 1 rdma-info "$URI"
t_check 'and the log says why' t_wait_for 2 has_logged 'login .* refused: .*not here yet'
truncate -s 1M "$T/disks/alone"
t_check 'until it comes' t_wait_for 2 sees alone
stops

# ---- the order of arrival

late_in_order() { # FIRST SECOND
	rm -f "$T/disks/"[ab]
	config "$T/disks/a" "$T/disks/b" ram:1M,name=m
	starts
	truncate -s 1M "$T/disks/$1"
	t_check "$1 comes" t_wait_for 2 lists "$1 .* ready;"
	truncate -s 1M "$T/disks/$2"
	t_check "$2 comes" t_wait_for 2 lists "$2 .* ready;"
	t_check '... and both have the LUNs of their places' eval 'has_lun a 0 && has_lun b 1 && has_lun m 2'
	stops
	rm -r "$STATE_DIRECTORY"
	mkdir -m 755 "$STATE_DIRECTORY"
}
late_in_order a b
late_in_order b a

# ---- the rights of the start, and its service manager

if [ "$(id -u)" = 0 ]; then
	rm -f "$T/disks/a"
	config "$T/disks/a" ram:1M,name=m
	starts --user nobody --state-dir none
	(umask 077 && truncate -s 1M "$T/disks/a")
	t_check 'a late file is opened with the rights of the start' t_wait_for 2 has_lun a 0
	stops
else
	t_skip 'a late file is opened with the rights of the start' 'not root'
fi
rm -f "$T/disks/a"
config "$T/disks/a" ram:1M,name=m
export NOTIFY_SOCKET=$T/notify
python3 "$(dirname "$0")/notify.py" "$NOTIFY_SOCKET" "$T/notified" &
t_pids="$t_pids $!"
t_wait_for 5 test -S "$NOTIFY_SOCKET"
starts
unset NOTIFY_SOCKET
notified() { grep -q "$1" "$T/notified"; }
t_check 'the unit is started' t_wait_for 2 notified '"READY=1"'
t_check 'its status names what is waited for' notified '"STATUS=serving; waiting for a"'
truncate -s 1M "$T/disks/a"
t_check 'until it has come' t_wait_for 2 notified '"STATUS=serving"'
stops

# ---- a file server that hangs

if [ -w /dev/fuse ] && command -v fusermount3 >/dev/null; then
	HANG=$T/hang
	mkdir "$HANG" "$T/server"
	hang_fs "$HANG" "$T/server" &
	t_pids="$! $t_pids"
	t_mounts="$t_mounts $T/server"
	t_wait_for 5 test -f "$T/server/disk" || t_bail 'no file system'
	config "$T/server/disk,name=far" "$LATE"
	: >"$HANG/open"
	starts
	t_check 'a file server hangs' test -s "$HANG/open"
	t_check 'other volumes are served' has_lun late 1
	t_check 'the one that hangs is waited for' is_away far 0 'does not answer'
	t_check 'rdma-ctl changes other things' ctl volume add ram:1M,name=n
	rm "$HANG/open"
	t_check 'it is served when the server answers' t_wait_for 2 has_lun far 0
	stops
	: >"$HANG/open"
	starts
	t_check 'a signal ends a target whose store hangs' stops
	rm "$HANG/open"
else
	t_skip 'a file server hangs' 'no FUSE here'
fi

# ---- an NBD server

if command -v nbdkit >/dev/null && [ -d "$BUILD/plugins/nbd" ]; then
	export RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/nbd
	NBD=$(free_port)
	serves_nbd() {
		nbdkit -f -i 127.0.0.1 -p "$NBD" memory 64M &
		SERVER=$!
		t_pids="$t_pids $SERVER"
	}
	config "nbd:nbd://127.0.0.1:$NBD,name=net" ram:1M,name=m
	starts
	t_check 'an NBD server that is away is waited for' is_away net 0 'cannot connect'
	t_check 'other volumes are served' has_lun m 1
	serves_nbd
	t_check 'it is served when its server comes' t_wait_for 2 has_lun net 0
	stops
	kill -STOP "$SERVER"
	starts
	t_check 'one that does not answer is waited for' is_away net 0 'does not answer'
	t_check 'other volumes are served' has_lun m 1
	kill -CONT "$SERVER"
	t_check 'it is served when its server goes on' t_wait_for 5 has_lun net 0
	stops
	kill -STOP "$SERVER"
	starts
	t_check 'a signal ends a target whose server hangs' stops
	kill -CONT "$SERVER"
	kill "$SERVER"
else
	t_skip 'an NBD server that is away is waited for' 'no nbdkit here'
fi

t_done
