/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/ticks.h"

/* The thread may be interrupted between two readings; the closest ones count. */
#define TICKS_TRIES 16

double ticks_tick_ns = 1;

#if defined(__x86_64__) || defined(__aarch64__)

/* Both clocks at the same moment. */
struct ticks_moment {
	uint64_t ticks;
	uint64_t ns;
};

static struct ticks_moment ticks_read_both(void)
{
	struct ticks_moment best = { 0 };
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < TICKS_TRIES; i++) {
		uint64_t before = ticks_now();
		uint64_t ns = ticks_clock_ns();
		uint64_t took = ticks_now() - before;

		if (took >= shortest)
			continue;
		shortest = took;
		best = (struct ticks_moment){ before + took / 2, ns };
	}
	return best;
}

void ticks_init(void)
{
	const struct timespec ms2 = { .tv_nsec = 2000000 };
	struct ticks_moment from = ticks_read_both();
	struct ticks_moment to;

	nanosleep(&ms2, NULL);
	to = ticks_read_both();
	if (to.ticks > from.ticks && to.ns > from.ns)
		ticks_tick_ns = (double)(to.ns - from.ns) /
				(double)(to.ticks - from.ticks);
}

#else

void ticks_init(void)
{
}

#endif
