/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requests of a worker's channels, with the registered memory for their
 * responses. A channel reserves its maximum at login, so it never lacks a
 * request. All channels take requests from the same slabs, first from slabs
 * that are in use. So the touched memory depends on the commands in flight on
 * all channels together, and an idle channel costs almost nothing.
 *
 * Thread: the worker.
 */
#ifndef TARGET_PORT_REQUEST_POOL_H
#define TARGET_PORT_REQUEST_POOL_H

#include "base/list.h"
#include "transport/xport.h"

struct request;
struct worker;

struct request_pool {
	struct worker *worker;
	struct list room; /* struct request_slab with a free request */
	struct list full; /* the others */
	/* Slabs that no channel reserves any more, but that still have requests
	 * of other channels. */
	unsigned int surplus;
};

/* What one channel reserves. */
struct request_slab {
	struct list node;
	struct request *requests; /* CHANNEL_REQUESTS of them, and one */
	struct list *free;  /* given back, linked by next; the last one first */
	unsigned int fresh; /* requests from here on were never taken */
	unsigned int out;
	uint8_t *rsp_mem; /* CHANNEL_RSP_SIZE for each */
	struct xp_mr *rsp_mr[XP_KINDS];
};

/* Thread: setup. */
void request_pool_init(struct request_pool *pool, struct worker *w);

/*
 * Reserves for a new channel: CHANNEL_REQUESTS, and one for IUs that the target
 * sends on its own. 0, or -errno with one clause in @e. request_pool_release()
 * undoes it, after the channel has given back all requests.
 */
int request_pool_reserve(struct request_pool *pool, struct error *e);
void request_pool_release(struct request_pool *pool);

/* Never NULL if the request is reserved. It is REQUEST_FREE. */
struct request *request_pool_get(struct request_pool *pool);
/* Call this when the fabric no longer touches the memory of its response. */
void request_pool_put(struct request_pool *pool, struct request *req);

#endif
