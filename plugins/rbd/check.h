/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks answers that librbd may have given from memory.
 *
 * With the feature object-map, the owner of the image's lock knows which objects
 * exist. librbd answers a read of an object that does not exist, and an unmap of
 * it, without the cluster. In a clone, it reads the parent then, whose OSDs may
 * not know who is fenced. It also does so if another target has fenced this
 * one in the meantime and has written there. Therefore, such an answer counts
 * only if the OSD with the image's header has accepted a request of this client
 * that was sent after the answer. Since another target has taken the lock, that
 * OSD refuses this client.
 *
 * One request is sent at a time. I/Os that end meanwhile share the next one.
 */
#ifndef PLUGINS_RBD_CHECK_H
#define PLUGINS_RBD_CHECK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <rdma_block_plugin.h>

#include "image.h"

struct rbdp_check {
	/* Ends @io; @res is 0 or a negative errno. Thread: any. */
	void (*end)(void *user, struct rbp_io *io, int res);
	void *user;
	const struct rbdp_image *img;
	const char *object;   /* the image's header */
	uint64_t piece_bytes; /* of the image, that are in one object */
	/* Changes only while no I/O is in flight. */
	uint64_t parent_bytes; /* from the begin on, may be read from a parent */
	pthread_mutex_t lock;
	/* guarded by the lock */
	struct rbp_io *first; /* they wait for the next request */
	struct rbp_io *asked; /* they wait for the answer to the present one */
	/* That answer, which is not used. */
	uint64_t size;
	time_t mtime;
};

/* The caller has set the members before the lock. Thread: setup, as for
 * rbdp_check_free(). */
void rbdp_check_init(struct rbdp_check *check);
/* Nothing may be in flight. */
void rbdp_check_free(struct rbdp_check *check);

/* @io has ended well. True: its answer may come from memory. Thread: any, as
 * below. */
bool rbdp_check_applies(const struct rbdp_check *check,
			const struct rbp_io *io);
/* Calls end(), maybe from within: with 0 if this client was not fenced when @io
 * ended, or with the error of the request. Uses the scratch of @io. The image
 * must stay open until end() is called. */
void rbdp_check_io(struct rbdp_check *check, struct rbp_io *io);

#endif
