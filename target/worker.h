/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker is one reactor thread of the target with what its channels share:
 * the arena for data in flight and the transports. A channel lives on one
 * worker; so do its requests and their buffers. Worker 0 also owns the
 * listeners and the table of nexuses (port.h).
 */
#ifndef TARGET_WORKER_H
#define TARGET_WORKER_H

#include <pthread.h>

#include "transport/arena.h"
#include "transport/reactor.h"
#include "transport/xport.h"

#define WORKERS_MAX 64

struct worker {
	unsigned int index;
	struct reactor *reactor;
	struct arena *arena;
	struct xp *xp[XP_KINDS];	  /* NULL: transport not in use */
	struct xp_mr *arena_mr[XP_KINDS]; /* the arena, XP_LOCAL */
	pthread_t thread;
};

#endif
