/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limit of locked memory (setrlimit(2), RLIMIT_MEMLOCK). Memory counts if
 * it is registered with an RDMA device or as an io_uring buffer, and twice if
 * it is registered with both.
 *
 * Thread: any.
 */
#ifndef BASE_MEMLOCK_H
#define BASE_MEMLOCK_H

#include <stdint.h>

#define MEMLOCK_ANY UINT64_MAX

/* Bytes. MEMLOCK_ANY: no limit. */
uint64_t memlock_limit(void);
/* @bytes will be registered when they are needed: they count as if they were. */
void memlock_promise(uint64_t bytes);
/* They are registered now, or are not needed any more. */
void memlock_unpromise(uint64_t bytes);
/* Bytes that this process has registered or promised. 0 if unknown. */
uint64_t memlock_used(void);
/* Bytes that this thread may still register. MEMLOCK_ANY: no limit, as for one
 * with CAP_IPC_LOCK. */
uint64_t memlock_left(void);

#endif
