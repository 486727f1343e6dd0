#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rdma-discover.service under systemd: it mounts two targets by rules, one to be
# unmounted when its target goes, one to be kept. In a container like that of
# service.sh.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/boot.sh"

# ---- inside

U=rdma-discover.service
LEAVING=rdma-target@leaving.service
STAYING=rdma-target@staying.service

is() { b_is $U "$@"; } # PROPERTY REGEX
mounts() { grep -c " /mnt/$1 fuse.rdma-block " /proc/self/mounts; }
is_mounted_once() { [ "$(mounts "$1")" = 1 ]; }
is_not_mounted() { [ "$(mounts "$1")" = 0 ]; }
# Bypasses the cache: the target sends the data.
reads() {
	dd if="/mnt/$1/disk" of="$T/read" bs=1M iflag=direct && cmp "$T/read" "/srv/volumes/$1"
}
serves() { # NAME: once, and with its data
	t_wait_for 20 is_mounted_once "$1" && t_wait_for 20 reads "$1" &&
		is_mounted_once "$1"
}
serve_both() { serves leaving && serves staying; }
says() { b_journal $U | grep -E "$1"; }
said() { b_journal $U | grep -Ec "$1"; }

starts_not_without_rules() {
	systemctl start $U && is ActiveState inactive && is ConditionResult no
}
starts() { systemctl start $U && is ActiveState active && serve_both; }
is_restricted() { b_is_restricted "$(b_pid $U)"; }
goes() { systemctl stop $LEAVING && t_wait_for 20 is_not_mounted leaving; }
goes_and_stays_mounted() {
	systemctl stop $STAYING &&
		t_wait_for 20 says ':5556: gone; /mnt/staying stays' &&
		is_mounted_once staying
}
comes() { systemctl start "$1" && serve_both; }
# Every start looks at what is mounted.
takes_over() { # COMMAND...
	before=$(said 'is there already')
	"$@" && t_wait_for 20 took_over $((before + 2)) && is ActiveState active && serve_both
}
took_over() { [ "$(said 'is there already')" -ge "$1" ]; }
kills_it() {
	kill -9 "$(b_pid $U)" && t_wait_for 20 is NRestarts 1
}
keeps_its_rules() {
	cp /etc/rdma-discover.conf "$T/rules" && echo 'a mout=/mnt' >>/etc/rdma-discover.conf
	systemctl reload $U && t_wait_for 20 says ":4: 'mout': .*the old rules stay" &&
		is ActiveState active && serve_both
	res=$?
	cp "$T/rules" /etc/rdma-discover.conf
	return $res
}
stops() {
	systemctl stop $U && is ActiveState inactive && is Result success && serve_both
}
says_nothing_bad() {
	b_journal $U
	! b_journal $U | grep -Ei ' failed;|denied|sandbox|SYS'
}

inside() {
	b_up
	mkdir -p /mnt/leaving /mnt/staying
	t_mounts="$t_mounts /mnt/leaving /mnt/staying"
	b_may_write rdma-target@.service /srv/volumes
	port=5555
	for name in leaving staying; do
		head -c 8M /dev/urandom >/srv/volumes/$name
		chown rdma-target: /srv/volumes/$name
		echo "OPTIONS=--backing /srv/volumes/$name,name=disk --listen srp+tcp://127.0.0.1:$port" \
			>/etc/default/rdma-target-$name
		port=$((port + 1))
	done
	rm -f /etc/rdma-discover.conf
	systemctl daemon-reload
	systemctl start $LEAVING $STAYING || t_bail 'the targets do not start'

	t_check 'without rules it does not start, and that is no error' \
		starts_not_without_rules
	cat >/etc/rdma-discover.conf <<-END
		# two targets
		a dest=127.0.0.1:5555,mount=/mnt/leaving,gone=remove
		a dest=127.0.0.1:5556,mount=/mnt/staying
	END
	t_check 'it mounts both targets' starts
	t_check 'it is restricted' is_restricted
	t_check 'it goes on if the kernel kills a child for memory' \
		is OOMPolicy continue
	t_check 'a target goes, and its mount goes' goes
	t_check 'it comes, and is mounted again, once' comes $LEAVING
	t_check 'the other goes, and its mount stays' goes_and_stays_mounted
	t_check 'it comes, and is served again, once' comes $STAYING
	t_check 'the daemon is killed, and takes both over' takes_over kills_it
	t_check 'so does it when it is restarted' takes_over systemctl restart $U
	t_check 'it says what is wrong with new rules, and goes on' keeps_its_rules
	t_check 'it stops, and leaves both mounts' stops
	t_check 'it starts, and takes both over' takes_over systemctl start $U
	t_check 'a target goes then, and its mount goes' goes
	t_check 'it stops, and leaves the other' systemctl stop $U
	t_check 'the journal has no complaint' says_nothing_bad
	t_done
}

[ "${1-}" != inside ] || inside

# ---- outside

b_root
b_install target/rdma-target.service target/rdma-target@.service target/rdma-target \
	discover/rdma-discover.service discover/rdma-discover fuse/rdma-fuse
b_boot "$0"
