/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/plugin_unprivileged.h"

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

/* rdma-target has dropped its capabilities. The sandbox may be active by now,
 * and allows no call that asks for them. */
static bool unprivileged_already(void)
{
	FILE *f = fopen("/proc/thread-self/status", "re");
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
	return !(permitted & ~UNPRIVILEGED_ALLOWS);
}

/* Affects only this thread. */
static int unprivileged_drop_caps(void)
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

	call->err = unprivileged_drop_caps();
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
