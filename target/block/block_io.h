/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One I/O on its way through the backends of a volume. A store or layer sees its
 * front, struct rbp_io (plugins/rdma_block_plugin.h); what lies behind it is the
 * block layer's. There is no other kind of request, and nothing is copied on the
 * way: a block command embeds its I/O, and a layer forwards it, or asks the backend
 * below with a child of it.
 *
 * Who has it:
 *
 *   BLOCK_IO_IDLE       its owner, in which it is embedded
 *   BLOCK_IO_WAITING    the queue: the plugin has as many as it is given at a time
 *   BLOCK_IO_SUBMITTED  the backend, until it calls host->done() or host->forward()
 *   BLOCK_IO_ENDED      the queue: another thread has ended it, and the worker has not
 *                       heard of it yet
 *
 *      owner            queue                       backend
 *      IDLE  ---------> (WAITING when it is full) -> SUBMITTED
 *      IDLE  <- done() <- (ENDED by another thread) <- host->done()
 *                       the queue below             <- host->forward()
 *
 * Each I/O is ended once: who ends one that is not SUBMITTED mixes up data, and the
 * process ends at once.
 *
 * Stores and layers of this tree stand on the same public header. What they need and
 * no plugin could use lies behind its structs: the worker and its ring
 * (rbp_queue.worker), the io_uring index of a buffer (block_io.buf_index), what the
 * volume's options say and which file or device it is (struct block_info in
 * backend.h), and how to synchronize (struct backend_type). Nothing else is private.
 *
 * Thread: the worker of the I/O, if nothing else is said.
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

/* Bytes of scratch that each I/O has for a store or layer of this tree. */
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

	/* the block layer's */
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
	/* rbp_plugin.submit() and its volume, or the helper threads */
	void (*submit)(void *v, struct rbp_io *io);
	void *v;
	void *data;	    /* the backend's own: rbp_io.queue_data */
	const void *thread; /* that submits; NULL: none has yet */
	struct plugin_events events;
	unsigned int ended_cnt; /* I/Os, ever */
	/* A plugin that is loaded gets a slot with each I/O. */
	uint8_t *slots;
	struct block_slot *free;
	struct block_io *waiting; /* for a slot, oldest first */
	struct block_io **waiting_end;
	/* Ended on other threads, newest first, and the message that says so: it
	 * is under way while the list is not empty. */
	_Atomic(struct block_io *) ended;
	struct reactor_msg ended_msg;
};

/* Has @be do @bio, which backend_accepts(); done() may be called from within. */
void block_io_submit(struct backend *be, struct block_io *bio);

/* The same for a function of @be that is not for its blocks, such as
 * rbp_plugin.set_path(); io.op is 0. */
void block_io_ask(struct backend *be, struct block_io *bio,
		  void (*ask)(void *v, struct rbp_io *io));

/* rbp_host has these; what is in this tree may call them directly. Thread: of the
 * first any, else the worker. */
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
