/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/block_lock.h"

#include <assert.h>

/* Runs @msg on @to: at once if the caller runs there. */
static void block_lock_tell(const struct block_worker *from,
			    const struct block_worker *to,
			    struct reactor_msg *msg,
			    void (*run)(struct reactor_msg *msg))
{
	msg->run = run;
	if (from == to)
		run(msg);
	else
		reactor_send(to->reactor, msg);
}

/* ---- the ranges of a worker ---- */

static void block_lock_closed(struct reactor_msg *msg);

static void block_lock_report_closed(struct block_ranges *ranges)
{
	block_lock_tell(ranges->worker, ranges->locks->granter,
			&ranges->close_msg, block_lock_closed);
}

static void block_lock_close(struct reactor_msg *msg)
{
	struct block_ranges *ranges =
		container_of(msg, struct block_ranges, close_msg);
	const struct block_hold *by = ranges->locks->current;
	struct list *it;

	ranges->closed_begin = by->begin;
	ranges->closed_end = by->end;
	ranges->left = 0;
	list_for_each(it, &ranges->in_use)
		ranges->left += block_hold_is_shut_out(
			ranges, container_of(it, struct block_hold, node));
	if (!ranges->left)
		block_lock_report_closed(ranges);
}

/* held() of a hold may close the ranges again. */
static void block_lock_open(struct reactor_msg *msg)
{
	struct block_ranges *ranges =
		container_of(msg, struct block_ranges, open_msg);
	struct list woken;

	ranges->closed_begin = 0;
	ranges->closed_end = 0;
	list_init(&woken);
	while (!list_empty(&ranges->waiting)) {
		struct list *first = ranges->waiting.next;

		list_del(first);
		list_add_tail(&woken, first);
	}
	while (!list_empty(&woken)) {
		struct block_hold *hold =
			container_of(woken.next, struct block_hold, node);

		list_del(&hold->node);
		if (block_hold_is_shut_out(ranges, hold)) {
			list_add_tail(&ranges->waiting, &hold->node);
			continue;
		}
		hold->state = BLOCK_HOLD_HELD;
		list_add_tail(&ranges->in_use, &hold->node);
		hold->held(hold);
	}
}

static void block_lock_drop_shared(struct block_ranges *ranges,
				   struct block_hold *hold)
{
	bool was_held = hold->state == BLOCK_HOLD_HELD;

	list_del(&hold->node);
	hold->state = BLOCK_HOLD_NONE;
	if (was_held && ranges->left && block_hold_is_shut_out(ranges, hold) &&
	    !--ranges->left)
		block_lock_report_closed(ranges);
}

/* ---- the granter ---- */

static void exclusive_held(struct reactor_msg *msg)
{
	struct block_hold *hold = container_of(msg, struct block_hold, msg);

	hold->state = BLOCK_HOLD_HELD;
	hold->held(hold);
}

static void block_lock_close_all(struct block_locks *locks)
{
	locks->workers_left = 1; /* this function's own */
	for (unsigned int i = 0; i < BLOCK_WORKERS_MAX; i++) {
		struct block_ranges *ranges = &locks->ranges[i];

		if (!ranges->worker)
			continue;
		locks->workers_left++;
		block_lock_tell(locks->granter, ranges->worker,
				&ranges->close_msg, block_lock_close);
	}
}

static void block_lock_count_closed(struct block_locks *locks)
{
	struct block_hold *hold = locks->current;

	if (--locks->workers_left == 0)
		block_lock_tell(locks->granter, hold->ranges->worker,
				&hold->msg, exclusive_held);
}

static void block_lock_closed(struct reactor_msg *msg)
{
	block_lock_count_closed(
		container_of(msg, struct block_ranges, close_msg)->locks);
}

/* Not from within: if holds are taken and dropped at once, one after the other,
 * the stack must not grow. */
static void block_lock_choose_next(struct block_locks *locks)
{
	if (locks->choosing)
		return;
	locks->choosing = true;
	while (!locks->current && !list_empty(&locks->queue)) {
		struct list *first = locks->queue.next;

		list_del(first);
		locks->current = container_of(first, struct block_hold, node);
		block_lock_close_all(locks);
		block_lock_count_closed(locks);
	}
	locks->choosing = false;
}

static void block_lock_queue(struct reactor_msg *msg)
{
	struct block_hold *hold = container_of(msg, struct block_hold, msg);
	struct block_locks *locks = hold->ranges->locks;

	list_add_tail(&locks->queue, &hold->node);
	block_lock_choose_next(locks);
}

/* The hold belongs to its owner again, which may have reused it. */
static void block_lock_dropped(struct reactor_msg *msg)
{
	struct block_locks *locks =
		container_of(msg, struct block_locks, drop_msg);

	for (unsigned int i = 0; i < BLOCK_WORKERS_MAX; i++) {
		struct block_ranges *ranges = &locks->ranges[i];

		if (ranges->worker)
			block_lock_tell(locks->granter, ranges->worker,
					&ranges->open_msg, block_lock_open);
	}
	locks->current = NULL;
	block_lock_choose_next(locks);
}

/* ---- holds ---- */

void block_locks_init(struct block_locks *locks)
{
	*locks = (struct block_locks){ 0 };
	list_init(&locks->queue);
}

void block_locks_attach(struct block_locks *locks, struct block_worker *w)
{
	struct block_ranges *ranges = &locks->ranges[w->index];

	ranges->locks = locks;
	ranges->worker = w;
	list_init(&ranges->in_use);
	list_init(&ranges->waiting);
	if (!locks->granter)
		locks->granter = w;
}

void block_locks_detach(struct block_locks *locks, struct block_worker *w)
{
	struct block_ranges *ranges = &locks->ranges[w->index];

	assert(!ranges->worker ||
	       (list_empty(&ranges->in_use) && list_empty(&ranges->waiting)));
	ranges->worker = NULL;
}

bool block_hold_wait(struct block_hold *hold)
{
	struct block_ranges *ranges = hold->ranges;

	hold->state = BLOCK_HOLD_WAITS;
	if (hold->exclusive)
		block_lock_tell(ranges->worker, ranges->locks->granter,
				&hold->msg, block_lock_queue);
	else
		list_add_tail(&ranges->waiting, &hold->node);
	return false;
}

void block_hold_end(struct block_hold *hold)
{
	struct block_ranges *ranges = hold->ranges;

	if (!hold->exclusive) {
		block_lock_drop_shared(ranges, hold);
		return;
	}
	assert(hold->state == BLOCK_HOLD_HELD);
	hold->state = BLOCK_HOLD_NONE;
	block_lock_tell(ranges->worker, ranges->locks->granter,
			&ranges->locks->drop_msg, block_lock_dropped);
}

static void drain_held(struct block_hold *hold)
{
	block_hold_drop(hold);
	hold->drained(hold);
}

void block_locks_drain(struct block_locks *locks, struct block_worker *w,
		       struct block_hold *hold,
		       void (*drained)(struct block_hold *hold))
{
	*hold = (struct block_hold){ .end = UINT64_MAX,
				     .exclusive = true,
				     .held = drain_held,
				     .drained = drained };
	block_hold_take(locks, w, hold);
}
