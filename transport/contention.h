/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether others need the processor that a thread polls on. The kernel counts how
 * long each thread had to wait for a processor (/proc/thread-self/schedstat, which
 * is there in all kernels with CONFIG_SCHED_INFO). Who polls while others are
 * ready to run uses its share up, has to wait when there is something to do, and
 * lets its peer, which waits for it, poll in vain as well: better it slept.
 *
 * Looked at are spans from one time that the thread has nothing to do to the next,
 * one in CONTENTION_SAMPLE, as a look at both ends is four system calls. In each the
 * thread polls or sleeps, gets a processor, and does what there is. A wait of less
 * than CONTENTION_LONG_NS does not count: that is for who works with us, like the
 * program that we answer. When of CONTENTION_KNOWN_NS looked at, running and
 * waiting, more than a quarter was waiting, processors are contended for. That is
 * taken to last for CONTENTION_HOLD_US; then each span is looked at until it is
 * known again. So it is of the thread alone, and does not depend on whether its
 * peer polls.
 *
 * Without that file nothing is ever contended for.
 *
 * Thread: the one that is looked at.
 */
#ifndef TRANSPORT_CONTENTION_H
#define TRANSPORT_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* Odd, for spans of two kinds often take turns. */
#define CONTENTION_SAMPLE   13
#define CONTENTION_LONG_NS  30000
#define CONTENTION_KNOWN_NS 8000000
#define CONTENTION_HOLD_US  300000

/* Of a thread, since it began; nanoseconds. */
struct cpu_use {
	uint64_t ran;
	uint64_t waited; /* for a processor, ready to run */
};

struct contention {
	int fd;	      /* schedstat of the thread; -1: not open */
	bool looking; /* at the span that goes on */
	bool found;   /* contention, when last known */
	unsigned int spans;
	struct cpu_use begin; /* of the span */
	struct cpu_use sum;   /* of spans since last known */
	uint64_t until_us;
};

void contention_init(struct contention *c);
/* Can be called again. Another thread may go on with it. */
void contention_close(struct contention *c);

/* There is nothing to do, @now_us: one span ends and the next begins. */
void contention_span(struct contention *c, uint64_t now_us);

/* A span ended, of this use: the part of contention_span() that needs no thread. */
void contention_add(struct contention *c, struct cpu_use use, uint64_t now_us);

/* Never before the first span. */
bool contention_is(const struct contention *c, uint64_t now_us);

#endif
