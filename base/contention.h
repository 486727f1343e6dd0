/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether other threads want the CPU that this thread polls on. A thread that polls
 * while they wait takes CPU time from them, and perhaps from the very peer whose
 * answer it waits for. It should sleep instead.
 *
 * The measure: a span of time in which the thread never slept, less the CPU time
 * that it got in the span (CLOCK_THREAD_CPUTIME_ID). What is missing went to others:
 * the kernel preempted the thread, or the cgroup's cpu.max was used up. This counts
 * only CPUs that the thread may use, and needs no file, which a sandbox may hide.
 * The kernel has the same number in /proc/self/schedstat (run delay), but
 * that file is per thread, needs CONFIG_SCHED_INFO, and also counts wake-ups.
 * The load of the machine (/proc/loadavg) and its pressure (/proc/pressure/cpu)
 * count threads that run on other CPUs.
 *
 * A thread that sleeps cannot tell, because a waking thread gets a CPU soon, busy or
 * not. So the answer holds for CONTENTION_HOLD_MS, and then the thread may poll
 * again. On a busy CPU it finds out within about 15 ms of polling.
 *
 * A system call that blocks also counts as missing CPU time. That does no harm: the
 * thread sleeps sooner for a while.
 *
 * Thread: the one that polls.
 */
#ifndef BASE_CONTENTION_H
#define BASE_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* The CPU clock is a system call: one in so many looks reads it. Odd, because what
 * happens between two looks often alternates between two kinds. */
#define CONTENTION_SAMPLE 13

/* One part in so many may be missing: interrupts, kernel threads. */
#define CONTENTION_SLACK 10

/* Others want the CPU when so much time is missing, beyond the slack. It is more
 * than the kernel lets one other thread run at a time (3 to 4 ms), and one span
 * counts for at most half of it, so that one event is not enough. */
#define CONTENTION_LIMIT_US 5000

#define CONTENTION_HOLD_MS 1000

struct contention {
	bool is;
	unsigned int looks;
	uint64_t wall_us; /* when the present span began; 0: there is none */
	uint64_t cpu_us;  /* CPU time of the thread then */
	uint64_t missing_us;
	uint64_t until_us; /* while is */
};

/* Ends the present span, if there is one, and begins the next. @now_us: a clock
 * that is exact to some milliseconds, the same one for all functions. */
void contention_measure(struct contention *c, uint64_t now_us);

/* One span of @wall_us, with @cpu_us of CPU time: what contention_measure() does
 * with it. */
void contention_add(struct contention *c, uint64_t now_us, uint64_t wall_us,
		    uint64_t cpu_us);

/* The thread is about to poll. */
static inline void contention_look(struct contention *c, uint64_t now_us)
{
	if (++c->looks % CONTENTION_SAMPLE == 0)
		contention_measure(c, now_us);
}

/* The thread is about to sleep: ends the span. Only while c->wall_us is not 0. */
static inline void contention_sleep(struct contention *c, uint64_t now_us)
{
	contention_measure(c, now_us);
	c->wall_us = 0;
}

/* Ends the contention after CONTENTION_HOLD_MS. Only while c->is. */
static inline void contention_expire(struct contention *c, uint64_t now_us)
{
	if (now_us >= c->until_us)
		c->is = false;
}

#endif
