/* SPDX-License-Identifier: BSD-2-Clause */
#include "initiator/ctx.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ini_error_set(struct srpi_error *e, int err, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return;
	e->err = err;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
}

int ini_ctx_create(const struct srpi_ctx_options *options, bool wide,
		   struct srpi_ctx **ret_ctx, struct srpi_error *e)
{
	const struct reactor_options ropt = {
		.poll_us = options ? options->poll_us : 0,
		.pollable = options && options->pollable,
		.wide = wide,
		.max_buffers = 16,
		.max_files = 16,
	};
	struct srpi_ctx *ctx = calloc(1, sizeof(*ctx));
	int err;

	if (!ctx) {
		ini_error_set(e, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	err = reactor_create(&ropt, &ctx->reactor);
	if (err) {
		ini_error_set(e, err, "cannot set up io_uring: %s%s",
			      strerror(-err), reactor_create_hint(err));
		free(ctx);
		return err;
	}
	*ret_ctx = ctx;
	return 0;
}

int srpi_ctx_create(const struct srpi_ctx_options *options,
		    struct srpi_ctx **ret_ctx, struct srpi_error *e)
{
	return ini_ctx_create(options, /* wide= */ false, ret_ctx, e);
}

static void free_first_xp(struct srpi_ctx *ctx)
{
	struct ini_xp *xp = ctx->xps;

	ctx->xps = xp->next;
	xp_destroy(xp->xp);
	free(xp);
}

void srpi_ctx_destroy(struct srpi_ctx *ctx)
{
	if (!ctx)
		return;
	assert(ctx->sessions == 0);
	while (ctx->xps)
		free_first_xp(ctx);
	/* The providers' watches end, and free themselves, in a turn. */
	while (reactor_run_once(ctx->reactor, 0) > 0)
		;
	reactor_destroy(ctx->reactor);
	free(ctx);
}

int srpi_ctx_fd(const struct srpi_ctx *ctx)
{
	return reactor_fd(ctx->reactor);
}

int srpi_ctx_run(struct srpi_ctx *ctx, int timeout_ms)
{
	return reactor_run_once(ctx->reactor, timeout_ms);
}

static int open_xp(struct srpi_ctx *ctx, enum xp_kind kind,
		   struct ini_xp **ret_xp, struct error *e)
{
	const struct xp_config cfg = {
		.reactor = ctx->reactor,
		.recv_len = INI_RECV_LEN,
	};
	struct ini_xp *xp = calloc(1, sizeof(*xp));
	int err;

	if (!xp) {
		error_set(e, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	xp->kind = kind;
	err = xp_create(kind, &cfg, &xp->xp, e);
	if (err) {
		free(xp);
		return err;
	}
	xp->next = ctx->xps;
	ctx->xps = xp;
	*ret_xp = xp;
	return 0;
}

int ini_xp_take(struct srpi_ctx *ctx, enum xp_kind kind, struct ini_xp **ret_xp,
		struct error *e)
{
	struct ini_xp *xp = ctx->xps;
	int err = 0;

	while (xp && (xp->users > 0 || xp->kind != kind))
		xp = xp->next;
	if (!xp)
		err = open_xp(ctx, kind, &xp, e);
	if (err)
		return err;
	xp->users++;
	*ret_xp = xp;
	return 0;
}

void ini_xp_put(struct ini_xp *xp)
{
	if (xp)
		xp->users--;
}
