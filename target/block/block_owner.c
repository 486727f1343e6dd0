/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/block_owner.h"

#include <assert.h>

void block_owners_init(struct block_owners *of)
{
	atomic_init(&of->given_up, 0);
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

/* Whether @later must wait for @earlier. */
static bool owner_is_in_the_way(const struct block_owner *earlier,
				const struct block_owner *later)
{
	if (earlier->begin >= later->end || later->begin >= earlier->end)
		return false;
	return later->reads ? earlier->given_up : !earlier->reads;
}

/* The locks are held. */
static bool owner_must_wait(const struct block_owner *owner)
{
	for (unsigned int i = 0; i < owner->place_cnt; i++) {
		const struct list *it = owner->places[i].node.prev;
		const struct block_stripe *s =
			i ? owner_last(owner) : owner_first(owner);

		for (; it != &s->owners; it = it->prev) {
			const struct block_owner *earlier =
				container_of(it, struct block_owner_place, node)
					->owner;

			if (owner_is_in_the_way(earlier, owner))
				return true;
		}
	}
	return false;
}

/* ---- signs of life ---- */

static __attribute__((noinline)) void owner_ask(struct block_owner *owner)
{
	block_owner_drop(owner);
	owner->state = BLOCK_OWNER_ASKS;
	list_add_tail(&owner->sender->asking, &owner->wait_node);
}

/* False: it asks. */
static inline bool owner_is_heard(struct block_owner *owner)
{
	struct block_sender *sender = owner->sender;

	if (owner->reads || !sender || sender->lives(sender))
		return true;
	owner_ask(owner);
	return false;
}

bool block_owner_hear(struct block_owner *owner,
		      void (*heard)(struct block_owner *owner))
{
	owner->begin = owner->end = 0;
	owner->reads = false;
	owner->has = heard;
	list_init(&owner->wait_node);
	return owner_is_heard(owner);
}

void block_sender_init(struct block_sender *sender,
		       bool (*lives)(struct block_sender *sender))
{
	sender->lives = lives;
	list_init(&sender->asking);
}

static bool owner_take(struct block_owner *owner);

/* has() of one may end others. */
void block_sender_heard(struct block_sender *sender)
{
	struct list heard = LIST_INIT(heard);
	struct list *it;

	list_splice_tail(&heard, &sender->asking);
	while ((it = list_pop(&heard))) {
		struct block_owner *owner =
			container_of(it, struct block_owner, wait_node);

		owner->state = BLOCK_OWNER_NONE;
		if (owner->begin == owner->end || owner_take(owner))
			owner->has(owner);
	}
}

/* ---- waiting ---- */

static struct block_waits *owner_waits(const struct block_owner *owner)
{
	return &owner->of->waits[owner->worker->index];
}

static bool owner_looks(struct block_owner *owner)
{
	bool waits;

	owner_lock(owner);
	waits = owner_must_wait(owner);
	if (!waits)
		owner->state = BLOCK_OWNER_HAS;
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
			    owner_is_in_the_way(owner, later) &&
			    !atomic_exchange(&owner_waits(later)->told, true))
				reactor_send(later->worker->reactor,
					     &owner_waits(later)->msg);
		}
	}
}

/* ---- the functions of the header ---- */

static bool owner_take(struct block_owner *owner)
{
	bool has;

	owner->given_up = false;
	list_init(&owner->wait_node);
	owner_lock(owner);
	owner_enter(owner);
	has = !owner_must_wait(owner);
	owner->state = has ? BLOCK_OWNER_HAS : BLOCK_OWNER_WAITS;
	/* Before another thread may tell it. */
	if (!has)
		owner_wait(owner);
	owner_unlock(owner);
	return has && owner_is_heard(owner);
}

bool block_owner_take(struct block_owners *of, struct block_worker *w,
		      struct block_owner *owner)
{
	assert(owner->state == BLOCK_OWNER_NONE && owner->begin < owner->end &&
	       owner->end - owner->begin <= BLOCK_STRIPE_LEN);
	owner->of = of;
	owner->worker = w;
	return owner_take(owner);
}

void block_owner_end(struct block_owner *owner)
{
	list_del(&owner->wait_node);
	if (owner->state == BLOCK_OWNER_ASKS) {
		owner->state = BLOCK_OWNER_NONE;
		return;
	}
	owner_lock(owner);
	owner_tell_later(owner);
	for (unsigned int i = 0; i < owner->place_cnt; i++)
		list_del(&owner->places[i].node);
	if (owner->given_up)
		atomic_fetch_sub(&owner->of->given_up, 1);
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
