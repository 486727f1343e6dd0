/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/watchdog.h"

#include <stdio.h>

#include "target/port/request.h"

/* The oldest work in flight on a channel. */
struct oldest {
	const struct request *req; /* NULL: an IU that the channel sends on
				    * its own, if any */
	uint64_t waited_us;
	/* others have waited too long for its blocks or its memory */
	struct request *awaited;
};

static bool watchdog_is_read(const struct request *req)
{
	return req->state == REQUEST_READING || req->state == REQUEST_FETCHING;
}

static unsigned int watchdog_period_ms(const struct worker *w)
{
	return (w->rdma_timeout_ms + 3) / 4;
}

/* At least this time has passed since an event that is only known to lie between the
 * check at @since and the next one. */
static uint64_t watchdog_passed_us(const struct worker *w, uint64_t since)
{
	uint64_t now = reactor_now_us(w->reactor);

	since += watchdog_period_ms(w) * 1000ull;
	return now > since ? now - since : 0;
}

/* Since the post and since the last completion. */
static uint64_t watchdog_waited_us(const struct channel *ch, enum watched what,
				   uint64_t posted_us)
{
	uint64_t since = ch->progress_us[what];

	return watchdog_passed_us(ch->worker,
				  since < posted_us ? posted_us : since);
}

static bool watchdog_has_memory_for_others(const struct request *req)
{
	const struct worker *w = req->worker;

	return req->block &&
	       arena_is_awaited(w->arena,
				&req->ch->nexus->shares[w->index].data);
}

/* Half of the timeout, so that those who wait do not time out. */
static bool watchdog_is_in_the_way(struct request *req)
{
	const struct worker *w = req->worker;

	return watchdog_passed_us(w, req->posted_us) >=
		       w->rdma_timeout_ms * 500ull &&
	       (block_owner_is_awaited(&req->task.blk.owner) ||
		watchdog_has_memory_for_others(req));
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
		struct request *req = container_of(it, struct request, node);
		uint64_t us;

		if (!watchdog_is_read(req) && req->state != REQUEST_RESPONDING)
			continue;
		any = true;
		us = watchdog_waited_us(
			ch, watchdog_is_read(req) ? WATCHED_READ : WATCHED_SEND,
			req->posted_us);
		if (us > ret->waited_us) {
			ret->req = req;
			ret->waited_us = us;
		}
		if (!ret->awaited && watchdog_is_in_the_way(req))
			ret->awaited = req;
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

static void watchdog_close(struct channel *ch, const char *why)
{
	channel_complain(ch, "%s; closing", why);
	channel_close(ch, why);
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
	watchdog_close(ch, why);
}

/* The data of @req is in the memory of the volume, or of the worker, and moves too
 * slowly. */
static void watchdog_make_way(struct channel *ch, const struct request *req)
{
	const struct scsi_task *task = &req->task;
	char what[120] = "memory";
	char why[240];

	if (!req->block)
		snprintf(what, sizeof(what),
			 "blocks from LBA %llu on of volume '%s'",
			 (unsigned long long)task->cmd.lba, task->vol->name);
	snprintf(why, sizeof(why),
		 "the initiator is too slow: others wait for %s, whose data it "
		 "has not %s for %u s",
		 what, watchdog_is_read(req) ? "sent" : "taken",
		 ch->worker->rdma_timeout_ms / 2000);
	watchdog_close(ch, why);
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
	if (oldest.awaited) {
		watchdog_make_way(ch, oldest.awaited);
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
	struct list *it;

	ch->unasked.posted_us = now;
	list_for_each(it, &ch->requests.busy)
		container_of(it, struct request, node)->posted_us = now;
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
