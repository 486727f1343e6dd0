/* SPDX-License-Identifier: BSD-2-Clause */
/* What librbd can only do by blocking: a thread does it. */
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
	/* under the lock */
	struct rbp_io *first; /* oldest first */
	struct rbp_io **end;
	bool has_resized;
	bool stopping;
};

/* extent, resized and user are set. 0 or a negative errno. Thread: setup. */
int rbdp_jobs_start(struct rbdp_jobs *jobs);
/* The same; nothing is in flight. */
void rbdp_jobs_stop(struct rbdp_jobs *jobs);
/* Has the thread call extent(); it uses the scratch of @io. Thread: any. */
void rbdp_jobs_extent(struct rbdp_jobs *jobs, struct rbp_io *io);
/* Has the thread call resized(). Thread: any. */
void rbdp_jobs_resized(struct rbdp_jobs *jobs);

#endif
