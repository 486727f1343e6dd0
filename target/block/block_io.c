/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/block_io.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "target/block/backend.h"
#include "target/block/plugin_host.h"
#include "target/block/plugin_threads.h"

/* I/Os that a plugin has at a time on each worker; more must wait. */
#define QUEUE_DEPTH 256

/* What each I/O of a loaded plugin needs: scratch, and the child of a layer. */
struct block_slot {
	struct block_slot *next; /* in free */
	struct block_io child;
	bool child_is_below;
	_Alignas(16) uint8_t scratch[];
};

/* Its address identifies the thread, at no cost. */
static _Thread_local char block_io_thread;

/* ---- to the backend ---- */

static void block_io_start(struct rbp_queue *q, struct block_io *bio)
{
	struct rbp_io *io = &bio->io;

	io->queue = q;
	io->queue_data = q->data;
	if (!q->thread)
		q->thread = &block_io_thread;
	atomic_store_explicit(&bio->state, BLOCK_IO_SUBMITTED,
			      memory_order_relaxed);
	q->events.has_submits = true;
	if (io->op)
		q->submit(q->v, io);
	else
		bio->ask(q->be->v, io);
}

static void block_io_start_in_slot(struct rbp_queue *q, struct block_io *bio)
{
	struct block_slot *slot = q->free;

	q->free = slot->next;
	bio->slot = slot;
	bio->io.scratch = slot->scratch;
	block_io_start(q, bio);
}

static void block_io_wait(struct rbp_queue *q, struct block_io *bio)
{
	bio->state = BLOCK_IO_WAITING;
	bio->next = NULL;
	*q->waiting_end = bio;
	q->waiting_end = &bio->next;
}

static void block_io_enter(struct rbp_queue *q, struct block_io *bio)
{
	if (bio->io.op == RBP_FLUSH &&
	    (!q->be->can_flush || q->be->flush_error)) {
		bio->done(bio, q->be->flush_error);
	} else if (!q->slots) {
		bio->slot = NULL;
		bio->io.scratch = bio->scratch;
		block_io_start(q, bio);
	} else if (q->free) {
		block_io_start_in_slot(q, bio);
	} else {
		block_io_wait(q, bio);
	}
}

void block_io_submit(struct backend *be, struct block_io *bio)
{
	assert(backend_accepts(be, bio));
	bio->io.extent_len = 0;
	bio->io.extent_mapped = 0;
	bio->io.progress = 0;
	block_io_enter(be->queues[bio->worker->index], bio);
}

void block_io_ask(struct backend *be, struct block_io *bio,
		  void (*ask)(void *v, struct rbp_io *io))
{
	assert(!bio->io.op && ask);
	bio->ask = ask;
	block_io_enter(be->queues[bio->worker->index], bio);
}

/* ---- the end ---- */

static void block_io_give_slot(struct rbp_queue *q, struct block_slot *slot)
{
	struct block_io *bio = q->waiting;

	slot->next = q->free;
	q->free = slot;
	if (!bio)
		return;
	q->waiting = bio->next;
	if (!q->waiting)
		q->waiting_end = &q->waiting;
	block_io_start_in_slot(q, bio);
}

/* A store may know smaller units than the blocks of the volume. A block that has
 * both kinds counts as allocated. */
static void block_io_round_extent(struct rbp_io *io)
{
	uint64_t block = io->queue->be->info.volume_block;

	io->extent_len -= io->extent_len % block;
	if (io->extent_len)
		return;
	io->extent_len = block < io->len ? block : io->len;
	io->extent_mapped = 1;
}

/* -EIO if the extent that a backend reports is impossible. */
static int block_io_judge_extent(struct rbp_io *io)
{
	const struct backend_info *info = &io->queue->be->info;

	if (!io->extent_len || io->extent_len > io->len ||
	    io->extent_len % info->min_block)
		return -EIO;
	block_io_round_extent(io);
	return 0;
}

/* After a flush that ended with @res. Writes that another target has fenced off
 * are not lost, because they never ended. Nor is anything lost if the flush
 * could not be submitted. */
static bool block_io_may_have_lost(int res)
{
	return res && res != -ESHUTDOWN && res != -ENOTCONN;
}

/* Checks the answer of a backend, so that no caller needs to. */
static int block_io_judge(struct rbp_io *io, int res)
{
	if (res > 0)
		res = -EIO;
	if (!res && io->op == RBP_EXTENT)
		res = block_io_judge_extent(io);
	if (io->progress > io->len)
		io->progress = io->len;
	if (io->op == RBP_FLUSH && !res)
		res = atomic_load(&io->queue->be->flush_error);
	return res;
}

/* The owner gets it back last: done() may reuse or free it. */
static void block_io_finish(struct block_io *bio, int res)
{
	struct rbp_queue *q = bio->io.queue;

	if (res || bio->io.op > RBP_WRITE)
		res = block_io_judge(&bio->io, res);
	atomic_store_explicit(&bio->state, BLOCK_IO_IDLE, memory_order_relaxed);
	q->ended_cnt++;
	if (bio->slot)
		block_io_give_slot(q, bio->slot);
	bio->done(bio, res);
}

/* Handles all I/Os that other threads have ended so far. */
static void block_io_take_ended(struct reactor_msg *msg)
{
	struct rbp_queue *q = container_of(msg, struct rbp_queue, ended_msg);
	struct block_io *bio = atomic_exchange(&q->ended, NULL);
	struct block_io *oldest = NULL;

	while (bio) {
		struct block_io *next = bio->next;

		bio->next = oldest;
		oldest = bio;
		bio = next;
	}
	while (oldest) {
		bio = oldest;
		oldest = bio->next;
		block_io_finish(bio, bio->res);
	}
}

/* On another thread. One message covers all I/Os that end until the worker
 * handles it. */
static void block_io_hand_over(struct rbp_queue *q, struct block_io *bio,
			       int res)
{
	struct block_io *head = atomic_load(&q->ended);

	bio->res = res;
	do
		bio->next = head;
	while (!atomic_compare_exchange_weak(&q->ended, &head, bio));
	if (!head)
		reactor_send(q->worker->reactor, &q->ended_msg);
}

/* Before any flush that ends later. Such a flush fails, too, even if it began
 * before: a store may report lost writes to one flush only. */
static void block_io_note_failure(const struct rbp_io *io, int res)
{
	if (io->op == RBP_FLUSH && block_io_may_have_lost(res))
		atomic_store(&io->queue->be->flush_error, res < 0 ? res : -EIO);
}

/* A backend that ends an I/O twice may end the I/O of another command. */
static void block_io_ended_twice(const struct rbp_queue *q)
{
	log_error("%s: the plugin has ended an I/O twice; ending at once, "
		  "before data is mixed up",
		  q->be->vol.name);
	_exit(EXIT_FAILURE);
}

void block_io_done(struct rbp_io *io, int res)
{
	struct block_io *bio = block_io_of(io);
	struct rbp_queue *q = io->queue;

	if (atomic_exchange(&bio->state, BLOCK_IO_ENDED) != BLOCK_IO_SUBMITTED)
		block_io_ended_twice(q);
	if (res)
		block_io_note_failure(io, res);
	if (q->thread == &block_io_thread)
		block_io_finish(bio, res);
	else
		block_io_hand_over(q, bio, res);
}

/* ---- layers ---- */

struct rbp_io *block_io_child(struct rbp_io *io)
{
	struct block_slot *slot = block_io_of(io)->slot;

	assert(slot && !slot->child_is_below);
	slot->child.io = *io;
	slot->child.io.scratch = NULL;
	slot->child.io.parent = io;
	slot->child.io.ended = NULL;
	return &slot->child.io;
}

static void block_io_child_done(struct block_io *child, int res)
{
	block_io_of(child->io.parent)->slot->child_is_below = false;
	child->io.ended(&child->io, res);
}

/* The layer uses an operation that it was not told about. */
static bool block_io_is_refused(struct rbp_queue *q, const struct block_io *bio)
{
	if (backend_accepts(q->be->below, bio))
		return false;
	plugin_host_log(&q->be->vol, RBP_ERROR,
			"asks the backend below for what it cannot do "
			"(operation %d, %llu bytes at %llu)",
			(int)bio->io.op, (unsigned long long)bio->io.len,
			(unsigned long long)bio->io.offset);
	return true;
}

void block_io_below(struct rbp_io *io)
{
	struct block_io *child = block_io_of(io);
	struct block_io *parent = block_io_of(io->parent);
	struct rbp_queue *q = parent->io.queue;

	child->worker = q->worker;
	child->buf_index = io->buf == parent->io.buf ? parent->buf_index : -1;
	child->done = block_io_child_done;
	if (block_io_is_refused(q, child)) {
		io->ended(io, -EINVAL);
		return;
	}
	parent->slot->child_is_below = true;
	block_io_submit(q->be->below, child);
}

void block_io_forward(struct rbp_io *io)
{
	struct block_io *bio = block_io_of(io);
	struct block_slot *slot = bio->slot;
	struct rbp_queue *q = io->queue;

	if (block_io_is_refused(q, bio)) {
		block_io_done(io, -EINVAL);
		return;
	}
	if (atomic_exchange(&bio->state, BLOCK_IO_IDLE) != BLOCK_IO_SUBMITTED)
		block_io_ended_twice(q);
	q->ended_cnt++;
	/* Before those that wait for the slot, because they came later. */
	block_io_submit(q->be->below, bio);
	if (slot)
		block_io_give_slot(q, slot);
}

/* ---- queues ---- */

static size_t block_slot_len(const struct rbp_plugin *plugin)
{
	size_t scratch = plugin->scratch_len;

	if (scratch < PLUGIN_THREADS_SCRATCH)
		scratch = PLUGIN_THREADS_SCRATCH;
	return sizeof(struct block_slot) + (scratch + 15) / 16 * 16;
}

static int block_queue_make_slots(struct rbp_queue *q)
{
	size_t len = block_slot_len(q->be->plugin);

	q->slots = calloc(QUEUE_DEPTH, len);
	if (!q->slots)
		return -ENOMEM;
	for (unsigned int i = 0; i < QUEUE_DEPTH; i++) {
		struct block_slot *slot = (void *)(q->slots + i * len);

		slot->next = q->free;
		q->free = slot;
	}
	return 0;
}

static void block_queue_free(struct rbp_queue *q)
{
	if (!q)
		return;
	free(q->slots);
	free(q);
}

static void block_queue_end(struct rbp_queue *q)
{
	plugin_events_close(&q->events);
	block_queue_free(q);
}

static struct rbp_queue *block_queue_make(struct backend *be,
					  struct block_worker *w)
{
	struct rbp_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->be = be;
	q->worker = w;
	q->submit = be->plugin->submit;
	q->v = be->v;
	if (be->helpers) {
		q->submit = plugin_threads_submit;
		q->v = be->helpers;
	}
	q->waiting_end = &q->waiting;
	q->ended_msg.run = block_io_take_ended;
	if (!be->type && block_queue_make_slots(q)) {
		block_queue_free(q);
		return NULL;
	}
	return q;
}

int block_queue_open(struct backend *be, struct block_worker *w,
		     struct rbp_queue **ret)
{
	const struct rbp_plugin *plugin = be->plugin;
	struct rbp_queue *q = block_queue_make(be, w);
	int err = 0;

	if (!q)
		return -ENOMEM;
	plugin_events_open(&q->events, w->reactor, plugin->kick, be->v,
			   &q->ended_cnt);
	if (plugin->queue_add)
		err = plugin->queue_add(be->v, q, &q->data);
	q->events.queue_data = q->data;
	if (err)
		block_queue_end(q);
	else
		*ret = q;
	return err;
}

void block_queue_close(struct rbp_queue *q)
{
	if (!q)
		return;
	if (q->be->plugin->queue_del)
		q->be->plugin->queue_del(q->data);
	block_queue_end(q);
}
