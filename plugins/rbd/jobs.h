/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of librbd that always block: a thread makes them. */
#ifndef PLUGINS_RBD_JOBS_H
#define PLUGINS_RBD_JOBS_H

#include <pthread.h>
#include <stdbool.h>

#include <rdma_block_plugin.h>

struct rbdp_jobs {
	void (*extent)(void *user, struct rbp_io *io);
	void (*resized)(void *user);
	void *user;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;
	/* guarded by the lock */
	struct rbp_io *first; /* oldest first */
	struct rbp_io **end;
	bool has_resized;
	bool stopping;
};

/* The caller has set extent, resized and user. Returns 0 or a negative errno.
 * Thread: setup. */
int rbdp_jobs_start(struct rbdp_jobs *jobs);
/* Nothing may be in flight. Thread: setup. */
void rbdp_jobs_stop(struct rbdp_jobs *jobs);
/* Makes the thread call extent(). Uses the scratch of @io. Thread: any. */
void rbdp_jobs_extent(struct rbdp_jobs *jobs, struct rbp_io *io);
/* Makes the thread call resized(). Thread: any. */
void rbdp_jobs_resized(struct rbdp_jobs *jobs);

#endif
