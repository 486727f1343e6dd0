#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rdma-target.service under systemd, in a container that uses this machine's own
# files (changes stay in memory) and whose first process is systemd. This same
# script runs in it as a service.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/boot.sh"

# ---- inside

U=rdma-target.service

is() { b_is $U "$@"; } # PROPERTY REGEX
answers() { rdma-info srp+tcp://127.0.0.1:5555; }
starts() { systemctl start $U && answers; }
starts_without() {
	mv /srv/volumes/disk.img /srv/away && systemctl start $U &&
		is ActiveState active && is StatusText 'serving; waiting for disk.img'
}
comes() { mv /srv/away /srv/volumes/disk.img && t_wait_for 2 is StatusText serving; }
# Without the drop-in that names the directory.
says_where_to_allow() {
	systemctl stop $U && rm "/etc/systemd/system/$U.d/volumes.conf" &&
		systemctl daemon-reload && systemctl start $U &&
		journal_says 'disk.img: .*Read-only.*; .*ReadWritePaths='
}
stays_active() { systemctl reload $U && answers && is ActiveState active; }
stops() { systemctl stop $U && is ActiveState inactive && is Result success; }
has_no() { # FIELD: of the process's status
	grep -Eq "^$1:.0+$" "/proc/$pid/status"
}
# User, and group of block devices.
has_its_user() {
	grep -Ei '^([ug]id|groups):' "/proc/$pid/status"
	[ "$(stat -c %U "/proc/$pid")" = rdma-target ]
}
# The state directory was made by root, as before the unit had a user.
keeps_old_state() {
	[ "$(stat -c %U /var/lib/rdma-target)" = rdma-target ] &&
		[ "$(stat -c %U /var/lib/rdma-target/old)" = rdma-target ]
}
is_exposed_little() { # UNIT: 2.0 at most
	systemd-analyze security --offline=true --threshold=20 --no-pager "$1"
}
# With an attacker's code in the target. After the attempt, it is as it was.
tries_not() { # WHAT:PATH ANSWER
	store=$BUILD/tests/plugins/rdma-block-plugin-takeover.so
	cat >/etc/default/rdma-target <<-END
		OPTIONS=--listen srp+tcp://127.0.0.1:5555 --backing $store:$1,name=t
	END
	systemctl restart $U && answers || return 1
	timeout 60 srpcopy srp+tcp://127.0.0.1:5555/t "$T/copy"
	b_journal $U | grep takeover: | tail -n 1
	journal_says "takeover: $2"
}
attempts() {
	t_check 'a takeover reads no passwords' tries_not read:/etc/shadow \
		'Permission denied'
	t_check 'and writes to no file of root' tries_not write:/etc/passwd \
		'(Permission denied|Read-only file system)'
	# Some containers open no device at all, or cannot restrict any.
	if mknod /srv/volumes/node b 7 0 && head -c 1 /srv/volumes/node >"$T/out" &&
		! systemd-run -q --wait -p DevicePolicy=closed \
			head -c 1 /srv/volumes/node; then
		chown rdma-target: /srv/volumes/node
		t_check 'and opens no block device' \
			tries_not read:/srv/volumes/node 'Operation not permitted'
		mkdir -p /etc/systemd/system/$U.d
		printf '[Service]\nDeviceAllow=block-loop rw\n' \
			>/etc/systemd/system/$U.d/device.conf
		systemctl daemon-reload
		t_check 'one that the unit may open is closed unless it is served' \
			tries_not read:/srv/volumes/node 'Permission denied'
		rm /etc/systemd/system/$U.d/device.conf
		systemctl daemon-reload
	else
		t_skip 'and opens no block device' 'devices cannot be told apart here'
	fi
	t_check 'it stops' stops
}

# At least two filters: that of the unit, and the target's own.
is_filtered() { b_is_restricted "$pid"; }
touches() { nsenter -t "$pid" -m touch "$1/x"; }
touches_not() { ! touches "$1"; }
lives_on() {
	kill -9 "$pid" && t_wait_for 30 answers && is NRestarts 1
}
says_nothing_bad() {
	b_journal $U
	[ -z "$(b_journal $U -p err)" ] &&
		! b_journal $U | grep -Ei 'denied|sandbox|SYS'
}
# entries UNIT FIELD=VALUE: as JSON, with the severity of a notice
entries() {
	journalctl -q -u "$1" -o json "$2" | tee "$T/entries" && [ -s "$T/entries" ] &&
		jq -es 'all(.PRIORITY == "5" and .SYSLOG_IDENTIFIER == "rdma-target")' \
			"$T/entries"
}
login_is_found() {
	nexus=$(journalctl -q -u $U -o json | jq -r '.NEXUS // empty' | head -n 1)
	entries $U "NEXUS=$nexus" && grep '"MESSAGE":"login of' "$T/entries"
}
mounts_it() { rdma-fuse srp+tcp://127.0.0.1:5555 "$M"; }
data_is() { dd if="$M/disk.img" bs=1M iflag=direct | cmp - "$T/data"; }

# The second instance has a configuration file.
second_shows() {
	for name; do
		rdma-ctl --control /run/rdma-target-second/control volume list |
			grep -qw "$name" || return 1
	done
}
second_starts() {
	cat >/etc/second.json <<-END
		{ "listen": [ "srp+tcp://127.0.0.1:5556" ],
		  "backing": [ "ram:1M,name=one" ] }
	END
	echo 'OPTIONS=--config /etc/second.json' >/etc/default/rdma-target-second
	systemctl start rdma-target@second.service && second_shows one
}
second_has_its_own() {
	[ -S /run/rdma-target-second/control ] &&
		[ -S /run/rdma-target/control ] && [ -d /var/lib/rdma-target-second ]
}
second_reloads() {
	sed -i 's/"ram:1M,name=one"/"ram:1M,name=one", "ram:2M,name=two"/' \
		/etc/second.json
	systemctl reload rdma-target@second.service && second_shows one two
}
second_is_found() {
	entries rdma-target@second.service VOLUME=two && grep '"LUN":"1"' "$T/entries"
}
second_refuses() {
	echo '{ "backing": ' >/etc/second.json
	! systemctl reload rdma-target@second.service &&
		b_journal rdma-target@second.service |
		grep 'not applied: .*second.json:.*not JSON'
}

second_target() {
	t_check 'a second target is started by name' second_starts
	t_check 'it has a socket and a state of its own' second_has_its_own
	t_check 'it applies its file when asked to reload' second_reloads
	t_check 'the journal finds a volume by its name' second_is_found
	t_check 'systemctl tells that a file is wrong' second_refuses
	t_check 'it goes on then' second_shows one two
	t_check 'both stop' systemctl stop rdma-target@second.service
}

# As the packages install it: no options, and a file without volumes.
starts_empty() {
	rm /etc/default/rdma-target
	cp /mnt/share/rdma-target.json /etc/rdma-target.json &&
		systemctl start $U && rdma-ctl status | grep '^volumes  *0$'
}
adds_and_keeps() {
	rdma-ctl volume add ram:1M,name=kept &&
		! rdma-ctl save 2>"$T/said" &&
		grep 'write it yourself: rdma-ctl show >FILE' "$T/said" &&
		rdma-ctl show >"$T/shown" && cp "$T/shown" /etc/rdma-target.json &&
		systemctl restart $U && rdma-ctl volume list | grep -w kept
}
reloads_file() {
	sed -i 's/"kept"/"other"/; s/"lun": [0-9]*/"lun": 99/' /etc/rdma-target.json
	cat /etc/rdma-target.json
	systemctl reload $U && rdma-ctl volume list | grep -w other
}
file_in_etc() {
	t_check 'without options, it serves what /etc/rdma-target.json says' starts_empty
	t_check 'rdma-ctl adds a volume, and writes the file' adds_and_keeps
	t_check 'a reload applies the file' reloads_file
	t_check 'it stops' stops
}

# The store of the volume odd keeps a worker while the FIFO exists.
hang_fifo=/srv/volumes/hang
journal_has() { b_journal $U | grep -E "$1"; }
# The journal may be behind the program.
journal_says() { t_wait_for 30 journal_has "$1"; }
read_hung() {
	dd if="$M/odd" of="$T/hung" bs=512 skip=1024 count=1 iflag=direct
}
hung_serves() {
	mkdir -p "/etc/systemd/system/$U.d"
	printf '[Service]\nWatchdogSec=6\n' >"/etc/systemd/system/$U.d/watchdog.conf"
	store=$BUILD/tests/plugins/rdma-block-plugin-hang.so
	cat >/etc/default/rdma-target <<-END
		OPTIONS=--backing /srv/volumes/disk.img --listen srp+tcp://127.0.0.1:5555 --backing $store:$hang_fifo,name=odd
	END
	umount "$M" && systemctl daemon-reload && starts && mounts_it && read_hung &&
		hung_pid=$(b_pid $U)
}
# The new process must find no FIFO. The worker stays in the store all the same.
hung_says() {
	mkfifo $hang_fifo
	read_hung &
	reader=$!
	t_wait_for 10 journal_says 'worker [0-9]+ has hung for [0-9]+ s: READ.* of 1 blocks at LBA 1024, LUN 1, tag [0-9a-f]{16}: on the disk; the store does not return from: read;'
	said=$?
	rm $hang_fifo
	return $said
}
hung_is_new() {
	t_wait_for 10 is NRestarts 1 && t_wait_for 30 answers &&
		is ActiveState active &&
		! is MainPID "$hung_pid" &&
		journalctl -q -o cat _PID=1 "UNIT=$U" | grep 'Watchdog timeout'
}
# The store keeps its data in memory: after the restart it is another volume, and
# the read that hung fails.
hung_volume_is_back() {
	! wait "$reader" && t_wait_for 30 read_hung &&
		head -c 512 /dev/zero | cmp - "$T/hung"
}

hung_target() {
	rm -f $hang_fifo
	t_check 'a target with a watchdog serves' hung_serves
	t_check 'the journal says what a worker hangs in' hung_says
	t_check 'systemd starts the target anew' hung_is_new
	t_check 'the volume that hung is served again' hung_volume_is_back
	t_check 'the other volume is served again' data_is
	t_check 'it stops' stops
}

inside() {
	b_up
	M=$T/mnt
	mkdir -p "$M"
	b_may_write $U /srv/volumes
	b_disk /srv/volumes/disk.img 8M
	head -c 8M /dev/urandom >"$T/data"
	cat >/etc/default/rdma-target <<-END
		OPTIONS=--backing /srv/volumes/disk.img --listen srp+tcp://127.0.0.1:5555
	END
	mkdir -p -m 700 /var/lib/rdma-target
	touch /var/lib/rdma-target/old
	systemctl daemon-reload

	t_check 'the unit leaves little open' \
		is_exposed_little /etc/systemd/system/$U
	t_check 'systemctl start returns when it serves' starts
	pid=$(b_pid $U)
	t_check 'it has a user of its own' has_its_user
	t_check 'it goes on if the kernel kills its child for memory' \
		is OOMPolicy continue
	t_check 'a state directory of root is that user'"'"'s now' keeps_old_state
	t_check 'it has no capability left' has_no CapEff
	t_check 'and can get none' has_no CapBnd
	t_check 'its system calls are filtered' is_filtered
	for dir in /etc /usr /home /srv; do
		t_check "it cannot write to $dir" touches_not $dir
	done
	t_check 'it can write to what the drop-in names' touches /srv/volumes
	t_check 'and to its state' touches /var/lib/rdma-target
	t_mounts="$t_mounts $M"
	t_check 'a volume is mounted' mounts_it
	t_check 'and written' dd if="$T/data" of="$M/disk.img" bs=1M \
		conv=notrunc,fsync
	t_check 'the journal finds the login by its nexus' login_is_found
	t_check 'it looks for grown volumes when asked to reload' stays_active
	t_check 'it is started anew when killed' lives_on
	t_check 'the mount has what was written' data_is
	if [ -e "$BUILD/ctl/rdma-ctl" ]; then
		second_target
	else
		t_skip 'a second target' 'built without jansson'
	fi
	t_check 'it stops' stops
	t_check 'the journal has no complaint' says_nothing_bad
	hung_target
	attempts
	if [ -e "$BUILD/ctl/rdma-ctl" ]; then
		file_in_etc
	else
		t_skip 'a file in /etc' 'built without jansson'
	fi
	cat >/etc/default/rdma-target <<-END
		OPTIONS=--backing /srv/volumes/disk.img --listen srp+tcp://127.0.0.1:5555
	END
	t_check 'it starts without a volume, and tells which one' starts_without
	t_check 'which is served when it comes' comes
	t_check 'the journal says how to let it write' says_where_to_allow
	t_done
}

[ "${1-}" != inside ] || inside

# ---- outside

b_root
b_install target/rdma-target.service target/rdma-target@.service target/rdma-target
[ ! -e "$BUILD/ctl/rdma-ctl" ] || b_install ctl/rdma-ctl
cp "$(dirname "$0")/../../packaging/rdma-target.json" "$T/share"
b_boot "$0"
