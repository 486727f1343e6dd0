/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/watchdog.h"

#include <stdio.h>

#include "target/port/request.h"

/* The oldest work in flight on a channel. */
struct oldest {
	const struct request *req; /* NULL: an IU that the channel sends on
				    * its own, if any */
	uint64_t waited_us;
};

static bool watchdog_is_read(const struct request *req)
{
	return req->state == REQUEST_READING || req->state == REQUEST_FETCHING;
}

static unsigned int watchdog_period_ms(const struct worker *w)
{
	return (w->rdma_timeout_ms + 3) / 4;
}

/* At least this time has passed since the post and since the last completion.
 * Both are known only to lie between two checks. */
static uint64_t watchdog_waited_us(const struct channel *ch, enum watched what,
				   uint64_t posted_us)
{
	uint64_t now = reactor_now_us(ch->worker->reactor);
	uint64_t since = ch->progress_us[what];

	if (since < posted_us)
		since = posted_us;
	since += watchdog_period_ms(ch->worker) * 1000ull;
	return now > since ? now - since : 0;
}

/* False: nothing is in flight. */
static bool watchdog_find_oldest(const struct channel *ch, struct oldest *ret)
{
	bool any = ch->unasked.posted;
	struct list *it;

	*ret = (struct oldest){ 0 };
	if (ch->unasked.posted)
		ret->waited_us = watchdog_waited_us(ch, WATCHED_SEND,
						    ch->unasked.posted_us);
	list_for_each(it, &ch->requests.busy) {
		const struct request *req =
			container_of(it, struct request, node);
		uint64_t us;

		if (!watchdog_is_read(req) && req->state != REQUEST_RESPONDING)
			continue;
		any = true;
		us = watchdog_waited_us(
			ch, watchdog_is_read(req) ? WATCHED_READ : WATCHED_SEND,
			req->posted_us);
		if (us > ret->waited_us)
			*ret = (struct oldest){ .req = req, .waited_us = us };
	}
	return any;
}

static const char *watchdog_what_waits(const struct request *req)
{
	if (!req)
		return "an SRP request of the target's";
	switch (req->state) {
	case REQUEST_READING:
		return "RDMA READ of a descriptor table";
	case REQUEST_FETCHING:
		return "RDMA READ of the data to write";
	default:
		return "a response";
	}
}

static void watchdog_give_up(struct channel *ch, const struct oldest *oldest)
{
	unsigned int s = (unsigned int)(oldest->waited_us / 1000000);
	char tag[64] = "";
	char why[160];

	if (oldest->req)
		snprintf(tag, sizeof(tag), " (tag %016llx)",
			 (unsigned long long)oldest->req->tag);
	snprintf(why, sizeof(why),
		 "the initiator has stopped: %s%s has been waiting for it for "
		 "%u s",
		 watchdog_what_waits(oldest->req), tag, s);
	channel_complain(ch, "%s; closing", why);
	channel_close(ch, why);
}

/* True: something is in flight. */
static bool watchdog_look_at(struct channel *ch)
{
	struct oldest oldest;

	if (!channel_can_answer(ch) || !watchdog_find_oldest(ch, &oldest))
		return false;
	if (oldest.waited_us >= ch->worker->rdma_timeout_ms * 1000ull) {
		watchdog_give_up(ch, &oldest);
		return false;
	}
	return true;
}

void watchdog_start(struct worker *w)
{
	reactor_timer_set(w->reactor, &w->watchdog, watchdog_period_ms(w));
	w->watching = true;
	w->looked_us = reactor_now_us(w->reactor);
}

/* A late check means that this process was stopped. Completions of that time
 * may not be known yet, and looked_us is far from the time of a post. */
static bool watchdog_is_late(const struct worker *w)
{
	return reactor_now_us(w->reactor) - w->looked_us >
	       2 * watchdog_period_ms(w) * 1000ull;
}

/* From now on the time of @ch counts again. */
static void watchdog_begin_again(struct channel *ch)
{
	uint64_t now = reactor_now_us(ch->worker->reactor);

	ch->progress_us[WATCHED_READ] = now;
	ch->progress_us[WATCHED_SEND] = now;
}

static void watchdog_look(struct reactor_timer *t)
{
	struct worker *w = container_of(t, struct worker, watchdog);
	bool late = watchdog_is_late(w);
	bool any = false;
	struct list *it;

	list_for_each(it, &w->channels) {
		struct channel *ch =
			container_of(it, struct channel, worker_node);

		if (late)
			watchdog_begin_again(ch);
		any |= watchdog_look_at(ch);
	}
	w->watching = false;
	if (any)
		watchdog_start(w);
}

void watchdog_init(struct worker *w)
{
	reactor_timer_init(&w->watchdog, watchdog_look);
}

void watchdog_stop(struct worker *w)
{
	reactor_timer_stop(&w->watchdog);
	w->watching = false;
}
