/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A limit of time for a server, which counts only while this process runs. After a
 * stop (SIGSTOP, a machine that was paused), answers may lie in the socket unread,
 * and the server may have been stopped as well: it is not to blame.
 *
 * The time is counted in ticks of a timer. A tick that comes late by a whole tick or
 * more does not count, at most TICKS times: on a machine where all ticks come late, the
 * limit passes, too. So it does when it is so short that timers cannot be exact. The
 * limit has passed after TICKS ticks and two more: the first one may be short, and what
 * has come since the last one may not have been read. So an answer that comes in time is
 * never too late, and the limit is at most an eighth longer than it says if no tick is
 * late.
 *
 * Thread: the worker of the queue.
 */
#ifndef NBD_LIMIT_H
#define NBD_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma_block_plugin.h>

struct nbdlimit {
	struct rbp_timer *timer;
	void (*passed)(void *user);
	void *user;
	uint64_t tick_ms;
	uint64_t due_ms;    /* nbdlink_now_ms() at which the next tick is due */
	unsigned int ticks; /* that count, since the begin */
	unsigned int late;  /* that do not count, since the begin */
	bool is_ticking;    /* the timer is set */
	bool is_on;	    /* between the begin and the end */
};

/* Calls @passed when @ms have passed since the begin. -ENOMEM: not added. */
int nbdlimit_add(struct nbdlimit *l, struct rbp_queue *queue, uint64_t ms,
		 void (*passed)(void *user), void *user);

/* Also for one that was not added, zeroed. */
void nbdlimit_del(struct nbdlimit *l);

/* Begins, or begins anew. */
void nbdlimit_begin(struct nbdlimit *l);

/* passed() is not called any more. When it is called, this was done before. */
void nbdlimit_end(struct nbdlimit *l);

#endif
