/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The helper threads of one volume whose store has functions that block. A
 * thread is created when there is work and none is idle, up to a limit. The
 * threads therefore have the rights that rdma-target serves with. Flushes take at
 * most one of them: those that wait for another flush need no thread.
 */
#ifndef TARGET_BLOCK_PLUGIN_THREADS_H
#define TARGET_BLOCK_PLUGIN_THREADS_H

#include "plugins/rdma_block_plugin.h"

struct plugin_threads;

/* In io->scratch; private. */
struct plugin_threads_scratch {
	struct rbp_io *next; /* in a list of those that wait */
};

/*
 * @run executes an I/O and returns 0 or a negative errno; @done ends it, as
 * rbp_host.done. Both are called by the helper threads. Thread: setup. 0 or -ENOMEM.
 */
int plugin_threads_create(int (*run)(void *user, struct rbp_io *io), void *user,
			  unsigned int max,
			  void (*done)(struct rbp_io *io, int res),
			  struct plugin_threads **ret);

/* Ends the threads; NULL is fine. Nothing is in flight. Thread: setup. */
void plugin_threads_free(struct plugin_threads *pool);

/* Lets a helper thread of @helpers (struct plugin_threads) execute @io. Uses
 * io->scratch meanwhile. If no thread can be created, done() may be called from
 * within. Thread: any. */
void plugin_threads_submit(void *helpers, struct rbp_io *io);

/* Bytes of io->scratch that this needs. */
#define PLUGIN_THREADS_SCRATCH sizeof(struct plugin_threads_scratch)

#endif
