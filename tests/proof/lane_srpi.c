/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/proof/lane.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "initiator/srp_initiator.h"

struct srpi_lane {
	struct lane_work work;
	struct carrier *carrier;
	struct srpi_mem *mem;
	struct srpi_io io;
	uint64_t not_before; /* ns */
};

struct carrier {
	struct srpi_ctx *ctx;
	struct srpi_session *session;
	const char *uri;
	unsigned int volume;
	struct srpi_lane *lanes;
	unsigned int cnt;
	unsigned int busy; /* commands in flight */
	bool failed;	   /* log in again when nothing is in flight */
};

static const uint8_t op_of[] = {
	[JOURNAL_READ] = SRPI_READ,
	[JOURNAL_WRITE] = SRPI_WRITE,
	[JOURNAL_FLUSH] = SRPI_FLUSH,
};

static void answered(struct srpi_io *io, int res)
{
	struct srpi_lane *l = io->arg;

	l->carrier->busy--;
	l->not_before = journal_now() +
			(res ? 10000000 : l->work.j->pause_us * 1000ull);
	if (res && srpi_session_state(l->carrier->session) == SRPI_LOST)
		l->carrier->failed = true;
	lane_answered(&l->work, res);
}

static void submit(struct srpi_lane *l)
{
	const struct journal_record *r = l->work.record;

	if (!l->carrier->session) {
		lane_answered(&l->work, -ENOTCONN);
		return;
	}
	l->io = (struct srpi_io){
		.op = op_of[r->op],
		.volume = l->carrier->volume,
		.buf = l->work.buf,
		.mem = l->mem,
		.done = answered,
		.arg = l,
	};
	if (r->op != JOURNAL_FLUSH) {
		l->io.offset = lane_offset(&l->work);
		l->io.len = lane_len(&l->work);
	}
	l->carrier->busy++;
	srpi_submit(l->carrier->session, &l->io);
}

/* ---- the session ---- */

static void log_out(struct carrier *c)
{
	for (unsigned int i = 0; i < c->cnt; i++) {
		srpi_mem_free(c->lanes[i].mem);
		c->lanes[i].mem = NULL;
	}
	if (c->session)
		srpi_close_wait(c->ctx, c->session);
	c->session = NULL;
}

static int find_volume(struct carrier *c)
{
	struct srpi_session_info info = { .struct_size = sizeof(info) };

	srpi_session_info(c->session, &info);
	c->volume = 0;
	return *info.volume
		       ? srpi_volume_find(c->session, info.volume, &c->volume)
		       : 0;
}

static int log_in(struct carrier *c)
{
	/* Much shorter than TCP's next retry of data that a cut cable has
	 * lost. */
	const struct srpi_options options = { .struct_size = sizeof(options),
					      .io_timeout_ms = 2000 };
	const struct journal *j = c->lanes[0].work.j;
	size_t len = (size_t)j->max_blocks * j->block_size;
	struct srpi_error e;
	int err;

	c->failed = false;
	err = srpi_connect_wait(c->ctx, c->uri, &options, &c->session, &e);
	if (err) {
		c->session = NULL;
		return err;
	}
	err = find_volume(c);
	for (unsigned int i = 0; !err && i < c->cnt; i++)
		err = srpi_mem_register(c->session, c->lanes[i].work.buf, len,
					&c->lanes[i].mem, &e);
	if (err)
		log_out(c);
	return err;
}

/* ---- turns ---- */

/* False: all lanes have quit. */
static bool start_lanes(struct carrier *c)
{
	bool alive = false;

	for (unsigned int i = 0; i < c->cnt; i++) {
		struct srpi_lane *l = &c->lanes[i];
		enum lane_step step = LANE_WAIT;

		if (!l->work.record && journal_now() >= l->not_before)
			step = lane_next(&l->work);
		if (step == LANE_GO)
			submit(l);
		alive |= step != LANE_QUIT;
	}
	return alive;
}

static void carry(struct carrier *c)
{
	const struct timespec ms10 = { .tv_nsec = 10000000 };

	do {
		if (c->failed && c->busy == 0)
			log_out(c);
		if (!c->session && log_in(c))
			nanosleep(&ms10, NULL);
		else
			srpi_ctx_run(c->ctx, 1);
	} while (c->failed || start_lanes(c));
}

int lane_srpi_run(struct journal *j, struct lane **lanes, unsigned int cnt,
		  const char *uri)
{
	struct carrier c = { .uri = uri, .cnt = cnt };
	struct srpi_error e;
	int err;

	err = srpi_ctx_create(NULL, &c.ctx, &e);
	if (err) {
		fprintf(stderr, "%s\n", e.text);
		return err;
	}
	c.lanes = calloc(cnt, sizeof(*c.lanes));
	for (unsigned int i = 0; i < cnt; i++) {
		lane_open(&c.lanes[i].work, j, lanes[i], uri);
		c.lanes[i].carrier = &c;
	}
	carry(&c);
	log_out(&c);
	for (unsigned int i = 0; i < cnt; i++)
		free(c.lanes[i].work.buf);
	free(c.lanes);
	srpi_ctx_destroy(c.ctx);
	return 0;
}
