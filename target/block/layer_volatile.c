/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/layer_volatile.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "target/block/block_worker.h"

/* Written to the store at once. Bytes. */
#define PIECE_LEN (1u << 20)

enum block_state {
	BLOCK_BELOW, /* never written: the store has it */
	BLOCK_CLEAN, /* a flush has taken it along */
	BLOCK_DIRTY, /* only the cache has it */
};

/*
 * One flush runs at a time, whoever asked: two at once could write an older
 * state of a block over a newer one. Those that come meanwhile wait for the
 * next, which then answers all that wait.
 */
struct volatile_layer {
	struct backend base;
	uint64_t size;
	uint32_t block_size;
	pthread_mutex_t lock;
	/* under the lock: */
	uint8_t *cache; /* all blocks; costs memory where it is written */
	uint8_t *states;
	bool flushing;
	struct list waiting; /* struct flush, node */
	/* of the flush that runs, on the worker of the first to ask: */
	struct block_worker *runner;
	struct list running;
	struct block_request io;
	uint8_t *piece;
	uint64_t next; /* byte to look at */
	int error;     /* the first one stays */
};

/* A BLOCK_FLUSH until it is answered. */
struct flush {
	struct block_request *req;
	struct list node;
	struct reactor_msg msg;
	int res;
};

/* A BLOCK_READ while the store has it. */
struct cached_read {
	struct block_request inner;
	struct block_request *outer;
};

static struct volatile_layer *volatile_to_layer(struct backend *be)
{
	return container_of(be, struct volatile_layer, base);
}

/* ---- reading and writing ---- */

static void volatile_read_done(struct block_request *inner, int res)
{
	struct cached_read *r = container_of(inner, struct cached_read, inner);
	struct block_request *outer = r->outer;
	struct volatile_layer *layer = volatile_to_layer(outer->backend);
	uint64_t unit = layer->block_size;

	pthread_mutex_lock(&layer->lock);
	for (uint64_t at = 0; at < outer->len; at += unit) {
		uint64_t from = outer->offset + at;

		if (layer->states[from / unit] != BLOCK_BELOW)
			memcpy((uint8_t *)outer->buf + at, layer->cache + from,
			       unit);
	}
	pthread_mutex_unlock(&layer->lock);
	outer->progress = inner->progress;
	free(r);
	outer->done(outer, res);
}

static void read_blocks(struct volatile_layer *layer, struct block_request *req)
{
	struct cached_read *r = malloc(sizeof(*r));

	if (!r) {
		req->done(req, -ENOMEM);
		return;
	}
	r->outer = req;
	r->inner = (struct block_request){
		.op = BLOCK_READ,
		.offset = req->offset,
		.len = req->len,
		.buf = req->buf,
		.buf_index = req->buf_index,
		.worker = req->worker,
		.done = volatile_read_done,
	};
	backend_submit(layer->base.below, &r->inner);
}

static void change_blocks(struct volatile_layer *layer,
			  struct block_request *req)
{
	uint64_t unit = layer->block_size;

	pthread_mutex_lock(&layer->lock);
	if (req->op == BLOCK_WRITE)
		memcpy(layer->cache + req->offset, req->buf, req->len);
	else
		memset(layer->cache + req->offset, 0, req->len);
	memset(layer->states + req->offset / unit, BLOCK_DIRTY,
	       req->len / unit);
	pthread_mutex_unlock(&layer->lock);
	req->progress = req->len;
	req->done(req, 0);
}

/* ---- flush ---- */

static void flush_next(struct volatile_layer *layer);

static void volatile_answer(struct reactor_msg *msg)
{
	struct flush *f = container_of(msg, struct flush, msg);
	struct block_request *req = f->req;
	int res = f->res;

	free(f);
	req->done(req, res);
}

/* False when nobody waits. */
static bool take_waiting(struct volatile_layer *layer)
{
	pthread_mutex_lock(&layer->lock);
	list_splice_tail(&layer->running, &layer->waiting);
	layer->flushing = !list_empty(&layer->running);
	pthread_mutex_unlock(&layer->lock);
	return !list_empty(&layer->running);
}

static void begin_flush(struct volatile_layer *layer)
{
	layer->next = 0;
	flush_next(layer);
}

static void volatile_flushed(struct block_request *io, int res)
{
	struct volatile_layer *layer =
		container_of(io, struct volatile_layer, io);
	struct list *node;

	if (res && !layer->error)
		layer->error = res;
	while ((node = list_pop(&layer->running))) {
		struct flush *f = container_of(node, struct flush, node);

		f->res = layer->error;
		f->msg.run = volatile_answer;
		reactor_send(f->req->worker->reactor, &f->msg);
	}
	if (take_waiting(layer))
		begin_flush(layer);
}

static void piece_written(struct block_request *io, int res)
{
	struct volatile_layer *layer =
		container_of(io, struct volatile_layer, io);

	if (res)
		volatile_flushed(io, res);
	else
		flush_next(layer);
}

/* Copies the next dirty blocks that lie together; returns how many bytes. */
static uint64_t take_dirty(struct volatile_layer *layer, uint64_t *ret_from)
{
	uint64_t unit = layer->block_size;
	uint64_t len = 0;
	uint64_t at;

	pthread_mutex_lock(&layer->lock);
	for (at = layer->next; at < layer->size && len < PIECE_LEN;
	     at += unit) {
		if (layer->states[at / unit] != BLOCK_DIRTY) {
			if (len)
				break;
			continue;
		}
		if (!len)
			*ret_from = at;
		layer->states[at / unit] = BLOCK_CLEAN;
		len += unit;
	}
	if (len)
		memcpy(layer->piece, layer->cache + *ret_from, len);
	pthread_mutex_unlock(&layer->lock);
	layer->next = at;
	return len;
}

static void flush_next(struct volatile_layer *layer)
{
	uint64_t from = 0;
	uint64_t len = take_dirty(layer, &from);

	layer->io = (struct block_request){
		.op = len ? BLOCK_WRITE : BLOCK_FLUSH,
		.offset = from,
		.len = len,
		.buf = layer->piece,
		.buf_index = -1,
		.worker = layer->runner,
		.done = len ? piece_written : volatile_flushed,
	};
	backend_submit(layer->base.below, &layer->io);
}

static void volatile_flush(struct volatile_layer *layer,
			   struct block_request *req)
{
	struct flush *f = malloc(sizeof(*f));
	bool mine;

	if (!f) {
		req->done(req, -ENOMEM);
		return;
	}
	f->req = req;
	pthread_mutex_lock(&layer->lock);
	list_add_tail(&layer->waiting, &f->node);
	mine = !layer->flushing;
	layer->flushing = true;
	pthread_mutex_unlock(&layer->lock);
	if (!mine)
		return;
	layer->runner = req->worker;
	take_waiting(layer);
	begin_flush(layer);
}

/* ---- the table ---- */

static void volatile_submit(struct backend *be, struct block_request *req)
{
	struct volatile_layer *layer = volatile_to_layer(be);

	switch (req->op) {
	case BLOCK_READ:
		read_blocks(layer, req);
		return;
	case BLOCK_WRITE:
	case BLOCK_UNMAP:
	case BLOCK_ZERO:
		change_blocks(layer, req);
		return;
	case BLOCK_FLUSH:
		volatile_flush(layer, req);
		return;
	case BLOCK_EXTENT: /* not declared */
		return;
	}
}

/* As large as the cache, which does not grow. */
static int volatile_measure(struct backend *be, uint64_t *ret_size)
{
	*ret_size = be->info.size;
	return 0;
}

static void volatile_close(struct backend *be)
{
	struct volatile_layer *layer = volatile_to_layer(be);

	if (layer->cache)
		munmap(layer->cache, layer->size);
	pthread_mutex_destroy(&layer->lock);
	free(layer->states);
	free(layer->piece);
	free(layer);
}

static const struct backend_ops volatile_ops = {
	.name = "volatile",
	.close = volatile_close,
	.submit = volatile_submit,
	.measure = volatile_measure,
};

static uint8_t *map_cache(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Everything is promised that changes in memory can keep, and no more. */
static void declare(struct backend_info *info, uint32_t block_size)
{
	info->kind = "volatile";
	info->volatile_cache = true;
	info->fua = false;
	info->atomic_len = 0;
	info->extents = false;
	info->zero = true;
	info->unmap_zeroes = true;
	if (!info->read_only)
		info->unmap_granularity = block_size;
}

int backend_volatile_open(struct backend *below, uint32_t block_size,
			  struct backend **ret)
{
	struct volatile_layer *layer = calloc(1, sizeof(*layer));

	if (!layer) {
		backend_close(below);
		return -ENOMEM;
	}
	layer->base.ops = &volatile_ops;
	layer->base.info = below->info;
	declare(&layer->base.info, block_size);
	layer->base.below = below;
	layer->size = below->info.size;
	layer->block_size = block_size;
	pthread_mutex_init(&layer->lock, NULL);
	list_init(&layer->waiting);
	list_init(&layer->running);
	layer->cache = map_cache(layer->size);
	layer->states = calloc(layer->size / block_size, 1);
	layer->piece = aligned_alloc(4096, PIECE_LEN);
	if (!layer->cache || !layer->states || !layer->piece) {
		backend_close(&layer->base);
		return -ENOMEM;
	}
	*ret = &layer->base;
	return 0;
}
