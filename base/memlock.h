/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limit of locked memory (setrlimit(2), RLIMIT_MEMLOCK). What is registered
 * with an RDMA device or as an io_uring buffer counts against it, and counts
 * twice when it is registered with both.
 *
 * Thread: any.
 */
#ifndef BASE_MEMLOCK_H
#define BASE_MEMLOCK_H

#include <stdint.h>

#define MEMLOCK_ANY UINT64_MAX

/* Bytes; as many as one likes: MEMLOCK_ANY. */
uint64_t memlock_limit(void);
/* Bytes that this process has registered. 0 also when that cannot be told. */
uint64_t memlock_used(void);
/* Bytes that this process may still register. The limit does not hold for one
 * with CAP_IPC_LOCK: MEMLOCK_ANY. */
uint64_t memlock_left(void);

#endif
