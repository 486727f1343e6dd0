/* SPDX-License-Identifier: BSD-2-Clause */
#include "copy/copier.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "copy/progress.h"

/* Time between two flushes of the destination for the state file. */
#define COPIER_FLUSH_MS 2000
/* The length of a piece without data. A signal waits for it. */
#define COPIER_HOLE_MAX (1u << 30)
/* Every unit is at least this long, as most file systems' holes are. */
#define COPIER_UNIT_MIN 4096u

static void copier_advance(struct copier *c);

static uint64_t copier_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t copier_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- the state file ---- */

/* All before this offset is copied. */
static uint64_t copier_copied_to(const struct copier *c)
{
	uint64_t to = c->next;

	if (!list_empty(&c->busy))
		to = list_first(&c->busy, struct piece, node)->offset;
	return copier_min(to, c->failed_at);
}

static int copier_save(struct copier *c, struct error *e)
{
	struct resume state = {
		.source = c->source_id,
		.done = c->stable,
		.is_last = c->state == COPIER_FLUSHING,
	};
	int err = place_identify(c->destination, &state.destination, e);

	return err ? err : resume_save(c->o->resume, &state, e);
}

static void copier_flushed(struct place_io *io, int res)
{
	struct copier *c = io->arg;
	struct error e;

	c->is_flushing = false;
	if (res) {
		/* A later flush may succeed without the data that this one has
		 * lost. */
		copier_fail(c, io, res, c->stable);
	} else if (c->o->resume) {
		c->stable = c->flushes_to;
		if (copier_save(c, &e) && !c->e.err)
			c->e = e;
		c->stops |= c->e.err != 0;
	}
	if (c->state == COPIER_FLUSHING)
		c->state = COPIER_OVER;
	copier_advance(c);
}

static void copier_flush(struct copier *c)
{
	c->is_flushing = true;
	c->flushes_to = copier_copied_to(c);
	c->flush = (struct place_io){ .op = PLACE_FLUSH,
				      .place = c->destination,
				      .done = copier_flushed,
				      .arg = c };
	place_submit(&c->flush);
}

static void copier_flush_time(struct reactor_timer *t)
{
	struct copier *c = container_of(t, struct copier, flush_timer);

	if (c->state == COPIER_RUNNING && !c->is_flushing && !c->stops &&
	    copier_copied_to(c) > c->stable)
		copier_flush(c);
	reactor_timer_set(c->reactor, t, COPIER_FLUSH_MS);
}

/* ---- holes ---- */

/* A hole consists of the whole units inside it; the rest is data. */
static void copier_take_extent(struct copier *c, bool is_hole, uint64_t len)
{
	uint64_t to = c->next + len;
	bool whole = to == c->end && to % c->destination->block_size == 0;

	if (is_hole && !whole)
		to = to / c->unit * c->unit;
	c->extent_is_hole = is_hole && to > c->next;
	if (!c->extent_is_hole)
		to = (copier_max(to, c->next + 1) + c->unit - 1) / c->unit *
		     c->unit;
	c->extent_end = copier_min(to, c->end);
}

static void copier_asked(struct place_io *io, int res)
{
	struct copier *c = io->arg;

	c->is_asking = false;
	if (res)
		copier_fail(c, io, res, c->next);
	else
		copier_take_extent(c, io->is_hole, io->extent_len);
	copier_advance(c);
}

static void copier_ask(struct copier *c)
{
	c->is_asking = true;
	c->ask = (struct place_io){ .op = PLACE_EXTENT,
				    .place = c->source,
				    .offset = c->next,
				    .len = c->end - c->next,
				    .done = copier_asked,
				    .arg = c };
	place_submit(&c->ask);
}

/* A comparison asks for no holes. It would not find what a place calls a hole by
 * mistake. */
static void copier_find_extent(struct copier *c)
{
	if (c->compares)
		c->extent_end = c->end;
	else
		copier_ask(c);
}

/* ---- pieces ---- */

static void copier_take_piece(struct copier *c, uint64_t len)
{
	struct piece *p = container_of(list_pop(&c->free), struct piece, node);

	list_add_tail(&c->busy, &p->node);
	p->offset = c->next;
	p->len = len;
	p->is_hole = c->source->kind != PLACE_STREAM && c->extent_is_hole;
	log_debug("%s of %" PRIu64 " bytes at %" PRIu64,
		  p->is_hole ? "a hole" : "data", len, c->next);
	if (c->source->kind == PLACE_STREAM)
		c->is_reading = true;
	else
		c->next += len;
	piece_start(p);
}

static bool copier_may_take(const struct copier *c)
{
	return !c->stops && !c->is_asking && !c->is_reading &&
	       !list_empty(&c->free) && c->next < c->end;
}

static void copier_take_pieces(struct copier *c)
{
	while (copier_may_take(c)) {
		uint64_t len = c->o->request_size;

		if (c->source->kind == PLACE_STREAM) {
			copier_take_piece(c, len);
			continue;
		}
		if (c->next == c->extent_end) {
			copier_find_extent(c);
			continue;
		}
		if (c->extent_is_hole)
			len = COPIER_HOLE_MAX;
		len = copier_min(len, c->extent_end - c->next);
		if (c->extent_is_hole && c->destination->reads_zero) {
			c->next += len;
			c->done += len;
		} else {
			copier_take_piece(c, len);
		}
	}
}

void copier_piece_ended(struct copier *c, struct piece *p)
{
	if (p->offset < c->failed_at)
		c->done += p->len;
	list_del(&p->node);
	list_add_tail(&c->free, &p->node);
	if (!list_empty(&c->busy)) {
		p = list_first(&c->busy, struct piece, node);
		if (p->waits)
			piece_continue(p);
	}
	copier_advance(c);
}

bool copier_stream_read(struct copier *c, uint64_t asked, uint64_t len)
{
	const struct place *to = c->destination;

	c->is_reading = false;
	if (to->kind != PLACE_FILE && to->kind != PLACE_STREAM &&
	    c->next + len > to->size) {
		error_set(&c->e, -EFBIG,
			  "%s is longer than the %" PRIu64 " bytes of %s",
			  c->source->name, to->size, to->name);
		c->failed_at = copier_min(c->failed_at, c->next);
		c->stops = true;
		return false;
	}
	c->next += len;
	if (len < asked)
		c->end = c->next;
	copier_advance(c);
	return true;
}

void copier_fail(struct copier *c, const struct place_io *io, int res,
		 uint64_t offset)
{
	if (!c->e.err)
		place_explain(io, res, &c->e);
	c->failed_at = copier_min(c->failed_at, offset);
	c->stops = true;
}

void copier_differs(struct copier *c, uint64_t offset)
{
	c->differs_at = copier_min(c->differs_at, offset);
	c->stops = true;
}

/* ---- life cycle ---- */

static bool copier_needs_last_flush(const struct copier *c)
{
	return !c->compares && (!c->stops || c->o->resume);
}

static void copier_begin_last_flush(struct copier *c)
{
	if (!c->stops && c->source->kind == PLACE_STREAM &&
	    place_set_end(c->destination, c->end, &c->e)) {
		c->state = COPIER_OVER;
		return;
	}
	c->state = COPIER_FLUSHING;
	copier_flush(c);
}

/* Called after each event. */
static void copier_advance(struct copier *c)
{
	switch (c->state) {
	case COPIER_RUNNING:
		copier_take_pieces(c);
		if (!list_empty(&c->busy) || c->is_asking || c->is_flushing)
			break;
		if (copier_needs_last_flush(c))
			copier_begin_last_flush(c);
		else
			c->state = COPIER_OVER;
		break;
	case COPIER_FLUSHING:
	case COPIER_OVER:
		break;
	}
}

void copier_interrupt(struct copier *c)
{
	bool may_hang = c->source->kind == PLACE_STREAM ||
			c->destination->kind == PLACE_STREAM ||
			!place_is_running(c->source) ||
			!place_is_running(c->destination);

	if (c->interrupted || may_hang) {
		c->abandoned = true;
		c->state = COPIER_OVER;
	} else {
		progress_hide();
		log_notice("ending when the requests in flight are done; a "
			   "second signal ends at once");
	}
	c->interrupted = true;
	c->stops = true;
	copier_advance(c);
}

/* 0: not known. */
static uint64_t copier_total(const struct copier *c)
{
	return c->source->size_known ? c->source->size : 0;
}

static void copier_show_time(struct reactor_timer *t)
{
	struct copier *c = container_of(t, struct copier, show_timer);

	progress_show(c->done, copier_total(c), c->begin,
		      reactor_now_us(c->reactor));
	reactor_timer_set(c->reactor, t, PROGRESS_MS);
}

static size_t copier_piece_len(const struct copy_options *o)
{
	return (size_t)o->request_size * (o->verify || o->compare ? 2 : 1);
}

size_t copier_mem_len(const struct copy_options *o)
{
	return copier_piece_len(o) * o->requests;
}

static int copier_setup(struct copier *c, char *mem)
{
	c->state = COPIER_RUNNING;
	list_init(&c->free);
	list_init(&c->busy);
	c->unit = copier_max(
		COPIER_UNIT_MIN,
		copier_max(c->source->block_size, c->destination->block_size));
	c->next = c->extent_end = c->stable = c->done = c->begin;
	c->end = c->source->size_known && c->source->kind != PLACE_STREAM
			 ? c->source->size
			 : COPIER_NOWHERE;
	c->failed_at = c->differs_at = COPIER_NOWHERE;
	c->pieces = calloc(c->o->requests, sizeof(*c->pieces));
	if (!c->pieces)
		return error_set(&c->e, -ENOMEM, "out of memory");
	for (unsigned int i = 0; i < c->o->requests; i++) {
		struct piece *p = &c->pieces[i];

		p->copier = c;
		p->buf = mem + i * copier_piece_len(c->o);
		p->other = p->buf + c->o->request_size;
		list_add_tail(&c->free, &p->node);
	}
	return 0;
}

int copier_run(struct copier *c, void *mem)
{
	int err = copier_setup(c, mem);

	if (err)
		return err;
	reactor_timer_init(&c->flush_timer, copier_flush_time);
	reactor_timer_init(&c->show_timer, copier_show_time);
	if (c->o->resume && !c->compares)
		reactor_timer_set(c->reactor, &c->flush_timer, COPIER_FLUSH_MS);
	if (c->o->log_level >= LOG_NOTICE) {
		progress_begin(c->o->progress,
			       c->compares ? "compared" : "copied");
		copier_show_time(&c->show_timer);
	}
	copier_advance(c);
	while (c->state != COPIER_OVER && !err) {
		int did = reactor_run_once(c->reactor, -1);

		err = did < 0 ? did : 0;
	}
	if (err)
		error_set(&c->e, err, "the event loop failed: %s",
			  strerror(-err));
	reactor_timer_stop(&c->flush_timer);
	reactor_timer_stop(&c->show_timer);
	progress_end(c->done, copier_total(c), c->begin,
		     reactor_now_us(c->reactor));
	if (c->abandoned || err)
		c->abandoned = true;
	else
		free(c->pieces);
	return c->e.err;
}
