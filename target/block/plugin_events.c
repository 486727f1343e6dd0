/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/plugin_events.h"

#include <poll.h>
#include <stdlib.h>

#include "base/reactor_level.h"

struct rbp_watch {
	struct list node; /* of plugin_events.watches */
	struct reactor_level *level;
	void (*ready)(void *user, uint32_t what);
	void *user;
};

struct rbp_timer {
	struct list node; /* of plugin_events.timers */
	struct reactor *reactor;
	struct reactor_timer timer;
	void (*fire)(void *user);
	void *user;
};

/* ---- watches ---- */

static const struct {
	uint32_t plugin;
	uint32_t poll;
} watch_bits[] = {
	{ RBP_READABLE, POLLIN },
	{ RBP_WRITABLE, POLLOUT },
	{ RBP_BROKEN, POLLERR | POLLNVAL },
	{ RBP_HUNG_UP, POLLHUP },
};

static uint32_t to_poll(uint32_t what)
{
	return (what & RBP_READABLE ? POLLIN : 0) |
	       (what & RBP_WRITABLE ? POLLOUT : 0);
}

static void watch_told(void *user, uint32_t events)
{
	struct rbp_watch *w = user;
	uint32_t what = 0;

	for (size_t i = 0; i < ARRAY_SIZE(watch_bits); i++) {
		if (events & watch_bits[i].poll)
			what |= watch_bits[i].plugin;
	}
	w->ready(w->user, what);
}

struct rbp_watch *plugin_watch_add(struct plugin_events *events, int fd,
				   uint32_t what,
				   void (*ready)(void *user, uint32_t what),
				   void *user)
{
	struct rbp_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	if (reactor_level_add(events->reactor, fd, to_poll(what), watch_told, w,
			      &w->level)) {
		free(w);
		return NULL;
	}
	w->ready = ready;
	w->user = user;
	list_add_tail(&events->watches, &w->node);
	return w;
}

void plugin_watch_set(struct rbp_watch *watch, uint32_t what)
{
	reactor_level_set(watch->level, to_poll(what));
}

void plugin_watch_del(struct rbp_watch *watch)
{
	reactor_level_remove(watch->level);
	list_del(&watch->node);
	free(watch);
}

/* ---- timers ---- */

static void timer_fired(struct reactor_timer *timer)
{
	struct rbp_timer *t = container_of(timer, struct rbp_timer, timer);

	t->fire(t->user);
}

struct rbp_timer *plugin_timer_add(struct plugin_events *events,
				   void (*fire)(void *user), void *user)
{
	struct rbp_timer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->reactor = events->reactor;
	t->fire = fire;
	t->user = user;
	reactor_timer_init(&t->timer, timer_fired);
	list_add_tail(&events->timers, &t->node);
	return t;
}

void plugin_timer_set(struct rbp_timer *timer, uint64_t delay_ms)
{
	reactor_timer_set(timer->reactor, &timer->timer, delay_ms);
}

void plugin_timer_stop(struct rbp_timer *timer)
{
	reactor_timer_stop(&timer->timer);
}

void plugin_timer_del(struct rbp_timer *timer)
{
	reactor_timer_stop(&timer->timer);
	list_del(&timer->node);
	free(timer);
}

/* ---- the end of a turn ---- */

static bool turn_ended(struct reactor_poller *p)
{
	struct plugin_events *events =
		container_of(p, struct plugin_events, turn_end);
	unsigned int before = *events->ended;

	if (!events->has_submits)
		return false;
	events->has_submits = false;
	events->kick(events->v, events->queue_data);
	/* The answers to I/Os that have ended, and new submits, wait for
	 * another turn. */
	return events->has_submits || *events->ended != before;
}

void plugin_events_open(struct plugin_events *events, struct reactor *r,
			void (*kick)(void *v, void *queue_data), void *v,
			unsigned int *ended)
{
	events->reactor = r;
	events->kick = kick;
	events->v = v;
	events->ended = ended;
	list_init(&events->watches);
	list_init(&events->timers);
	events->turn_end.flush = turn_ended;
	if (kick)
		reactor_poller_add(r, &events->turn_end);
}

void plugin_events_close(struct plugin_events *events)
{
	while (!list_empty(&events->watches))
		plugin_watch_del(
			list_first(&events->watches, struct rbp_watch, node));
	while (!list_empty(&events->timers))
		plugin_timer_del(
			list_first(&events->timers, struct rbp_timer, node));
	if (events->kick)
		reactor_poller_remove(events->reactor, &events->turn_end);
}
