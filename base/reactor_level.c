/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor_level.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

/* The kernel checks the descriptor when a poll begins. So a poll for one event
 * that is started again after each event works by level. */
struct reactor_level {
	struct reactor_op op;
	struct list node; /* in the list of the reactor */
	struct reactor *reactor;
	int fd;
	uint32_t events; /* wanted */
	bool armed;	 /* the kernel polls */
	bool in_ready;
	bool removed;
	void (*ready)(void *user, uint32_t events);
	void *user;
};

static void level_free(struct reactor_level *l)
{
	list_del(&l->node);
	free(l);
}

static void level_arm(struct reactor_level *l)
{
	struct io_uring_sqe *sqe = reactor_sqe(l->reactor);

	io_uring_prep_poll_add(sqe, l->fd, l->events);
	reactor_prep_done(sqe, &l->op);
	l->armed = true;
}

static void level_tell(struct reactor_level *l, uint32_t events)
{
	l->in_ready = true;
	l->ready(l->user, events);
	l->in_ready = false;
}

/* The events for ready() after a poll that ended with @res. 0: none. */
static uint32_t level_news(struct reactor_level *l, int res)
{
	/* Cancelled (for other events), or paused meanwhile. */
	if (res == -ECANCELED || !l->events)
		return 0;
	if (res > 0)
		return (uint32_t)res & (l->events | POLLERR | POLLHUP);
	l->events = 0;
	return POLLERR | POLLNVAL;
}

static void level_done(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	struct reactor_level *l = container_of(op, struct reactor_level, op);
	uint32_t news = l->removed ? 0 : level_news(l, res);

	l->armed = false;
	if (news)
		level_tell(l, news);
	if (l->removed)
		level_free(l);
	else if (l->events)
		level_arm(l);
}

int reactor_level_add(struct reactor *r, int fd, uint32_t events,
		      void (*ready)(void *user, uint32_t events), void *user,
		      struct reactor_level **ret)
{
	struct reactor_level *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->op.done = level_done;
	l->reactor = r;
	l->fd = fd;
	l->events = events;
	l->ready = ready;
	l->user = user;
	list_add_tail(reactor_levels(r), &l->node);
	if (events)
		level_arm(l);
	*ret = l;
	return 0;
}

void reactor_level_set(struct reactor_level *l, uint32_t events)
{
	if (l->events == events)
		return;
	l->events = events;
	if (l->armed)
		reactor_cancel(l->reactor, &l->op);
	else if (events && !l->in_ready)
		level_arm(l);
}

void reactor_level_remove(struct reactor_level *l)
{
	l->removed = true;
	if (l->armed)
		reactor_cancel(l->reactor, &l->op);
	else if (!l->in_ready)
		level_free(l);
}

void reactor_levels_free(struct list *levels)
{
	while (!list_empty(levels))
		level_free(list_first(levels, struct reactor_level, node));
}
