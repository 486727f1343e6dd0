/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/allocation.h"

/* How long to query the map of one volume. */
#define QUERY_US 100000
/* How long a request waits for the result. */
#define ANSWER_MS 200

static void allocation_query(struct allocation *a);

static void allocation_answer_waiters(struct allocation *a, uint64_t allocated)
{
	struct list waiters;
	struct list *it;

	list_init(&waiters);
	list_splice_tail(&waiters, &a->waiters);
	while ((it = list_pop(&waiters))) {
		struct allocation_waiter *w =
			container_of(it, struct allocation_waiter, node);

		w->done(w, allocated);
	}
}

static void allocation_finish(struct allocation *a, uint64_t allocated)
{
	reactor_timer_stop(&a->answer_timer);
	a->asking = false;
	a->answer_late = false;
	a->allocated = allocated;
	allocation_answer_waiters(a, allocated);
}

static void allocation_answer_late(struct reactor_timer *t)
{
	struct allocation *a = container_of(t, struct allocation, answer_timer);

	a->answer_late = true;
	allocation_answer_waiters(a, a->allocated);
}

/* Extrapolates to the volume: @found of the first @pos bytes are allocated. */
static uint64_t allocation_estimate(uint64_t found, uint64_t pos, uint64_t size)
{
	if (pos == 0)
		return size;
	return found +
	       (uint64_t)((double)(size - pos) * ((double)found / (double)pos));
}

static void allocation_extent_done(struct srpi_io *io, int res)
{
	struct allocation *a = io->arg;
	uint64_t size = a->info->size;

	if (res || io->extent_len == 0) {
		allocation_finish(a, size);
		return;
	}
	/* Count from the first answer: the target may have been stuck before. */
	if (a->pos == 0)
		a->begun_us = reactor_now_us(a->reactor);
	a->pos += io->extent_len;
	if (io->extent_mapped)
		a->found += io->extent_len;
	if (a->pos < size &&
	    reactor_now_us(a->reactor) - a->begun_us < QUERY_US) {
		allocation_query(a);
		return;
	}
	a->known = !a->changed;
	allocation_finish(a, allocation_estimate(a->found, a->pos, size));
}

static void allocation_query(struct allocation *a)
{
	a->io.offset = a->pos;
	a->io.len = a->info->size - a->pos;
	srpi_submit(a->session, &a->io);
}

void allocation_init(struct allocation *a, struct srpi_session *s,
		     struct reactor *r, unsigned int volume)
{
	*a = (struct allocation){
		.session = s,
		.reactor = r,
		.info = srpi_volume_info(s, volume),
		.io = { .op = SRPI_EXTENT,
			.volume = volume,
			.done = allocation_extent_done,
			.arg = a },
	};
	list_init(&a->waiters);
	reactor_timer_init(&a->answer_timer, allocation_answer_late);
	a->allocated = a->info->size;
	if (!a->info->unmap || a->info->size == 0) {
		a->known = true;
	}
}

void allocation_get(struct allocation *a, struct allocation_waiter *w)
{
	if (!a->info->unmap) {
		a->known = true;
		a->allocated = a->info->size;
	}
	/* stat(2) must not wait for a lost connection, or ask a volume that has
	 * left. */
	if (a->known || a->answer_late || a->gone ||
	    srpi_session_state(a->session) != SRPI_RUNNING) {
		w->done(w, a->allocated);
		return;
	}
	list_add_tail(&a->waiters, &w->node);
	if (a->asking)
		return;
	a->asking = true;
	a->changed = false;
	a->pos = 0;
	a->found = 0;
	reactor_timer_set(a->reactor, &a->answer_timer, ANSWER_MS);
	allocation_query(a);
}
