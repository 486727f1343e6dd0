#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Bad input of rdma-fuse: one line that names the error, exit status 1, nothing
# left behind.
. "$(dirname "$0")/lib.sh"
t_needs_fuse

M=$T/mnt
mkdir "$M"
: >"$T/file"
t_target --backing ram:16M,name=disk --backing ram:16M,name=scratch
HOSTPORT=${URI#*//}

# f ARG...: runs rdma-fuse; in no case may anything be mounted
f() {
	timeout 300 rdma-fuse "$@"
	t_rc=$?
	t_not_mounted "$M" && t_not_mounted "$T/file" || echo 'still mounted' >&2
	return $t_rc
}

# ---- the command line

t_refused 'no arguments' 'no URI' f
t_refused 'no mount point' 'no MOUNTPOINT' f "$URI"
t_refused 'one argument too many' "'more'" f "$URI" "$M" more
t_refused 'an unknown option' "unknown option '--bogus'.*--help" f --bogus "$URI" "$M"
t_refused 'an option without its value' "missing after '-P'" f "$URI" "$M" -P
t_refused 'an unknown mount option' '-o bogus is not' f -o ro,bogus "$URI" "$M"
t_refused 'an unknown mount option with a value' '-o bogus' f -o bogus=1 "$URI" "$M"
t_refused 'a mount option without its value' 'uid needs a value' f -o uid "$URI" "$M"
t_refused 'a mount option with a value too many' 'ro takes no value' f -o ro=1 "$URI" "$M"
t_refused 'uid that is no number' '-o uid=bob: not' f -o uid=bob "$URI" "$M"
t_refused 'umask that is not octal' '-o umask=8: not' f -o umask=8 "$URI" "$M"
t_refused 'max_write too small' '-o max_write=4k: not' f -o max_write=4k "$URI" "$M"
t_refused 'a channel option of -o' '-o channels=17: .*1 to 16' f -o channels=17 "$URI" "$M"
t_refused 'no channels' "--channels '0'" f --channels 0 "$URI" "$M"
t_refused 'too many channels' "--channels '17'.*1 to 16" f --channels 17 "$URI" "$M"
t_refused 'a depth that does not parse' "--queue-depth 'many'" f --queue-depth many "$URI" "$M"
t_refused 'a negative poll time' "--poll-us '-1'" f --poll-us -1 "$URI" "$M"
t_refused 'a pid file in no directory' "$T/no/pid: No such file" f -P "$T/no/pid" "$URI" "$M"

# ---- the mount point

t_refused 'a mount point that is not there' "$T/none does not exist.*mkdir" f "$URI" "$T/none"
t_refused 'the mount point first' 'looks like an address: the URI comes first' f "$M" "$URI"
t_refused 'a mount point without a name' 'is empty' f "$URI" ''
t_refused 'a mount point that is a device' '/dev/null is neither' f "$URI" /dev/null
t_refused 'a file for two volumes' 'regular file.*disk, scratch' f "$URI" "$T/file"
HEX=0123456789abcdef0123456789abcdef
t_refused 'and the example keeps the keys of the URI' \
	"as in [^ ]*/disk\?initiator=$HEX: disk, scratch" \
	f "$URI?initiator=$HEX" "$T/file"
t_mount "$URI" "$M" 2>/dev/null
t_refused 'a mount point that is in use' "$M is in use" rdma-fuse "$URI" "$M"
fusermount3 -u "$M"
leave_dead_mount() {
	rdma-fuse -f "$URI" "$M" &
	client=$!
	t_pids="$t_pids $client"
	t_wait_for 10 test -e "$M/disk"
	[ "$1" != known ] || stat "$M"
	kill -9 $client
	wait $client
}
for root in unknown known; do
	leave_dead_mount $root >/dev/null 2>&1
	t_refused "a dead mount whose root is $root to the kernel" \
		"dead mount.*fusermount3 -u $M" rdma-fuse "$URI" "$M"
	fusermount3 -u "$M"
done

# ---- the target

t_refused 'a scheme that is none' 'nfs' f "nfs://$HOSTPORT" "$M"
t_refused 'a port that is none' '99999' f 'srp+tcp://127.0.0.1:99999' "$M"
t_refused 'a host that is none' 'no-such-host.invalid' f 'srp+tcp://no-such-host.invalid' "$M"
t_refused 'a port where nobody listens' '127.0.0.1:1[^0-9].*refused' f 'srp+tcp://127.0.0.1:1' "$M"
echo 4711 >"$T/others.pid"
t_refused 'with the pid file of another' 'refused' \
	f -P "$T/others.pid" 'srp+tcp://127.0.0.1:1' "$M"
t_check 'the pid file of another stays' grep -qx 4711 "$T/others.pid"
t_refused 'with a pid file of its own' 'refused' \
	f -P "$T/own.pid" 'srp+tcp://127.0.0.1:1' "$M"
mkdir "$T/other"
t_mount -P "$T/daemon.pid" "$URI" "$T/other" 2>/dev/null
t_refused 'with the PID file of one that runs' \
	"$T/daemon.pid is that of process $(cat "$T/daemon.pid") .rdma-fuse., which still runs" \
	f -P "$T/daemon.pid" "$URI" "$M"
fusermount3 -u "$T/other"
t_check 'a pid file of its own goes' test ! -e "$T/own.pid"
t_refused 'a volume that is not there' "no volume 'nope'.*disk, scratch" f "$URI/nope" "$M"
t_refused 'a LUN that is not there' "no volume '7'" f "$URI/7" "$M"
if [ -e /sys/class/infiniband ] && [ -n "$(ls /sys/class/infiniband)" ]; then
	t_skip 'RDMA without an RDMA device' 'there is one here'
else
	t_refused 'RDMA without an RDMA device' 'RDMA device' f "srp+rdma://$HOSTPORT" "$M"
fi

# ---- the machine

bare_dev() { # without anything in /dev
	unshare -m sh -c "mount -t tmpfs none /dev && rdma-fuse '$URI' '$M'"
}
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	t_refused 'no /dev/fuse' 'no /dev/fuse.*modprobe' bare_dev
else
	t_skip 'no /dev/fuse' 'needs root'
fi
few_files() { prlimit --nofile=20 rdma-fuse "$URI" "$M"; }
t_refused 'too few files' 'needs 64 open files, and the limit is 20.*ulimit -n' few_files
if [ "$(id -u)" = 0 ] && t_users_may_mount; then
	mkdir "$T/theirs"
	# A user may have no access to the build directory.
	cp "$BUILD/fuse/rdma-fuse" "$T/rdma-fuse"
	install -d -o nobody -m 700 "$T/nobody"
	as_nobody() {
		STATE_DIRECTORY=$T/nobody setpriv --reuid=nobody --regid=nogroup \
			--clear-groups "$T/rdma-fuse" "$@" "$URI" "$T/theirs"
	}
	t_refused 'a mount point of somebody else' "cannot mount $T/theirs: .*" as_nobody
	allow_other() {
		chown nobody "$T/theirs"
		as_nobody -o allow_other
	}
	if grep -q '^user_allow_other' /etc/fuse.conf 2>/dev/null; then
		t_skip 'allow_other that is not allowed' 'it is allowed here'
	else
		t_refused 'allow_other that is not allowed' 'user_allow_other' allow_other
	fi
else
	t_skip 'a mount point of somebody else' 'needs root, and /dev/fuse for all'
	t_skip 'allow_other that is not allowed' 'needs root, and /dev/fuse for all'
fi
t_done
