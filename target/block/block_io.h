/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One I/O on its way through the backends of a volume. A store or layer sees only
 * its first part, struct rbp_io (plugins/rdma_block_plugin.h); the rest belongs to
 * the block layer. There is no other kind of request: a block command embeds its
 * I/O. A layer forwards it, or submits a child of it to the backend below.
 *
 * Stores and layers of this tree get the I/O itself, on the worker, and end it there.
 * A loaded plugin gets a copy, its handle (plugin_io.h).
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
struct plugin_ios;

/* Bytes of scratch that a store or layer of this tree has for each I/O. */
#define BLOCK_IO_SCRATCH 64

struct block_io {
	struct rbp_io io; /* first; op to buf and epoch are the owner's to set */
	/* set by the owner */
	struct block_worker *worker;
	/* @res: 0 or a negative errno. A short transfer is an error. */
	void (*done)(struct block_io *bio, int res);
	int buf_index; /* io_uring fixed buffer that io.buf lies in, or -1 */

	/* private to the block layer */
	void (*ask)(void *v, struct rbp_io *io); /* block_io_ask() */
	bool is_submitted;     /* to a store or layer of this tree */
	struct block_io *next; /* waits for a handle */
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
	void *data; /* the backend's own: rbp_io.queue_data */
	struct plugin_events events;
	unsigned int ended_cnt;	   /* I/Os that have ended */
	struct plugin_ios *plugin; /* NULL: a backend of this tree */
};

/* Submits @bio to @be; backend_accepts() must be true for it. done() may be
 * called from within. */
void block_io_submit(struct backend *be, struct block_io *bio);

/* The same for a function of @be that does not concern its blocks, such as
 * rbp_plugin.set_path(). io.op is 0. */
void block_io_ask(struct backend *be, struct block_io *bio,
		  void (*ask)(void *v, struct rbp_io *io));

/* For backends of this tree, as rbp_host.done and forward. */
void block_io_done(struct rbp_io *io, int res);
void block_io_forward(struct rbp_io *io);

/* ---- for plugin_io.c ---- */

/* Gives @io, which is that of @bio or a copy, to the backend of @q. */
void block_io_start(struct rbp_queue *q, struct block_io *bio,
		    struct rbp_io *io);

/* Checks the answer of a backend, so that no caller needs to. Returns the result. */
int block_io_judge(struct rbp_io *io, int res);

/* If @res says that a flush has failed, every flush that ends later fails, too, even
 * if it began before: a store may report lost writes to one flush only. Thread:
 * any. */
void block_io_note_failure(const struct rbp_io *io, int res);

/* True, with a line in the log, if the backend below that of @q does not accept
 * @bio. */
bool block_io_is_refused(struct rbp_queue *q, const struct block_io *bio);

/* Thread: setup. 0 or a negative errno. */
int block_queue_open(struct backend *be, struct block_worker *w,
		     struct rbp_queue **ret);
/* Nothing is in flight. Thread: setup or the worker. */
void block_queue_close(struct rbp_queue *q);

#endif
