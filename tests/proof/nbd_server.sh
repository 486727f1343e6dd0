#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The NBD server behind the target is killed while clients write, and started
# again on the same file: nbdkit and qemu-storage-daemon by turns. Writes that a
# server has answered are in the page cache, so nothing may be lost.
P_COUNT=${P_COUNT:-4}
. "$(dirname "$0")/lib.sh"
t_needs_fuse
RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/nbd
export RDMA_BLOCK_PLUGIN_PATH
[ -e "$RDMA_BLOCK_PLUGIN_PATH/rdma-block-plugin-nbd.so" ] ||
	t_skip_all 'built without libnbd'
for program in nbdkit qemu-storage-daemon; do
	command -v $program >/dev/null || t_skip_all "no $program here"
done

M=$T/mnt
S=$T/nbd.sock
mkdir "$M"
truncate -s 64M "$T/disk.img"

has_pid() { [ -s "$S.pid" ]; }
serve_nbdkit() {
	nbdkit -f -U "$S" -P "$S.pid" -e disk file "$T/disk.img" &
}
serve_qemu() {
	qemu-storage-daemon --pidfile "$S.pid" \
		--blockdev "driver=file,node-name=disk,filename=$T/disk.img" \
		--nbd-server "addr.type=unix,addr.path=$S,max-connections=8" \
		--export type=nbd,id=e,node-name=disk,name=disk,writable=on &
}
start_server() { # KIND
	rm -f "$S" "$S.pid"
	"serve_$1" >>"$T/server.log" 2>&1
	SERVER=$!
	t_pids="$t_pids $SERVER"
	t_wait_for 20 has_pid || t_bail "$(cat "$T/server.log")"
}
pick_kind() {
	kind=nbdkit
	[ $((p_turn % 2)) = 0 ] || kind=qemu
}

kills() {
	p_load --seed "$P_SEED" "$M/disk" "$URI/disk" || return 1
	while p_go_on; do
		pick_kind
		p_random 200
		p_ask ops $((20 + P_RANDOM)) || return 1
		p_note "turn $p_turn: then $kind" || return 1
		kill -9 "$SERVER"
		wait "$SERVER" 2>/dev/null
		p_ask since
		start_server "$kind"
		p_ask round && p_times || return 1
	done
	p_end
}

start_server nbdkit
# A write of this server survives the death of any process, but not a crash of
# the machine.
p_target --backing "nbd:nbd+unix:///disk?socket=$S,trust-server=on,wait=120,name=disk"
t_mount --io-timeout 200 "$URI/disk" "$M" 2>"$T/mount.log" ||
	t_bail "$(cat "$T/mount.log")"
kills
t_result $? "kill -9 of the NBD server, $p_turn times: no write lost or mixed"
p_tell_times 'usable after the old server was gone'
t_check "usable within ${P_WITHIN:-any number of} s of each kill" p_all_within
t_check 'the mount ends well' fusermount3 -u "$M"
t_done
