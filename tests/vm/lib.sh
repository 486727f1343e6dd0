# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Functions for programs that run in the guest of scripts/vm:
#
#     . "$VM_LIB"
#
# A function that cannot do its work prints one line to stderr and returns 1, so
# that `set -e` ends the program. Deadlines are in seconds. They are long,
# because the guest is slow and shares a busy host. They only limit how long a
# failure takes: every function waits for an event, not for time to pass.

vm_say() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

# step TEXT...: names what the program checks next.
step() {
	echo "--- [$SECONDS s] $*"
}

# nap SECONDS: sleeps without starting a program, which would take the guest
# another 0.1 s.
nap() {
	read -r -t "$1" <>/run/never || true
}

# wait_for SECONDS COMMAND...: waits until COMMAND succeeds. SECONDS are enough
# on a quiet machine. It gives up after ten times as long.
wait_for() {
	local deadline=$((SECONDS + 10 * $1))
	shift
	until "$@"; do
		if [ "$SECONDS" -ge "$deadline" ]; then
			vm_say "waited in vain for: $*"
			return 1
		fi
		nap 0.1
	done
}

# vm_fails COMMAND...: succeeds if COMMAND fails. `! COMMAND` would not end a
# program under `set -e`.
vm_fails() {
	if "$@"; then
		vm_say "succeeded, but should not have: $*"
		return 1
	fi
}

_vm_port_is_active() {
	grep -q ACTIVE "/sys/class/infiniband/$1/ports/1/state"
}

# vm_device_add NAME INTERFACE; vm_device_remove NAME, which must return, and leave
# nothing of the device.
vm_device_add() {
	rdma link add "$1" type rxe netdev "$2" || return
	wait_for 20 _vm_port_is_active "$1"
}

vm_device_remove() {
	timeout 60 rdma link delete "$1" || {
		vm_say "rdma link delete $1 does not return"
		return 1
	}
	[ ! -e "/sys/class/infiniband/$1" ]
}

# vm_soft_roce [INTERFACE]: makes the dummy interface (default d0) with the
# addresses 10.0.0.1 and 10.0.0.2 (and fe80::5054:ff:fe12:3456), an MTU of 9000
# and on it the RDMA device rxe0. Both addresses are on this device: connections
# between them go through it.
# shellcheck disable=SC2120 # the argument may be left out
vm_soft_roce() {
	local interface=${1:-d0} address

	modprobe -a dummy rdma_rxe ib_uverbs rdma_ucm || return
	ip link add "$interface" address 52:54:00:12:34:56 mtu 9000 type dummy || return
	for address in 10.0.0.1/24 10.0.0.2/24; do
		ip address add "$address" dev "$interface" || return
	done
	ip link set "$interface" up || return
	rdma link add rxe0 type rxe netdev "$interface" || return
	wait_for 20 _vm_port_is_active rxe0 &&
		wait_for 20 test -c /dev/infiniband/rdma_cm || return
	# The first output, which scripts/vm --begin waits for.
	step "soft-RoCE is up"
}

# vm_two_hosts: makes two RDMA devices with a switch (veth, bridge) between
# them, which stand for two hosts: rxe0 with 10.1.0.1 on the interface link0,
# rxe1 with 10.1.0.2 on link1. Unlike with vm_soft_roce, packets pass a real
# network interface: they can be lost (tc netem), cut off (vm_cable_unplug) and
# captured. Both devices are in one network namespace, because soft-RoCE, ib_srp
# and ib_srpt of Linux 6.1 only work in the first one. This needs special
# routing rules: Linux would send packets to its own addresses without using the
# cable.
vm_two_hosts() {
	modprobe -a veth bridge rdma_rxe ib_uverbs rdma_ucm ||
		return
	ip link add switch mtu 9000 type bridge && ip link set switch up &&
		_vm_cable link0 52:54:00:12:34:01 port0 &&
		_vm_cable link1 52:54:00:12:34:02 port1 || return
	sysctl -qw net.ipv4.conf.{all,link0,link1}.accept_local=1 \
		net.ipv4.conf.{all,link0,link1}.rp_filter=0 || return
	# Incoming packets are local, outgoing packets go to the cable.
	ip rule add pref 100 lookup local && ip rule delete pref 0 || return
	_vm_end link0 10.1.0.1 10.1.0.2 52:54:00:12:34:02 11 &&
		_vm_end link1 10.1.0.2 10.1.0.1 52:54:00:12:34:01 12 || return
	rdma link add rxe0 type rxe netdev link0 &&
		rdma link add rxe1 type rxe netdev link1 || return
	wait_for 20 _vm_port_is_active rxe0 &&
		wait_for 20 _vm_port_is_active rxe1 &&
		wait_for 20 test -c /dev/infiniband/rdma_cm
}

# _vm_cable INTERFACE MAC PORT: makes the cable from a host to the switch.
_vm_cable() {
	ip link add "$1" address "$2" mtu 9000 type veth peer name "$3" &&
		ip link set "$3" mtu 9000 master switch up
}

# _vm_end INTERFACE ADDRESS PEER_ADDRESS PEER_MAC TABLE: sets the addresses and
# routes of a host.
_vm_end() {
	ip address add "$2/24" dev "$1" && ip link set "$1" up &&
		ip rule add pref 5 iif "$1" to "$2" lookup local &&
		ip rule add pref 10 to "$3" lookup "$5" &&
		ip neighbour replace "$3" lladdr "$4" dev "$1" &&
		ip route replace "$3" dev "$1" src "$2" table "$5"
}

# vm_two_namespaces: makes two network namespaces, host0 and host1, with a cable between
# them, and in each a soft-RoCE device: rxe0 with 10.1.0.1 on link0, rxe1 with 10.1.0.2
# on link1. Run programs there with vm_on. Exits with 77 (skipped) if this kernel's
# soft-RoCE receives in the first namespace only, as that of Linux 6.1 does.
vm_two_namespaces() {
	local host

	modprobe -a veth rdma_rxe ib_uverbs rdma_ucm || return
	ip netns add host0 && ip netns add host1 || return
	ip link add link0 netns host0 mtu 9000 type veth \
		peer name link1 netns host1 mtu 9000 || return
	for host in 0 1; do
		ip -n host$host address add 10.1.0.$((host + 1))/24 dev link$host &&
			ip -n host$host link set lo up &&
			ip -n host$host link set link$host up &&
			# The RDMA CM also looks for a route to the group.
			ip -n host$host route add 239.0.0.0/8 dev link$host || return
	done
	for host in 0 1; do
		vm_on $host rdma link add rxe$host type rxe netdev link$host || return
		vm_on $host grep -qi ':12b7 ' /proc/net/udp || {
			vm_say "soft-RoCE of Linux $(uname -r) has no socket in" \
				"another network namespace"
			exit 77
		}
		wait_for 20 _vm_port_is_active rxe$host || return
	done
	wait_for 20 test -c /dev/infiniband/rdma_cm
}

# vm_on HOST COMMAND...: runs it on a host of vm_two_namespaces. Files and mounts are
# the same everywhere.
vm_on() {
	nsenter "--net=/run/netns/host$1" -- "${@:2}"
}

# vm_cable [NETEM...]: sets what the cable of vm_two_hosts does to packets in
# both directions, in terms of tc-netem(8), e.g. "loss 2%". "loss 100%" cuts the
# cable without a notice to either end. Without arguments it is a good cable
# again.
vm_cable() {
	local end

	modprobe sch_netem || return
	for end in link0 link1; do
		if [ $# -gt 0 ]; then
			tc qdisc replace dev "$end" root netem limit 100000 "$@"
		else
			tc qdisc replace dev "$end" root pfifo
		fi || return
	done
}

# vm_cable_unplug, vm_cable_plug: take the link from both hosts, and give it
# back.
vm_cable_unplug() {
	ip link set port0 down && ip link set port1 down
}

vm_cable_plug() {
	ip link set port0 up && ip link set port1 up
}

# vm_is_connecting DEVICE: succeeds if a connection request was sent from the
# device and has no answer yet.
vm_is_connecting() {
	rdma resource show qp link "$1/1" | grep -q 'type RC state INIT'
}

# vm_logins_seen DEVICE: prints how many connection requests have reached it.
vm_logins_seen() {
	cat "/sys/class/infiniband/$1/ports/1/cm_rx_msgs/req"
}

# vm_rnr_count: prints how often a receive queue was empty (receiver not ready),
# on either side, on all RDMA devices since they exist.
vm_rnr_count() {
	cat /sys/class/infiniband/*/ports/*/hw_counters/*rnr* |
		awk '{ sum += $1 } END { print sum + 0 }'
}

# vm_dmesg_complaints: prints the lines of the kernel log that report a broken
# kernel; succeeds if there are any. (VM_COMPLAINTS is the pattern, set by
# scripts/vm.)
vm_dmesg_complaints() {
	dmesg | sed -n '/vm: job starts/,$p' | grep -E "$VM_COMPLAINTS"
}

# vm_scratch_fs DIRECTORY [MIB]: mounts an empty ext4 on a RAM disk. The guest's
# root is in memory and does not support direct I/O; this file system does, and
# also punches holes.
vm_scratch_fs() {
	local directory=$1 mib=${2:-512}

	modprobe brd rd_nr=1 "rd_size=$((mib * 1024))" max_part=0 || return
	wait_for 20 test -b /dev/ram0 || return
	mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/ram0 &&
		mkdir -p "$directory" && mount /dev/ram0 "$directory"
}

# --- the kernel's target, ib_srpt --------------------------------------------

_vm_target=/sys/kernel/config/target

# _vm_gid DEVICE: prints the 16 bytes of its GID 0 in hexadecimal.
_vm_gid() {
	tr -d : <"/sys/class/infiniband/$1/ports/1/gids/0"
}

# _vm_address DEVICE: prints the first IPv4 address of an RDMA device.
_vm_address() {
	local interface

	interface=$(cat "/sys/class/infiniband/$1/ports/1/gid_attrs/ndevs/0") &&
		ip -4 -brief address show dev "$interface" |
		awk '{ sub("/.*", "", $3); print $3 }'
}

# Prints the default initiator port ID of the kernel's ib_srp on rxe0: 8 bytes
# of zeroes, then the interface part of GID 0.
vm_kernel_initiator_id() {
	local gid

	gid=$(_vm_gid rxe0) && echo "0000000000000000${gid:16}"
}

# _vm_bytes SIZE: prints a size such as 64M in bytes.
_vm_bytes() {
	numfmt --from=iec "$1"
}

# _vm_backstore INDEX BACKING: makes the storage object vmINDEX and prints its
# directory.
_vm_backstore() {
	local index=$1 backing=$2 directory name=vm$1

	case $backing in
	ram:*)
		directory=$_vm_target/core/rd_mcp_$index/$name
		mkdir -p "$directory" &&
			echo "rd_pages=$(($(_vm_bytes "${backing#ram:}") / 4096))" \
				>"$directory/control"
		;;
	/dev/*)
		directory=$_vm_target/core/iblock_$index/$name
		mkdir -p "$directory" &&
			echo "udev_path=$backing" >"$directory/control"
		;;
	*)
		directory=$_vm_target/core/fileio_$index/$name
		mkdir -p "$directory" &&
			echo "fd_dev_name=$backing,fd_dev_size=$(stat -c %s "$backing"),fd_buffered_io=1" \
				>"$directory/control"
		;;
	esac || return
	# Without a serial number there are no VPD pages, and so no discard. The
	# NAA identifier uses its first digits.
	printf '%02x0e0d0c-0b0a-4908-8706-050403020100\n' "$((index + 1))" \
		>"$directory/wwn/vpd_unit_serial" || return
	echo 1 >"$directory/enable" || return
	_vm_backstore_discard "$directory" "$backing" || return
	echo "$directory"
}

# _vm_backstore_discard DIRECTORY BACKING: enables discard if BACKING supports
# it.
_vm_backstore_discard() {
	local directory=$1 backing=$2

	case $backing in
	ram:*) return ;;
	/dev/*)
		grep -qx 0 "/sys/block/${backing#/dev/}/queue/discard_max_bytes" &&
			return
		echo 1 >"$directory/attrib/emulate_tpu" &&
			echo 1 >"$directory/attrib/emulate_tpws" &&
			echo 1 >"$directory/attrib/unmap_zeroes_data"
		;;
	*) echo 1 >"$directory/attrib/emulate_tpu" ;;
	esac
}

# vm_kernel_target [--device NAME] [--initiator ID]... [--port PORT] BACKING...
#
# Brings up the kernel's SRP target on an RDMA device (default rxe0), one LUN for each BACKING, in
# this order from LUN 0 on:
#   ram:SIZE      memory, SIZE as in 64M (no discard)
#   /dev/NAME     a block device; one that can discard must read zeroes then, as
#                 a loop device does
#   PATH          a file, with its present size
# It listens on PORT (default 5555) of all addresses and accepts the kernel's
# initiator and each ID: the initiator port ID, 32 hexadecimal digits. Sets
# VM_ID_EXT and VM_IOC_GUID, which a login needs, and VM_TARGET_DEST, an address
# of the device with the port.
#
# Never send it a partial indirect descriptor list: the guest's kernel crashes.
vm_kernel_target() {
	local device=rxe0 initiators=() port=5555
	local portal tpg lun=0 backing directory initiator

	initiators=("$(vm_kernel_initiator_id)") || return
	while :; do
		case ${1-} in
		--device) device=$2 ;;
		--initiator) initiators+=("${2,,}") ;;
		--port) port=$2 ;;
		*) break ;;
		esac
		shift 2
	done
	modprobe -a target_core_mod ib_srpt || return
	portal=$_vm_target/srpt/0x$(_vm_gid "$device")
	tpg=$portal/tpgt_1
	mkdir -p "$_vm_target/srpt" &&
		echo "$port" >"$_vm_target/srpt/discovery_auth/rdma_cm_port" &&
		mkdir "$portal" && mkdir "$tpg" || return
	for initiator in "${initiators[@]}"; do
		mkdir -p "$tpg/acls/0x$initiator" || return
	done
	for backing; do
		directory=$(_vm_backstore "$lun" "$backing") &&
			mkdir "$tpg/lun/lun_$lun" &&
			ln -s "$directory" "$tpg/lun/lun_$lun/" || return
		for initiator in "${initiators[@]}"; do
			mkdir -p "$tpg/acls/0x$initiator/lun_$lun" &&
				ln -sfn "$tpg/lun/lun_$lun" \
					"$tpg/acls/0x$initiator/lun_$lun/" || return
		done
		lun=$((lun + 1))
	done
	echo 1 >"$tpg/enable" || return
	VM_ID_EXT=$(cat /sys/module/ib_srpt/parameters/srpt_service_guid) || return
	VM_ID_EXT=${VM_ID_EXT#0x}
	VM_IOC_GUID=$VM_ID_EXT
	VM_TARGET_DEST=$(_vm_address "$device"):$port
	export VM_ID_EXT VM_IOC_GUID VM_TARGET_DEST
}

# vm_kernel_target_down: undoes vm_kernel_target, also if it failed half way.
# Log the kernel's initiator out before: it would try to reconnect.
vm_kernel_target_down() {
	local portal tpg

	for portal in "$_vm_target"/srpt/0x*; do
		tpg=$portal/tpgt_1
		[ -d "$tpg" ] || continue
		echo 0 >"$tpg/enable"
		find "$tpg/acls" "$tpg/lun" -type l -delete
		find "$tpg/acls" -mindepth 2 -maxdepth 2 -name 'lun_*' \
			-exec rmdir {} +
		find "$tpg/acls" -mindepth 1 -maxdepth 1 -type d -exec rmdir {} +
		find "$tpg/lun" -mindepth 1 -maxdepth 1 -type d -exec rmdir {} +
		rmdir "$tpg" "$portal" || return
	done
	[ ! -d "$_vm_target/srpt" ] || rmdir "$_vm_target/srpt" || return
	find "$_vm_target"/core -mindepth 2 -maxdepth 2 -name 'vm*' \
		-exec rmdir {} + || return
	find "$_vm_target"/core -mindepth 1 -maxdepth 1 -type d \
		! -name alua -exec rmdir {} + || return
	# Its last channels may not have ended yet.
	wait_for 60 rmmod ib_srpt 2>/dev/null
}

# --- the kernel's initiator, ib_srp ------------------------------------------

# Prints the names of all SRP hosts.
_vm_srp_hosts() {
	local guid

	for guid in /sys/class/scsi_host/*/ioc_guid; do
		[ ! -e "$guid" ] || basename "${guid%/*}"
	done
}

# _vm_host_disks HOST: prints the disks of a host in the order of their LUNs.
_vm_host_disks() {
	local block path

	for block in /sys/block/*; do
		path=$(readlink -f "$block")
		case $path in
		# .../hostH/.../H:C:T:LUN/block/NAME
		*/"$1"/*) echo "${path%/block/*} /dev/${block##*/}" ;;
		esac
	done | sed 's/.*:\([0-9]* \)/\1/' | sort -n | cut -d ' ' -f 2
}

# Succeeds if host $1 has at least $2 disks, each with a known size.
_vm_disks_are_there() {
	local disks disk

	mapfile -t disks < <(_vm_host_disks "$1")
	[ "${#disks[@]}" -ge "$2" ] || return
	for disk in "${disks[@]}"; do
		[ "$(blockdev --getsz "$disk" 2>/dev/null || echo 0)" != 0 ] || return
	done
}

# Succeeds if a host is logged in to ID_EXT $1, IOC_GUID $2.
_vm_is_logged_in() {
	local host

	for host in $(_vm_srp_hosts); do
		grep -qix "0x0*${1#0x}" "/sys/class/scsi_host/$host/id_ext" &&
			grep -qix "0x0*${2#0x}" "/sys/class/scsi_host/$host/ioc_guid" &&
			return
	done
	return 1
}

# _vm_add_target LOGIN ID_EXT IOC_GUID: writes LOGIN to add_target. The kernel
# still remembers a login for a moment after sysfs no longer shows it. That is
# not a refusal.
_vm_add_target() {
	local error deadline=$((SECONDS + 300))

	until error=$({ echo "$1" \
		>/sys/class/infiniband_srp/srp-rxe0-1/add_target; } 2>&1); do
		if [[ $error != *'File exists'* ]] || _vm_is_logged_in "$2" "$3" ||
			[ "$SECONDS" -ge "$deadline" ]; then
			vm_say "the kernel could not log in with $1: ${error##*: }"
			return 1
		fi
		nap 0.1
	done
}

# vm_kernel_login [--disks N] ID_EXT IOC_GUID DEST [OPTION=VALUE...]
#
# Makes the kernel's initiator on rxe0 log in to DEST (IP:PORT), with more
# options of ib_srp's add_target, e.g. queue_size=128. Waits until the host has
# N disks (default 1) and prints their names (/dev/sdX), one on a line, by LUN.
# If the login is rejected, it fails and prints what the kernel logged about it.
vm_kernel_login() {
	local count=1 id_ext ioc_guid login option before host

	[ "${1-}" != --disks ] || { count=$2; shift 2; }
	id_ext=$1 ioc_guid=$2
	login="id_ext=$1,ioc_guid=$2,dest=$3"
	shift 3
	for option; do
		login+=,$option
	done
	modprobe ib_srp || return
	wait_for 20 test -e /sys/class/infiniband_srp/srp-rxe0-1/add_target || return
	before=$(_vm_srp_hosts)
	if ! _vm_add_target "$login" "$id_ext" "$ioc_guid"; then
		dmesg | grep 'scsi host' | tail -n 5 >&2
		return 1
	fi
	host=$(_vm_srp_hosts | grep -vxF "$before" | head -n 1 || true)
	[ -n "$host" ] || { vm_say "the SRP host has gone again"; return 1; }
	wait_for 60 _vm_disks_are_there "$host" "$count" || return
	_vm_host_disks "$host"
}

# vm_kernel_logout [DISK]: logs the kernel's initiator out of the target of
# DISK, or of all targets, and waits until the disks are gone.
vm_kernel_logout() {
	local host hosts

	if [ $# -gt 0 ]; then
		hosts=$(readlink -f "/sys/block/${1#/dev/}/device" |
			grep -o 'host[0-9]*' | head -n 1 || true)
		[ -n "$hosts" ] || { vm_say "$1 is not there"; return 1; }
	else
		hosts=$(_vm_srp_hosts)
	fi
	for host in $hosts; do
		echo 1 >"/sys/class/srp_remote_ports/port-${host#host}:1/delete" || return
		wait_for 60 test ! -e "/sys/class/scsi_host/$host" || return
	done
}
