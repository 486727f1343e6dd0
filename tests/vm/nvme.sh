# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Functions for guest tests that compare with the kernel's NVMe over RDMA, at
# both ends. Source lib.sh first, and call vm_two_hosts.

_vm_nvmet=/sys/kernel/config/nvmet
_vm_nqn=nqn.2014-08.org.nvmexpress:vm

# vm_nvme_target DEVICE: serves a block device with nvmet-rdma on rxe1.
vm_nvme_target() {
	local subsystem=$_vm_nvmet/subsystems/$_vm_nqn port=$_vm_nvmet/ports/1

	modprobe nvmet-rdma &&
		mkdir -p "$subsystem/namespaces/1" "$port" &&
		echo 1 >"$subsystem/attr_allow_any_host" &&
		echo "$1" >"$subsystem/namespaces/1/device_path" &&
		echo 1 >"$subsystem/namespaces/1/enable" &&
		echo rdma >"$port/addr_trtype" &&
		echo ipv4 >"$port/addr_adrfam" &&
		echo 10.1.0.2 >"$port/addr_traddr" &&
		echo 4420 >"$port/addr_trsvcid" &&
		ln -s "$subsystem" "$port/subsystems/"
}

# vm_nvme_target_down: stops this target. Log out before.
vm_nvme_target_down() {
	local subsystem=$_vm_nvmet/subsystems/$_vm_nqn port=$_vm_nvmet/ports/1

	rm -f "$port/subsystems/$_vm_nqn"
	echo 0 >"$subsystem/namespaces/1/enable"
	rmdir "$subsystem/namespaces/1" "$subsystem" "$port"
}

# vm_nvme_login [OPTION=VALUE...]: connects nvme-rdma to the target, with
# options of /dev/nvme-fabrics, and waits for the disk, /dev/nvme0n1.
vm_nvme_login() {
	local options option

	modprobe nvme-rdma || return
	options="transport=rdma,traddr=10.1.0.2,trsvcid=4420,nqn=$_vm_nqn"
	for option; do
		options+=,$option
	done
	{ printf '%s' "$options" >&7; } 7<>/dev/nvme-fabrics || {
		dmesg | grep nvme | tail -n 5 >&2
		return 1
	}
	wait_for 60 test -b /dev/nvme0n1
}

vm_nvme_logout() {
	echo 1 >/sys/class/nvme/nvme0/delete_controller
	wait_for 60 test ! -e /sys/class/nvme/nvme0
}
