/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/usage.h"

/* How long to ask for the map of one volume. */
#define ASK_US 100000
/* How long somebody waits for an answer. */
#define PATIENCE_MS 200

static void usage_ask(struct usage *u);

static void tell_waiters(struct usage *u, uint64_t allocated)
{
	struct list waiters;
	struct list *it;

	list_init(&waiters);
	list_splice_tail(&waiters, &u->waiters);
	while ((it = list_pop(&waiters))) {
		struct usage_waiter *w =
			container_of(it, struct usage_waiter, node);

		w->done(w, allocated);
	}
}

static void usage_tell(struct usage *u, uint64_t allocated)
{
	reactor_timer_stop(&u->patience);
	u->asking = false;
	u->late = false;
	u->allocated = allocated;
	tell_waiters(u, allocated);
}

static void patience_over(struct reactor_timer *t)
{
	struct usage *u = container_of(t, struct usage, patience);

	u->late = true;
	tell_waiters(u, u->allocated);
}

/* What of the volume is allocated when @found of the first @pos bytes are. */
static uint64_t estimate(uint64_t found, uint64_t pos, uint64_t size)
{
	if (pos == 0)
		return size;
	return found +
	       (uint64_t)((double)(size - pos) * ((double)found / (double)pos));
}

static void told(struct srpi_io *io, int res)
{
	struct usage *u = io->arg;
	uint64_t size = u->info->size;

	if (res || io->extent_len == 0) {
		usage_tell(u, size);
		return;
	}
	/* A target that was stuck says little with its first answer. */
	if (u->pos == 0)
		u->begun_us = reactor_now_us(u->reactor);
	u->pos += io->extent_len;
	if (io->extent_mapped)
		u->found += io->extent_len;
	if (u->pos < size &&
	    reactor_now_us(u->reactor) - u->begun_us < ASK_US) {
		usage_ask(u);
		return;
	}
	u->known = !u->changed;
	usage_tell(u, estimate(u->found, u->pos, size));
}

static void usage_ask(struct usage *u)
{
	u->io.offset = u->pos;
	u->io.len = u->info->size - u->pos;
	srpi_submit(u->session, &u->io);
}

void usage_init(struct usage *u, struct srpi_session *s, struct reactor *r,
		unsigned int volume)
{
	*u = (struct usage){
		.session = s,
		.reactor = r,
		.info = srpi_volume_info(s, volume),
		.io = { .op = SRPI_EXTENT,
			.volume = volume,
			.done = told,
			.arg = u },
	};
	list_init(&u->waiters);
	reactor_timer_init(&u->patience, patience_over);
	u->allocated = u->info->size;
	if (!u->info->unmap || u->info->size == 0) {
		u->known = true;
	}
}

void usage_get(struct usage *u, struct usage_waiter *w)
{
	if (!u->info->unmap) {
		u->known = true;
		u->allocated = u->info->size;
	}
	/* Who only looks at the file must not wait for a lost connection. */
	if (u->known || u->late ||
	    srpi_session_state(u->session) != SRPI_RUNNING) {
		w->done(w, u->allocated);
		return;
	}
	list_add_tail(&u->waiters, &w->node);
	if (u->asking)
		return;
	u->asking = true;
	u->changed = false;
	u->pos = 0;
	u->found = 0;
	reactor_timer_set(u->reactor, &u->patience, PATIENCE_MS);
	usage_ask(u);
}
