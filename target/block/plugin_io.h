/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The I/Os that a loaded plugin has, on one worker. The plugin never sees the I/O of
 * the block layer, which its owner reuses at once, but a copy: its handle. Each
 * backend of a volume has handles of its own.
 *
 *      owner         -> (waits for a slot) -> HANDLE_HELD by the plugin
 *      owner         <- HANDLE_FREE <- (HANDLE_ENDED by another thread) <- done()
 *      queue below   <- HANDLE_FREE                                     <- forward()
 *
 * A plugin that ends a handle which it does not hold mixes up data, so the process
 * ends at once. Handles are reused in turn: an address means another I/O only after
 * HANDLES - SLOTS or more others have begun. So the end of an I/O that had already
 * ended is known as such, and is not taken for the end of the next one.
 *
 * Thread: the worker of the queue, unless a function says otherwise.
 */
#ifndef TARGET_BLOCK_PLUGIN_IO_H
#define TARGET_BLOCK_PLUGIN_IO_H

#include "plugins/rdma_block_plugin.h"

struct block_io;
struct plugin_ios;

/* Thread: setup. 0 or -ENOMEM. */
int plugin_io_open(struct rbp_queue *q, struct plugin_ios **ret);
/* Nothing is in flight; NULL is fine. Thread: setup or the worker. */
void plugin_io_close(struct plugin_ios *p);

/* Submits @bio to the plugin, when it has a slot for it. */
void plugin_io_enter(struct rbp_queue *q, struct block_io *bio);

/* Functions of rbp_host, which take handles. Thread: of the first any. */
void plugin_io_done(struct rbp_io *io, int res);
struct rbp_io *plugin_io_child(struct rbp_io *io);
void plugin_io_below(struct rbp_io *io);
void plugin_io_forward(struct rbp_io *io);

#endif
