/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/block_owner.h"

#include <assert.h>

void block_owners_init(struct block_owners *of)
{
	atomic_init(&of->watch, 0);
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

static struct block_stripe *owner_first(const struct block_owner *owner)
{
	return &owner->of->stripes[block_stripe(owner->begin)];
}

static struct block_stripe *owner_last(const struct block_owner *owner)
{
	return &owner->of->stripes[block_stripe(owner->end - 1)];
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

/* Of the same stripe. */
static bool owners_meet(const struct block_owner *a,
			const struct block_owner *b)
{
	return (a->begin < b->end && b->begin < a->end) ||
	       b->use == BLOCK_DRAINS;
}

/* Whether @later, which meets @earlier, must wait for it. */
static bool owner_is_in_the_way(const struct block_owner *earlier,
				const struct block_owner *later)
{
	if (later->use == BLOCK_DRAINS)
		return earlier->state == BLOCK_OWNER_HAS;
	if (earlier->keeps_place)
		return true;
	if (earlier->state == BLOCK_OWNER_ASKS || earlier->use == BLOCK_DRAINS)
		return false;
	if (earlier->use == BLOCK_ALONE || later->use == BLOCK_ALONE)
		return true;
	return later->use == BLOCK_READS ? earlier->given_up
					 : earlier->use != BLOCK_READS;
}

/* Readers must see it, and it must see readers in slots. */
static bool owner_watches(const struct block_owner *owner)
{
	return owner->use == BLOCK_ALONE || owner->use == BLOCK_DRAINS;
}

/* A drain comes to the stripe in which the reader begins. */
static bool note_meets(uint64_t note, const struct block_owner *owner)
{
	uint64_t begin = note & ~UINT64_C(8191);
	uint64_t len = (note - begin + 1) << 13;

	if (owner->use == BLOCK_DRAINS)
		return block_stripe(begin >> 4) == block_stripe(owner->begin);
	return (owner->begin << 4) - begin < len ||
	       begin - (owner->begin << 4) < (owner->end - owner->begin) << 4;
}

static bool readers_meet(const struct block_readers *r, unsigned int i,
			 const struct block_owner *owner)
{
	uint64_t marks = atomic_load(&r->marks[i]);

	for (; marks; marks &= marks - 1) {
		const _Atomic uint64_t *note =
			&r->notes[i * 64 + __builtin_ctzll(marks)];

		if (note_meets(atomic_load_explicit(note, memory_order_relaxed),
			       owner))
			return true;
	}
	return false;
}

static bool owner_awaits_readers(const struct block_owner *owner)
{
	for (unsigned int i = 0; i < BLOCK_WORKERS_MAX * BLOCK_MARKS; i++) {
		if (readers_meet(&owner->of->readers[i / BLOCK_MARKS],
				 i % BLOCK_MARKS, owner))
			return true;
	}
	return false;
}

/* Those that ask see that it passes them, unless they came by the same connection: then
 * their sender has not given them up. One that sees it too early only asks again. The
 * locks are held. */
static bool owner_must_wait(struct block_owner *owner)
{
	owner->waits_for = NULL;
	if (owner_watches(owner) && owner_awaits_readers(owner))
		return true;
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
			if (owner_is_in_the_way(earlier, owner)) {
				owner->waits_for = earlier;
				return true;
			}
			if (earlier->sender != owner->sender &&
			    owner->use != BLOCK_DRAINS)
				atomic_store(&earlier->passed, true);
		}
	}
	return false;
}

static struct block_waits *owner_waits(const struct block_owner *owner)
{
	return &owner->of->waits[owner->worker->index];
}

/* The lock of a stripe of it is held. */
static void owner_tell(struct block_owner *owner)
{
	struct block_waits *waits = owner_waits(owner);

	atomic_store(&owner->is_told, true);
	if (!atomic_exchange(&waits->told, true))
		reactor_send(owner->worker->reactor, &waits->msg);
}

/* Those that wait for @owner look again. The locks are held. */
static void owner_tell_later(const struct block_owner *owner)
{
	for (unsigned int i = 0; i < owner->place_cnt; i++) {
		const struct block_stripe *s =
			i ? owner_last(owner) : owner_first(owner);
		const struct list *it = owner->places[i].node.next;

		for (; it != &s->owners; it = it->next) {
			struct block_owner *later =
				container_of(it, struct block_owner_place, node)
					->owner;

			if (later->state == BLOCK_OWNER_WAITS &&
			    later->waits_for == owner)
				owner_tell(later);
		}
	}
}

/* @reader has or had a slot. */
static bool owner_awaits_reader(const struct block_owner *owner,
				const struct block_owner *reader)
{
	return owner->state == BLOCK_OWNER_WAITS && owner_watches(owner) &&
	       !owner->waits_for &&
	       note_meets(block_note(reader->begin, reader->end), owner);
}

static void stripe_wake_watchers(struct block_stripe *s,
				 const struct block_owner *reader)
{
	const struct list *it;

	pthread_mutex_lock(&s->lock);
	list_for_each(it, &s->owners) {
		struct block_owner *owner =
			container_of(it, struct block_owner_place, node)->owner;

		if (owner_awaits_reader(owner, reader))
			owner_tell(owner);
	}
	pthread_mutex_unlock(&s->lock);
}

void block_owner_wake_watchers(const struct block_owner *reader)
{
	stripe_wake_watchers(owner_first(reader), reader);
	if (owner_last(reader) != owner_first(reader))
		stripe_wake_watchers(owner_last(reader), reader);
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
		owner->heard = false;
		owner->passed = false;
		owner->state = BLOCK_OWNER_ASKS;
		atomic_fetch_add(&owner->of->watch, 1);
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

	if (owner->use == BLOCK_READS || owner->heard || !sender ||
	    sender->lives(sender))
		return true;
	owner_ask(owner);
	return false;
}

/* ---- waiting ---- */

static void owner_stop_asking(struct block_owner *owner)
{
	if (!owner->asks)
		return;
	owner->asks = owner->keeps_place = false;
	owner->heard &= !owner->passed;
	atomic_fetch_sub(&owner->of->watch, 1);
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
		struct block_owner *owner =
			container_of(it, struct block_owner, wait_node);

		if (!atomic_exchange(&owner->is_told, false) ||
		    !owner_looks(owner))
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
		owner->is_told = false;
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
	owner->use = BLOCK_CHANGES;
	owner->heard = false;
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

/* It is behind all that have passed it, as some of them may still have blocks. True: it
 * has its blocks. Otherwise it waits, or the sign does not count and it asks again: for
 * the last time, or others who use the blocks all the time would keep it asking for ever. */
static bool owner_was_heard(struct block_owner *owner)
{
	owner_lock(owner);
	if (!owner->keeps_place) {
		owner_leave(owner);
		owner_enter(owner);
	}
	owner->heard = !owner->passed;
	owner->keeps_place |= owner->passed;
	owner->passed = false;
	if (owner->heard)
		owner_get_or_wait(owner);
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

/* The first slots are full, or it READS: it saw "watch" too late. */
bool block_owner_take_slowly(struct block_owners *of, struct block_worker *w,
			     struct block_owner *owner)
{
	struct block_readers *r = &of->readers[w->index];

	block_owner_drop(owner);
	for (unsigned int i = 1; owner->use == BLOCK_READS && i < BLOCK_MARKS;
	     i++) {
		if (block_owner_read(of, r, i, owner))
			return true;
		block_owner_drop(owner);
	}
	assert(owner->state == BLOCK_OWNER_NONE && owner->begin < owner->end &&
	       owner->end - owner->begin <= BLOCK_STRIPE_LEN);
	owner->of = of;
	owner->worker = w;
	owner->given_up = owner->asks = owner->heard = false;
	owner->keeps_place = false;
	list_init(&owner->wait_node);
	if (owner_watches(owner))
		atomic_fetch_add(&of->watch, 1);
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
	atomic_fetch_sub(&owner->of->watch,
			 owner->given_up + owner_watches(owner));
	owner_stop_asking(owner);
	owner->state = BLOCK_OWNER_NONE;
	owner_unlock(owner);
}

bool block_owner_give_up(struct block_owner *owner)
{
	if (owner->state != BLOCK_OWNER_HAS || owner->use == BLOCK_READS)
		return false;
	if (owner->given_up)
		return true;
	owner_lock(owner);
	owner->given_up = true;
	atomic_fetch_add(&owner->of->given_up, 1);
	atomic_fetch_add(&owner->of->watch, 1);
	owner_unlock(owner);
	return true;
}

/* Whether some of other senders in the list wait for @reader, which has a slot. */
static bool stripe_awaits_reader(struct block_stripe *s,
				 const struct block_owner *reader)
{
	const struct list *it;
	bool ret = false;

	pthread_mutex_lock(&s->lock);
	for (it = s->owners.next; it != &s->owners && !ret; it = it->next) {
		const struct block_owner *owner =
			container_of(it, struct block_owner_place, node)->owner;

		ret = owner_awaits_reader(owner, reader) &&
		      owner->sender != reader->sender;
	}
	pthread_mutex_unlock(&s->lock);
	return ret;
}

/* The locks are held. Those that wait for others, which wait for @owner, count. */
static bool owner_is_awaited(const struct block_owner *owner)
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
			    later->sender != owner->sender &&
			    owners_meet(owner, later) &&
			    owner_is_in_the_way(owner, later))
				return true;
		}
	}
	return false;
}

bool block_owner_is_awaited(struct block_owner *owner)
{
	bool ret;

	if (owner->state == BLOCK_OWNER_READS)
		return atomic_load(&owner->of->watch) &&
		       (stripe_awaits_reader(owner_first(owner), owner) ||
			stripe_awaits_reader(owner_last(owner), owner));
	if (owner->state != BLOCK_OWNER_HAS)
		return false;
	owner_lock(owner);
	ret = owner_is_awaited(owner);
	owner_unlock(owner);
	return ret;
}

static unsigned int stripe_count(struct block_stripe *s)
{
	unsigned int cnt = 0;
	struct list *it;

	pthread_mutex_lock(&s->lock);
	list_for_each(it, &s->owners) {
		const struct block_owner_place *place =
			container_of(it, struct block_owner_place, node);
		const struct block_owner *owner = place->owner;

		cnt += place == &owner->places[0] &&
		       owner->state == BLOCK_OWNER_HAS;
	}
	pthread_mutex_unlock(&s->lock);
	return cnt;
}

static unsigned int readers_count(const struct block_readers *r)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < BLOCK_MARKS; i++)
		cnt += (unsigned int)__builtin_popcountll(
			atomic_load(&r->marks[i]));
	return cnt;
}

unsigned int block_owners_count(struct block_owners *of)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < BLOCK_STRIPES; i++)
		cnt += stripe_count(&of->stripes[i]);
	for (unsigned int i = 0; i < BLOCK_WORKERS_MAX; i++)
		cnt += readers_count(&of->readers[i]);
	return cnt;
}

/* ---- draining ---- */

static void drain_next(struct block_owner *owner)
{
	block_owner_drop(owner);
	owner->begin += BLOCK_STRIPE_LEN;
	owner->end += BLOCK_STRIPE_LEN;
}

/* One stripe after the other: nobody that the drain awaits enters one again, because
 * then it sees what the caller has changed. */
static void drain_stripes(struct block_drain *drain)
{
	struct block_owner *owner = &drain->owner;

	while (owner->begin < BLOCK_STRIPES * (uint64_t)BLOCK_STRIPE_LEN) {
		if (!block_owner_take(owner->of, owner->worker, owner))
			return;
		drain_next(owner);
	}
	drain->drained(drain);
}

static void drain_has(struct block_owner *owner)
{
	drain_next(owner);
	drain_stripes(container_of(owner, struct block_drain, owner));
}

void block_owners_drain(struct block_owners *of, struct block_worker *w,
			struct block_drain *drain,
			void (*drained)(struct block_drain *drain))
{
	drain->drained = drained;
	drain->owner = (struct block_owner){ .end = BLOCK_STRIPE_LEN,
					     .use = BLOCK_DRAINS,
					     .has = drain_has,
					     .of = of,
					     .worker = w };
	drain_stripes(drain);
}

bool block_drain_stop(struct block_drain *drain)
{
	if (drain->owner.state == BLOCK_OWNER_NONE)
		return false;
	block_owner_drop(&drain->owner);
	return true;
}
