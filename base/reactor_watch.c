/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor_internal.h"

#include <poll.h>

static void reactor_watch_arm(struct reactor_watch *w)
{
	struct io_uring_sqe *sqe = reactor_sqe(w->reactor);

	io_uring_prep_poll_multishot(sqe, w->fd, w->events);
	reactor_prep_done(sqe, &w->op);
	w->armed = true;
}

static void reactor_watch_done(struct reactor_op *op, int res,
			       unsigned int cqe_flags)
{
	struct reactor_watch *w = container_of(op, struct reactor_watch, op);

	if (!(cqe_flags & IORING_CQE_F_MORE))
		w->armed = false;
	if (w->stopping) {
		if (!w->armed && w->stopped)
			w->stopped(w);
		return;
	}
	if (res < 0) {
		w->ready(w, POLLERR | POLLNVAL);
		return;
	}
	/* The kernel ends a multishot poll when the completion queue is full. A
	 * new poll checks the file first, so no edge is lost. */
	if (!w->armed)
		reactor_watch_arm(w);
	w->ready(w, (uint32_t)res);
}

void reactor_watch_start(struct reactor *r, struct reactor_watch *w)
{
	w->op.done = reactor_watch_done;
	w->reactor = r;
	w->stopping = false;
	reactor_watch_arm(w);
}

void reactor_watch_stop(struct reactor_watch *w)
{
	struct io_uring_sqe *sqe;

	if (w->stopping)
		return;
	w->stopping = true;
	sqe = reactor_sqe(w->reactor);
	if (!w->armed) {
		/* Nothing would complete by itself, so this completes at
		 * once. */
		io_uring_prep_nop(sqe);
		reactor_prep_done(sqe, &w->op);
		return;
	}
	/* Not POLL_REMOVE: while an event is being delivered, that fails with
	 * EALREADY and leaves the poll unchanged (Linux 6.1, io_uring/poll.c,
	 * io_poll_disarm()). Cancelling marks the poll in any case. */
	io_uring_prep_cancel(sqe, &w->op, 0);
}
