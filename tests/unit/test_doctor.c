/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of rdma-doctor: it prints one line for each fault of a machine. */
#include <errno.h>
#include <regex.h>
#include <string.h>

#include "doctor/check.h"
#include "tests/lib/t_table.h"

static struct machine m;
static struct report r;

/* A machine with one device that has one port, without any fault. */
static void healthy(void)
{
	struct machine_device *dev = &m.devices[0];
	struct machine_port *port = &dev->ports[0];

	memset(&m, 0, sizeof(m));
	strcpy(m.kernel, "6.14.0");
	m.kernel_major = 6;
	m.kernel_minor = 14;
	m.device_cnt = 1;
	m.memlock = m.open_files = MACHINE_ANY;
	for (unsigned int i = 0; i < MACHINE_MODULES; i++)
		m.modules[i] = MACHINE_MODULE_IN;
	m.has_fusermount = true;
	m.fuse_uring = 1;
	m.huge_size = 2 << 20;
	strcpy(m.transparent, "madvise");
	strcpy(dev->name, "mlx5_0");
	strcpy(dev->hca_type, "MT4123");
	strcpy(dev->firmware, "20.36.1010");
	strcpy(dev->uverbs, "uverbs0");
	dev->has_facts = true;
	dev->facts = (struct xp_device_facts){ .max_srq = 1000,
					       .max_srq_wr = 32767,
					       .max_qp_wr = 32768,
					       .max_inline = 956,
					       .read_depth = 16,
					       .answer_depth = 16,
					       .port_cnt = 1 };
	dev->port_cnt = 1;
	port->number = 1;
	port->state = MACHINE_PORT_ACTIVE;
	strcpy(port->state_text, "ACTIVE");
	strcpy(port->phys_text, "LinkUp");
	strcpy(port->link_layer, "Ethernet");
	strcpy(port->rate, "100 Gb/sec (4X EDR)");
	strcpy(port->netdev, "eth0");
	port->netdev_mtu = 9000;
	port->active_mtu = 4096;
	port->gid_cnt = 1;
	port->gids[0] = (struct machine_gid){ .index = 3,
					      .address = "10.0.0.1",
					      .type = "RoCE v2",
					      .netdev = "eth0" };
}

static struct machine_port *port_1(void)
{
	return &m.devices[0].ports[0];
}

/* Adds a second port, like the first. */
static struct machine_port *port_2(void)
{
	struct machine_device *dev = &m.devices[0];

	dev->ports[1] = dev->ports[0];
	dev->ports[1].number = 2;
	dev->port_cnt = 2;
	strcpy(dev->ports[1].netdev, "eth1");
	return &dev->ports[1];
}

/* ---- faults ---- */

static void no_device(void)
{
	m.device_cnt = 0;
}

static void no_device_no_rxe(void)
{
	m.device_cnt = 0;
	m.modules[MACHINE_RDMA_RXE] = MACHINE_MODULE_ABSENT;
}

static void is_iwarp(void)
{
	m.devices[0].is_iwarp = true;
}

static void in_container(void)
{
	m.is_container = true;
	m.devices[0].opens = m.cm_opens = -ENOENT;
}

static void no_rights(void)
{
	m.devices[0].opens = -EACCES;
}

static void no_uverbs(void)
{
	m.devices[0].uverbs[0] = '\0';
	m.modules[MACHINE_IB_UVERBS] = MACHINE_MODULE_CAN_LOAD;
}

static void no_cm(void)
{
	m.cm_opens = -ENOENT;
	m.modules[MACHINE_RDMA_UCM] = MACHINE_MODULE_CAN_LOAD;
}

static void no_provider(void)
{
	m.devices[0].has_facts = false;
	error_set(&m.devices[0].no_facts, -ENODEV,
		  "the RDMA library does not find device mlx5_0");
}

static void link_down(void)
{
	port_1()->state = MACHINE_PORT_DOWN;
	strcpy(port_1()->state_text, "DOWN");
	strcpy(port_1()->phys_text, "Disabled");
}

static void one_of_two_down(void)
{
	port_2();
	link_down();
}

static void no_subnet_manager(void)
{
	m.has_ipoib = true;
	port_1()->state = MACHINE_PORT_INIT;
	strcpy(port_1()->state_text, "INIT");
	strcpy(port_1()->link_layer, "InfiniBand");
}

static void no_ipoib(void)
{
	strcpy(port_1()->link_layer, "InfiniBand");
}

static void mtu_1500(void)
{
	port_1()->netdev_mtu = 1500;
	port_1()->active_mtu = 1024;
}

static void mtu_lower_than_can_be(void)
{
	port_1()->active_mtu = 1024;
}

static void mtu_too_long(void)
{
	port_1()->netdev_mtu = 1500;
}

static void mtu_differs(void)
{
	struct machine_port *p = port_2();

	p->netdev_mtu = 1500;
	p->active_mtu = 1024;
}

static void no_address(void)
{
	port_1()->gid_cnt = 0;
}

static void only_roce_v1(void)
{
	strcpy(port_1()->gids[0].type, "IB/RoCE v1");
}

static void only_link_local(void)
{
	port_1()->gids[0].is_link_local = true;
	strcpy(port_1()->gids[0].address, "fe80::1");
}

static void no_srq(void)
{
	m.devices[0].facts.max_srq = 0;
}

static void no_read(void)
{
	m.devices[0].facts.answer_depth = 0;
}

static void memlock_8m(void)
{
	m.memlock = 8 << 20;
}

static void memlock_100m(void)
{
	m.memlock = 100 << 20;
}

static void memlock_ignored(void)
{
	m.memlock = 8 << 20;
	m.ignores_memlock = true;
}

static void memlock_without_device(void)
{
	m.memlock = 8 << 20;
	m.device_cnt = 0;
}

static void memlock_for_no_ring(void)
{
	m.memlock = 64 << 10;
	m.device_cnt = 0;
}

static void few_files(void)
{
	m.open_files = 256;
}

static void no_fuse(void)
{
	m.fuse_opens = -ENOENT;
}

static void no_fuse_in_container(void)
{
	m.fuse_opens = -ENOENT;
	m.is_container = true;
}

static void no_fuse_in_kernel(void)
{
	m.fuse_opens = -ENOENT;
	m.modules[MACHINE_FUSE] = MACHINE_MODULE_ABSENT;
}

static void fuse_for_root(void)
{
	m.fuse_opens = -EACCES;
}

static void no_fusermount(void)
{
	m.has_fusermount = false;
}

static void no_fusermount_root(void)
{
	m.has_fusermount = false;
	m.is_root = true;
}

static void fuse_uring_off(void)
{
	m.fuse_uring = 0;
}

static void uring_disabled(void)
{
	m.uring_disabled = 2;
	m.uring_err = -EPERM;
}

static void uring_for_root(void)
{
	m.uring_disabled = 1;
	m.uring_err = -EPERM;
}

static void uring_filtered(void)
{
	m.uring_err = -EPERM;
}

static void uring_absent(void)
{
	m.uring_err = -ENOSYS;
}

static void no_huge_pages(void)
{
	strcpy(m.transparent, "never");
}

static void old_kernel(void)
{
	strcpy(m.kernel, "5.10.0");
	m.kernel_major = 5;
	m.kernel_minor = 10;
}

/* ---- a line for each fault ---- */

static const struct fault_row {
	const char *name;
	void (*fault)(void);
	/* "STATE GROUP/NAME: VALUE; REMEDY", as an extended regular
	 * expression. */
	const char *line;
	unsigned int problems; /* of the whole report */
} faults[] = {
	{ "no device", no_device,
	  "note device/device: no RDMA device; TCP is used; modprobe rdma_rxe",
	  0 },
	{ "no device and no soft-RoCE", no_device_no_rxe,
	  "note device/device: .*no soft-RoCE in kernel 6.14.0; TCP is used; $",
	  0 },
	{ "iWARP", is_iwarp, "note device/iwarp: mlx5_0 .*; use TCP", 0 },
	{ "container without /dev/infiniband", in_container,
	  "problem device/file: /dev/infiniband/uverbs0 of mlx5_0: No such "
	  "file.*; docker run --device=/dev/infiniband",
	  2 },
	{ "container without the connection manager", in_container,
	  "problem device/connections: /dev/infiniband/rdma_cm: No such "
	  "file.*; docker run --device",
	  2 },
	{ "no rights", no_rights,
	  "problem device/file: .*Permission denied; chmod 666", 1 },
	{ "no ib_uverbs", no_uverbs,
	  "problem device/file: mlx5_0 has no file in /dev/infiniband; "
	  "modprobe ib_uverbs",
	  2 },
	{ "no ib_uverbs, the module", no_uverbs,
	  "problem modules/module: ib_uverbs .*not loaded; modprobe ib_uverbs",
	  2 },
	{ "no rdma_ucm", no_cm,
	  "problem device/connections: .*; modprobe rdma_ucm", 2 },
	{ "no provider", no_provider,
	  "problem device/library: .*does not find device mlx5_0; apt-get "
	  "install ibverbs-providers",
	  1 },
	{ "link down", link_down,
	  "problem link/port: mlx5_0 port 1: DOWN, Disabled, .*; ip link set "
	  "dev eth0 up",
	  1 },
	{ "one link of two down", one_of_two_down,
	  "note link/port: mlx5_0 port 1: DOWN", 0 },
	{ "no subnet manager", no_subnet_manager,
	  "problem link/port: mlx5_0 port 1: INIT, .*; systemctl start opensm",
	  1 },
	{ "no IP over InfiniBand", no_ipoib,
	  "problem addresses/ipoib: no interface.*; modprobe ib_ipoib", 1 },
	{ "MTU 1500", mtu_1500,
	  "note link/mtu: mlx5_0 port 1: 1024, with MTU 1500 of eth0; ip link "
	  "set dev eth0 mtu 4200",
	  0 },
	{ "MTU lower than the interface allows", mtu_lower_than_can_be,
	  "note link/mtu: mlx5_0 port 1: 1024, with MTU 9000 of eth0; ip link "
	  "set dev eth0 down",
	  0 },
	{ "MTU longer than the interface allows", mtu_too_long,
	  "problem link/mtu: mlx5_0 port 1: 4096, with MTU 1500 of eth0; ip "
	  "link set dev eth0 mtu 4200",
	  1 },
	{ "MTU of two ports differs", mtu_differs,
	  "note link/same mtu: mlx5_0 port 1 has 4096, mlx5_0 port 2 has "
	  "1024; ip link set dev eth1 mtu 9000",
	  0 },
	{ "no address", no_address,
	  "problem addresses/gids: mlx5_0 port 1: no address of RoCE v2; ip "
	  "address add ADDRESS/PREFIX dev eth0",
	  1 },
	{ "only RoCE v1", only_roce_v1,
	  "problem addresses/gids: .*10.0.0.1 \\(IB/RoCE v1, eth0\\); ip "
	  "address",
	  1 },
	{ "only link-local", only_link_local,
	  "note addresses/gids: mlx5_0 port 1: GID 3: fe80::1 .*; ip address",
	  0 },
	{ "no shared receive queues", no_srq,
	  "note limits/device: mlx5_0: 0 shared receive queues", 0 },
	{ "no RDMA READ", no_read,
	  "problem limits/read depth: mlx5_0: no RDMA READ", 1 },
	{ "low locked memory", memlock_8m,
	  "problem limits/locked memory: 8 MiB; ulimit -l unlimited", 1 },
	{ "little locked memory", memlock_100m,
	  "note limits/locked memory: 100 MiB; ulimit -l unlimited", 0 },
	{ "low locked memory with the capability", memlock_ignored,
	  "ok limits/locked memory: 8 MiB \\(does not hold for this user", 0 },
	{ "low locked memory without a device", memlock_without_device,
	  "ok limits/locked memory: 8 MiB \\(enough without", 0 },
	{ "locked memory too low for rings", memlock_for_no_ring,
	  "note limits/locked memory: 64 KiB; ulimit -l 8192", 0 },
	{ "few open files", few_files, "note limits/open files: 256; ulimit -n",
	  0 },
	{ "no FUSE", no_fuse,
	  "problem fuse/file: /dev/fuse: No such file.*; modprobe fuse", 1 },
	{ "no FUSE in a container", no_fuse_in_container,
	  "problem fuse/file: /dev/fuse: No such file.*; docker run "
	  "--device=/dev/fuse",
	  1 },
	{ "no FUSE in the kernel", no_fuse_in_kernel,
	  "problem fuse/file: .*; kernel 6.14.0 has no FUSE", 1 },
	{ "FUSE for root alone", fuse_for_root,
	  "problem fuse/file: /dev/fuse: Permission denied; chmod 666", 1 },
	{ "no fusermount3", no_fusermount,
	  "problem fuse/fusermount3: there is no fusermount3; apt-get", 1 },
	{ "no fusermount3, for root", no_fusermount_root,
	  "note fuse/fusermount3: there is no fusermount3; apt-get", 0 },
	{ "FUSE over io_uring off", fuse_uring_off,
	  "note fuse/io_uring: off; echo Y >", 0 },
	{ "io_uring disabled", uring_disabled,
	  "problem io_uring/io_uring: kernel.io_uring_disabled is 2; sysctl "
	  "kernel.io_uring_disabled=0",
	  1 },
	{ "io_uring for root alone", uring_for_root,
	  "problem io_uring/io_uring: kernel.io_uring_disabled is 1; sysctl",
	  1 },
	{ "io_uring filtered", uring_filtered,
	  "problem io_uring/io_uring: io_uring_setup\\(\\): Operation not "
	  "permitted; docker run --security-opt seccomp",
	  1 },
	{ "no io_uring", uring_absent,
	  "problem io_uring/io_uring: .*not implemented \\(kernel 6.14.0\\); "
	  "use Linux",
	  1 },
	{ "no huge pages", no_huge_pages,
	  "note memory/huge pages: 0 of 0 free, 2 MiB each; transparent: "
	  "never; sysctl vm.nr_hugepages",
	  0 },
	{ "kernel that does not copy at a fork", old_kernel,
	  "note memory/fork: kernel 5.10.0 does not copy.*; export "
	  "RDMAV_FORK_SAFE",
	  0 },
};

static void print_report(void)
{
	for (unsigned int i = 0; i < r.cnt; i++)
		print_message("%s %s/%s: %s; %s\n",
			      finding_state_name(r.findings[i].state),
			      r.findings[i].group, r.findings[i].name,
			      r.findings[i].value, r.findings[i].mend);
}

static const struct finding *find_line(const char *pattern)
{
	const struct finding *found = NULL;
	char line[1024];
	regex_t re;

	assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	for (unsigned int i = 0; i < r.cnt && !found; i++) {
		const struct finding *f = &r.findings[i];

		snprintf(line, sizeof(line), "%s %s/%s: %s; %s",
			 finding_state_name(f->state), f->group, f->name,
			 f->value, f->mend);
		if (regexec(&re, line, 0, NULL, 0) == 0)
			found = f;
	}
	regfree(&re);
	return found;
}

T_ROWS(fault_has_its_line, faults)
{
	const struct fault_row *row = *state;
	const struct finding *f;

	healthy();
	row->fault();
	memset(&r, 0, sizeof(r));
	check_machine(&m, CHECK_ALL, &r);
	f = find_line(row->line);
	if (!f || report_count(&r, FINDING_PROBLEM) != row->problems)
		print_report();
	assert_non_null(f);
	/* Each problem has an explanation. */
	if (f->state != FINDING_OK)
		assert_non_null(f->why);
	assert_int_equal(report_count(&r, FINDING_PROBLEM), row->problems);
}

T_TEST(healthy_machine_has_nothing_but_ok)
{
	healthy();
	memset(&r, 0, sizeof(r));
	check_machine(&m, CHECK_ALL, &r);
	if (report_count(&r, FINDING_OK) != r.cnt)
		print_report();
	assert_int_equal(report_count(&r, FINDING_OK), r.cnt);
	assert_true(r.cnt > 10);
}

T_TEST(target_needs_no_fuse)
{
	healthy();
	no_fuse();
	memset(&r, 0, sizeof(r));
	check_machine(&m, CHECK_TARGET, &r);
	assert_int_equal(report_count(&r, FINDING_PROBLEM), 0);
}

T_TEST(full_report_keeps_problems)
{
	memset(&r, 0, sizeof(r));
	for (unsigned int i = 0; i < REPORT_FINDINGS_MAX; i++)
		report_add(&r, "a", "ok", FINDING_OK);
	report_add(&r, "a", "bad", FINDING_PROBLEM);
	report_add(&r, "a", "ok", FINDING_OK);
	assert_int_equal(r.cnt, REPORT_FINDINGS_MAX);
	assert_int_equal(report_count(&r, FINDING_PROBLEM), 1);
}
