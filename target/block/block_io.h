/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One I/O on its way through the backends of a volume. A store or layer sees only
 * its first part, struct rbp_io (plugins/rdma_block_plugin.h); the rest belongs to
 * the block layer. There is no other kind of request, and nothing is copied on the
 * way: a block command embeds its I/O. A layer forwards it, or submits a child of
 * it to the backend below.
 *
 * The state tells which part of the program has it:
 *
 *   BLOCK_IO_IDLE       its owner, in which it is embedded
 *   BLOCK_IO_WAITING    the queue: the plugin has its maximum already
 *   BLOCK_IO_SUBMITTED  the backend, until it calls host->done() or host->forward()
 *   BLOCK_IO_ENDED      the queue: another thread has ended it, and the worker does
 *                       not know yet
 *
 *      owner            queue                       backend
 *      IDLE  ---------> (WAITING when it is full) -> SUBMITTED
 *      IDLE  <- done() <- (ENDED by another thread) <- host->done()
 *                       the queue below             <- host->forward()
 *
 * Each I/O is ended once. If a backend ends an I/O that is not SUBMITTED, it mixes
 * up data, so the process ends at once.
 *
 * Stores and layers of this tree use the same public header. Behind its structs is
 * what they need and no plugin could use: the worker and its ring
 * (rbp_queue.worker), the io_uring index of a buffer (block_io.buf_index), the
 * options of the volume and the identity of the file or device (struct block_info
 * in backend.h), and the function that synchronizes (struct backend_type). Nothing
 * else is private.
 *
 * Thread: the worker of the I/O, unless a function says otherwise.
 */
#ifndef TARGET_BLOCK_BLOCK_IO_H
#define TARGET_BLOCK_BLOCK_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "plugins/rdma_block_plugin.h"
#include "target/block/block_worker.h"
#include "target/block/plugin_events.h"

struct backend;
struct block_slot;

/* Bytes of scratch that a store or layer of this tree has for each I/O. */
#define BLOCK_IO_SCRATCH 64

enum block_io_state {
	BLOCK_IO_IDLE,
	BLOCK_IO_WAITING,
	BLOCK_IO_SUBMITTED,
	BLOCK_IO_ENDED,
};

struct block_io {
	struct rbp_io io; /* first; op to buf and epoch are the owner's to set */
	/* set by the owner */
	struct block_worker *worker;
	/* @res: 0 or a negative errno. A short transfer is an error. */
	void (*done)(struct block_io *bio, int res);
	int buf_index; /* io_uring fixed buffer that io.buf lies in, or -1 */

	/* private to the block layer */
	void (*ask)(void *v, struct rbp_io *io); /* block_io_ask() */
	_Atomic enum block_io_state state;
	int res;		 /* of BLOCK_IO_ENDED */
	struct block_io *next;	 /* in a list of its queue */
	struct block_slot *slot; /* NULL: of this tree */
	_Alignas(16) uint8_t scratch[BLOCK_IO_SCRATCH];
};

static inline struct block_io *block_io_of(struct rbp_io *io)
{
	return container_of(io, struct block_io, io);
}

/* A backend on one worker. */
struct rbp_queue {
	struct backend *be;
	struct block_worker *worker;
	/* rbp_plugin.submit() and its volume, or the helper threads. */
	void (*submit)(void *v, struct rbp_io *io);
	void *v;
	void *data;	    /* the backend's own: rbp_io.queue_data */
	const void *thread; /* the thread that submits; NULL: none has yet */
	struct plugin_events events;
	unsigned int ended_cnt; /* I/Os that have ended */
	/* Each I/O of a loaded plugin gets a slot. */
	uint8_t *slots;
	struct block_slot *free;
	struct block_io *waiting; /* for a slot, oldest first */
	struct block_io **waiting_end;
	/* I/Os that ended on other threads, newest first, and the message about
	 * them. The message is under way while the list is not empty. */
	_Atomic(struct block_io *) ended;
	struct reactor_msg ended_msg;
};

/* Submits @bio to @be; backend_accepts() must be true for it. done() may be
 * called from within. */
void block_io_submit(struct backend *be, struct block_io *bio);

/* The same for a function of @be that does not concern its blocks, such as
 * rbp_plugin.set_path(). io.op is 0. */
void block_io_ask(struct backend *be, struct block_io *bio,
		  void (*ask)(void *v, struct rbp_io *io));

/* rbp_host has these functions; the code of this tree may call them directly.
 * Thread: of the first any, of the others the worker. */
void block_io_done(struct rbp_io *io, int res);
struct rbp_io *block_io_child(struct rbp_io *io);
void block_io_below(struct rbp_io *io);
void block_io_forward(struct rbp_io *io);

/* Thread: setup. 0 or a negative errno. */
int block_queue_open(struct backend *be, struct block_worker *w,
		     struct rbp_queue **ret);
/* Nothing is in flight. Thread: setup or the worker. */
void block_queue_close(struct rbp_queue *q);

#endif
