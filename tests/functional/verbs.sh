#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rdma-fuse on rdma-target over transport/verbs, on fake devices (tests/verbs): data is
# verified, and each side is killed and comes again.
. "$(dirname "$0")/lib.sh"
t_needs_fuse
[ -z "${SANITIZED-}" ] || t_skip_all 'programs cannot load sanitized code'
command -v fio >/dev/null || t_skip_all 'no fio here'

export LD_PRELOAD="$BUILD/tests/verbs/fake-verbs.so" FAKE_VERBS='fake0=127.0.0.1'
T_HOST=srp+rdma://127.0.0.1
M=$T/mnt
L=$T/client.log
mkdir "$M"
truncate -s 64M "$T/disk.img"
t_target --verbose --threads 2 --backing "$T/disk.img,name=disk"

mount_disk() {
	t_new_log "$L"
	t_mounts="$t_mounts $M"
	rdma-fuse -f --channels 2 "$URI" "$M" 2>>"$L" &
	client=$!
	t_pids="$t_pids $client"
	t_wait_for 10 test -e "$M/disk" || t_bail "$(cat "$L")"
}
target_said() { grep -Eq "$1" "$T/target.log"; }
is_back() { t_wait_for 30 grep -q 'again after .*continue' "$L"; }
is_refused() { ! rdma-info "$1"; }
blocks() { stat -c %b "$T/disk.img"; }
more_blocks() { [ "$(blocks)" -gt "$1" ]; }

verify() { # OFFSET FIO-OPTION...
	offset=$1
	shift
	(cd "$T" && exec fio --name=verify --filename="$M/disk" --direct=1 --size=8M \
		--offset="$offset" --verify=crc32c --do_verify=1 --verify_fatal=1 \
		--rw=randwrite --ioengine=libaio --output-format=terse "$@")
}
# fio is running when the target ends, and gets no error.
target_is_killed() {
	before=$(blocks)
	verify 16M --bs=4k --iodepth=16 >"$T/fio.out" 2>&1 &
	fio=$!
	t_wait_for 30 more_blocks "$before"
	t_target_stop KILL
	t_target_again --verbose --threads 2 --backing "$T/disk.img,name=disk"
	wait $fio || { cat "$T/fio.out" "$L"; return 1; }
}
# The target is told, as by the kernel of the client.
client_is_killed() {
	verify 24M --bs=4k --iodepth=16 --time_based --runtime=60 >/dev/null 2>&1 &
	fio=$!
	before=$(blocks)
	t_wait_for 30 more_blocks "$before"
	kill -9 "$client"
	wait "$client" 2>/dev/null
	wait $fio && return 1
	fusermount3 -uz "$M"
	t_wait_for 30 target_said 'logout .*: channel 2, '
}

mount_disk
t_check 'the login was over verbs' target_said 'login of .*, fake0 over RDMA \(verbs\)'
t_check 'small blocks: immediate data and RDMA WRITEs' verify 0 --bs=4k --iodepth=32
t_check 'large blocks: RDMA READs' verify 8M --bs=1M --iodepth=8
t_check 'the target is killed under load' target_is_killed
t_check 'and back' is_back
t_check 'what was written is in the file' cmp -n 64M "$M/disk" "$T/disk.img"
t_check 'the client is killed under load' client_is_killed
mount_disk
t_check 'a new one finds the data' verify 0 --bs=64k --iodepth=8
t_check 'a client ends' kill "$client"
t_check 'with status 0' t_ends "$client"
t_check 'a sick device costs only its own way' \
	env FAKE_VERBS='fake0=127.0.0.1 fake1=127.0.0.2;reg_mr=12' \
	rdma-info "srp+rdma://127.0.0.2:$T_PORT,127.0.0.1:$T_PORT"
sick=$((T_PORT + 1))
FAKE_VERBS='fake0=127.0.0.1;reg_mr=12' rdma-target \
	--listen "srp+rdma://127.0.0.1:$sick" --backing ram:1M >"$T/sick.log" 2>&1 &
t_pids="$t_pids $!"
t_wait_for 10 grep -q 'serves on' "$T/sick.log"
t_check 'a target whose device is sick takes no login' \
	is_refused "srp+rdma://127.0.0.1:$sick"
t_check 'its log has both addresses, and why' t_wait_for 30 grep -Eq \
	"from 127.0.0.1:[0-9]+ on 127.0.0.1:$sick never came up: .*fake0" "$T/sick.log"
FAKE_VERBS='fake0=' rdma-target --backing ram:1M >"$T/default.log" 2>&1 &
default=$!
t_pids="$t_pids $default"
t_wait_for 10 grep -q 'serves on' "$T/default.log"
t_check 'a device without an address leaves this machine its target' \
	env FAKE_VERBS='fake0=' rdma-info srp://127.0.0.1
kill "$default"
t_ends "$default"
{ [ "$T_ALONE" != yes ] || echo 1 >/proc/sys/net/ipv6/bindv6only; } 2>/dev/null
rdma-target --listen 'srp+rdma://[::]:5555' --backing ram:1M >"$T/any.log" 2>&1 &
t_pids="$t_pids $!"
t_wait_for 10 grep -q 'serves on' "$T/any.log"
t_check 'it takes logins over IPv4, whatever bindv6only says' \
	rdma-info srp+rdma://127.0.0.1:5555
kill "$T_TARGET"
t_check 'and so does the target' t_ends "$T_TARGET"
t_done
