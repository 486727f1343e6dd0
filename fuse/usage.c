/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/usage.h"

/* How long to ask for the map of one volume. */
#define ASK_US 100000

static void ask(struct usage *u);

static void tell(struct usage *u, uint64_t allocated)
{
	struct list waiters;
	struct list *it;

	list_init(&waiters);
	list_splice_tail(&waiters, &u->waiters);
	u->asking = false;
	u->allocated = allocated;
	while ((it = list_pop(&waiters))) {
		struct usage_waiter *w =
			container_of(it, struct usage_waiter, node);

		w->done(w, allocated);
	}
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
		tell(u, size);
		return;
	}
	u->pos += io->extent_len;
	if (io->extent_mapped)
		u->found += io->extent_len;
	if (u->pos < size &&
	    reactor_now_us(u->reactor) - u->begun_us < ASK_US) {
		ask(u);
		return;
	}
	u->known = !u->changed;
	tell(u, estimate(u->found, u->pos, size));
}

static void ask(struct usage *u)
{
	u->io.offset = u->pos;
	u->io.len = u->info->size - u->pos;
	srpi_submit(u->session, &u->io);
}

void usage_init(struct usage *u, struct srpi_session *s, struct reactor *r,
		unsigned int volume, void *scratch, struct srpi_mem *mem)
{
	*u = (struct usage){
		.session = s,
		.reactor = r,
		.info = srpi_volume_info(s, volume),
		.io = { .op = SRPI_EXTENT,
			.volume = volume,
			.buf = scratch,
			.mem = mem,
			.done = told,
			.arg = u },
	};
	list_init(&u->waiters);
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
	if (u->known || srpi_session_state(u->session) != SRPI_RUNNING) {
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
	u->begun_us = reactor_now_us(u->reactor);
	ask(u);
}
