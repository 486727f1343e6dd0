/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/block_lock.h"

#include <assert.h>

/* Runs @msg on @to: at once when that is where we are. */
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

/* ---- a worker's book ---- */

static bool is_closed(const struct block_book *book,
		      const struct block_hold *hold)
{
	return hold->begin < book->closed_end && book->closed_begin < hold->end;
}

static void book_closed(struct reactor_msg *msg);

static void say_closed(struct block_book *book)
{
	block_lock_tell(book->worker, book->locks->keeper, &book->close_msg,
			book_closed);
}

static void close_book(struct reactor_msg *msg)
{
	struct block_book *book =
		container_of(msg, struct block_book, close_msg);
	const struct block_hold *by = book->locks->current;
	struct list *it;

	book->closed_begin = by->begin;
	book->closed_end = by->end;
	book->left = 0;
	list_for_each(it, &book->in_use)
		book->left += is_closed(
			book, container_of(it, struct block_hold, node));
	if (!book->left)
		say_closed(book);
}

static void share(struct block_book *book, struct block_hold *hold)
{
	hold->state = BLOCK_HOLD_HELD;
	list_add_tail(&book->in_use, &hold->node);
}

/* A hold's held() may close the book anew. */
static void open_book(struct reactor_msg *msg)
{
	struct block_book *book =
		container_of(msg, struct block_book, open_msg);
	struct list woken;

	book->closed_begin = 0;
	book->closed_end = 0;
	list_init(&woken);
	while (!list_empty(&book->waiting)) {
		struct list *first = book->waiting.next;

		list_del(first);
		list_add_tail(&woken, first);
	}
	while (!list_empty(&woken)) {
		struct block_hold *hold =
			container_of(woken.next, struct block_hold, node);

		list_del(&hold->node);
		if (is_closed(book, hold)) {
			list_add_tail(&book->waiting, &hold->node);
			continue;
		}
		share(book, hold);
		hold->held(hold);
	}
}

static bool take_shared(struct block_book *book, struct block_hold *hold)
{
	if (!is_closed(book, hold)) {
		share(book, hold);
		return true;
	}
	hold->state = BLOCK_HOLD_WAITS;
	list_add_tail(&book->waiting, &hold->node);
	return false;
}

static void drop_shared(struct block_book *book, struct block_hold *hold)
{
	bool was_held = hold->state == BLOCK_HOLD_HELD;

	list_del(&hold->node);
	hold->state = BLOCK_HOLD_NONE;
	if (was_held && book->left && is_closed(book, hold) && !--book->left)
		say_closed(book);
}

/* ---- the keeper ---- */

static void exclusive_held(struct reactor_msg *msg)
{
	struct block_hold *hold = container_of(msg, struct block_hold, msg);

	hold->state = BLOCK_HOLD_HELD;
	hold->held(hold);
}

static void close_books(struct block_locks *locks)
{
	locks->books_left = 1; /* this function's own */
	for (unsigned int i = 0; i < BLOCK_WORKERS_MAX; i++) {
		struct block_book *book = &locks->books[i];

		if (!book->worker)
			continue;
		locks->books_left++;
		block_lock_tell(locks->keeper, book->worker, &book->close_msg,
				close_book);
	}
}

static void count_closed(struct block_locks *locks)
{
	struct block_hold *hold = locks->current;

	if (--locks->books_left == 0)
		block_lock_tell(locks->keeper, hold->worker, &hold->msg,
				exclusive_held);
}

static void book_closed(struct reactor_msg *msg)
{
	count_closed(container_of(msg, struct block_book, close_msg)->locks);
}

/* Not within itself: a hold that is taken and dropped at once, and the next
 * one, and so on, must not make the stack grow. */
static void choose_next(struct block_locks *locks)
{
	if (locks->choosing)
		return;
	locks->choosing = true;
	while (!locks->current && !list_empty(&locks->queue)) {
		struct list *first = locks->queue.next;

		list_del(first);
		locks->current = container_of(first, struct block_hold, node);
		close_books(locks);
		count_closed(locks);
	}
	locks->choosing = false;
}

static void queue_exclusive(struct reactor_msg *msg)
{
	struct block_hold *hold = container_of(msg, struct block_hold, msg);

	list_add_tail(&hold->locks->queue, &hold->node);
	choose_next(hold->locks);
}

/* The hold itself is its owner's again, who may have reused it. */
static void dropped(struct reactor_msg *msg)
{
	struct block_locks *locks =
		container_of(msg, struct block_locks, drop_msg);

	for (unsigned int i = 0; i < BLOCK_WORKERS_MAX; i++) {
		struct block_book *book = &locks->books[i];

		if (book->worker)
			block_lock_tell(locks->keeper, book->worker,
					&book->open_msg, open_book);
	}
	locks->current = NULL;
	choose_next(locks);
}

/* ---- holds ---- */

void block_locks_init(struct block_locks *locks)
{
	*locks = (struct block_locks){ 0 };
	list_init(&locks->queue);
}

void block_locks_attach(struct block_locks *locks, struct block_worker *w)
{
	struct block_book *book = &locks->books[w->index];

	book->locks = locks;
	book->worker = w;
	list_init(&book->in_use);
	list_init(&book->waiting);
	if (!locks->keeper)
		locks->keeper = w;
}

void block_locks_detach(struct block_locks *locks, struct block_worker *w)
{
	struct block_book *book = &locks->books[w->index];

	assert(!book->worker ||
	       (list_empty(&book->in_use) && list_empty(&book->waiting)));
	book->worker = NULL;
}

bool block_hold_take(struct block_locks *locks, struct block_worker *w,
		     struct block_hold *hold)
{
	assert(hold->state == BLOCK_HOLD_NONE);
	hold->locks = locks;
	hold->worker = w;
	if (!hold->exclusive)
		return take_shared(&locks->books[w->index], hold);
	hold->state = BLOCK_HOLD_WAITS;
	block_lock_tell(w, locks->keeper, &hold->msg, queue_exclusive);
	return false;
}

void block_hold_drop(struct block_hold *hold)
{
	if (hold->state == BLOCK_HOLD_NONE)
		return;
	if (!hold->exclusive) {
		drop_shared(&hold->locks->books[hold->worker->index], hold);
		return;
	}
	assert(hold->state == BLOCK_HOLD_HELD);
	hold->state = BLOCK_HOLD_NONE;
	block_lock_tell(hold->worker, hold->locks->keeper,
			&hold->locks->drop_msg, dropped);
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
