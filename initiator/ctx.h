/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator/ is libsrpi. Public is srp_initiator.h alone; these headers are
 * between its files (prefix ini_) and for rdma-fuse, which adds its own
 * sources to the context's reactor.
 */
#ifndef INITIATOR_CTX_H
#define INITIATOR_CTX_H

#include "initiator/srp_initiator.h"
#include "transport/reactor.h"
#include "transport/xport.h"

/* An IU from a target: SRP_RSP with 252 bytes of sense at most. */
#define INI_RECV_LEN 512

struct srpi_ctx {
	struct reactor *reactor;
	struct xp *xp[XP_KINDS]; /* NULL until a session wants it */
	unsigned int sessions;
};

static inline struct reactor *srpi_ctx_reactor(const struct srpi_ctx *ctx)
{
	return ctx->reactor;
}

/* As srpi_ctx_create(); @wide: see struct reactor_options. */
int ini_ctx_create(const struct srpi_ctx_options *options, bool wide,
		   struct srpi_ctx **ret_ctx, struct srpi_error *e);

/* The context's transport, opened when it is first asked for. */
int ini_ctx_xp(struct srpi_ctx *ctx, enum xp_kind kind, struct xp **ret_xp,
	       struct xp_error *e);

void ini_error_set(struct srpi_error *e, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
