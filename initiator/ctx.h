/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator/ is libsrpi. Public is srp_initiator.h alone; these headers are
 * between its files (prefix ini_) and for rdma-fuse, which adds its own
 * sources to the context's reactor.
 */
#ifndef INITIATOR_CTX_H
#define INITIATOR_CTX_H

#include "initiator/srp_initiator.h"
#include "base/reactor.h"
#include "transport/xport.h"

/* An IU from a target: SRP_RSP with 252 bytes of sense at most. */
#define INI_RECV_LEN 512

/*
 * A transport with memory registered by one session and no other: keys hold for
 * all connections of an instance, and a target must not reach what another one
 * is told of. Over RDMA that is a protection domain, and a completion queue,
 * for each session of a context.
 */
struct ini_xp {
	struct ini_xp *next; /* of the context */
	enum xp_kind kind;
	struct xp *xp;
	unsigned int users; /* a session and its memory; 0: the next one's */
};

struct srpi_ctx {
	struct reactor *reactor;
	struct ini_xp *xps;
	unsigned int sessions;
};

static inline struct reactor *srpi_ctx_reactor(const struct srpi_ctx *ctx)
{
	return ctx->reactor;
}

/* As srpi_ctx_create(); @wide: see struct reactor_options. */
int ini_ctx_create(const struct srpi_ctx_options *options, bool wide,
		   struct srpi_ctx **ret_ctx, struct srpi_error *e);

/* A transport that nobody uses, for a session: opened if there is none. It is
 * used by the caller then, until ini_xp_put(). */
int ini_xp_take(struct srpi_ctx *ctx, enum xp_kind kind, struct ini_xp **ret_xp,
		struct error *e);
/* One user less: it must have no channel any more when there is none. NULL is
 * fine. */
void ini_xp_put(struct ini_xp *xp);

void ini_error_set(struct srpi_error *e, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
