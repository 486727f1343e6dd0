/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks of the rest of the machine: limits, modules, FUSE, io_uring, memory. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/size.h"
#include "doctor/check.h"

/* The minimum that rdma-target locks by default: its buffers, and the memory of
 * logins. */
#define MEMLOCK_LEAST (48ull << 20)
/* Room for more threads and logins, or for a mount with large buffers. */
#define MEMLOCK_GOOD (256ull << 20)
/* The rings of the programs, which some kernels count. */
#define MEMLOCK_RINGS (1ull << 20)

#define OPEN_FILES_GOOD 1024u

static struct finding *host_add(const struct check *c, struct report *r,
				enum finding_state state)
{
	return report_add(r, c->group, c->name, state);
}

/* ---- limits ---- */

static void look_memlock(const struct check *c, const struct machine *m,
			 struct report *r)
{
	struct finding *f = host_add(c, r, FINDING_OK);
	char text[SIZE_TEXT_SIZE] = "unlimited";

	if (m->memlock != MACHINE_ANY)
		size_format(m->memlock, text);
	finding_value(f, "%s%s", text,
		      m->ignores_memlock && m->memlock != MACHINE_ANY
			      ? " (does not hold for this user: CAP_IPC_LOCK)"
			      : "");
	if (m->ignores_memlock || m->memlock >= MEMLOCK_GOOD)
		return;
	if (m->device_cnt == 0 && m->memlock >= MEMLOCK_RINGS) {
		finding_value(f, "%s (enough without an RDMA device)", text);
		return;
	}
	if (m->device_cnt == 0) {
		f->state = FINDING_NOTE;
		f->why = "Some kernels (Linux 6.18, for example) count each "
			 "io_uring as locked memory.";
		finding_mend(f, "ulimit -l 8192");
		return;
	}
	f->state = m->memlock < MEMLOCK_LEAST ? FINDING_PROBLEM : FINDING_NOTE;
	f->why = "Memory that an RDMA device uses is locked; rdma-target needs "
		 "48 MiB and more, rdma-fuse up to 64 MiB for each mount.";
	finding_mend(f, "ulimit -l unlimited (for good: "
			"/etc/security/limits.conf, LimitMEMLOCK=infinity)");
}

static void look_files(const struct check *c, const struct machine *m,
		       struct report *r)
{
	struct finding *f = host_add(c, r, FINDING_OK);

	if (m->open_files == MACHINE_ANY)
		finding_value(f, "unlimited");
	else
		finding_value(f, "%" PRIu64, m->open_files);
	if (m->open_files >= OPEN_FILES_GOOD)
		return;
	f->state = FINDING_NOTE;
	f->why = "Each connection and each volume is an open file.";
	finding_mend(f, "ulimit -n 65536 (for good: LimitNOFILE=65536)");
}

/* ---- modules ---- */

/* The use of a module. Without an RDMA device, none is needed. */
static const struct module_row {
	enum machine_module module;
	bool is_needed; /* by a machine with an RDMA device */
	const char *what;
} module_rows[] = {
	{ MACHINE_IB_UVERBS, true, "RDMA devices for programs" },
	{ MACHINE_RDMA_UCM, true, "RDMA connections for programs" },
	{ MACHINE_RDMA_CM, true, "RDMA connections" },
	{ MACHINE_RDMA_RXE, false, "soft-RoCE, RDMA without an RDMA device" },
	{ MACHINE_IB_SRP, false, "the kernel's SRP initiator" },
	{ MACHINE_IB_SRPT, false, "the kernel's SRP target" },
};

static void look_module(const struct check *c, const struct machine *m,
			const struct module_row *row, struct report *r)
{
	const char *name = machine_module_name(row->module);
	bool is_needed = row->is_needed && m->device_cnt > 0;
	struct finding *f = host_add(c, r, FINDING_OK);

	switch (m->modules[row->module]) {
	case MACHINE_MODULE_IN:
		finding_value(f, "%s (%s)", name, row->what);
		return;
	case MACHINE_MODULE_CAN_LOAD:
		finding_value(f, "%s (%s): not loaded", name, row->what);
		break;
	case MACHINE_MODULE_ABSENT:
		finding_value(f, "%s (%s): not in kernel %s", name, row->what,
			      m->kernel);
		break;
	}
	if (!is_needed)
		return;
	f->state = FINDING_PROBLEM;
	f->why = "This machine has an RDMA device, which no program can use "
		 "without this module.";
	finding_mend(f, "modprobe %s", name);
}

static void look_modules(const struct check *c, const struct machine *m,
			 struct report *r)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(module_rows); i++)
		look_module(c, m, &module_rows[i], r);
}

/* ---- FUSE ---- */

static void look_fuse(const struct check *c, const struct machine *m,
		      struct report *r)
{
	struct finding *f = host_add(c, r, FINDING_OK);

	if (m->fuse_opens == 0) {
		finding_value(f, "/dev/fuse");
		return;
	}
	f->state = FINDING_PROBLEM;
	f->why = "rdma-fuse mounts through this file.";
	finding_value(f, "/dev/fuse: %s", strerror(-m->fuse_opens));
	if (m->fuse_opens == -EACCES)
		finding_mend(f, "chmod 666 /dev/fuse");
	else if (m->is_container)
		finding_mend(f, "docker run --device=/dev/fuse "
				"--cap-add=SYS_ADMIN ... (podman: the same)");
	else if (m->modules[MACHINE_FUSE] == MACHINE_MODULE_ABSENT)
		finding_mend(f, "kernel %s has no FUSE: use a kernel that has",
			     m->kernel);
	else
		finding_mend(f, "modprobe fuse");
}

static void look_fusermount(const struct check *c, const struct machine *m,
			    struct report *r)
{
	struct finding *f = host_add(c, r, FINDING_OK);

	if (m->has_fusermount) {
		finding_value(f, "fusermount3");
		return;
	}
	f->state = m->is_root ? FINDING_NOTE : FINDING_PROBLEM;
	finding_value(f, "there is no fusermount3");
	f->why = "Users other than root mount and unmount with it.";
	finding_mend(f, "apt-get install fuse3");
}

static void look_fuse_uring(const struct check *c, const struct machine *m,
			    struct report *r)
{
	struct finding *f;

	if (m->fuse_opens)
		return;
	f = host_add(c, r, FINDING_OK);
	if (m->fuse_uring < 0) {
		finding_value(f, "kernel %s does not have it (Linux 6.14)",
			      m->kernel);
		return;
	}
	finding_value(f, m->fuse_uring ? "on" : "off");
	if (m->fuse_uring)
		return;
	f->state = FINDING_NOTE;
	f->why = "With it, a mount makes fewer system calls for each read and "
		 "write.";
	finding_mend(f, "echo Y > /sys/module/fuse/parameters/enable_uring");
}

/* ---- io_uring ---- */

static void look_uring(const struct check *c, const struct machine *m,
		       struct report *r)
{
	bool refused = m->uring_disabled == 2 ||
		       (m->uring_disabled == 1 && !m->is_root && m->uring_err);
	struct finding *f = host_add(
		c, r, refused || m->uring_err ? FINDING_PROBLEM : FINDING_OK);

	f->why = "The event loop of all programs is an io_uring.";
	if (refused) {
		finding_value(f, "kernel.io_uring_disabled is %d",
			      m->uring_disabled);
		finding_mend(f, "sysctl kernel.io_uring_disabled=0");
	} else if (m->uring_err == -EPERM || m->uring_err == -EACCES) {
		finding_value(f, "io_uring_setup(): %s",
			      strerror(-m->uring_err));
		finding_mend(f, "docker run --security-opt seccomp=unconfined "
				"... (a system-call filter refuses it)");
	} else if (m->uring_err == -ENOMEM) {
		finding_value(f, "io_uring_setup(): %s",
			      strerror(-m->uring_err));
		finding_mend(f, "ulimit -l unlimited (rings are locked memory, "
				"which all processes of a user share)");
	} else if (m->uring_err) {
		finding_value(f, "io_uring_setup(): %s (kernel %s)",
			      strerror(-m->uring_err), m->kernel);
		finding_mend(f, "use Linux 5.19 or later");
	} else {
		finding_value(f, "can be used");
	}
}

/* ---- memory ---- */

static void look_huge_pages(const struct check *c, const struct machine *m,
			    struct report *r)
{
	struct finding *f = host_add(c, r, FINDING_OK);
	char size[SIZE_TEXT_SIZE];

	finding_value(f,
		      "%" PRIu64 " of %" PRIu64 " free, %s each; transparent: "
		      "%s",
		      m->huge_free, m->huge_total,
		      size_format(m->huge_size, size),
		      *m->transparent ? m->transparent : "unknown");
	if (m->huge_free > 0 || strcmp(m->transparent, "always") == 0 ||
	    strcmp(m->transparent, "madvise") == 0)
		return;
	f->state = FINDING_NOTE;
	f->why = "With huge pages, the buffers of rdma-target need fewer "
		 "entries in the tables of the device and the processor.";
	finding_mend(f, "sysctl vm.nr_hugepages=32 (64 MiB, as huge pages of "
			"2 MiB)");
}

static void look_fork(const struct check *c, const struct machine *m,
		      struct report *r)
{
	bool copies = m->kernel_major > 5 ||
		      (m->kernel_major == 5 && m->kernel_minor >= 12);
	struct finding *f = host_add(c, r, copies ? FINDING_OK : FINDING_NOTE);

	if (copies) {
		finding_value(f, "kernel %s copies locked pages at a fork",
			      m->kernel);
		return;
	}
	finding_value(f, "kernel %s does not copy locked pages at a fork",
		      *m->kernel ? m->kernel : "(unknown)");
	f->why =
		"A program that uses libsrpi and forks can lose the memory that "
		"a device uses; the programs here take care of it.";
	finding_mend(f, "export RDMAV_FORK_SAFE=1 (or call srpi_fork_init())");
}

const struct check check_host_rows[] = {
	{ "limits", "locked memory", CHECK_ALL, look_memlock },
	{ "limits", "open files", CHECK_TARGET, look_files },
	{ "modules", "module", CHECK_ALL, look_modules },
	{ "fuse", "file", CHECK_CLIENT, look_fuse },
	{ "fuse", "fusermount3", CHECK_CLIENT, look_fusermount },
	{ "fuse", "io_uring", CHECK_CLIENT, look_fuse_uring },
	{ "io_uring", "io_uring", CHECK_ALL, look_uring },
	{ "memory", "huge pages", CHECK_TARGET, look_huge_pages },
	{ "memory", "fork", CHECK_CLIENT, look_fork },
	{ 0 },
};
