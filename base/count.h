/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters that one thread adds to, and that any thread reads. They are never in
 * between two values, and need no lock.
 */
#ifndef BASE_COUNT_H
#define BASE_COUNT_H

#include <stdint.h>

#include "base/sanitizer.h"

/* Thread: the one that owns @counter. */
static inline void count_add(uint64_t *counter, uint64_t n)
{
#if defined(__x86_64__) && !defined(HAVE_TSAN)
	/* One instruction. Of a relaxed load and a relaxed store, compilers
	 * make three, and the data path counts often. */
	__asm__("addq %1, %0" : "+m"(*counter) : "er"(n) : "cc");
#else
	__atomic_store_n(counter,
			 __atomic_load_n(counter, __ATOMIC_RELAXED) + n,
			 __ATOMIC_RELAXED);
#endif
}

/* Thread: the owner. */
static inline void count_set(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, n, __ATOMIC_RELAXED);
}

/* Thread: any. */
static inline uint64_t count_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

#endif
