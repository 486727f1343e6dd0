/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/plugin_io.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "target/block/backend.h"
#include "target/block/plugin_threads.h"

/* I/Os that a plugin has at a time on each worker; more must wait. */
#define SLOTS 256u
/* More of them find more ends that come late. */
#define HANDLES 1024u

/* What each I/O needs: scratch, and the child of a layer. */
struct plugin_slot {
	struct plugin_slot *next; /* in free_slots */
	struct block_io child;
	bool child_is_below;
	_Alignas(16) uint8_t scratch[];
};

enum handle_state {
	HANDLE_FREE,
	HANDLE_HELD,  /* by the plugin, until it calls done() or forward() */
	HANDLE_ENDED, /* by another thread, and the worker does not know yet */
};

struct handle {
	struct rbp_io io; /* first: the plugin has its address */
	_Atomic enum handle_state state;
	int res;	     /* of HANDLE_ENDED */
	struct handle *next; /* in ended */
	struct block_io *bio;
	struct plugin_slot *slot;
};

struct plugin_ios {
	const void *thread; /* the thread that submits; NULL: none has yet */
	uint8_t *slots;
	struct plugin_slot *free_slots;
	struct block_io *waiting; /* for a slot, oldest first */
	struct block_io **waiting_end;
	unsigned int turn; /* of the handle to look at next */
	/* Handles that ended on other threads, newest first, and the message
	 * about them. The message is under way while the list is not empty. */
	_Atomic(struct handle *) ended;
	struct reactor_msg ended_msg;
	struct rbp_queue *queue;
	struct handle handles[HANDLES];
};

/* Its address identifies the thread, at no cost. */
static _Thread_local char plugin_io_thread;

static struct handle *handle_of(struct rbp_io *io)
{
	return container_of(io, struct handle, io);
}

/* ---- to the plugin ---- */

/* There are more handles than slots, so one is free. */
static struct handle *handle_take(struct plugin_ios *p)
{
	struct handle *h;

	do
		h = &p->handles[p->turn++ % HANDLES];
	while (atomic_load_explicit(&h->state, memory_order_relaxed) !=
	       HANDLE_FREE);
	return h;
}

static void plugin_io_start(struct rbp_queue *q, struct block_io *bio)
{
	struct plugin_ios *p = q->plugin;
	struct plugin_slot *slot = p->free_slots;
	struct handle *h = handle_take(p);

	p->free_slots = slot->next;
	if (!p->thread)
		p->thread = &plugin_io_thread;
	h->io = bio->io;
	h->io.scratch = slot->scratch;
	h->bio = bio;
	h->slot = slot;
	atomic_store_explicit(&h->state, HANDLE_HELD, memory_order_relaxed);
	block_io_start(q, bio, &h->io);
}

void plugin_io_enter(struct rbp_queue *q, struct block_io *bio)
{
	struct plugin_ios *p = q->plugin;

	if (p->free_slots) {
		plugin_io_start(q, bio);
		return;
	}
	bio->next = NULL;
	*p->waiting_end = bio;
	p->waiting_end = &bio->next;
}

static void give_slot(struct rbp_queue *q, struct plugin_slot *slot)
{
	struct plugin_ios *p = q->plugin;
	struct block_io *bio = p->waiting;

	slot->next = p->free_slots;
	p->free_slots = slot;
	if (!bio)
		return;
	p->waiting = bio->next;
	if (!p->waiting)
		p->waiting_end = &p->waiting;
	plugin_io_start(q, bio);
}

/* ---- the end ---- */

/* The owner gets it back last: done() may reuse or free it. */
static void plugin_io_finish(struct handle *h, int res)
{
	struct rbp_queue *q = h->io.queue;
	struct plugin_slot *slot = h->slot;
	struct block_io *bio = h->bio;

	res = block_io_judge(&h->io, res);
	bio->io.extent_len = h->io.extent_len;
	bio->io.extent_mapped = h->io.extent_mapped;
	bio->io.progress = h->io.progress;
	atomic_store_explicit(&h->state, HANDLE_FREE, memory_order_relaxed);
	q->ended_cnt++;
	give_slot(q, slot);
	bio->done(bio, res);
}

/* Handles all I/Os that other threads have ended so far. */
static void plugin_io_take_ended(struct reactor_msg *msg)
{
	struct plugin_ios *p = container_of(msg, struct plugin_ios, ended_msg);
	struct handle *h = atomic_exchange(&p->ended, NULL);
	struct handle *oldest = NULL;

	while (h) {
		struct handle *next = h->next;

		h->next = oldest;
		oldest = h;
		h = next;
	}
	while (oldest) {
		h = oldest;
		oldest = h->next;
		plugin_io_finish(h, h->res);
	}
}

/* On another thread. One message covers all I/Os that end until the worker
 * handles it. */
static void plugin_io_hand_over(struct plugin_ios *p, struct handle *h, int res)
{
	struct handle *head = atomic_load(&p->ended);

	h->res = res;
	do
		h->next = head;
	while (!atomic_compare_exchange_weak(&p->ended, &head, h));
	if (!head)
		reactor_send(p->queue->worker->reactor, &p->ended_msg);
}

/* The plugin does not hold @h any more. */
static void handle_end(struct handle *h, enum handle_state state)
{
	if (atomic_exchange(&h->state, state) == HANDLE_HELD)
		return;
	log_error("%s: the plugin has ended an I/O twice; ending at once, "
		  "before data is mixed up",
		  h->io.queue->be->vol.name);
	log_exit(EXIT_FAILURE);
}

void plugin_io_done(struct rbp_io *io, int res)
{
	struct handle *h = handle_of(io);
	struct plugin_ios *p = io->queue->plugin;

	handle_end(h, HANDLE_ENDED);
	if (res)
		block_io_note_failure(io, res);
	if (p->thread == &plugin_io_thread)
		plugin_io_finish(h, res);
	else
		plugin_io_hand_over(p, h, res);
}

/* ---- layers ---- */

struct rbp_io *plugin_io_child(struct rbp_io *io)
{
	struct plugin_slot *slot = handle_of(io)->slot;

	assert(!slot->child_is_below);
	slot->child.io = *io;
	slot->child.io.scratch = NULL;
	slot->child.io.parent = io;
	slot->child.io.ended = NULL;
	return &slot->child.io;
}

static void plugin_io_child_done(struct block_io *child, int res)
{
	handle_of(child->io.parent)->slot->child_is_below = false;
	child->io.ended(&child->io, res);
}

void plugin_io_below(struct rbp_io *io)
{
	struct block_io *child = block_io_of(io);
	struct handle *parent = handle_of(io->parent);
	struct rbp_queue *q = parent->io.queue;

	child->worker = q->worker;
	child->buf_index =
		io->buf == parent->io.buf ? parent->bio->buf_index : -1;
	child->done = plugin_io_child_done;
	if (block_io_is_refused(q, child)) {
		io->ended(io, -EINVAL);
		return;
	}
	parent->slot->child_is_below = true;
	block_io_submit(q->be->below, child);
}

void plugin_io_forward(struct rbp_io *io)
{
	struct handle *h = handle_of(io);
	struct plugin_slot *slot = h->slot;
	struct block_io *bio = h->bio;
	struct rbp_queue *q = io->queue;

	if (block_io_is_refused(q, bio)) {
		plugin_io_done(io, -EINVAL);
		return;
	}
	handle_end(h, HANDLE_FREE);
	q->ended_cnt++;
	/* Before those that wait for the slot, because they came later. */
	block_io_submit(q->be->below, bio);
	give_slot(q, slot);
}

/* ---- a queue ---- */

static size_t plugin_slot_len(const struct rbp_plugin *plugin)
{
	size_t scratch = plugin->scratch_len;

	if (scratch < PLUGIN_THREADS_SCRATCH)
		scratch = PLUGIN_THREADS_SCRATCH;
	return sizeof(struct plugin_slot) + (scratch + 15) / 16 * 16;
}

int plugin_io_open(struct rbp_queue *q, struct plugin_ios **ret)
{
	struct plugin_ios *p = calloc(1, sizeof(*p));
	size_t len = plugin_slot_len(q->be->plugin);

	if (p)
		p->slots = calloc(SLOTS, len);
	if (!p || !p->slots) {
		free(p);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < SLOTS; i++) {
		struct plugin_slot *slot = (void *)(p->slots + i * len);

		slot->next = p->free_slots;
		p->free_slots = slot;
	}
	p->waiting_end = &p->waiting;
	p->ended_msg.run = plugin_io_take_ended;
	p->queue = q;
	*ret = p;
	return 0;
}

void plugin_io_close(struct plugin_ios *p)
{
	if (!p)
		return;
	free(p->slots);
	free(p);
}
