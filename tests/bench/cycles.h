/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A clock that takes no system call, also where the kernel's does (soft-RoCE's
 * guest): the processor's counter, in ticks of a length that is only known
 * beside another clock. perftest measures with the same.
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

/* Both clocks at one moment. */
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

/* Sorts them. */
static inline uint64_t cycles_median(uint64_t *took, size_t cnt)
{
	qsort(took, cnt, sizeof(*took), cycles_compare);
	return cnt ? took[cnt / 2] : 0;
}

#endif
