# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# The store behind the disk of a guest test: a file, or with VM_STORE=rbd an
# image of Ceph RBD, which keeps the reservations, too. Source lib.sh first; the
# files are in $work, which must exist when store_start is called.
#
#   store_start        makes a disk of 64 MiB; $store is its SPEC
#   store_grow MIB     makes it larger
#   store_used         prints the bytes that it takes
#   store_end          ends what store_start began
#
# The functions skip the test if this machine lacks something.

store_kind=${VM_STORE:-file}

store_start() {
	if [ "$store_kind" = file ]; then
		store=$work/disk.img
		truncate -s 64M "$store"
		return
	fi
	for program in ceph-osd ceph-mon rbd; do
		command -v "$program" >/dev/null || { echo "no $program"; exit 77; }
	done
	[ -e "$BUILD/plugins/rbd/rdma-block-plugin-rbd.so" ] ||
		{ echo "built without the store rbd"; exit 77; }
	export RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/rbd
	export CEPH_CONF=$work/ceph/ceph.conf
	"${VM_LIB%/*}/../../scripts/ceph" up "$work/ceph" --size 536870912
	rbd create -s 64M disk
	store=rbd:rbd/disk,name=disk.img
}

store_grow() {
	case $store_kind in
	file) truncate -s "$1M" "$store" ;;
	rbd) rbd resize --no-progress -s "$1M" disk ;;
	esac
}

store_used() {
	case $store_kind in
	file) echo $(($(stat -c %b "$store") * 512)) ;;
	rbd) rbd diff disk | awk '{ sum += $2 } END { print sum + 0 }' ;;
	esac
}

store_end() {
	[ "$store_kind" = file ] ||
		"${VM_LIB%/*}/../../scripts/ceph" down "$work/ceph"
}
