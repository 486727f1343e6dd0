/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator/ is libsrpi. Public is srp_initiator.h alone; these headers are
 * between its files (prefix ini_) and for rdma-fuse, which adds its own
 * sources to the context's reactor.
 */
#ifndef INITIATOR_CTX_H
#define INITIATOR_CTX_H

#include "initiator/srp_initiator.h"
#include "base/error.h"
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
	bool borrowed; /* the reactor: the program's */
	struct ini_xp *xps;
	unsigned int sessions;
};

/*
 * Takes over a structure that begins with struct_size and may be of another
 * version of the library: what the caller's version lacks becomes 0. @src may be
 * NULL. Return: 0, or -EINVAL with @e: struct_size is not set, or the caller
 * asks for what this version does not know.
 */
int ini_struct_take(void *dst, size_t size, const void *src, struct error *e);
/* The other way: @dst begins with the struct_size that its owner has set. */
void ini_struct_give(void *dst, const void *src, size_t size);

/* A transport that nobody uses, for a session: opened if there is none. It is
 * used by the caller then, until ini_xp_put(). */
int ini_xp_take(struct srpi_ctx *ctx, enum xp_kind kind, struct ini_xp **ret_xp,
		struct error *e);
/* One user less: it must have no channel any more when there is none. NULL is
 * fine. */
void ini_xp_put(struct ini_xp *xp);

/*
 * At the edge of the library: hands @from to the program in @to, which may be
 * NULL. The rest of the library uses struct error alone. Return: from->err.
 */
int ini_error_give(struct srpi_error *to, const struct error *from);

#endif
