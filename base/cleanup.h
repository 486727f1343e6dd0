/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scope-bound memory and file descriptors. Never mix these with goto in one
 * function: gcc lets a jump skip the initialisation and frees garbage.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define _cleanup_free_	__attribute__((cleanup(cleanup_free)))
#define _cleanup_close_ __attribute__((cleanup(cleanup_close)))

#endif
