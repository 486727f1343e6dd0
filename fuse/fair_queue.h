/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fair queue of a device: requests for data wait here until they may run. If a
 * volume does not answer, the queue leaves slots and commands of the session to
 * the other volumes.
 *
 * For each free command, a volume may have three running requests: of 64
 * commands, one volume gets at most 48, a second one 12, and so on. A
 * volume without running requests always gets one, if a command is free. The
 * queue moves requests that wait to spares: slots without registered memory
 * (slots.h). It starts the requests of a volume in their order, and serves the
 * volumes in turn. In a mount of one volume, only requests in spares wait.
 *
 * Over io_uring, a request that waits stays in its entry.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_FAIR_QUEUE_H
#define FUSE_FAIR_QUEUE_H

#include <stdbool.h>

#include "base/list.h"

struct dev;
struct slot;

/* The requests of one volume. */
struct volume_queue {
	struct list node;    /* of fair_queue.waiting */
	struct list waiting; /* slots, by age */
	unsigned int running;
};

/* The requests of a device. */
struct fair_queue {
	unsigned int depth; /* requests that may run */
	bool alone;	    /* there is only one volume */
	unsigned int running;
	struct list
		waiting; /* struct volume_queue with slots that wait, in turn */
	bool resuming;
	bool closed;
};

/* @depth: commands that the session may have in flight. */
void fair_queue_init(struct fair_queue *q, unsigned int depth,
		     unsigned int volumes);
/* Volumes have come or gone. */
void fair_queue_set_volumes(struct fair_queue *q, unsigned int volumes);
void volume_queue_init(struct volume_queue *v);

/*
 * Calls @start when the request in @slot may run: from within or later. The
 * request may then be in another slot, which has registered memory. Its headers,
 * payload, file, fh and work.arg move with it. After fair_queue_close(), @start
 * is called at once, with any slot; it sees fair_queue.closed and must not use
 * the session.
 */
void fair_queue_run(struct slot *slot, void (*start)(struct slot *slot));

/* The request in @slot has ended. */
void fair_queue_leave(struct slot *slot);

/* Starts the requests that may run now. Call this when a request has ended. */
void fair_queue_resume(struct dev *dev);

/* Starts all requests that wait: the session is about to be closed. */
void fair_queue_close(struct dev *dev);

#endif
