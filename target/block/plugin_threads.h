/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The helper threads of one volume whose plugin has functions that block.
 * Threads are made when there is work and none of them is idle, up to a limit, so
 * they have the rights that rdma-target serves with.
 */
#ifndef TARGET_BLOCK_PLUGIN_THREADS_H
#define TARGET_BLOCK_PLUGIN_THREADS_H

#include "plugins/rdma_block_plugin.h"

struct plugin_threads;

/*
 * @blocking and @v are borrowed; @done ends an I/O, as rbp_host.done. Thread:
 * setup. 0 or -ENOMEM.
 */
int plugin_threads_create(const struct rbp_blocking *blocking, void *v,
			  unsigned int max,
			  void (*done)(struct rbp_io *io, int res),
			  struct plugin_threads **ret);

/* Ends the threads; NULL is fine. Nothing is in flight. Thread: setup. */
void plugin_threads_free(struct plugin_threads *pool);

/* Has a helper thread of @helpers (struct plugin_threads) do @io; done() follows, maybe at
 * once when no thread can be made. io->scratch is used meanwhile. Thread: any. */
void plugin_threads_submit(void *helpers, struct rbp_io *io);

/* Bytes of io->scratch that this needs. */
#define PLUGIN_THREADS_SCRATCH sizeof(struct rbp_io *)

#endif
