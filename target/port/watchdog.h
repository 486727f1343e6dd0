/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closes channels whose initiator has stopped without closing the connection:
 * it would keep its buffers forever. The watchdog closes a channel if RDMA READs
 * wait and none completes, or RDMA WRITEs and responses wait and none completes,
 * for the worker's rdma_timeout_ms (plus a quarter of it at most). The time that
 * the disk takes does not count. A slow initiator that makes progress stays. If
 * the target itself was stopped, the time counts from then on.
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

/* Call before each post on @ch. Return: what to store as the time of the post, in
 * microseconds. It is that of the last look of the watchdog: the data path does
 * not ask for the time. */
uint64_t watchdog_posted(struct channel *ch);
/* A chain of @ch has completed without an error. */
void watchdog_done(struct channel *ch, enum watched what);

#endif
