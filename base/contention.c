/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/contention.h"

#include <time.h>

static uint64_t contention_clock_us(clockid_t clock)
{
	struct timespec ts = { 0 };

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void contention_measure(struct contention *c, uint64_t now_us)
{
	/* In this order: a preemption between the two belongs to the next. */
	uint64_t wall = contention_clock_us(CLOCK_MONOTONIC);
	uint64_t cpu = contention_clock_us(CLOCK_THREAD_CPUTIME_ID);

	if (c->wall_us)
		contention_add(c, now_us, wall - c->wall_us, cpu - c->cpu_us);
	c->wall_us = wall;
	c->cpu_us = cpu;
}

void contention_add(struct contention *c, uint64_t now_us, uint64_t wall_us,
		    uint64_t cpu_us)
{
	uint64_t missing = wall_us > cpu_us ? wall_us - cpu_us : 0;
	uint64_t slack = cpu_us / CONTENTION_SLACK;

	if (c->is)
		return;
	if (missing > CONTENTION_LIMIT_US / 2)
		missing = CONTENTION_LIMIT_US / 2;
	c->missing_us += missing;
	c->missing_us -= slack < c->missing_us ? slack : c->missing_us;
	if (c->missing_us < CONTENTION_LIMIT_US)
		return;
	c->missing_us = 0;
	c->is = true;
	c->until_us = now_us + CONTENTION_HOLD_MS * 1000;
}
