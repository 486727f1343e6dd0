/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A clock for the data path: the processor's own counter where there is one. To read
 * it takes three instructions; clock_gettime() takes about fifty, or a system call.
 * The counters of all processors run at one speed, and so do those that virtual
 * machines see.
 *
 * Ticks become nanoseconds when they are looked at. Thread: any, but for
 * ticks_init().
 */
#ifndef BASE_TICKS_H
#define BASE_TICKS_H

#include <stdint.h>
#include <string.h>
#include <time.h>

/* Nanoseconds of a tick. Written by ticks_init() only. Not for other libraries: so the
 * compiler need not ask where it is. */
extern double ticks_tick_ns __attribute__((visibility("hidden")));

/* Measures how long a tick is; takes 2 ms. Until then a tick is a nanosecond.
 * Thread: setup, before there are others. */
void ticks_init(void);

static inline uint64_t ticks_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static inline uint64_t ticks_clock_ms(void)
{
	return ticks_clock_ns() / 1000000;
}

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
	/* Their upper halves become 0. */
	uint64_t low;
	uint64_t high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	/* Not "or": this becomes one instruction with what is added to it. */
	return (high << 32) + low;
#elif defined(__aarch64__)
	uint64_t now;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
	return now;
#else
	return ticks_clock_ns();
#endif
}

/* Stores ticks_now(). That is two instructions less than with "=": the halves
 * as they come. */
static inline void ticks_store(uint64_t *to)
{
#if defined(__x86_64__)
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	memcpy(to, &low, sizeof(low));
	memcpy((char *)to + sizeof(low), &high, sizeof(high));
#else
	*to = ticks_now();
#endif
}

/* The nanoseconds of @ticks, a difference. */
static inline double ticks_exact_ns(uint64_t ticks)
{
	/* The compiler's conversion of a signed number is shorter. */
	return (double)(int64_t)ticks * ticks_tick_ns;
}

static inline uint64_t ticks_ns(uint64_t ticks)
{
	return (uint64_t)ticks_exact_ns(ticks);
}

static inline uint64_t ticks_of_ns(uint64_t ns)
{
	return (uint64_t)((double)ns / ticks_tick_ns);
}

#endif
