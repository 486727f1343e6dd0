/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/memlock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* capability.h of Linux */
#define CAP_IPC_LOCK 14

static _Atomic uint64_t promised;

void memlock_promise(uint64_t bytes)
{
	atomic_fetch_add(&promised, bytes);
}

void memlock_unpromise(uint64_t bytes)
{
	atomic_fetch_sub(&promised, bytes);
}

/* The number after @name in the status of this thread (proc(5)); 0: none. */
static uint64_t memlock_status_number(const char *name, int base)
{
	char line[128];
	uint64_t n = 0;
	FILE *f = fopen("/proc/thread-self/status", "re");

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, name, strlen(name)))
			continue;
		n = strtoull(line + strlen(name), NULL, base);
		break;
	}
	fclose(f);
	return n;
}

uint64_t memlock_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_MEMLOCK, &lim) || lim.rlim_cur == RLIM_INFINITY)
		return MEMLOCK_ANY;
	return lim.rlim_cur;
}

uint64_t memlock_used(void)
{
	return (memlock_status_number("VmPin:", 10) << 10) +
	       atomic_load(&promised);
}

uint64_t memlock_left(void)
{
	uint64_t limit = memlock_limit();
	uint64_t used = memlock_used();

	if (limit == MEMLOCK_ANY ||
	    (memlock_status_number("CapEff:", 16) & 1u << CAP_IPC_LOCK))
		return MEMLOCK_ANY;
	return limit > used ? limit - used : 0;
}
