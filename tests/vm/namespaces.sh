#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A target on one host is found from another, each with a network namespace and a
# soft-RoCE device of its own. A firewall leaves one carrier at a time. The target
# goes, also without a word, and comes back.
set -euo pipefail
# shellcheck source=tests/vm/lib.sh
. "$VM_LIB"
work=/mnt/scratch
# shellcheck source=tests/vm/serve.sh
. "${VM_LIB%/*}/serve.sh"
PATH=$BUILD/discover:$BUILD/fuse:$PATH
group=239.255.83.82

serve() {
	target_start --listen srp+rdma://10.1.0.1 --backing "$work/disk.img,name=disk"
}

# allows CARRIER...: the firewall of the client lets nothing else pass that could find
# a target.
allows() {
	local carrier rules=

	for carrier in unicast multicast rdma; do
		[[ " $* " != *" $carrier "* ]] || continue
		case $carrier in
		unicast) rules+="ip daddr 10.1.0.1 udp dport 5555 drop;" ;;
		multicast) rules+="ip daddr $group udp dport 5555 drop;" ;;
		rdma) rules+="ip daddr $group udp dport 4791 drop;" ;;
		esac
	done
	vm_on 1 nft -f - <<-END
		table inet t
		delete table inet t
		table inet t { chain c { type filter hook output priority 0; $rules }; }
	END
}

# finds FILE: asks by all carriers. Prints who answered by which of them.
finds() {
	vm_on 1 rdma-discover --json --carrier unicast --carrier multicast \
		--carrier rdma -t 3 10.1.0.1 >"$1" || return
	python3 - "$1" <<-'END'
		import json, sys
		for target in json.load(open(sys.argv[1]))["targets"]:
		    print(*[carrier.split()[0].lower() for carrier in target["answered_by"]], end=":")
		    for address in target["addresses"]:
		        print("", address["uri"], address["by"] if address["usable"] else "unusable")
	END
}
finds_by() { # CARRIER...
	[ "$(finds "$VM_OUT/found.json")" = "$*: srp+rdma://10.1.0.1:5555 rxe1" ]
}
two_find_by() { # CARRIER...: at once
	local other res=0

	finds "$VM_OUT/other.json" >"$VM_OUT/other" &
	other=$!
	finds_by "$@" || res=$?
	wait "$other" && [ "$(cat "$VM_OUT/other")" = "$*: srp+rdma://10.1.0.1:5555 rxe1" ] &&
		return $res
}
finds_nothing() {
	! finds "$VM_OUT/found.json" 2>"$VM_OUT/found.err"
}

# Bypasses the cache.
mount_reads() {
	timeout 60 dd if="$work/mnt/disk" of=/dev/null bs=4k count=1 iflag=direct \
		status=none 2>/dev/null
}
mounts() { grep -c " $work/mnt fuse.rdma-block " /proc/mounts; }
is_mounted_once() { [ "$(mounts)" = 1 ]; }
is_unmounted() { [ "$(mounts)" = 0 ]; }
daemon_start() { # PERIOD
	nsenter --net=/run/netns/host1 -- "$BUILD/discover/rdma-discover" --daemon \
		-f "$work/rules" --period "$1" -v >>"$VM_OUT/daemon.log" 2>&1 &
	daemon=$!
}
daemon_stop() {
	kill "$daemon"
	ends_well "$daemon"
}
is_gone() { # The daemon has said so.
	grep -q 'removed; the target is gone' "$VM_OUT/daemon.log" && is_unmounted
}

vm_two_namespaces
vm_scratch_fs "$work" 128
modprobe fuse
truncate -s 64M "$work/disk.img"
# The target runs on host0.
nobody=(nsenter --net=/run/netns/host0 --)
serve

step "by all carriers"
wait_for 20 finds_by unicast multicast rdma

for carrier in unicast multicast rdma; do
	step "by $carrier, the others forbidden"
	allows $carrier
	wait_for 20 finds_by $carrier
	step "by two clients at once"
	wait_for 20 two_find_by $carrier
done

step "all forbidden"
allows
finds_nothing
allows unicast multicast rdma
wait_for 20 finds_by unicast multicast rdma

step "the daemon mounts it by what it hears, over RDMA alone"
allows rdma
mkdir "$work/mnt"
echo "a dest=10.1.0.1,mount=$work/mnt,volume=disk,gone=remove" >"$work/rules"
daemon_start 3600
wait_for 60 mount_reads
is_mounted_once

step "it says that it goes, comes back and says so"
kill "$target"
ends_well "$target"
wait_for 60 is_gone
serve
wait_for 60 mount_reads
is_mounted_once
daemon_stop

step "it is killed and cannot say so, and comes back"
: >"$VM_OUT/daemon.log"
daemon_start 2
wait_for 60 grep -q 'is there already' "$VM_OUT/daemon.log"
ends_by_kill "$target"
wait_for 60 is_gone
serve
wait_for 60 mount_reads
is_mounted_once
daemon_stop
fusermount3 -u "$work/mnt"
kill "$target"
ends_well "$target"

step "nothing is left"
wait_for 10 nothing_is_held
vm_fails vm_dmesg_complaints
