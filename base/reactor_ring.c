/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor_internal.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

/* Completions taken from the ring at a time. */
#define BATCH 32

/*
 * Submits, and lets the kernel make deferred completions. -EBUSY and -EAGAIN
 * (completions overflow; no memory for requests) are temporary: entries that
 * were not submitted stay queued, and the loop comes back after it has handled
 * completions.
 */
static int reactor_enter(struct reactor *r)
{
	int ret;

	r->stats.enters++;
	if (io_uring_sq_ready(&r->ring))
		ret = io_uring_submit_and_get_events(&r->ring);
	else
		ret = io_uring_get_events(&r->ring);
	if (ret == -EBUSY || ret == -EAGAIN || ret == -EINTR)
		return 0;
	return ret < 0 ? ret : 0;
}

/* Avoids the system call if there is nothing to submit and the kernel holds no
 * completions back (deferred, or too many for the ring). */
int reactor_enter_if_needed(struct reactor *r)
{
	unsigned int flags = IO_URING_READ_ONCE(*r->ring.sq.kflags);

	if (io_uring_sq_ready(&r->ring) ||
	    (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)))
		return reactor_enter(r);
	return 0;
}

/* Submits and sleeps until there is a completion. */
int reactor_enter_and_wait(struct reactor *r, uint64_t until_us)
{
	struct __kernel_timespec ts;
	struct io_uring_cqe *cqe;
	uint64_t now;
	int ret;

	/* One tick more: the coarse clock must have reached the time, too. */
	if (until_us != NO_DEADLINE) {
		now = reactor_coarse_us(r);
		reactor_timespec(
			&ts, until_us > now ? until_us - now + r->tick_us : 0);
	}
	r->stats.enters++;
	r->stats.sleeps++;
	ret = io_uring_submit_and_wait_timeout(
		&r->ring, &cqe, 1, until_us != NO_DEADLINE ? &ts : NULL, NULL);
	if (ret == -ETIME || ret == -EINTR || ret == -EBUSY || ret == -EAGAIN)
		return 0;
	return ret < 0 ? ret : 0;
}

void reactor_sqe_reserve(struct reactor *r, unsigned int cnt)
{
	int ret;

	assert(cnt <= r->ring.sq.ring_entries);
	while (io_uring_sq_space_left(&r->ring) < cnt) {
		/* Nothing can be submitted before the reactor runs. */
		assert(r->enabled);
		r->stats.enters++;
		ret = io_uring_submit(&r->ring);
		/* The kernel has no memory for requests until others give some
		 * back. */
		if (ret == -EAGAIN || ret == -EBUSY)
			sched_yield();
		else if (ret < 0 && ret != -EINTR)
			abort(); /* our mistake: another thread called this,
				  * or the ring is broken */
	}
}

void reactor_submit(struct reactor *r)
{
	if (r->enabled && io_uring_sq_ready(&r->ring))
		reactor_sqe_reserve(r, r->ring.sq.ring_entries);
}

struct io_uring_sqe *reactor_sqe(struct reactor *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	if (!sqe) {
		reactor_sqe_reserve(r, 1);
		sqe = io_uring_get_sqe(&r->ring);
	}
	/* liburing 2.3 leaves the user data of the last use in the entry. */
	io_uring_sqe_set_data(sqe, NULL);
	return sqe;
}

void reactor_cancel(struct reactor *r, struct reactor_op *op)
{
	io_uring_prep_cancel(reactor_sqe(r), op, 0);
}

/* True if the completion was work, and not for the reactor itself. */
static bool reactor_run_done(struct reactor *r, const struct io_uring_cqe *cqe)
{
	struct reactor_op *op = io_uring_cqe_get_data(cqe);

	if (!op)
		return false;
	op->done(op, cqe->res, cqe->flags);
	return op != &r->wake && op != &r->alarm;
}

/*
 * Copies the entries and gives them back before any handler runs. A handler may
 * fill the submission queue, which makes the kernel add completions: these then
 * find room. At most the size of the ring is handled, so that pollers get their
 * turn.
 */
unsigned int reactor_run_completions(struct reactor *r)
{
	unsigned int ready = io_uring_cq_ready(&r->ring);
	struct io_uring_cqe batch[BATCH];
	struct io_uring_cqe *cqe;
	unsigned int done = 0;
	unsigned int head;
	unsigned int n;

	while (ready) {
		n = 0;
		io_uring_for_each_cqe(&r->ring, head, cqe)
		{
			batch[n++] = *cqe;
			if (n == BATCH || n == ready)
				break;
		}
		io_uring_cq_advance(&r->ring, n);
		ready -= n;
		for (unsigned int i = 0; i < n; i++)
			done += reactor_run_done(r, &batch[i]);
	}
	r->stats.completions += done;
	return done;
}

bool reactor_polls_first(const struct reactor *r)
{
	return r->polls_first;
}
