/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads requests from /dev/fuse.
 *
 * From Linux 6.9 on, a read waits on the ring of the reactor. A program with one
 * request at a time then needs no extra system call for each request. If other
 * requests are in flight when the read completes, readv() reads the next ones at
 * once: it takes less time than a read on the ring, and their answers leave
 * together.
 *
 * The read is submitted at the end of a turn, after the commands of the turn. The
 * target then works on them while the kernel copies the next request, or
 * prepares to wait for one.
 *
 * After a large request, a thread of the kernel copies the next one
 * (IOSQE_ASYNC), while this thread sends. That read uses the plain file
 * descriptor: for a registered file, the kernel's thread needs a lock that this
 * thread holds while it sends.
 *
 * Before Linux 6.9, a poll waits on the ring, and readv() reads all requests.
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
	bool large; /* the last request was large */
	bool alone; /* no thread of the kernel can be had */
	bool stopped;
};

void reader_start(struct reader *rd, struct dev *dev, struct reactor *reactor);

/* The kernel can read on the ring without a thread of its own (Linux 6.9). */
void reader_use_ring(struct reader *rd);

/* A read that waits may still return a request. */
void reader_stop(struct reader *rd);

/* After reader_stop(): no request comes any more. */
bool reader_idle(const struct reader *rd);

#endif
