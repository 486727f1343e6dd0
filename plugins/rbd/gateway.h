/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several targets (gateways) that serve one image, one at a time.
 *
 *              take over                    another one has taken over
 *   STANDBY -----------------> ACTIVE --------------------------------> FENCED
 *      ^                          |                                        |
 *      |      let go, no I/O      |                                        |
 *      +--------------------------+        no I/O, image opened again      |
 *      +-------------------------------------------------------------------+
 *
 * The active one holds the image's exclusive lock, taken explicitly: then
 * librbd does not hand it over when another client asks. To take over, a gateway
 * breaks the lock of the owner, which puts the owner's RADOS client on the
 * blocklist of the OSDs, and only then takes the lock: whatever the owner still
 * sends after that fails (ESHUTDOWN). A client on the blocklist is of no use any
 * more; the fenced gateway opens the image with a new one.
 *
 * Once a second the active gateway notifies the watchers of an object of its
 * own, "rdma_block.gateways.IMAGE-ID", of its number. So the others know which
 * one is active, and, with failover=auto, that none is.
 *
 * Thread: as said at each function.
 */
#ifndef PLUGINS_RBD_GATEWAY_H
#define PLUGINS_RBD_GATEWAY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <rdma_block_plugin.h>

#include "image.h"

enum rbdp_state {
	RBDP_STANDBY, /* opened, or let go; I/O ends with ESHUTDOWN */
	RBDP_ACTIVE,  /* holds the lock */
	RBDP_FENCED, /* another one has broken the lock; I/O still comes back */
};

struct rbdp_gateway {
	/* set before rbdp_gateway_start(), and constant */
	const struct rbp_host *host;
	struct rbp_vol *vol;
	struct rbdp_image *img;
	/* Closes the image and opens it with a new client. It blocks. */
	int (*reopen)(void *user, const struct rbdp_msg *msg);
	void *user;
	unsigned int own; /* 1 ... cnt */
	unsigned int cnt;
	bool takes_over; /* when no other is active */
	uint64_t after_ms;

	_Atomic enum rbdp_state state; /* changed by its thread alone */
	/* Grows with each change of the state; from 1 on. */
	_Atomic uint64_t epoch;
	atomic_bool host_has_epochs;
	_Atomic unsigned int active; /* number; 0: none, or not known */
	_Atomic unsigned int inflight;
	_Atomic uint64_t heard_ms; /* when the active one was heard of */

	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;
	/* under the lock */
	struct rbp_io *first; /* of rbdp_gateway_set(), oldest first */
	struct rbp_io **end;
	bool is_poked;
	bool stopping;

	/* its thread's, and before it runs, setup's */
	char object[96];
	bool has_watch;
	uint64_t watch;
	_Atomic bool watch_is_broken;
	bool reopen_failed;
};

/* Begins as standby, or, @active, as the active one. It blocks. 0, or a negative
 * errno and a clause. Thread: setup. */
int rbdp_gateway_start(struct rbdp_gateway *gw, bool active,
		       const struct rbdp_msg *msg);
/* Nothing is in flight. Lets go. Thread: setup. */
void rbdp_gateway_stop(struct rbdp_gateway *gw);

/* An I/O begins; false: it must not, and -ESHUTDOWN is its result. Until
 * rbdp_gateway_leave(), the image stays open. Thread: any, as all below. */
bool rbdp_gateway_enter(struct rbdp_gateway *gw, const struct rbp_io *io);
/* It has ended. Return: the result to tell. */
int rbdp_gateway_leave(struct rbdp_gateway *gw, int res);

/* rbp_plugin.paths and set_path; the latter uses the scratch of @io. */
void rbdp_gateway_paths(struct rbdp_gateway *gw, struct rbp_paths *ret);
void rbdp_gateway_set(struct rbdp_gateway *gw, struct rbp_io *io);

#endif
