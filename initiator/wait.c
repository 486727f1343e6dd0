/* SPDX-License-Identifier: BSD-2-Clause */
/* The waiting forms start an operation, then run the context until it has
 * ended. */

#include "initiator/ctx.h"

struct wait {
	bool over;
	int res;
	struct srpi_error e;
};

static void wait_connected(struct srpi_session *s, const struct srpi_error *e,
			   void *arg)
{
	struct wait *w = arg;

	w->e = *e;
	w->over = true;
}

int srpi_connect_wait(struct srpi_ctx *ctx, const char *uri,
		      const struct srpi_options *options,
		      struct srpi_session **ret_session, struct srpi_error *e)
{
	struct srpi_session *s;
	struct wait w = { 0 };
	struct error broken;
	int err = srpi_connect(ctx, uri, options, wait_connected, &w, &s, e);

	if (err)
		return err;
	while (!w.over && err >= 0)
		err = srpi_ctx_run(ctx, -1);
	if (err < 0) {
		error_set(&broken, err, "the event loop failed");
		ini_error_give(&w.e, &broken);
	}
	if (w.e.err) {
		if (e)
			*e = w.e;
		srpi_close_wait(ctx, s);
		return w.e.err;
	}
	*ret_session = s;
	return 0;
}

static void wait_closed(void *arg)
{
	((struct wait *)arg)->over = true;
}

void srpi_close_wait(struct srpi_ctx *ctx, struct srpi_session *s)
{
	struct wait w = { 0 };

	srpi_close(s, wait_closed, &w);
	while (!w.over && srpi_ctx_run(ctx, -1) >= 0)
		;
}

static void io_over(struct srpi_io *io, int res)
{
	struct wait *w = io->arg;

	w->res = res;
	w->over = true;
}

int srpi_io_wait(struct srpi_ctx *ctx, struct srpi_session *s,
		 struct srpi_io *io)
{
	struct wait w = { 0 };
	int err = 0;

	io->done = io_over;
	io->arg = &w;
	srpi_submit(s, io);
	while (!w.over && err >= 0)
		err = srpi_ctx_run(ctx, -1);
	return err < 0 ? err : w.res;
}
