/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor_internal.h"

#include <assert.h>

void reactor_poller_add(struct reactor *r, struct reactor_poller *p)
{
	assert(!p->poll == !p->arm);
	r->polled += p->poll != NULL;
	list_add_tail(&r->pollers, &p->node);
}

void reactor_poller_remove(struct reactor *r, struct reactor_poller *p)
{
	if (r->next_poller == &p->node)
		r->next_poller = p->node.next;
	r->polled -= p->poll != NULL;
	list_del(&p->node);
}

/*
 * Walks over the pollers. Handlers may remove any of them meanwhile:
 * reactor_poller_remove() moves r->next_poller on. There is one walk at a time.
 */
static struct reactor_poller *reactor_walk_next(struct reactor *r)
{
	struct list *node = r->next_poller;

	if (node == &r->pollers)
		return NULL;
	r->next_poller = node->next;
	return container_of(node, struct reactor_poller, node);
}

static struct reactor_poller *reactor_walk_first(struct reactor *r)
{
	r->next_poller = r->pollers.next;
	return reactor_walk_next(r);
}

unsigned int reactor_poll_all(struct reactor *r)
{
	struct reactor_poller *p;
	unsigned int done = 0;

	for (p = reactor_walk_first(r); p; p = reactor_walk_next(r)) {
		if (p->poll)
			done += p->poll(p);
	}
	return done;
}

bool reactor_arm_all(struct reactor *r)
{
	struct reactor_poller *p;
	bool armed = true;

	for (p = reactor_walk_first(r); p && armed; p = reactor_walk_next(r)) {
		if (p->arm)
			armed = p->arm(p);
	}
	return armed;
}

/* Returns how many of the pollers made work. */
unsigned int reactor_flush_all(struct reactor *r)
{
	struct reactor_poller *p;
	unsigned int more = 0;

	for (p = reactor_walk_first(r); p; p = reactor_walk_next(r)) {
		if (p->flush)
			more += p->flush(p);
	}
	return more;
}
