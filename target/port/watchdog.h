/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sees to it that an initiator which has stopped without closing its connection
 * does not keep buffers for ever. A channel on which RDMA READs wait while none
 * is answered, or RDMA WRITEs and responses while none is taken, is closed
 * after the worker's rdma_timeout_ms, and a quarter of that at most. What the
 * disk takes does not count, and an initiator that is slow but gets on is left
 * alone.
 *
 * One timer per worker, which runs only while something is under way.
 * Thread: the worker.
 */
#ifndef TARGET_PORT_WATCHDOG_H
#define TARGET_PORT_WATCHDOG_H

#include "target/port/channel.h"

#define WATCHDOG_RDMA_TIMEOUT_MS 30000

/* What a channel has under way, by whom it waits for. */
enum watched {
	WATCHED_READ, /* the initiator's memory, by RDMA READ */
	WATCHED_SEND, /* RDMA WRITE, responses */
};

void watchdog_init(struct worker *w);
/* @w has nothing under way any more. */
void watchdog_stop(struct worker *w);

/* Something is about to be posted on @ch; returns the time, for whoever asks
 * later how long it has been. Microseconds. */
uint64_t watchdog_posted(struct channel *ch);
/* Something was done well. */
void watchdog_done(struct channel *ch, enum watched what);

#endif
