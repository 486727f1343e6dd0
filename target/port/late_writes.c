/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/late_writes.h"

#include "base/ticks.h"
#include "target/port/channel.h"
#include "target/port/request.h"
#include "target/scsi/orphans.h"

/* UNMAP may take long, and holds all blocks of its volume. Others cannot wait
 * for that. Of a copy, the store has one piece. */
static bool late_writes_is_late(const struct request *req, uint64_t now)
{
	uint64_t since =
		req->task.copies ? req->task.piece_ticks : request_arrived(req);

	return req->task.hold.end != UINT64_MAX &&
	       now - since > ticks_of_ns(LATE_WRITES_MS * 1000000ull);
}

/* True: the disk has commands of @ch. */
static bool late_writes_look_at(struct channel *ch, uint64_t now)
{
	unsigned int cnt = 0;
	bool any = false;
	struct list *it;

	list_for_each(it, &ch->requests.busy) {
		struct request *req = container_of(it, struct request, node);

		if (req->state != REQUEST_EXECUTING)
			continue;
		any = true;
		if (late_writes_is_late(req, now))
			cnt += orphans_add(&req->task);
	}
	if (cnt)
		log_info("channel %u: stores have had %u of its writes for "
			 "more than %d ms; later writes to the same blocks "
			 "wait",
			 ch->number, cnt, LATE_WRITES_MS);
	return any;
}

static void late_writes_look(struct reactor_timer *t)
{
	struct worker *w = container_of(t, struct worker, late_writes);
	uint64_t now = ticks_now();
	bool any = false;
	struct list *it;

	list_for_each(it, &w->channels)
		any |= late_writes_look_at(
			container_of(it, struct channel, worker_node), now);
	w->watches_writes = false;
	if (any)
		late_writes_start(w);
}

void late_writes_start(struct worker *w)
{
	reactor_timer_set(w->reactor, &w->late_writes, LATE_WRITES_MS / 2);
	w->watches_writes = true;
}

void late_writes_init(struct worker *w)
{
	reactor_timer_init(&w->late_writes, late_writes_look);
}

void late_writes_stop(struct worker *w)
{
	reactor_timer_stop(&w->late_writes);
	w->watches_writes = false;
}
