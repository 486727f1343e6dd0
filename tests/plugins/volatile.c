/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A layer for tests: the worst write cache that is still honest. Written data
 * stays in the memory of the process until a flush, and is lost with the
 * process. Therefore kill -9 acts as a power cut, and a flush that a layer
 * above skips is noticed.
 *
 *     rdma-target --backing disk.img,layer=volatile
 *
 * Only one flush runs at a time: two at once could write an older state of a
 * block over a newer one. Flushes that come meanwhile wait for the next flush,
 * which answers all of them. It runs on the queue of one of them. The eventfd
 * of a queue tells its worker that the first waiting flush is in its queue.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>

#include <rdma_block_plugin.h>

/* Bytes written to the backend below at once. */
#define PIECE_LEN (1u << 20)

enum block_state {
	BLOCK_BELOW, /* never written: the backend below has its data */
	BLOCK_CLEAN, /* a flush has written it */
	BLOCK_DIRTY, /* only the cache has it */
};

/* A flush until it ends, in the scratch of the I/O. */
struct flush {
	struct rbp_io *io;
	STAILQ_ENTRY(flush) node;
};

STAILQ_HEAD(flushes, flush);

struct cache {
	uint64_t size;
	uint32_t unit; /* bytes in a block */
	pthread_mutex_t lock;
	/* under the lock: */
	uint8_t *bytes; /* all blocks; only written ones use memory */
	uint8_t *states;
	int is_flushing;
	struct flushes waiting;
	/* for the flush that runs: */
	struct flushes running;
	uint8_t *piece;
	uint64_t next; /* next byte to check */
	int error;     /* the first error stays */
};

struct queue {
	struct cache *cache;
	struct rbp_watch *watch;
	int wake_fd;
};

static const struct rbp_host *host;

/* ---- reading and writing ---- */

static void read_ended(struct rbp_io *child, int res)
{
	struct rbp_io *io = child->parent;
	struct queue *q = io->queue_data;
	struct cache *c = q->cache;

	pthread_mutex_lock(&c->lock);
	for (uint64_t at = 0; at < io->len; at += c->unit) {
		uint64_t from = io->offset + at;

		if (c->states[from / c->unit] != BLOCK_BELOW)
			memcpy((uint8_t *)io->buf + at, c->bytes + from,
			       c->unit);
	}
	pthread_mutex_unlock(&c->lock);
	io->progress = child->progress;
	host->done(io, res);
}

static void read_blocks(struct rbp_io *io)
{
	struct rbp_io *child = host->child(io);

	child->ended = read_ended;
	host->below(child);
}

static void change_blocks(struct cache *c, struct rbp_io *io)
{
	pthread_mutex_lock(&c->lock);
	if (io->op == RBP_WRITE)
		memcpy(c->bytes + io->offset, io->buf, io->len);
	else
		memset(c->bytes + io->offset, 0, io->len);
	memset(c->states + io->offset / c->unit, BLOCK_DIRTY,
	       io->len / c->unit);
	pthread_mutex_unlock(&c->lock);
	io->progress = io->len;
	host->done(io, 0);
}

/* ---- flush ---- */

static void flush_next(struct cache *c, struct rbp_io *runner);

/* The eventfd of another queue tells its worker. */
static void flush_end(struct cache *c)
{
	struct flushes ended = STAILQ_HEAD_INITIALIZER(ended);
	struct flush *f;
	int error = c->error;

	pthread_mutex_lock(&c->lock);
	STAILQ_CONCAT(&ended, &c->running);
	c->is_flushing = 0;
	f = STAILQ_FIRST(&c->waiting);
	if (f)
		eventfd_write(((struct queue *)f->io->queue_data)->wake_fd, 1);
	pthread_mutex_unlock(&c->lock);
	while ((f = STAILQ_FIRST(&ended))) {
		STAILQ_REMOVE_HEAD(&ended, node);
		host->done(f->io, error);
	}
}

static void piece_ended(struct rbp_io *child, int res)
{
	struct queue *q = child->parent->queue_data;
	struct cache *c = q->cache;
	int is_last = child->op == RBP_FLUSH;

	if (res && !c->error)
		c->error = res;
	if (res || is_last)
		flush_end(c);
	else
		flush_next(c, child->parent);
}

/* Copies the next dirty blocks that are consecutive. Returns the bytes. */
static uint64_t take_dirty(struct cache *c, uint64_t *ret_from)
{
	uint64_t len = 0;
	uint64_t at;

	pthread_mutex_lock(&c->lock);
	for (at = c->next; at < c->size && len < PIECE_LEN; at += c->unit) {
		if (c->states[at / c->unit] != BLOCK_DIRTY) {
			if (len)
				break;
			continue;
		}
		if (!len)
			*ret_from = at;
		c->states[at / c->unit] = BLOCK_CLEAN;
		len += c->unit;
	}
	if (len)
		memcpy(c->piece, c->bytes + *ret_from, len);
	pthread_mutex_unlock(&c->lock);
	c->next = at;
	return len;
}

static void flush_next(struct cache *c, struct rbp_io *runner)
{
	struct rbp_io *child = host->child(runner);
	uint64_t from = 0;
	uint64_t len = take_dirty(c, &from);

	child->op = len ? RBP_WRITE : RBP_FLUSH;
	child->offset = from;
	child->len = len;
	child->buf = len ? c->piece : NULL;
	child->ended = piece_ended;
	host->below(child);
}

/* Begins one flush for all that wait. @runner is one of them. Called with the
 * lock held; releases it. */
static void flush_begin(struct cache *c, struct rbp_io *runner)
{
	c->is_flushing = 1;
	c->next = 0;
	STAILQ_CONCAT(&c->running, &c->waiting);
	pthread_mutex_unlock(&c->lock);
	flush_next(c, runner);
}

static void flush(struct cache *c, struct rbp_io *io)
{
	struct flush *f = io->scratch;

	f->io = io;
	pthread_mutex_lock(&c->lock);
	STAILQ_INSERT_TAIL(&c->waiting, f, node);
	if (c->is_flushing)
		pthread_mutex_unlock(&c->lock);
	else
		flush_begin(c, io);
}

/* Another flush may have begun meanwhile. */
static void queue_woken(void *user, uint32_t events)
{
	struct queue *q = user;
	struct cache *c = q->cache;
	struct flush *f;
	eventfd_t cnt;

	eventfd_read(q->wake_fd, &cnt);
	pthread_mutex_lock(&c->lock);
	f = STAILQ_FIRST(&c->waiting);
	if (!f || c->is_flushing || f->io->queue_data != q)
		pthread_mutex_unlock(&c->lock);
	else
		flush_begin(c, f->io);
}

static void layer_submit(void *v, struct rbp_io *io)
{
	struct cache *c = v;

	switch (io->op) {
	case RBP_READ:
		read_blocks(io);
		return;
	case RBP_WRITE:
	case RBP_UNMAP:
	case RBP_ZERO:
		change_blocks(c, io);
		return;
	case RBP_FLUSH:
		flush(c, io);
		return;
	case RBP_EXTENT: /* not declared */
		return;
	}
}

/* ---- queues ---- */

static void layer_queue_del(void *queue_data)
{
	struct queue *q = queue_data;

	if (q->watch)
		host->watch_del(q->watch);
	if (q->wake_fd >= 0)
		close(q->wake_fd);
	free(q);
}

static int layer_queue_add(void *v, struct rbp_queue *queue, void **ret)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->cache = v;
	q->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->wake_fd >= 0)
		q->watch = host->watch_add(queue, q->wake_fd, RBP_READABLE,
					   queue_woken, q);
	if (!q->watch) {
		layer_queue_del(q);
		return -ENOMEM;
	}
	*ret = q;
	return 0;
}

/* ---- life cycle ---- */

static void layer_close(void *v)
{
	struct cache *c = v;

	if (c->bytes)
		munmap(c->bytes, c->size);
	pthread_mutex_destroy(&c->lock);
	free(c->states);
	free(c->piece);
	free(c);
}

static uint8_t *map_bytes(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Declares all capabilities that changes in memory can keep. */
static void declare(struct rbp_info *info)
{
	info->caps &= ~(uint32_t)(RBP_CAN_FUA | RBP_CAN_EXTENT);
	info->caps |= RBP_WRITE_CACHE | RBP_LOSES_UNFLUSHED | RBP_CAN_ZERO |
		      RBP_CAN_UNMAP | RBP_UNMAP_ZEROES;
	info->unmap_granularity = info->volume_block;
	info->atomic_write = 0;
}

static int layer_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	struct cache *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	STAILQ_INIT(&c->waiting);
	STAILQ_INIT(&c->running);
	c->size = info->bytes;
	c->unit = info->volume_block;
	c->bytes = map_bytes(c->size);
	c->states = calloc(c->size / c->unit + 1, 1);
	c->piece = aligned_alloc(4096, PIECE_LEN);
	if (!c->bytes || !c->states || !c->piece) {
		layer_close(c);
		return -ENOMEM;
	}
	declare(info);
	*ret_v = c;
	return 0;
}

/* As large as the cache, which does not grow. */
static int layer_measure(void *v, uint64_t *ret_bytes)
{
	*ret_bytes = ((struct cache *)v)->size;
	return 0;
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *h)
{
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.is_layer = 1,
		.name = "volatile",
		.version = "1",
		.help = "forgets what was not flushed",
		.scratch_len = sizeof(struct flush),
		.open = layer_open,
		.close = layer_close,
		.queue_add = layer_queue_add,
		.queue_del = layer_queue_del,
		.submit = layer_submit,
		.measure = layer_measure,
	};

	host = h;
	return &plugin;
}
