#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# docs/stores.md: each command is run. $D_AS=stores_ceph: docs/ceph.md.
. "$(dirname "$0")/doc_lib.sh"
d_alone
[ -z "$(ls /sys/class/infiniband 2>/dev/null)" ] ||
	{ echo '1..0 # SKIP this machine has an RDMA device: commands would choose it' && exit; }
if [ "$D_AS" = stores_ceph ]; then
	. "$(dirname "$0")/rbd_lib.sh"
	r_needs_ceph
	# The keyring goes to a directory of the test, which nobody else sees.
	mount -t tmpfs none /etc/ceph
	cp "$C/keyring" /etc/ceph/ceph.client.admin.keyring
	sed "\\,^keyring = $C/keyring,d" "$CEPH_CONF" >/etc/ceph/ceph.conf
	unset CEPH_CONF
	page=ceph.md
else
	. "$(dirname "$0")/nbd_lib.sh"
	RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/nbd:$BUILD/plugins/srp:$BUILD/plugins/qos
	RDMA_BLOCK_PLUGIN_PATH+=:$BUILD/plugins/log
	[ -e "$BUILD/nbdkit/nbdkit-srp-plugin.so" ] ||
		t_skip_all 'built without nbdkit-plugin-dev'
	for program in psktool nbdinfo nbdcopy; do
		command -v $program >/dev/null || t_skip_all "no $program here"
	done
	[ -z "${SANITIZED-}" ] || t_skip_all 'nbdkit cannot load sanitized code'
	export LD_LIBRARY_PATH=$BUILD/initiator
	t_needs_fuse
	page=stores.md
fi
PAGE=$(realpath "$(dirname "$0")/../../docs/$page")

# The plugin of the build, not an installed one.
nbdkit() {
	[ "$1" != srp ] || set -- "$BUILD/nbdkit/nbdkit-srp-plugin.so" "${@:2}"
	command nbdkit "$@"
}

# What a reader has: disks, and addresses of two hosts.
ip address add 10.0.0.1/24 dev lo && ip address add 10.0.0.2/24 dev lo
mount -t tmpfs none /run
mkdir "$T/stores" && cd "$T/stores" && mkdir mnt || t_bail "no $T/stores"
truncate -s 64M disk.img new.img a.img b.img sdb
d_here="s|/dev/sdb|$T/stores/sdb|; s|/var/[a-z]*/|$T/stores/|g"
# The second host would have its own.
d_here+="; s|--listen srp://10.0.0.2|--state-dir $T/second &|"
mkdir -m 755 "$T/second"
d_page "$PAGE"
cd /
t_done
