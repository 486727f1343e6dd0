/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which requests for data run, and which wait: a volume whose target does not
 * answer must not have all slots and all commands of the session.
 *
 * In a mount of several volumes, one gets as many as it likes as long as it
 * leaves a third of what it has: of 64 one volume has 48 at most, a second one
 * 12, and so on. One that has none gets one as long as there are any. Requests
 * that wait are moved to slots without registered memory (spares, slots.h), and
 * run in the order in which they came, the volumes in turn. In a mount of one
 * volume nothing waits here but what was read into a spare.
 *
 * Over io_uring a request waits in its entry, as it can be nowhere else.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_FAIR_QUEUE_H
#define FUSE_FAIR_QUEUE_H

#include <stdbool.h>

#include "base/list.h"

struct dev;
struct slot;

/* Of one volume. */
struct volume_queue {
	struct list node;    /* of fair_queue.waiting */
	struct list waiting; /* slots, by age */
	unsigned int running;
};

/* Of a device. */
struct fair_queue {
	unsigned int depth; /* requests that may run */
	bool alone;	    /* there is one volume */
	unsigned int running;
	struct list
		waiting; /* struct volume_queue with slots that wait, in turn */
	bool resuming;
	bool closed;
};

/* @depth: commands that the session may have in flight */
void fair_queue_init(struct fair_queue *q, unsigned int depth,
		     unsigned int volumes);
void volume_queue_init(struct volume_queue *v);

/*
 * Calls @start when the request in @slot, of slot->file, may run: now or later,
 * maybe with another slot, which has registered memory and the request's
 * headers, payload, file, fh and arg. After fair_queue_close() it is called at once,
 * with any slot, and must not use the session: see fair_queue.closed.
 */
void fair_queue_run(struct slot *slot, void (*start)(struct slot *slot));

/* The request in @slot has ended. */
void fair_queue_leave(struct slot *slot);

/* Starts what may run now: a slot is free, or a request has ended. */
void fair_queue_resume(struct dev *dev);

/* The session goes: starts all that waits. */
void fair_queue_close(struct dev *dev);

#endif
