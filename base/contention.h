/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells whether more threads want to run than there are CPUs for them. A thread
 * that polls then takes CPU time from the thread whose answer it waits for, or
 * from others. It should sleep instead.
 *
 * There are two rules. Each checks once in CONTENTION_SAMPLE of the times that
 * the reactor has nothing to do.
 *
 * If the process may use all CPUs of the machine, the load of the machine
 * decides: how many threads run or are ready to run (/proc/loadavg). One such
 * number says little, because it also counts threads that were woken for a
 * moment. So the rule adds up the excess over the number of CPUs, less a little
 * each time, between two limits. Contention begins when the sum is at the upper
 * limit, and ends when it is at the lower limit. The rule works whether or not
 * this thread and its peer poll. On two CPUs, at depth 1 over TCP, about 2.0
 * threads are ready when both poll, and 1.0 to 2.0 when neither does; beside
 * one busy program, 3.0 to 3.1 and 3.3 to 3.5. Without the file there is never
 * contention.
 *
 * A thread that works for this one is no contention, but the number counts it.
 * The kernel's thread that writes to a file for the target (io-wq) wakes the
 * target, which then polls in its place: the kernel's thread stays ready until
 * the target sleeps. So 2.4 threads are ready when both ends poll and the
 * commands are such writes. As many are ready during reads beside a program that
 * is busy for half of the time. Polling makes those writes faster, and slows
 * down reads beside a program. The number does not tell the two apart, but the
 * command does: if a helper may execute it, contention_helped() is called.
 *
 * If the process may use only some CPUs (sched_setaffinity(), a cpuset), the
 * number also counts threads on other CPUs, and there is none for some CPUs.
 * Then the CPU time that this thread lacks decides: the time for which it did
 * not sleep, less the CPU time that it got. With or without contention, a
 * thread that sleeps gets a CPU soon after it wakes. So the result holds for
 * CONTENTION_HOLD_MS. Beside a busy program, this rule is worse than the first
 * one: a thread and its peer may lack different amounts of time.
 *
 * contention_init() checks once which CPUs the process may use.
 *
 * Thread: the one that polls.
 */
#ifndef BASE_CONTENTION_H
#define BASE_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* Odd, because often every other check finds the same. */
#define CONTENTION_SAMPLE 13

/* In tenths of a thread: the excess that does not count while there is no
 * contention, with and without a helper, and while there is. During contention
 * nobody polls, and more threads are woken for a moment. */
#define CONTENTION_SLACK	2
#define CONTENTION_SLACK_HELPED 9
#define CONTENTION_SLACK_IS	6
#define CONTENTION_LIMIT	60 /* of the sum */

/* The CPU time may lack this part (one in so many) for other reasons:
 * interrupts, kernel threads. */
#define CONTENTION_LACK_SLACK 10
/* More than the kernel lets one other thread run at a time (3 to 4 ms). A span
 * counts for at most half of this, so that one event is not enough. */
#define CONTENTION_LACK_US 5000
#define CONTENTION_HOLD_MS 1000

struct contention {
	bool is;
	bool on_some; /* of the CPUs; constant */
	bool helped;  /* maybe, since the last check */
	unsigned int times;

	/* the load of the machine */
	int fd; /* /proc/loadavg; -1: there is none */
	int processors;
	int excess; /* tenths of a thread, from -LIMIT to LIMIT */

	/* the CPU time that the thread lacks, if on_some */
	uint64_t wall_us; /* when the current span began; 0: there is none */
	uint64_t cpu_us;  /* CPU time of the thread then */
	uint64_t lack_us;
	uint64_t until_us; /* while is */
};

void contention_init(struct contention *c);
void contention_close(struct contention *c);

/* Call when there is nothing to do and one command or answer is awaited. Checks
 * now and then. */
void contention_look(struct contention *c);

/* Call for a command that another thread, such as io-wq, may execute. */
static inline void contention_helped(struct contention *c)
{
	c->helped = true;
}

/* Call before the thread sleeps: ends the current span. */
void contention_sleep(struct contention *c);

/* For contention_look() and tests. Takes the number of threads that are
 * ready. */
void contention_add(struct contention *c, int ready);
/* Takes a span of @wall_us that ends at @now_us, in which the thread got
 * @cpu_us. */
void contention_add_span(struct contention *c, uint64_t now_us,
			 uint64_t wall_us, uint64_t cpu_us);
/* Ends the contention if CONTENTION_HOLD_MS is over. */
void contention_expire(struct contention *c, uint64_t now_us);

#endif
