/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/reader.h"

#include <errno.h>
#include <poll.h>
#include <sys/uio.h>

#include "fuse/dev.h"
#include "fuse/slots.h"

/* Requests read in one turn; then the reactor handles completions. */
#define READ_BUDGET 64
/* A thread of the kernel copies longer requests, while this one sends. */
#define LARGE_MIN (192u << 10)

/* @res: the length of the request in @slot, or a negative errno. */
static void reader_read_ended(struct reader *rd, struct slot *slot, int res)
{
	if (res > 0) {
		rd->large = (size_t)res >= LARGE_MIN && !rd->alone;
		dev_request(slot, (size_t)res);
		return;
	}
	slots_put(dev_slots(rd->dev), slot);
	/* The kernel could not make a thread (RLIMIT_NPROC, pids.max). */
	if (res == -ECANCELED) {
		rd->large = false;
		rd->alone = true;
	}
	/* ENOENT: the kernel cancelled the request while it was read. */
	if (res && res != -EAGAIN && res != -EINTR && res != -ENOENT &&
	    res != -ECANCELED)
		dev_failed(rd->dev, res);
}

/* ---- at once ---- */

/* False: there was no request. */
static bool reader_read_one(struct reader *rd)
{
	struct slot *slot = slots_take_for_request(dev_slots(rd->dev));
	ssize_t n;

	if (!slot)
		return false;
	dev_slot_parts(slot, slot->transfer.parts);
	do
		n = readv(dev_fd(rd->dev), slot->transfer.parts, 2);
	while (n < 0 && (errno == EINTR || errno == ENOENT));
	reader_read_ended(rd, slot, n < 0 ? -errno : (int)n);
	return n > 0;
}

/* If only one request is in flight, its program most likely has no other one. */
static void reader_read_rest(struct reader *rd)
{
	for (int n = 1; n < READ_BUDGET; n++) {
		if (rd->stopped || rd->large || dev_busy(rd->dev) < 2 ||
		    !reader_read_one(rd))
			return;
	}
}

/* ---- on the ring ---- */

static void reader_read_done(struct reactor_op *op, int res, unsigned int flags)
{
	struct slot *slot = container_of(op, struct slot, transfer.op);
	struct reader *rd = dev_reader(slot->dev);

	rd->waiting = NULL;
	reader_read_ended(rd, slot, res);
	reader_read_rest(rd);
}

static void reader_wait_for_request(struct reader *rd, struct slot *slot)
{
	struct io_uring_sqe *sqe = reactor_sqe(rd->reactor);

	dev_slot_parts(slot, slot->transfer.parts);
	io_uring_prep_readv(sqe, dev_fd(rd->dev), slot->transfer.parts, 2, 0);
	if (rd->large)
		sqe->flags |= IOSQE_ASYNC;
	else
		dev_prep_file(rd->dev, sqe);
	slot->transfer.op.done = reader_read_done;
	reactor_prep_done(sqe, &slot->transfer.op);
	rd->waiting = &slot->transfer.op;
}

static void reader_poll_done(struct reactor_op *op, int res, unsigned int flags)
{
	struct reader *rd = container_of(op, struct reader, poll);

	rd->waiting = NULL;
	if (!rd->stopped && reader_read_one(rd))
		reader_read_rest(rd);
}

static void reader_wait_for_device(struct reader *rd)
{
	struct io_uring_sqe *sqe = reactor_sqe(rd->reactor);

	io_uring_prep_poll_add(sqe, dev_fd(rd->dev), POLLIN);
	rd->poll.done = reader_poll_done;
	reactor_prep_done(sqe, &rd->poll);
	rd->waiting = &rd->poll;
}

/* ---- both ---- */

/* Called at the end of a turn, after the commands of the turn are queued. */
static bool reader_read_more(struct reactor_poller *p)
{
	struct reader *rd = container_of(p, struct reader, turn_end);
	struct slot *slot =
		rd->waiting ? NULL : slots_take_for_request(dev_slots(rd->dev));

	if (!slot)
		return false;
	if (rd->by_ring) {
		reader_wait_for_request(rd, slot);
		return false;
	}
	slots_put(dev_slots(rd->dev), slot);
	reader_wait_for_device(rd);
	return false;
}

void reader_use_ring(struct reader *rd)
{
	rd->by_ring = true;
}

void reader_start(struct reader *rd, struct dev *dev, struct reactor *reactor)
{
	*rd = (struct reader){ .dev = dev, .reactor = reactor };
	rd->turn_end.flush = reader_read_more;
	reactor_poller_add(reactor, &rd->turn_end);
}

void reader_stop(struct reader *rd)
{
	rd->stopped = true;
	reactor_poller_remove(rd->reactor, &rd->turn_end);
	if (rd->waiting)
		reactor_cancel(rd->reactor, rd->waiting);
}

bool reader_idle(const struct reader *rd)
{
	return !rd->waiting;
}
