#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Mounts by systemd: from lines of fstab, by an automount, and by
# rdma-fuse@.service. In a container like that of service.sh.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/boot.sh"

# ---- inside

A=srp+tcp://127.0.0.1:5555

is_mounted() { # DIR [OPTION]
	grep " $1 fuse.rdma-block " /proc/self/mounts | grep -q "[ ,]${2-}"
}
is_not_mounted() { ! is_mounted "$1"; }
data_is() { cmp "$1" /srv/data; }
# No daemon runs for mount point DIR.
daemon_is_gone() { ! pgrep -f "rdma-fuse.* $1( |\$)"; }

mounts() { mount "$1" && is_mounted "$1" && data_is "$1/disk.img"; }
mounts_once() {
	mount -a -t fuse.rdma-fuse && [ "$(grep -c ' /mnt/plain ' /proc/self/mounts)" = 1 ]
}
unmounts() { umount "$1" && is_not_mounted "$1" && t_wait_for 10 daemon_is_gone "$1"; }
starts_its_unit() {
	systemctl start mnt-unit.mount && is_mounted /mnt/unit ro &&
		data_is /mnt/unit/disk.img
}
stops_its_unit() {
	systemctl stop mnt-unit.mount && is_not_mounted /mnt/unit &&
		t_wait_for 10 daemon_is_gone /mnt/unit
}
waits_for_the_network() {
	systemctl show -p After --value mnt-unit.mount
	systemctl show -p After --value mnt-unit.mount | grep -q remote-fs-pre.target
}
has_an_automount() {
	systemctl cat mnt-auto.automount &&
		systemctl cat mnt-auto.automount | grep -x 'TimeoutIdleSec=1min'
}
mounts_at_an_access() {
	is_not_mounted /mnt/auto &&
		data_is /mnt/auto/disk.img && is_mounted /mnt/auto
}
fails_softly() {
	mount /mnt/nobody 2>"$T/stderr"
	[ $? != 0 ] && cat "$T/stderr" && grep -q 'rdma-fuse: error: ' "$T/stderr" &&
		is_not_mounted /mnt/nobody
}
# Every option that mount(8) passes on, or handles itself.
passes_option() {
	mount -t fuse.rdma-fuse -o "$1" $A /mnt/option && is_mounted /mnt/option &&
		umount /mnt/option && t_wait_for 10 daemon_is_gone /mnt/option
}
has_effect() { # OPTION AS-SHOWN
	mount -t fuse.rdma-fuse -o "$1" $A /mnt/option && is_mounted /mnt/option "$2"
	status=$?
	umount /mnt/option
	return $status
}
user_may() {
	chown daemon /mnt/user &&
		setpriv --reuid=daemon --clear-groups mount /mnt/user &&
		is_mounted /mnt/user nosuid &&
		setpriv --reuid=daemon --clear-groups umount /mnt/user
}

is() { b_is rdma-fuse@disk.service "$@"; } # PROPERTY REGEX
starts() {
	systemctl start rdma-fuse@disk.service && is_mounted /mnt/disk &&
		data_is /mnt/disk/disk.img
}
lives_on() {
	kill -9 "$(b_pid rdma-fuse@disk.service)" &&
		t_wait_for 30 is NRestarts 1 && t_wait_for 30 data_is /mnt/disk/disk.img
}
stops() {
	systemctl stop rdma-fuse@disk.service && is Result success &&
		is_not_mounted /mnt/disk
}
starts_not() {
	sed -i 's/5555/5556/' /etc/default/rdma-fuse-disk
	! systemctl start rdma-fuse@disk.service &&
		b_journal rdma-fuse@disk.service | grep 'rdma-fuse: error: '
}

inside() {
	b_up
	mkdir -p /srv
	head -c 8M /dev/urandom >/srv/data
	cp /srv/data /srv/disk.img
	cat >>/etc/fstab <<-END
		$A  /mnt/plain   fuse.rdma-fuse  noauto,_netdev,nofail,channels=2  0 0
		$A  /mnt/unit    fuse.rdma-fuse  noauto,_netdev,ro                 0 0
		$A  /mnt/auto    fuse.rdma-fuse  noauto,_netdev,x-systemd.automount,x-systemd.idle-timeout=60 0 0
		$A  /mnt/user    fuse.rdma-fuse  noauto,user                       0 0
		srp+tcp://127.0.0.1:5556  /mnt/nobody  fuse.rdma-fuse  noauto,_netdev  0 0
	END
	for dir in plain unit user nobody option disk; do
		rm -f /mnt/$dir 2>/dev/null # a file of this machine's
		mkdir -p /mnt/$dir
	done
	cat >/etc/default/rdma-fuse-disk <<-END
		URI=$A
		MOUNTPOINT=/mnt/disk
		OPTIONS=--channels 2 -o allow_other
	END
	systemctl daemon-reload
	rdma-target --backing /srv/disk.img --listen $A >"$T/target.log" 2>&1 &
	T_TARGET=$!
	t_wait_for 30 t_target_is_up || t_bail 'rdma-target does not start'

	t_check 'a line of fstab is mounted' mounts /mnt/plain
	t_check 'mount -a mounts it once' mounts_once
	t_check 'it is unmounted, and its daemon ends' unmounts /mnt/plain
	t_check 'a line that names nobody fails with a reason' fails_softly
	if t_users_may_mount; then
		t_check 'a user may mount a line with user' user_may
	else
		t_skip 'a user may mount a line with user' 'users may not open /dev/fuse'
	fi
	t_check 'the unit of a line waits for the network' waits_for_the_network
	t_check 'the unit starts' starts_its_unit
	t_check 'and stops' stops_its_unit
	t_check 'an automount is made of a line' has_an_automount
	if systemctl start mnt-auto.automount 2>/dev/null; then
		t_check 'it mounts at an access' mounts_at_an_access
	else
		t_skip 'it mounts at an access' 'systemd has no automounts here'
	fi
	systemctl stop mnt-auto.automount mnt-auto.mount
	for option in defaults rw relatime norelatime strictatime nodiratime lazytime \
		iversion mand silent nosymfollow dirsync sync x-gvfs-show comment=x \
		_netdev,nofail,auto,users,group,owner; do
		t_check "mount -o $option works" passes_option $option
	done
	for option in nosuid nodev noexec noatime ro allow_other; do
		t_check "mount -o $option has its effect" has_effect $option $option
	done

	t_check 'rdma-fuse@.service mounts' starts
	t_check 'it mounts again when the daemon is killed' lives_on
	t_check 'it stops' stops
	t_check 'it tells why it cannot mount' starts_not
	kill $T_TARGET
	t_done
}

[ "${1-}" != inside ] || inside

# ---- outside

b_root
[ -e "$ROOT/sbin/mount.fuse3" ] || t_skip_all 'no mount.fuse3 here'
mkdir -p "$ROOT/usr/bin" "$ROOT/etc/default"
# mount(8) and systemd look for programs here, not in $PATH.
cp "$BUILD/fuse/rdma-fuse" "$BUILD/target/rdma-target" "$ROOT/usr/bin"
sed "s,^ExecStart=[^ ]*/,ExecStart=/usr/bin/," "$BUILD/fuse/rdma-fuse@.service" \
	>"$UNITS/rdma-fuse@.service"
b_boot "$0"
