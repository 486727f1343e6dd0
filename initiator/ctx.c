/* SPDX-License-Identifier: BSD-2-Clause */
#include "initiator/ctx.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ini_error_give(struct srpi_error *to, const struct error *from)
{
	if (to) {
		to->err = from->err;
		snprintf(to->text, sizeof(to->text), "%.*s",
			 (int)sizeof(to->text) - 1, from->text);
	}
	return from->err;
}

const char *srpi_version(void)
{
	return SRPI_VERSION;
}

int srpi_fork_init(void)
{
	return xp_fork_init();
}

int ini_struct_take(void *dst, size_t size, const void *src, struct error *e)
{
	size_t src_size = size;

	memset(dst, 0, size);
	if (!src)
		return 0;
	memcpy(&src_size, src, sizeof(src_size));
	if (src_size < sizeof(src_size)) {
		return error_set(e, -EINVAL, "struct_size is not set");
	}
	for (size_t i = size; i < src_size; i++) {
		if (!((const uint8_t *)src)[i])
			continue;
		return error_set(e, -EINVAL,
				 "an option is unknown to libsrpi " SRPI_VERSION
				 "; install a newer one");
	}
	memcpy(dst, src, src_size < size ? src_size : size);
	return 0;
}

void ini_struct_give(void *dst, const void *src, size_t size)
{
	size_t dst_size;

	memcpy(&dst_size, dst, sizeof(dst_size));
	assert(dst_size >= sizeof(dst_size));
	memset(dst, 0, dst_size);
	memcpy(dst, src, dst_size < size ? dst_size : size);
	memcpy(dst, &dst_size, sizeof(dst_size));
}

static int make_reactor(struct srpi_ctx *ctx, const struct srpi_ctx_options *o,
			struct error *e)
{
	const struct reactor_options ropt = {
		.poll_us = o->poll_us,
		.pollable = o->pollable,
		.max_buffers = 16,
		.max_files = 16,
	};
	int err = reactor_create(&ropt, &ctx->reactor);

	if (err)
		error_set(e, err, "cannot set up io_uring: %s%s",
			  strerror(-err), reactor_create_hint(err));
	return err;
}

static int make_ctx(const struct srpi_ctx_options *options,
		    struct srpi_ctx **ret_ctx, struct error *e)
{
	struct srpi_ctx_options o;
	int err = ini_struct_take(&o, sizeof(o), options, e);
	struct srpi_ctx *ctx = err ? NULL : calloc(1, sizeof(*ctx));

	if (err)
		return err;
	if (!ctx)
		return error_set(e, -ENOMEM, "out of memory");
	ctx->reactor = o.reactor;
	ctx->borrowed = o.reactor;
	if (!ctx->borrowed)
		err = make_reactor(ctx, &o, e);
	if (err) {
		free(ctx);
		return err;
	}
	*ret_ctx = ctx;
	return 0;
}

int srpi_ctx_create(const struct srpi_ctx_options *options,
		    struct srpi_ctx **ret_ctx, struct srpi_error *e)
{
	struct error why;
	int err = make_ctx(options, ret_ctx, &why);

	return err ? ini_error_give(e, &why) : 0;
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
	if (!ctx->borrowed)
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
