#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rdma-doctor on machines that are made of files: it prints a line for each
# fault, and the exit status says whether there is a problem. Then on this
# machine.
. "$(dirname "$0")/lib.sh"

unset RDMA_DOCTOR_ROOT
ROOT=$T/root

put() { # PATH TEXT...
	mkdir -p "$ROOT/${1%/*}"
	file=$1
	shift
	printf '%s\n' "$@" >"$ROOT/$file"
}

gone() { rm -rf "${ROOT:?}/$1"; }

# A machine with a soft-RoCE device and without a fault.
healthy() {
	rm -rf "$ROOT"
	put proc/sys/kernel/osrelease 6.14.0-test
	put proc/sys/kernel/io_uring_disabled 0
	put proc/self/status 'Name: doctor' 'Uid:	1000	1000	1000	1000' \
		'CapEff:	0000000000000000'
	put proc/self/limits \
		'Limit                     Soft Limit           Hard Limit           Units' \
		'Max open files            4096                 4096                 files' \
		'Max locked memory         unlimited            unlimited            bytes'
	put proc/meminfo 'HugePages_Total:      32' 'HugePages_Free:       32' \
		'Hugepagesize:       2048 kB'
	put sys/kernel/mm/transparent_hugepage/enabled 'always [madvise] never'
	for module in ib_uverbs rdma_ucm rdma_cm ib_srp ib_srpt; do
		put sys/module/$module/initstate live
	done
	put lib/modules/6.14.0-test/modules.dep \
		'kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: kernel/x.ko.xz'
	put lib/modules/6.14.0-test/modules.builtin 'kernel/fs/fuse/fuse.ko'
	put sys/module/fuse/parameters/enable_uring Y
	put dev/fuse
	put usr/bin/fusermount3
	put dev/infiniband/rdma_cm
	put dev/infiniband/uverbs0
	put sys/class/infiniband_verbs/uverbs0/ibdev rxe0
	device=sys/class/infiniband/rxe0
	port=$device/ports/1
	put $device/node_type '1: CA'
	put $device/parent eth0
	put $device/fw_ver ''
	put $port/state '4: ACTIVE'
	put $port/phys_state '5: LinkUp'
	put $port/link_layer Ethernet
	put $port/rate '2.5 Gb/sec (1X SDR)'
	put $port/gids/0 fe80:0000:0000:0000:5054:00ff:fe12:3456
	put $port/gids/1 0000:0000:0000:0000:0000:ffff:0a00:0001
	put $port/gids/2 0000:0000:0000:0000:0000:0000:0000:0000
	for index in 0 1; do
		put $port/gid_attrs/types/$index 'RoCE v2'
		put $port/gid_attrs/ndevs/$index eth0
	done
	put sys/class/net/eth0/mtu 9000
	put sys/class/net/eth0/type 1
}

doctor() {
	RDMA_DOCTOR_ROOT=$ROOT rdma-doctor "$@"
}

# says STATUS PATTERN [ARG...]
says() {
	want=$1
	pattern=$2
	shift 2
	doctor "$@" >"$T/report"
	status=$?
	cat "$T/report"
	# Joins the lines: long values continue on the next line.
	[ $status = "$want" ] && tr -s ' \n' '  ' <"$T/report" |
		grep -Eqe "$pattern"
}

healthy
t_check 'a healthy machine' says 0 'limits .* 0 problems, 0 notes'
t_check 'its addresses' says 0 \
	'rxe0 port 1: GID 0: fe80::5054:ff:fe12:3456 \(RoCE v2, eth0\), 1: 10.0.0.1 \(RoCE v2, eth0\) '
t_check 'a module that can be loaded' says 0 'rdma_rxe .*: not loaded'
t_check 'only notes and problems' says 0 '^0 problems, 0 notes $' --brief

# fault NAME STATUS PATTERN: a healthy machine with the changes made since
fault() {
	t_check "$@"
	healthy
}

gone dev/infiniband
put run/.containerenv
fault 'container without /dev/infiniband' says 1 \
	'problem file /dev/infiniband/uverbs0 of rxe0: No such file or directory .*Try: docker run --device=/dev/infiniband'
gone dev/infiniband/rdma_cm
gone sys/module/rdma_ucm
fault 'no connection manager' says 1 \
	'problem connections /dev/infiniband/rdma_cm: No such file.*Try: modprobe rdma_ucm'
gone sys/class/infiniband
fault 'no device' says 0 \
	'note device no RDMA device; TCP is used .*Try: modprobe rdma_rxe'
put sys/class/infiniband/rxe0/ports/1/state '1: DOWN'
put sys/class/infiniband/rxe0/ports/1/phys_state '3: Disabled'
fault 'link down' says 1 \
	'problem port rxe0 port 1: DOWN, Disabled, Ethernet, .*Try: ip link set dev eth0 up'
gone sys/class/infiniband/rxe0/ports/1/gids
gone sys/class/infiniband/rxe0/ports/1/gid_attrs
fault 'no address' says 1 \
	'problem gids rxe0 port 1: no address of RoCE v2 .*Try: ip address add ADDRESS/PREFIX dev eth0'
put proc/self/limits \
	'Max open files            4096                 4096                 files' \
	'Max locked memory         8388608              8388608              bytes'
t_check 'low locked memory' says 1 \
	'problem locked memory 8 MiB Memory that.*Try: ulimit -l unlimited'
put proc/self/status 'CapEff:	000001ffffffffff'
fault 'low locked memory with CAP_IPC_LOCK' says 0 'ok locked memory 8 MiB \(does not'
gone dev/fuse
fault 'no FUSE' says 1 'problem file /dev/fuse: No such file.*Try: modprobe fuse'
gone dev/fuse
fault 'no FUSE on a target' says 0 '0 problems' --for target
gone usr/bin/fusermount3
fault 'no fusermount3' says 1 'problem fusermount3 there is no fusermount3'
put proc/sys/kernel/io_uring_disabled 2
fault 'io_uring disabled' says 1 \
	'problem io_uring kernel.io_uring_disabled is 2 .*Try: sysctl kernel.io_uring_disabled=0'
put sys/module/fuse/parameters/enable_uring N
fault 'FUSE over io_uring is off' says 0 'note io_uring off'
put sys/class/infiniband/rxe0/ports/1/link_layer InfiniBand
t_check 'InfiniBand without IP' says 1 'problem ipoib no interface'
put sys/class/net/ib0/type 32
fault 'InfiniBand with IP' says 0 'ok ipoib an interface'

# --- JSON ---

gone dev/fuse
if doctor --json 2>&1 | grep -q 'without jansson'; then
	t_skip 'JSON' 'built without jansson'
else
	t_check 'JSON' says 1 \
		'"problems": 1, .*"group": "fuse", "name": "file", "state": "problem", "value": "/dev/fuse: No such file or directory", "why": "[^"]*", "mend": "modprobe fuse"' \
		--json
fi

# --- this machine ---

this_machine() {
	rdma-doctor "$@" >"$T/report"
	status=$?
	cat "$T/report"
	[ $status -le 1 ] && grep -q '^  ok       io_uring *can be used' "$T/report" &&
		grep -Eq '^[0-9]+ problems?, [0-9]+ notes?$' "$T/report"
}
fails_writing() { rdma-doctor >/dev/full; }

t_check 'this machine' this_machine
t_refused 'full disk behind stdout' 'standard output: No space' fails_writing
t_refused 'unknown option' "unknown option '--colour'.*--help" rdma-doctor --colour
t_refused 'unknown program' "--for 'disk'" rdma-doctor --for disk
t_refused 'two URIs' "unexpected 'srp://b'" rdma-doctor srp://a srp://b
t_done
