/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/plugin_unprivileged.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct unprivileged_call {
	void (*run)(void *arg);
	void *arg;
	int err;
};

#define UNPRIVILEGED_KEEPS (1ull << CAP_IPC_LOCK)
/* The capability that rdma-target keeps, too (target/privileges.h). */
#define UNPRIVILEGED_ALLOWS (UNPRIVILEGED_KEEPS | 1ull << CAP_NET_BIND_SERVICE)

/* The permitted capabilities in @path, the status file of a thread. */
static uint64_t unprivileged_read_caps(const char *path)
{
	FILE *f = fopen(path, "re");
	uint64_t permitted = UINT64_MAX;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "CapPrm:", 7) == 0) {
			permitted = strtoull(line + 7, NULL, 16);
			break;
		}
	}
	if (f)
		fclose(f);
	return permitted;
}

/* rdma-target has dropped its capabilities. The sandbox may be active by now,
 * and allows no call that asks for them. */
static bool unprivileged_already(void)
{
	return !(unprivileged_read_caps("/proc/thread-self/status") &
		 ~UNPRIVILEGED_ALLOWS);
}

int plugin_drop_rights(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct caps[2];

	if (unprivileged_already())
		return 0;
	if (syscall(SYS_capget, &head, caps))
		return -errno;
	for (int i = 0; i < 2; i++) {
		caps[i].permitted &= (uint32_t)(UNPRIVILEGED_KEEPS >> 32 * i);
		caps[i].effective = caps[i].permitted;
		caps[i].inheritable = 0;
	}
	return syscall(SYS_capset, &head, caps) ? -errno : 0;
}

static void *unprivileged_main(void *p)
{
	struct unprivileged_call *call = p;

	call->err = plugin_drop_rights();
	if (!call->err)
		call->run(call->arg);
	return NULL;
}

int plugin_run_unprivileged(void (*run)(void *arg), void *arg)
{
	struct unprivileged_call call = { .run = run, .arg = arg };
	pthread_t thread;
	int err = pthread_create(&thread, NULL, unprivileged_main, &call);

	if (err)
		return -err;
	pthread_join(thread, NULL);
	return call.err;
}

unsigned int plugin_privileged_threads(void)
{
	DIR *dir = unprivileged_already() ? NULL : opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned int cnt = 0;
	char path[300];

	while (dir && (entry = readdir(dir))) {
		if (*entry->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status",
			 entry->d_name);
		/* A thread that has ended has no capabilities. */
		if (!access(path, R_OK) &&
		    unprivileged_read_caps(path) & ~UNPRIVILEGED_ALLOWS)
			cnt++;
	}
	if (dir)
		closedir(dir);
	return cnt;
}
