/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator/ is libsrpi. Only srp_initiator.h is public. The other headers,
 * with the prefix ini_, are for the files of this room.
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
 * A transport for one session at a time. Its keys hold for all connections of
 * the instance, and a target must not reach memory that another session has
 * registered. Over RDMA, each session so has its own protection domain and
 * completion queue.
 */
struct ini_xp {
	struct ini_xp *next; /* of the context */
	enum xp_kind kind;
	struct xp *xp;
	/* a session and its memory; 0: free for another session */
	unsigned int users;
};

struct srpi_ctx {
	struct reactor *reactor;
	bool borrowed; /* the reactor belongs to the program */
	struct ini_xp *xps;
	unsigned int sessions;
};

/*
 * Copies a structure that begins with struct_size and may be of another version
 * of the library. Members that the caller's version lacks become 0. @src may be
 * NULL. Return: 0, or -EINVAL with @e: struct_size is not set, or a member is
 * set that this version does not know.
 */
int ini_struct_take(void *dst, size_t size, const void *src, struct error *e);
/* Copies @src to the structure @dst of the program, up to its struct_size. */
void ini_struct_give(void *dst, const void *src, size_t size);

/* Takes a transport without users, or opens one, for a session. Give it back
 * with ini_xp_put(). */
int ini_xp_take(struct srpi_ctx *ctx, enum xp_kind kind, struct ini_xp **ret_xp,
		struct error *e);
/* Removes one user. The last one must have freed all channels. NULL does
 * nothing. */
void ini_xp_put(struct ini_xp *xp);

/*
 * The border of the library: hands @from to the program in @to, which may be
 * NULL. The rest of the library uses only struct error. Return: from->err.
 */
int ini_error_give(struct srpi_error *to, const struct error *from);

#endif
