/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closes channels whose initiator has stopped without closing the connection,
 * because it would keep its buffers forever. The watchdog closes a channel if
 * RDMA READs wait, or RDMA WRITEs and responses wait, and none of them
 * completes for the worker's rdma_timeout_ms (plus at most a quarter of it).
 * The time that the disk needs does not count. A slow initiator that makes
 * progress stays connected. If the target itself was stopped, the time counts
 * from its continuation.
 *
 * RDMA may move the data of a command to or from the memory of the volume, and the blocks
 * belong to the command meanwhile (block_owner.h). If others wait for them, it has half
 * of the time, progress or not, before the channel is closed. The same holds for a buffer
 * while initiators of other hosts and principals wait for memory. So there is a lowest rate:
 * the data of a command within that time.
 *
 * Each worker has one timer, which runs only while something is in flight.
 * Thread: the worker.
 */
#ifndef TARGET_PORT_WATCHDOG_H
#define TARGET_PORT_WATCHDOG_H

#include "config/option_limits.h"
#include "target/port/channel.h"

/* Work in flight on a channel, by the kind of wait. */
enum watched {
	WATCHED_READ, /* the initiator's memory, by RDMA READ */
	WATCHED_SEND, /* RDMA WRITE, responses */
};

void watchdog_init(struct worker *w);
/* Call this when @w has nothing in flight any more. */
void watchdog_stop(struct worker *w);

/* For watchdog_posted(): @w has something in flight again. */
void watchdog_start(struct worker *w);

/* Call this before each post on @ch. Return: the value to store as the time of
 * the post, in microseconds. It is the time of the watchdog's last check: the
 * data path does not read the clock. */
static inline uint64_t watchdog_posted(struct channel *ch)
{
	if (!ch->worker->watching)
		watchdog_start(ch->worker);
	return ch->worker->looked_us;
}
/* Call this when a chain of @ch has completed without an error. */
static inline void watchdog_done(struct channel *ch, enum watched what)
{
	ch->progress_us[what] = ch->worker->looked_us;
}

#endif
