/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether more threads want to run than there are CPUs for them. A thread that
 * polls then takes CPU time from the thread whose answer it waits for, or from
 * others. It should sleep instead.
 *
 * There are two rules. Each looks once in CONTENTION_SAMPLE of the times that
 * the reactor has nothing to do.
 *
 * If the process may use all CPUs of the machine, the load of the machine
 * decides: how many threads run or are ready to (/proc/loadavg). One number
 * says little, because it also counts threads that were woken for a moment. So
 * the rule sums up the excess over the CPUs, less a little each time, between
 * two limits. At the upper limit there is contention, until the sum is at the
 * lower limit. The rule works no matter whether this thread and its peer poll:
 * on two CPUs, at depth 1 over TCP, some 2.0 threads are ready when both poll
 * and 1.0 to 1.8 when neither does; beside one busy program 2.1 to 3.3 and 2.8
 * to 3.5. Without the file there is never contention.
 *
 * If the process may use only some CPUs (sched_setaffinity(), a cpuset), that
 * number counts threads on CPUs that do not matter, and there is none for some
 * CPUs. Then the CPU time that this thread lacks decides: the time for which it
 * did not sleep, less the CPU time that it got in it. A thread that sleeps gets
 * a CPU soon after it wakes, contention or not. So the answer then holds for
 * CONTENTION_HOLD_MS. Beside a busy program this rule is worse than the first
 * where both can be used: a thread and its peer may lack unequally.
 *
 * Which CPUs the process may use is looked at once, by contention_init().
 *
 * Thread: the one that polls.
 */
#ifndef BASE_CONTENTION_H
#define BASE_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* Odd, because what happens between two looks often alternates between two
 * kinds. */
#define CONTENTION_SAMPLE 13

/* In tenths of a thread: the excess that does not count while there is no
 * contention, and while there is. In contention nobody polls, and more threads
 * are woken for a moment. */
#define CONTENTION_SLACK    2
#define CONTENTION_SLACK_IS 6
#define CONTENTION_LIMIT    60 /* of the sum */

/* CPU time may be lacking for one part in so many: interrupts, kernel
 * threads. */
#define CONTENTION_LACK_SLACK 10
/* More than the kernel lets one other thread run at a time (3 to 4 ms). One
 * span counts for at most half of it, so that one event is not enough. */
#define CONTENTION_LACK_US 5000
#define CONTENTION_HOLD_MS 1000

struct contention {
	bool is;
	bool on_some; /* of the CPUs; constant */
	unsigned int times;

	/* the load of the machine */
	int fd; /* /proc/loadavg; -1: there is none */
	int processors;
	int excess; /* tenths of a thread, from -LIMIT to LIMIT */

	/* the CPU time that the thread lacks, if on_some */
	uint64_t wall_us; /* when the present span began; 0: there is none */
	uint64_t cpu_us;  /* CPU time of the thread then */
	uint64_t lack_us;
	uint64_t until_us; /* while is */
};

void contention_init(struct contention *c);
void contention_close(struct contention *c);

/* There is nothing to do: perhaps the time to look. */
void contention_look(struct contention *c);

/* The thread is about to sleep: ends the present span. */
void contention_sleep(struct contention *c);

/* What contention_look() does with the number of threads that are ready ... */
void contention_add(struct contention *c, int ready);
/* ... with a span of @wall_us that ends @now_us, in which the thread got
 * @cpu_us ... */
void contention_add_span(struct contention *c, uint64_t now_us,
			 uint64_t wall_us, uint64_t cpu_us);
/* ... and when CONTENTION_HOLD_MS may be over. */
void contention_expire(struct contention *c, uint64_t now_us);

#endif
