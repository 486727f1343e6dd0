/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether more want to run than there are processors. Then who polls keeps a
 * processor from whom it waits for, or makes others, who have no part in it, keep
 * one; better it slept.
 *
 * The kernel tells how many threads run or are ready to (/proc/loadavg). One number
 * says little: whoever is roused at this moment counts, too. So of one in
 * CONTENTION_SAMPLE of the times that the reactor has nothing to do the excess over
 * the processors is summed up, between two limits, less a little each time.
 * At the upper limit processors are contended for, until it is at the lower. It
 * does not matter whether the thread or its peer poll: on two processors, at
 * depth 1 over TCP, some 2.0 are ready to run when both do and 1.0 to 1.8 when
 * neither does, and beside one busy program 2.1 to 3.3 and 2.8 to 3.5.
 *
 * Without that file nothing is ever contended for. Processors are those of the machine,
 * as are the threads: who may use but some of them is not told apart.
 *
 * Thread: any one.
 */
#ifndef BASE_CONTENTION_H
#define BASE_CONTENTION_H

#include <stdbool.h>

/* Odd, for what happens between two times is often of two kinds in turns. */
#define CONTENTION_SAMPLE 13
/* In tenths of a thread: the excess that does not count when processors were not
 * contended for, and when they were. Then we do not poll, and more are roused, who are
 * ready for a moment each. */
#define CONTENTION_SLACK    2
#define CONTENTION_SLACK_IS 6
#define CONTENTION_LIMIT    60 /* of the sum */

struct contention {
	int fd; /* /proc/loadavg; -1: there is none */
	unsigned int times;
	int processors;
	int excess; /* tenths of a thread, from -LIMIT to LIMIT */
	bool is;
};

void contention_init(struct contention *c);
void contention_close(struct contention *c);

/* There is nothing to do: perhaps the time to look how many are ready to run. */
void contention_look(struct contention *c);

/* That many are: what contention_look() does with it. */
void contention_add(struct contention *c, int ready);

#endif
