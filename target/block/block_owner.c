/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/block_owner.h"

#include <assert.h>

void block_owners_init(struct block_owners *of)
{
	atomic_init(&of->given_up, 0);
	for (unsigned int i = 0; i < BLOCK_STRIPES; i++) {
		pthread_spin_init(&of->stripes[i].lock,
				  PTHREAD_PROCESS_PRIVATE);
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
		pthread_spin_destroy(&of->stripes[i].lock);
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
	pthread_spin_lock(&a->lock);
	if (a != b)
		pthread_spin_lock(&b->lock);
}

static void owner_unlock(const struct block_owner *owner)
{
	struct block_stripe *a = owner_first(owner);
	struct block_stripe *b = owner_last(owner);

	pthread_spin_unlock(&a->lock);
	if (a != b)
		pthread_spin_unlock(&b->lock);
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

/* ---- waiting ---- */

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

		owner->has(owner);
	}
}

static void owner_wait(struct block_owner *owner, struct block_worker *w)
{
	struct block_waits *waits = owner->waits;

	if (!waits->worker) {
		waits->worker = w;
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
			    !atomic_exchange(&later->waits->told, true))
				reactor_send(later->waits->worker->reactor,
					     &later->waits->msg);
		}
	}
}

/* ---- the functions of the header ---- */

bool block_owner_take(struct block_owners *of, struct block_worker *w,
		      struct block_owner *owner)
{
	bool has;

	assert(owner->state == BLOCK_OWNER_NONE && owner->begin < owner->end &&
	       owner->end - owner->begin <= BLOCK_STRIPE_LEN);
	owner->of = of;
	owner->waits = &of->waits[w->index];
	owner->given_up = false;
	list_init(&owner->wait_node);
	owner_lock(owner);
	owner_enter(owner);
	has = !owner_must_wait(owner);
	owner->state = has ? BLOCK_OWNER_HAS : BLOCK_OWNER_WAITS;
	/* Before another thread may tell it. */
	if (!has)
		owner_wait(owner, w);
	owner_unlock(owner);
	return has;
}

void block_owner_end(struct block_owner *owner)
{
	list_del(&owner->wait_node);
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
	if (owner->state != BLOCK_OWNER_HAS || owner->reads || owner->given_up)
		return false;
	owner_lock(owner);
	owner->given_up = true;
	atomic_fetch_add(&owner->of->given_up, 1);
	owner_unlock(owner);
	return true;
}
