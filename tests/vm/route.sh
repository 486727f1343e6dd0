#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a URI demands of the route: source, gid, pkey, sl and tos. Each is met, as both sides
# show, or the connection is refused with the line that says why. Two RDMA devices stand
# for two hosts: 10.1.0.1 is on rxe0, 10.1.0.2 on rxe1.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"
PATH=$BUILD/initiator:$BUILD/ctl:$BUILD/doctor:$BUILD/fuse:$BUILD/target:$PATH

default='P_Key 0xffff, SL 0'
target_args=(-v --backing "$work/disk.img" --control /run/control)

# shows PATTERN KEYS: rdma-info reaches the target with these keys and prints a line like
# PATTERN. target_saw then looks at this login.
shows() {
	: >"$VM_OUT/target.log"
	rdma-info "srp+rdma://10.1.0.1?$2" >"$VM_OUT/info"
	grep -Eqe "$1" "$VM_OUT/info" || {
		cat "$VM_OUT/info"
		vm_say "no line like: $1"
		return 1
	}
}

# refuses PATTERN COMMAND...: it fails, and with one line like PATTERN.
refuses() {
	local pattern=$1
	shift
	vm_fails "$@" 2>"$VM_OUT/refusal"
	[ "$(wc -l <"$VM_OUT/refusal")" = 1 ] &&
		grep -Eqe "$pattern" "$VM_OUT/refusal" || {
		cat "$VM_OUT/refusal"
		vm_say "no line like: $pattern"
		return 1
	}
}

refused() { # PATTERN KEYS
	refuses "cannot log in to 10.1.0.1:5555 over RDMA.*: $1" \
		rdma-info "srp+rdma://10.1.0.1?$2"
}

target_saw() { # PATTERN
	wait_for 30 grep -Eqe "$1" "$VM_OUT/target.log"
}

vm_two_hosts
vm_scratch_fs "$work" 128
modprobe fuse
truncate -s 16M "$work/disk.img"
link_local=$(cat /sys/class/infiniband/rxe0/ports/1/gids/0)

step "the source chooses device and GID"
target_start --listen srp+rdma://10.1.0.1 "${target_args[@]}"
shows "^rxe1: MTU 4096 of 4096, READ depth 4, $default, GID ::ffff:10.1.0.2" \
	source=10.1.0.2
target_saw 'login of .* from 10.1.0.2:'
shows "^rxe0: MTU 4096 of 4096, READ depth 4, $default, GID ::ffff:10.1.0.1" \
	source=10.1.0.1
target_saw 'login of .* from 10.1.0.1:'
shows '^rxe0: .* GID ::ffff:10.1.0.1' gid=::ffff:10.1.0.1
shows '^rxe1: .* GID ::ffff:10.1.0.2' gid=00000000000000000000ffff0a010002
shows '^rxe1: .* GID ::ffff:10.1.0.2' 'source=10.1.0.2&gid=::ffff:10.1.0.2'

step "a source or GID that cannot be is refused"
refused 'source=10.9.9.9: no interface of this machine has that address' \
	source=10.9.9.9
refused 'source=127.0.0.1: its interface has no RDMA device' source=127.0.0.1
refused 'no RDMA device of this machine has GID fe80::1; rdma-doctor lists' \
	gid=fe80::1
refused 'GID fe80::.* is an address of IPv6, that of the target is not' \
	"gid=$link_local"
refused 'the route has GID ::ffff:10.1.0.1, not ::ffff:10.1.0.2' \
	'source=10.1.0.1&gid=::ffff:10.1.0.2'

step "RoCE has one partition"
shows "$default" pkey=ffff
shows "$default" pkey=7fff
refused 'the route has P_Key 0xffff, not 0x8001; RoCE has no other' pkey=8001

step "both sides send with the service level of the URI"
shows 'P_Key 0xffff, SL 3, GID ::ffff:10.1.0.2' 'source=10.1.0.2&sl=3'
target_saw 'channel [0-9]+: MTU 4096 of 4096, READ depth 4, P_Key 0xffff, SL 3, GID ::ffff:10.1.0.1'
shows "$default" sl=0
refused 'service level 8 does not exist on RoCE, .* 0 to 7' sl=8
rdma-doctor 'srp+rdma://10.1.0.1?sl=5' | tr -s ' \n' '  ' >"$VM_OUT/report"
grep -Eq 'ok rdma cm [^:]*:5555 by rxe1: P_Key 0xffff, service level 5, GID ::ffff:10.1.0.2' \
	"$VM_OUT/report"
grep -Eq 'ok rdma mtu 4096 bytes, the port has 4096; READ depth 4' "$VM_OUT/report"

step "both sides send with the type of service of the URI"
shows "$default" 'source=10.1.0.2&tos=104&ack-timeout=18'
target_saw 'channel [0-9]+: .* P_Key 0xffff, SL 0, ToS 104, GID ::ffff:10.1.0.1'
vm_fails rdma-target --listen 'srp+rdma://10.1.0.1:5556?tos=104' --backing ram:1M

step "a mount keeps its route, also when it connects again"
mkdir /mnt/one
mount_start mount 'srp+rdma://10.1.0.1?source=10.1.0.2&sl=2' /mnt/one
rdma-ctl --control /run/control session list >"$VM_OUT/sessions"
grep -Eq '10.1.0.2 .* MTU 4096 of 4096, READ depth 4, P_Key 0xffff, SL 2$' \
	"$VM_OUT/sessions"
head -c 1M /dev/urandom >"$work/random"
dd if="$work/random" of=/mnt/one/disk.img bs=64k conv=notrunc,fsync status=none
kill "$target"
ends_well "$target"
target_start --listen srp+rdma://10.1.0.1 "${target_args[@]}"
# Waits until it is connected again.
cmp -n 1M "$work/random" /mnt/one/disk.img
rdma-ctl --control /run/control session list --json >"$VM_OUT/sessions"
grep -q '"sl": *2' "$VM_OUT/sessions"
kill "$fuse"
ends_well "$fuse"
kill "$target"
ends_well "$target"

step "the listener chooses the service level of the target"
target_start --listen 'srp+rdma://10.1.0.1?pkey=ffff&sl=6' "${target_args[@]}"
shows 'P_Key 0xffff, SL 3,' 'source=10.1.0.2&sl=3'
target_saw 'channel [0-9]+: MTU 4096 of 4096, .* SL 6, '
refuses 'listens there already, with another pkey or sl; remove that address first' \
	rdma-ctl --control /run/control listen add 'srp+rdma://10.1.0.1?sl=1'
kill "$target"
ends_well "$target"

step "a listener that cannot be is refused"
listens() {
	rdma-target --listen "srp+rdma://10.1.0.1?$1" --backing ram:16M
}
refuses 'cannot listen on 10.1.0.1:5555 over RDMA .*: the route has P_Key 0xffff, not 0x8001; RoCE has no other' \
	listens pkey=8001
refuses 'cannot listen on 10.1.0.1:5555 over RDMA .*: service level 9 does not exist on RoCE' \
	listens sl=9
# On all addresses, the logins tell.
target_start --listen 'srp+rdma://0.0.0.0?pkey=8001' "${target_args[@]}"
refuses 'the target says: ' rdma-info 'srp+rdma://10.1.0.1?source=10.1.0.2'
target_saw 'login of .* from 10.1.0.2:.* refused: .*the route has P_Key 0xffff, not 0x8001'
kill "$target"
ends_well "$target"
vm_fails vm_dmesg_complaints
