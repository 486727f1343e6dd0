/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/machine.h"

#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "doctor/machine_file.h"
#include "doctor/machine_read.h"

/* capability.h of Linux */
#define CAP_IPC_LOCK 14

static const char *const module_names[MACHINE_MODULES] = {
	[MACHINE_IB_UVERBS] = "ib_uverbs", [MACHINE_RDMA_UCM] = "rdma_ucm",
	[MACHINE_RDMA_CM] = "rdma_cm",	   [MACHINE_RDMA_RXE] = "rdma_rxe",
	[MACHINE_IB_SRP] = "ib_srp",	   [MACHINE_IB_SRPT] = "ib_srpt",
	[MACHINE_FUSE] = "fuse",
};

const char *machine_module_name(enum machine_module module)
{
	return module_names[module];
}

/* ---- kernel and modules ---- */

static void read_kernel(const char *root, struct machine *m)
{
	char *end;

	machine_line(root, m->kernel, sizeof(m->kernel),
		     "/proc/sys/kernel/osrelease");
	m->kernel_major = (unsigned int)strtoul(m->kernel, &end, 10);
	if (*end == '.')
		m->kernel_minor = (unsigned int)strtoul(end + 1, NULL, 10);
	m->is_container = machine_has(root, "/.dockerenv") ||
			  machine_has(root, "/run/.containerenv") ||
			  machine_has(root, "/run/systemd/container");
}

static enum machine_module_state
read_module(const char *root, const struct machine *m, const char *name)
{
	char path[MACHINE_PATH_SIZE];
	char file[64];

	if (machine_has(root, "/sys/module/%s", name))
		return MACHINE_MODULE_IN;
	snprintf(file, sizeof(file), "/%s.ko", name);
	snprintf(path, sizeof(path), "/lib/modules/%s/modules.builtin",
		 m->kernel);
	if (machine_mentions(root, path, file))
		return MACHINE_MODULE_IN;
	snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", m->kernel);
	return machine_mentions(root, path, file) ? MACHINE_MODULE_CAN_LOAD
						  : MACHINE_MODULE_ABSENT;
}

static void read_modules(const char *root, struct machine *m)
{
	for (unsigned int i = 0; i < MACHINE_MODULES; i++)
		m->modules[i] = read_module(root, m, module_names[i]);
	/* Built into a kernel whose lists are not visible here, as in a
	 * container. */
	if (machine_mentions(root, "/proc/filesystems", "\tfuse\n"))
		m->modules[MACHINE_FUSE] = MACHINE_MODULE_IN;
}

/* ---- this process ---- */

/* "Max locked memory   8388608   8388608   bytes": the soft limit */
static uint64_t read_limit(const char *root, const char *name)
{
	char text[128];

	if (!machine_value(root, "/proc/self/limits", name, text,
			   sizeof(text)) ||
	    !strncmp(text, "unlimited", strlen("unlimited")))
		return MACHINE_ANY;
	return strtoull(text, NULL, 10);
}

static void read_process(const char *root, struct machine *m)
{
	char text[128];
	char *end;

	if (machine_value(root, "/proc/self/status", "Uid:", text,
			  sizeof(text))) {
		strtoul(text, &end, 10); /* the real user; then the effective */
		m->is_root = strtoul(end, NULL, 10) == 0;
	}
	if (machine_value(root, "/proc/self/status", "CapEff:", text,
			  sizeof(text)))
		m->ignores_memlock =
			strtoull(text, NULL, 16) >> CAP_IPC_LOCK & 1;
	m->memlock = read_limit(root, "Max locked memory");
	m->open_files = read_limit(root, "Max open files");
}

/* ---- FUSE, io_uring ---- */

static void read_fuse(const char *root, struct machine *m)
{
	static const char *const dirs[] = { "/usr/bin", "/bin", "/usr/sbin",
					    "/sbin", "/usr/local/bin" };
	char text[16];

	m->fuse_opens = machine_try_open(root, "/dev/fuse");
	for (unsigned int i = 0; i < ARRAY_SIZE(dirs); i++)
		m->has_fusermount |=
			machine_has(root, "%s/fusermount3", dirs[i]);
	m->fuse_uring = -1;
	if (machine_line(root, text, sizeof(text),
			 "/sys/module/fuse/parameters/enable_uring"))
		m->fuse_uring = *text == 'Y' || *text == '1';
}

/* With a ring of the size that a reactor has: a smaller one may be possible. */
static int try_uring(void)
{
	struct io_uring_params p = { .flags = IORING_SETUP_CQSIZE,
				     .cq_entries = 2048 };
	struct io_uring ring;
	int err = io_uring_queue_init_params(256, &ring, &p);

	if (!err)
		io_uring_queue_exit(&ring);
	return err;
}

static void read_uring(const char *root, struct machine *m)
{
	m->uring_disabled = (int)machine_number(
		root, -1, "/proc/sys/kernel/io_uring_disabled");
	if (*root == '\0')
		m->uring_err = try_uring();
}

/* ---- memory ---- */

static uint64_t read_meminfo(const char *root, const char *key)
{
	char text[64];

	return machine_value(root, "/proc/meminfo", key, text, sizeof(text))
		       ? strtoull(text, NULL, 10)
		       : 0;
}

/* "always [madvise] never" */
static void read_transparent(const char *root, struct machine *m)
{
	char text[64];
	const char *begin;

	machine_line(root, text, sizeof(text),
		     "/sys/kernel/mm/transparent_hugepage/enabled");
	begin = strchr(text, '[');
	if (begin)
		snprintf(m->transparent, sizeof(m->transparent), "%.*s",
			 (int)strcspn(begin + 1, "]"), begin + 1);
}

static void read_memory(const char *root, struct machine *m)
{
	m->huge_total = read_meminfo(root, "HugePages_Total:");
	m->huge_free = read_meminfo(root, "HugePages_Free:");
	m->huge_size = read_meminfo(root, "Hugepagesize:") << 10;
	read_transparent(root, m);
}

void machine_read(const char *root, struct machine *ret)
{
	memset(ret, 0, sizeof(*ret));
	read_kernel(root, ret);
	read_modules(root, ret);
	read_process(root, ret);
	machine_read_devices(root, ret);
	read_fuse(root, ret);
	read_uring(root, ret);
	read_memory(root, ret);
}
