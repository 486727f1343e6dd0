/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A clock that needs no system call, even where the kernel's clock does (in
 * soft-RoCE's guest): the CPU's cycle counter. The length of a tick is measured
 * by another clock. perftest uses the same counter.
 */
#ifndef TESTS_BENCH_CYCLES_H
#define TESTS_BENCH_CYCLES_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t cycles(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t n;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(n));
	return n;
#else
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
#endif
}

/* Both clocks at the same time. */
struct moment {
	double seconds;
	uint64_t cycles;
};

static inline struct moment moment_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (struct moment){
		.seconds = (double)ts.tv_sec + (double)ts.tv_nsec / 1e9,
		.cycles = cycles(),
	};
}

static inline double cycles_per_us(struct moment from, struct moment to)
{
	return (double)(to.cycles - from.cycles) /
	       ((to.seconds - from.seconds) * 1e6);
}

static inline int cycles_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Sorts @took. */
static inline uint64_t cycles_median(uint64_t *took, size_t cnt)
{
	qsort(took, cnt, sizeof(*took), cycles_compare);
	return cnt ? took[cnt / 2] : 0;
}

#endif
