#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# rdma-doctor on a machine with an RDMA device: the machine, the way to our target and
# to the kernel's, also through a firewall; and of each thing that is wrong, the line that
# names it.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"
PATH=$BUILD/doctor:$PATH
initiator=0123456789abcdef0123456789abcdef

# says STATUS PATTERN COMMAND...: the report, joined to one line, matches
# PATTERN.
says() {
	local want=$1 pattern=$2 status=0
	shift 2
	"$@" >"$VM_OUT/report" 2>&1 || status=$?
	if [ $status != "$want" ] || ! tr -s ' \n' '  ' <"$VM_OUT/report" |
		grep -Eqe "$pattern"; then
		cat "$VM_OUT/report"
		vm_say "exit status $status; wanted $want, and: $pattern"
		return 1
	fi
}

vm_soft_roce
vm_scratch_fs "$work" 128
modprobe fuse

step "this machine"
says 0 'ok device rxe0: soft-RoCE.* ok port rxe0 port 1: ACTIVE.* ok mtu .* 0 problems' \
	rdma-doctor

step "the way to rdma-target, over RDMA"
target_start --listen srp+rdma://10.0.0.1 --backing ram:16M
says 0 'ok name .* ok route .* ok rdma cm .* ok login over RDMA .* ok echo .* SEND 0 .* WRITE 65536 .* READ 65536' \
	rdma-doctor srp+rdma://10.0.0.1
says 1 'problem rdma cm no connection to 10.0.0.1:5999 over RDMA: nobody listens on that port \(reject reason 8\) The host' \
	rdma-doctor --timeout 5 srp+rdma://10.0.0.1:5999
says 1 'problem rdma cm no connection to 127.0.0.1:5555 over RDMA: .*Try: rdma-doctor \(checks this machine\); rdma link; ip route get' \
	rdma-doctor --timeout 20 srp+rdma://127.0.0.1
kill "$target"
ends_well "$target"

step "the way to the kernel's target"
vm_kernel_target --initiator "$initiator" ram:32M
kernel="srp+rdma://$VM_TARGET_DEST?id_ext=$VM_ID_EXT&ioc_guid=$VM_IOC_GUID"
says 0 'ok login over RDMA .* SEND 0 .* INQUIRY' \
	rdma-doctor "$kernel&initiator=$initiator"
says 1 'problem login .*(refuse|reject|access list)' \
	rdma-doctor "$kernel&initiator=${initiator/0/f}"
says 1 'problem login .*no such target port' \
	rdma-doctor "srp+rdma://$VM_TARGET_DEST?id_ext=1&initiator=$initiator"
vm_kernel_target_down

step "what is wrong with a machine"
says 1 'problem locked memory .*ulimit' \
	prlimit --memlock=65536:65536 setpriv --reuid=nobody --regid=nogroup \
	--clear-groups -- "$BUILD/doctor/rdma-doctor"
says 1 'problem file .*/dev/infiniband' unshare -m sh -c \
	'mount -t tmpfs none /dev/infiniband && rdma-doctor'
chmod 600 /dev/infiniband/rdma_cm
says 1 'problem connections /dev/infiniband/rdma_cm: Permission denied .*Try: chmod 666' \
	setpriv --reuid=nobody --regid=nogroup --clear-groups -- \
	"$BUILD/doctor/rdma-doctor"
chmod 666 /dev/infiniband/rdma_cm
ip link set d0 mtu 1000
says 0 'note mtu rxe0 port 1: 512' rdma-doctor
ip link set d0 mtu 9000
ip link set d0 down
says 1 'problem port rxe0 port 1: DOWN.* ip link set dev d0 up' rdma-doctor
ip link set d0 up

step "a firewall between two hosts"
rdma link delete rxe0
ip link delete d0
vm_two_hosts
target_start --listen srp+rdma://10.1.0.1 --backing ram:16M
says 0 'ok rdma cm connected to 10.1.0.1:5555 by rxe1: P_Key 0xffff, service level 0, GID ::ffff:10.1.0.2 ok login' \
	rdma-doctor srp+rdma://10.1.0.1
for rule in "iif link0 udp dport 4791 drop" "iif link1 udp dport 4791 drop" \
	"iif link0 udp dport 4791 reject"; do
	nft -f - <<-END
		table inet t { chain c { type filter hook input priority 0; $rule; }; }
	END
	says 1 'ok route .* problem rdma cm no connection to 10.1.0.1:5555 over RDMA: no answer from .* or a firewall drops UDP port 4791' \
		rdma-doctor --timeout 5 srp+rdma://10.1.0.1
	nft delete table inet t
done
says 0 'ok rdma cm .* ok login' rdma-doctor srp+rdma://10.1.0.1

step "a path with a smaller MTU than the device has"
ip route replace 10.1.0.1 dev link1 src 10.1.0.2 mtu 1400 table 12
says 1 'note path mtu 1400 bytes; link1 has 9000 .* problem rdma mtu packets of 4096 bytes, on a path for 1400 .*Try: ip link set dev link1 mtu 1400' \
	rdma-doctor srp+rdma://10.1.0.1
kill "$target"
ends_well "$target"

step "nothing is left"
wait_for 10 nothing_is_held
vm_fails vm_dmesg_complaints
