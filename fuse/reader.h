/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads requests from /dev/fuse. Where the kernel can (Linux 6.9) a read waits
 * on the reactor's ring, so that a program which has one request at a time costs
 * no system call for each. When it has brought one and more are in flight, the
 * next ones are read right away: readv() takes less time than a read on the
 * ring, and what comes meanwhile is answered together.
 *
 * The ring gets the read at the end of a turn, behind the sends of the commands
 * that the turn has made: so the target has them while the kernel copies the
 * next request, or arms its wait for one.
 *
 * After a large one the next is copied by a thread of the kernel's (IOSQE_ASYNC),
 * while this one sends. It has the plain file: to get at a registered one it
 * would have to wait for the lock that this one holds while it sends.
 *
 * Elsewhere a poll waits on the ring, and the first one is read by readv() as
 * well.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_READER_H
#define FUSE_READER_H

#include <stdbool.h>

#include "base/reactor.h"

struct dev;

/* Part of a device; private. */
struct reader {
	struct dev *dev;
	struct reactor *reactor;
	struct reactor_poller turn_end;
	struct reactor_op poll;
	struct reactor_op *waiting; /* a read or the poll, NULL: none */
	bool by_ring;
	bool large; /* the last request was */
	bool stopped;
};

void reader_start(struct reader *rd, struct dev *dev, struct reactor *reactor);

/* The kernel can read on the ring without a thread of its own. */
void reader_use_ring(struct reader *rd);

/* A read that waits may still bring a request. */
void reader_stop(struct reader *rd);

/* After reader_stop(): nothing will come any more. */
bool reader_idle(const struct reader *rd);

#endif
