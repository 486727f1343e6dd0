/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/block_owner.h"

#include <assert.h>

void block_owners_init(struct block_owners *of)
{
	atomic_init(&of->given_up, 0);
	atomic_init(&of->asking, 0);
	for (unsigned int i = 0; i < BLOCK_STRIPES; i++) {
		pthread_mutex_init(&of->stripes[i].lock, NULL);
		list_init(&of->stripes[i].owners);
	}
	for (unsigned int i = 0; i < BLOCK_WORKERS_MAX; i++) {
		of->waits[i] = (struct block_waits){ .worker = NULL };
		list_init(&of->waits[i].waiting);
	}
}

void block_owners_fini(struct block_owners *of)
{
	for (unsigned int i = 0; i < BLOCK_STRIPES; i++) {
		assert(list_empty(&of->stripes[i].owners));
		pthread_mutex_destroy(&of->stripes[i].lock);
	}
}

/* ---- stripes ---- */

static unsigned int owner_stripe(uint64_t at)
{
	return (unsigned int)(at / BLOCK_STRIPE_LEN) % BLOCK_STRIPES;
}

static struct block_stripe *owner_first(const struct block_owner *owner)
{
	return &owner->of->stripes[owner_stripe(owner->begin)];
}

static struct block_stripe *owner_last(const struct block_owner *owner)
{
	return &owner->of->stripes[owner_stripe(owner->end - 1)];
}

/* Everybody takes the locks of two stripes in the order of their addresses. */
static void owner_lock(const struct block_owner *owner)
{
	struct block_stripe *a = owner_first(owner);
	struct block_stripe *b = owner_last(owner);

	if (a > b) {
		struct block_stripe *c = a;

		a = b;
		b = c;
	}
	pthread_mutex_lock(&a->lock);
	if (a != b)
		pthread_mutex_lock(&b->lock);
}

static void owner_unlock(const struct block_owner *owner)
{
	struct block_stripe *a = owner_first(owner);
	struct block_stripe *b = owner_last(owner);

	pthread_mutex_unlock(&a->lock);
	if (a != b)
		pthread_mutex_unlock(&b->lock);
}

static void owner_enter(struct block_owner *owner)
{
	struct block_stripe *in[2] = { owner_first(owner), owner_last(owner) };

	owner->place_cnt = in[0] == in[1] ? 1 : 2;
	for (unsigned int i = 0; i < owner->place_cnt; i++) {
		owner->places[i].owner = owner;
		list_add_tail(&in[i]->owners, &owner->places[i].node);
	}
}

static void owner_leave(struct block_owner *owner)
{
	for (unsigned int i = 0; i < owner->place_cnt; i++)
		list_del(&owner->places[i].node);
}

static bool owners_meet(const struct block_owner *a,
			const struct block_owner *b)
{
	return a->begin < b->end && b->begin < a->end;
}

/* Whether @later, which meets @earlier, must wait for it. */
static bool owner_is_in_the_way(const struct block_owner *earlier,
				const struct block_owner *later)
{
	if (earlier->state == BLOCK_OWNER_ASKS)
		return false;
	return later->reads ? earlier->given_up : !earlier->reads;
}

/* Those that ask see that it passes them, unless they came by the same connection: then
 * their sender has not given them up. One that sees it too early only asks again. The
 * locks are held. */
static bool owner_must_wait(const struct block_owner *owner)
{
	for (unsigned int i = 0; i < owner->place_cnt; i++) {
		const struct list *it = owner->places[i].node.prev;
		const struct block_stripe *s =
			i ? owner_last(owner) : owner_first(owner);

		for (; it != &s->owners; it = it->prev) {
			struct block_owner *earlier =
				container_of(it, struct block_owner_place, node)
					->owner;

			if (!owners_meet(earlier, owner))
				continue;
			if (owner_is_in_the_way(earlier, owner))
				return true;
			earlier->passed |= earlier->sender != owner->sender;
		}
	}
	return false;
}

static struct block_waits *owner_waits(const struct block_owner *owner)
{
	return &owner->of->waits[owner->worker->index];
}

/* @owner is about to go: those behind it look again. The locks are held. */
static void owner_tell_later(const struct block_owner *owner)
{
	for (unsigned int i = 0; i < owner->place_cnt; i++) {
		const struct block_stripe *s =
			i ? owner_last(owner) : owner_first(owner);
		const struct list *it = owner->places[i].node.next;

		for (; it != &s->owners; it = it->next) {
			const struct block_owner *later =
				container_of(it, struct block_owner_place, node)
					->owner;

			if (later->state == BLOCK_OWNER_WAITS &&
			    owners_meet(owner, later) &&
			    owner_is_in_the_way(owner, later) &&
			    !atomic_exchange(&owner_waits(later)->told, true))
				reactor_send(later->worker->reactor,
					     &owner_waits(later)->msg);
		}
	}
}

/* ---- signs of life ---- */

/* A sign that was asked for before it asks does not count. */
static void sender_ask_for(struct block_owner *owner)
{
	struct block_sender *sender = owner->sender;

	if (!list_empty(&sender->asking)) {
		list_add_tail(&sender->later, &owner->wait_node);
		return;
	}
	list_add_tail(&sender->asking, &owner->wait_node);
	sender->ask(sender);
}

/* Others may pass it from now on, before its sender is asked. */
static __attribute__((noinline)) void owner_ask(struct block_owner *owner)
{
	if (owner->place_cnt) {
		owner_lock(owner);
		owner_tell_later(owner);
		owner->asks = true;
		owner->heard = owner->passed = false;
		owner->state = BLOCK_OWNER_ASKS;
		atomic_fetch_add(&owner->of->asking, 1);
		owner_unlock(owner);
	} else {
		owner->state = BLOCK_OWNER_ASKS;
	}
	sender_ask_for(owner);
}

/* False: it asks. */
static inline bool owner_is_heard(struct block_owner *owner)
{
	struct block_sender *sender = owner->sender;

	if (owner->reads || owner->heard || !sender || sender->lives(sender))
		return true;
	owner_ask(owner);
	return false;
}

/* ---- waiting ---- */

static void owner_stop_asking(struct block_owner *owner)
{
	if (!owner->asks)
		return;
	owner->asks = false;
	owner->heard &= !owner->passed;
	atomic_fetch_sub(&owner->of->asking, 1);
}

static void owner_get(struct block_owner *owner)
{
	owner->state = BLOCK_OWNER_HAS;
	owner_stop_asking(owner);
}

static bool owner_looks(struct block_owner *owner)
{
	bool waits;

	owner_lock(owner);
	waits = owner_must_wait(owner);
	if (!waits)
		owner_get(owner);
	owner_unlock(owner);
	return !waits;
}

/* Something that was in the way has gone. has() of one may end others. */
static void owner_look_again(struct reactor_msg *msg)
{
	struct block_waits *waits = container_of(msg, struct block_waits, msg);
	struct list ready;
	struct list *it;
	struct list *tmp;

	/* First: who goes after the look tells it again. */
	atomic_store(&waits->told, false);
	list_init(&ready);
	list_for_each_safe(it, tmp, &waits->waiting) {
		if (!owner_looks(
			    container_of(it, struct block_owner, wait_node)))
			continue;
		list_del(it);
		list_add_tail(&ready, it);
	}
	while ((it = list_pop(&ready))) {
		struct block_owner *owner =
			container_of(it, struct block_owner, wait_node);

		if (owner_is_heard(owner))
			owner->has(owner);
	}
}

static void owner_wait(struct block_owner *owner)
{
	struct block_waits *waits = owner_waits(owner);

	if (!waits->worker) {
		waits->worker = owner->worker;
		waits->msg.run = owner_look_again;
	}
	list_add_tail(&waits->waiting, &owner->wait_node);
}

/* Another thread may tell it as soon as the locks are free. */
static void owner_get_or_wait(struct block_owner *owner)
{
	if (owner_must_wait(owner)) {
		owner->state = BLOCK_OWNER_WAITS;
		owner_wait(owner);
	} else {
		owner_get(owner);
	}
}

/* ---- the functions of the header ---- */

bool block_owner_hear(struct block_owner *owner,
		      void (*heard)(struct block_owner *owner))
{
	owner->place_cnt = 0;
	owner->reads = owner->heard = false;
	owner->has = heard;
	list_init(&owner->wait_node);
	return owner_is_heard(owner);
}

void block_sender_init(struct block_sender *sender,
		       bool (*lives)(struct block_sender *sender),
		       void (*ask)(struct block_sender *sender))
{
	sender->lives = lives;
	sender->ask = ask;
	list_init(&sender->asking);
	list_init(&sender->later);
}

/* True: the sign counts. Otherwise it is behind those that have passed it, and asks. */
static bool owner_was_heard(struct block_owner *owner)
{
	owner_lock(owner);
	owner->heard = !owner->passed;
	owner->passed = false;
	if (owner->heard) {
		owner_get_or_wait(owner);
	} else {
		owner_leave(owner);
		owner_enter(owner);
	}
	owner_unlock(owner);
	if (!owner->heard)
		sender_ask_for(owner);
	return owner->state == BLOCK_OWNER_HAS;
}

/* It has no blocks, so it is nothing if it does not ask. */
static bool owner_without_blocks_was_heard(struct block_owner *owner)
{
	owner->state = BLOCK_OWNER_NONE;
	return true;
}

/* has() of one may end others. */
void block_sender_heard(struct block_sender *sender)
{
	struct list heard = LIST_INIT(heard);
	struct list *it;

	list_splice_tail(&heard, &sender->asking);
	list_splice_tail(&sender->asking, &sender->later);
	if (!list_empty(&sender->asking))
		sender->ask(sender);
	while ((it = list_pop(&heard))) {
		struct block_owner *owner =
			container_of(it, struct block_owner, wait_node);

		if (owner->place_cnt ? owner_was_heard(owner)
				     : owner_without_blocks_was_heard(owner))
			owner->has(owner);
	}
}

bool block_owner_take(struct block_owners *of, struct block_worker *w,
		      struct block_owner *owner)
{
	assert(owner->state == BLOCK_OWNER_NONE && owner->begin < owner->end &&
	       owner->end - owner->begin <= BLOCK_STRIPE_LEN);
	owner->of = of;
	owner->worker = w;
	owner->given_up = owner->asks = owner->heard = false;
	list_init(&owner->wait_node);
	owner_lock(owner);
	owner_enter(owner);
	owner_get_or_wait(owner);
	owner_unlock(owner);
	return owner->state == BLOCK_OWNER_HAS && owner_is_heard(owner);
}

void block_owner_end(struct block_owner *owner)
{
	list_del(&owner->wait_node);
	if (!owner->place_cnt) {
		owner->state = BLOCK_OWNER_NONE;
		return;
	}
	owner_lock(owner);
	owner_tell_later(owner);
	owner_leave(owner);
	if (owner->given_up)
		atomic_fetch_sub(&owner->of->given_up, 1);
	owner_stop_asking(owner);
	owner->state = BLOCK_OWNER_NONE;
	owner_unlock(owner);
}

bool block_owner_give_up(struct block_owner *owner)
{
	if (owner->state != BLOCK_OWNER_HAS || owner->reads)
		return false;
	if (owner->given_up)
		return true;
	owner_lock(owner);
	owner->given_up = true;
	atomic_fetch_add(&owner->of->given_up, 1);
	owner_unlock(owner);
	return true;
}
