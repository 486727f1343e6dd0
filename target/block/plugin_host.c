/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/plugin_host.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "target/block/plugin_events.h"
#include "target/block/plugin_threads.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "target/block/block_worker.h"

/* I/O that a plugin has at a time, on each worker; more wait. */
#define QUEUE_DEPTH 256

#define THREADS_DEFAULT 4u
#define THREADS_MAX	64u

/* Targets that serve the same data. */
#define PATHS_MAX 8u

/* Larger volumes than this have offsets that are negative for off_t. */
#define BYTES_MAX (1ull << 62)

/* Where an I/O of the pool is. */
enum io_state {
	IO_FREE,
	IO_SUBMITTED, /* the plugin has it */
	IO_ENDED,     /* the plugin has ended it on another thread */
};

/* One I/O of the pool; the plugin's scratch follows it. */
struct plugin_io {
	struct rbp_io io;
	struct block_request *req; /* what it is for */
	_Atomic enum io_state state;
	int res;		/* of IO_ENDED */
	struct plugin_io *next; /* in free or ended */
	/* A layer's: what it asks of the backend below. */
	struct rbp_io child;
	struct block_request below;
	bool child_is_below;
	_Alignas(16) uint8_t scratch[];
};

struct rbp_queue {
	struct backend_plugin *be;
	struct block_worker *worker;
	pthread_t thread; /* that submits */
	bool has_thread;
	void *data; /* the plugin's */
	struct plugin_events events;
	unsigned int ended_cnt; /* I/Os, ever */
	struct plugin_io *free;
	struct block_request *waiting; /* for an I/O of the pool, oldest first */
	struct block_request **waiting_end;
	/* Ended on other threads, newest first, and the message that says so:
	 * it is under way while the list is not empty. */
	_Atomic(struct plugin_io *) ended;
	struct reactor_msg ended_msg;
	uint8_t *pool;
};

/* As the plugin knows it. */
struct rbp_vol {
	struct log_limit limit;
	struct log_limit error_limit; /* of RBP_ERROR */
	pthread_mutex_t lock;	      /* guards the limits */
	char name[512];
};

struct backend_plugin {
	struct backend base;
	const struct rbp_plugin *plugin;
	struct rbp_vol vol;
	struct rbp_info info;
	char *location; /* NULL: a layer */
	struct rbp_arg *args;
	void *v; /* the plugin's volume */
	bool is_open;
	struct plugin_threads *helpers; /* NULL: it has submit() */
	pthread_mutex_t set_lock;	/* held during set_params() */
	/* host->notes(): who takes them, and under the lock, until somebody
	 * does, the newest. */
	pthread_mutex_t notes_lock;
	int (*take_notes)(void *user, uint64_t version, const void *data,
			  size_t len);
	void *notes_user;
	uint8_t *notes;
	size_t notes_len;
	uint64_t notes_version;
	/* As every backend's: the first failure of a flush stays. */
	_Atomic int flush_error;
	struct rbp_queue *queues[BLOCK_WORKERS_MAX];
};

static const struct backend_ops plugin_layer_ops;

static struct backend_plugin *to_plugin(const struct backend *be)
{
	return container_of(be, struct backend_plugin, base);
}

static struct plugin_io *to_plugin_io(struct rbp_io *io)
{
	return container_of(io, struct plugin_io, io);
}

/* ---- one I/O ---- */

static const enum rbp_op ops[] = {
	[BLOCK_READ] = RBP_READ,   [BLOCK_WRITE] = RBP_WRITE,
	[BLOCK_FLUSH] = RBP_FLUSH, [BLOCK_UNMAP] = RBP_UNMAP,
	[BLOCK_ZERO] = RBP_ZERO,   [BLOCK_EXTENT] = RBP_EXTENT,
};

static void fill_io(struct plugin_io *p, struct block_request *req)
{
	struct rbp_queue *q = p->io.queue;

	p->req = req;
	p->io.op = ops[req->op];
	p->io.flags =
		(req->fua ? RBP_FUA : 0) | (req->may_unmap ? RBP_MAY_UNMAP : 0);
	p->io.offset = req->offset;
	p->io.len = req->len;
	p->io.buf = req->buf;
	p->io.extent_len = 0;
	p->io.extent_mapped = 0;
	p->io.progress = 0;
	p->io.queue_data = q->data;
	p->io.epoch = req->epoch;
	p->io.version = req->version;
}

static void start_io(struct rbp_queue *q, struct block_request *req)
{
	struct backend_plugin *be = q->be;
	struct plugin_io *p = q->free;

	q->free = p->next;
	fill_io(p, req);
	atomic_store_explicit(&p->state, IO_SUBMITTED, memory_order_relaxed);
	q->events.has_submits = true;
	if (be->helpers)
		plugin_threads_submit(be->helpers, &p->io);
	else
		be->plugin->submit(be->v, &p->io);
}

static void plugin_host_start_waiting(struct rbp_queue *q)
{
	struct block_request *req = q->waiting;

	if (!req || !q->free)
		return;
	q->waiting = req->next;
	if (!q->waiting)
		q->waiting_end = &q->waiting;
	start_io(q, req);
}

/* What a plugin says of an extent, if it can be so. */
static int take_extent(const struct plugin_io *p, struct block_request *req)
{
	const struct backend_plugin *be = p->io.queue->be;

	if (!p->io.extent_len || p->io.extent_len > req->len ||
	    p->io.extent_len % be->info.block_size)
		return -EIO;
	req->extent_len = p->io.extent_len;
	req->extent_mapped = p->io.extent_mapped;
	return 0;
}

/* After a flush that ended with @res. What another target has fenced off is not
 * lost: it never ended. Nor is what could not be asked for. */
static bool plugin_host_may_have_lost(int res)
{
	return res && res != -ESHUTDOWN && res != -ENOTCONN;
}

/* Takes the results into the request, which is answered last. On the worker. */
static void plugin_host_finish(struct plugin_io *p, int res)
{
	struct block_request *req = p->req;
	struct rbp_queue *q = p->io.queue;

	if (res > 0)
		res = -EIO;
	if (!res && req->op == BLOCK_EXTENT)
		res = take_extent(p, req);
	req->progress = p->io.progress < req->len ? p->io.progress : req->len;
	if (req->op == BLOCK_FLUSH && plugin_host_may_have_lost(res))
		atomic_store(&q->be->flush_error, res);
	atomic_store_explicit(&p->state, IO_FREE, memory_order_relaxed);
	p->next = q->free;
	q->free = p;
	q->ended_cnt++;
	plugin_host_start_waiting(q);
	req->done(req, res);
}

/* All that other threads have ended so far. */
static void take_ended(struct reactor_msg *msg)
{
	struct rbp_queue *q = container_of(msg, struct rbp_queue, ended_msg);
	struct plugin_io *p = atomic_exchange(&q->ended, NULL);
	struct plugin_io *oldest = NULL;

	while (p) {
		struct plugin_io *next = p->next;

		p->next = oldest;
		oldest = p;
		p = next;
	}
	while (oldest) {
		p = oldest;
		oldest = p->next;
		plugin_host_finish(p, p->res);
	}
}

/* Another thread's: one message for all that it ends until the worker looks. */
static void hand_over(struct rbp_queue *q, struct plugin_io *p, int res)
{
	struct plugin_io *head = atomic_load(&q->ended);

	p->res = res;
	do
		p->next = head;
	while (!atomic_compare_exchange_weak(&q->ended, &head, p));
	if (!head)
		reactor_send(q->worker->reactor, &q->ended_msg);
}

/* ---- what rdma-target does for plugins ---- */

static void host_log(struct rbp_vol *vol, enum rbp_log_level level,
		     const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A plugin that ends an I/O twice has one of another command in its hands. */
static void ended_twice(const struct rbp_queue *q)
{
	log_error("%s: the plugin has ended an I/O twice; ending at once, "
		  "before data is mixed up",
		  q->be->vol.name);
	_exit(EXIT_FAILURE);
}

static void host_done(struct rbp_io *io, int res)
{
	struct plugin_io *p = to_plugin_io(io);
	struct rbp_queue *q = io->queue;

	if (atomic_exchange(&p->state, IO_ENDED) != IO_SUBMITTED)
		ended_twice(q);
	if (pthread_equal(q->thread, pthread_self()))
		plugin_host_finish(p, res);
	else
		hand_over(q, p, res);
}

static enum log_level to_log_level(enum rbp_log_level level)
{
	switch (level) {
	case RBP_ERROR:
		return LOG_ERROR;
	case RBP_WARNING:
		return LOG_WARNING;
	case RBP_NOTICE:
		return LOG_NOTICE;
	case RBP_DEBUG:
		return LOG_DEBUG;
	}
	return LOG_ERROR;
}

/* What a plugin tells of its course does not hide that something has failed. */
static bool plugin_host_may_log(struct rbp_vol *vol, enum rbp_log_level level,
				unsigned int *ret_dropped)
{
	bool pass;

	pthread_mutex_lock(&vol->lock);
	pass = log_limit_pass(level == RBP_ERROR ? &vol->error_limit
						 : &vol->limit,
			      /* burst= */ 5, ret_dropped);
	pthread_mutex_unlock(&vol->lock);
	return pass;
}

static void host_log(struct rbp_vol *vol, enum rbp_log_level level,
		     const char *fmt, ...)
{
	unsigned int dropped = 0;
	char line[512];
	va_list ap;

	if (to_log_level(level) > log_level ||
	    (vol && !plugin_host_may_log(vol, level, &dropped)))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (dropped)
		log_write(to_log_level(level), "%s: %u lines were left out",
			  vol->name, dropped);
	log_write(to_log_level(level), "%s: %s", vol ? vol->name : "plugin",
		  line);
}

/* Guards the next two, and is held during a call. */
static pthread_mutex_t resized_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*resized_hook)(void *user);
static void *resized_user;

void backend_plugin_on_resize(void (*changed)(void *user), void *user)
{
	pthread_mutex_lock(&resized_lock);
	resized_hook = changed;
	resized_user = user;
	pthread_mutex_unlock(&resized_lock);
}

void backend_plugin_look(void)
{
	pthread_mutex_lock(&resized_lock);
	if (resized_hook)
		resized_hook(resized_user);
	pthread_mutex_unlock(&resized_lock);
}

static void host_resized(struct rbp_vol *vol)
{
	backend_plugin_look();
}

/* ---- layers ---- */

static struct rbp_io *host_child(struct rbp_io *io)
{
	struct plugin_io *p = to_plugin_io(io);

	assert(!p->child_is_below);
	p->child = *io;
	p->child.scratch = NULL;
	p->child.parent = io;
	p->child.ended = NULL;
	return &p->child;
}

static void below_done(struct block_request *req, int res)
{
	struct plugin_io *p = container_of(req, struct plugin_io, below);

	p->child_is_below = false;
	p->child.extent_len = req->extent_len;
	p->child.extent_mapped = req->extent_mapped;
	p->child.progress = req->progress;
	p->child.ended(&p->child, res);
}

static enum block_op to_block_op(enum rbp_op op)
{
	switch (op) {
	case RBP_READ:
		return BLOCK_READ;
	case RBP_WRITE:
		return BLOCK_WRITE;
	case RBP_FLUSH:
		return BLOCK_FLUSH;
	case RBP_UNMAP:
		return BLOCK_UNMAP;
	case RBP_ZERO:
		return BLOCK_ZERO;
	case RBP_EXTENT:
		return BLOCK_EXTENT;
	}
	return BLOCK_READ;
}

static void host_below(struct rbp_io *child)
{
	struct plugin_io *p = container_of(child, struct plugin_io, child);
	struct rbp_queue *q = p->io.queue;
	struct backend *below = q->be->base.below;

	p->below = (struct block_request){
		.op = to_block_op(child->op),
		.fua = child->flags & RBP_FUA,
		.may_unmap = child->flags & RBP_MAY_UNMAP,
		.offset = child->offset,
		.len = child->len,
		.buf = child->buf,
		.buf_index = child->buf == p->io.buf ? p->req->buf_index : -1,
		.worker = q->worker,
		.epoch = child->epoch,
		.done = below_done,
	};
	if (!backend_accepts(below, &p->below)) {
		host_log(&q->be->vol, RBP_ERROR,
			 "asks the backend below for what it cannot do "
			 "(operation %d, %llu bytes at %llu)",
			 (int)child->op, (unsigned long long)child->len,
			 (unsigned long long)child->offset);
		child->ended(child, -EINVAL);
		return;
	}
	p->child_is_below = true;
	backend_submit(below, &p->below);
}

/* ---- events ---- */

static struct rbp_watch *
host_watch_add(struct rbp_queue *q, int fd, uint32_t what,
	       void (*ready)(void *user, uint32_t what), void *user)
{
	return plugin_watch_add(&q->events, fd, what, ready, user);
}

static struct rbp_timer *host_timer_add(struct rbp_queue *q,
					void (*fire)(void *user), void *user)
{
	return plugin_timer_add(&q->events, fire, user);
}

/* The same look at all volumes finds it. */
static void host_path_changed(struct rbp_vol *vol)
{
	backend_plugin_look();
}

/* The lock is held. */
static int plugin_host_keep_notes(struct backend_plugin *be, uint64_t version,
				  const void *data, size_t len)
{
	if (be->notes && version < be->notes_version)
		return 0;
	if (!be->notes)
		be->notes = malloc(RBP_NOTES_MAX);
	if (!be->notes)
		return -ENOMEM;
	if (len)
		memcpy(be->notes, data, len);
	be->notes_len = len;
	be->notes_version = version;
	return 0;
}

static int host_notes(struct rbp_vol *vol, uint64_t version, const void *data,
		      size_t len)
{
	struct backend_plugin *be =
		container_of(vol, struct backend_plugin, vol);
	int err = 0;
	bool waits;

	if (len > RBP_NOTES_MAX)
		return -EMSGSIZE;
	pthread_mutex_lock(&be->notes_lock);
	waits = !be->take_notes;
	if (waits)
		err = plugin_host_keep_notes(be, version, data, len);
	pthread_mutex_unlock(&be->notes_lock);
	return waits ? err : be->take_notes(be->notes_user, version, data, len);
}

static const struct rbp_host host = {
	.size = sizeof(host),
	.version = RDMA_BLOCK_VERSION,
	.done = host_done,
	.log = host_log,
	.resized = host_resized,
	.child = host_child,
	.below = host_below,
	.watch_add = host_watch_add,
	.watch_set = plugin_watch_set,
	.watch_del = plugin_watch_del,
	.timer_add = host_timer_add,
	.timer_set = plugin_timer_set,
	.timer_stop = plugin_timer_stop,
	.timer_del = plugin_timer_del,
	.path_changed = host_path_changed,
	.notes = host_notes,
};

const struct rbp_host *backend_plugin_host(void)
{
	return &host;
}

/* ---- submit ---- */

/* The worker's, which is not known before. */
static void note_thread(struct rbp_queue *q)
{
	if (q->has_thread)
		return;
	q->thread = pthread_self();
	q->has_thread = true;
}

static void plugin_submit(struct backend *base, struct block_request *req)
{
	struct backend_plugin *be = to_plugin(base);
	struct rbp_queue *q = be->queues[req->worker->index];
	bool has_nothing =
		req->op == BLOCK_FLUSH && !(be->info.caps & RBP_CAN_FLUSH);
	int err = atomic_load(&be->flush_error);

	if (has_nothing || (req->op == BLOCK_FLUSH && err)) {
		req->done(req, err);
		return;
	}
	note_thread(q);
	if (q->free) {
		start_io(q, req);
		return;
	}
	req->next = NULL;
	*q->waiting_end = req;
	q->waiting_end = &req->next;
}

/* ---- queues ---- */

static size_t io_len(const struct backend_plugin *be)
{
	size_t scratch = be->plugin->scratch_len;

	if (scratch < PLUGIN_THREADS_SCRATCH)
		scratch = PLUGIN_THREADS_SCRATCH;
	return sizeof(struct plugin_io) + (scratch + 15) / 16 * 16;
}

static int make_pool(struct rbp_queue *q)
{
	size_t len = (io_len(q->be) + 15) / 16 * 16;

	q->pool = calloc(QUEUE_DEPTH, len);
	if (!q->pool)
		return -ENOMEM;
	for (unsigned int i = 0; i < QUEUE_DEPTH; i++) {
		struct plugin_io *p = (void *)(q->pool + i * len);

		p->io.queue = q;
		p->io.scratch = p->scratch;
		p->next = q->free;
		q->free = p;
	}
	return 0;
}

static void queue_free(struct rbp_queue *q)
{
	if (!q)
		return;
	free(q->pool);
	free(q);
}

static void queue_end(struct rbp_queue *q)
{
	plugin_events_close(&q->events);
	queue_free(q);
}

static int queue_make(struct backend_plugin *be, struct block_worker *w,
		      struct rbp_queue **ret)
{
	const struct rbp_plugin *plugin = be->plugin;
	struct rbp_queue *q = calloc(1, sizeof(*q));
	int err = q ? 0 : -ENOMEM;

	if (!err) {
		q->be = be;
		q->worker = w;
		q->waiting_end = &q->waiting;
		q->ended_msg.run = take_ended;
		err = make_pool(q);
	}
	if (err) {
		queue_free(q);
		return err;
	}
	plugin_events_open(&q->events, w->reactor, plugin->kick, be->v,
			   &q->ended_cnt);
	if (plugin->queue_add)
		err = plugin->queue_add(be->v, q, &q->data);
	q->events.queue_data = q->data;
	if (err)
		queue_end(q);
	else
		*ret = q;
	return err;
}

static int plugin_attach(struct backend *base, struct block_worker *w)
{
	struct backend_plugin *be = to_plugin(base);

	return queue_make(be, w, &be->queues[w->index]);
}

static void plugin_detach(struct backend *base, struct block_worker *w)
{
	struct backend_plugin *be = to_plugin(base);
	struct rbp_queue *q = be->queues[w->index];

	if (!q)
		return;
	if (be->plugin->queue_del)
		be->plugin->queue_del(q->data);
	queue_end(q);
	be->queues[w->index] = NULL;
}

/* ---- open ---- */

static uint32_t caps_of(const struct backend_info *info)
{
	uint32_t caps = RBP_CAN_FLUSH;

	if (!info->read_only)
		caps |= RBP_CAN_WRITE;
	if (info->fua)
		caps |= RBP_CAN_FUA;
	if (info->unmap_granularity)
		caps |= RBP_CAN_UNMAP;
	if (info->zero)
		caps |= RBP_CAN_ZERO;
	if (info->extents)
		caps |= RBP_CAN_EXTENT;
	if (info->volatile_cache)
		caps |= RBP_WRITE_CACHE;
	if (info->forgets)
		caps |= RBP_LOSES_UNFLUSHED;
	if (info->is_lasting)
		caps |= RBP_LASTING;
	if (info->unmap_zeroes)
		caps |= RBP_UNMAP_ZEROES;
	if (info->rotational)
		caps |= RBP_ROTATIONAL;
	if (info->read_cache)
		caps |= RBP_READ_CACHE;
	return caps;
}

/* What a layer finds in its info: the backend below. */
static void describe_below(const struct backend *below, struct rbp_info *info)
{
	info->caps = caps_of(&below->info);
	info->bytes = below->info.size;
	info->block_size = below->info.min_block;
	info->optimal_io = below->info.optimal_block;
	info->unmap_granularity = below->info.unmap_granularity;
	info->atomic_write = below->info.atomic_len;
	snprintf(info->below_mark, sizeof(info->below_mark), "%s",
		 below->info.id.mark.lasting);
}

static bool lacks_function(const struct backend_plugin *be)
{
	const struct rbp_blocking *b = be->plugin->blocking;
	uint32_t caps = be->info.caps;

	if (be->plugin->submit)
		return false;
	return ((caps & RBP_CAN_WRITE) && !b->write) ||
	       ((caps & RBP_CAN_FLUSH) && !b->flush) ||
	       ((caps & RBP_CAN_UNMAP) && !b->unmap) ||
	       ((caps & RBP_CAN_ZERO) && !b->zero) ||
	       ((caps & RBP_CAN_EXTENT) && !b->extent);
}

static bool has_wrong_paths(const struct backend_plugin *be)
{
	struct rbp_paths paths = { .size = sizeof(paths) };

	if (!be->plugin->paths)
		return false;
	be->plugin->paths(be->v, &paths);
	return paths.cnt && (paths.cnt > PATHS_MAX || !paths.own ||
			     paths.own > paths.cnt || !be->plugin->set_path);
}

/* A plugin that contradicts itself is not served. NULL: it does not. */
static const char *plugin_host_what_is_wrong(const struct backend_plugin *be,
					     uint32_t block_size)
{
	const struct rbp_info *info = &be->info;
	uint64_t measured = info->bytes;

	if (!info->block_size || info->block_size > 4096 ||
	    info->block_size & (info->block_size - 1))
		return "its block_size is no power of two from 1 to 4096";
	if (info->bytes < block_size)
		return "is smaller than one block";
	if (info->bytes > BYTES_MAX || info->bytes % info->block_size)
		return "its size is out of range, or no multiple of its "
		       "block_size";
	if (be->plugin->measure &&
	    (be->plugin->measure(be->v, &measured) || measured != info->bytes))
		return "it says one size at open() and another one by "
		       "measure()";
	if ((info->caps & RBP_WRITE_CACHE) && !(info->caps & RBP_CAN_FLUSH))
		return "it has a write cache and no flush";
	if ((info->caps & RBP_LOSES_UNFLUSHED) &&
	    !(info->caps & RBP_WRITE_CACHE))
		return "it loses what was not flushed, and has no write cache";
	if ((info->caps & RBP_CAN_UNMAP) && !info->unmap_granularity)
		return "it can unmap, but has no unmap_granularity";
	if (has_wrong_paths(be))
		return "it serves with more than 8 targets, or is none of "
		       "them, or cannot change that";
	if (!be->plugin->get_notes != !be->plugin->put_notes ||
	    !be->plugin->put_notes != !be->plugin->notes_taken)
		return "it has some of the functions for notes, and not all";
	if (info->threads > THREADS_MAX)
		return "it wants more than 64 threads";
	if (lacks_function(be))
		return "it lacks a function for one of its capabilities";
	if (!memchr(info->identity, '\0', sizeof(info->identity)))
		return "its identity has no end";
	return NULL;
}

/* store_id.h wants one word of visible characters. */
static void name_store(const struct rbp_info *from, struct store_id *id)
{
	snprintf(id->own, sizeof(id->own), "%s", from->identity);
	for (char *c = id->own; *c; c++) {
		if (*c <= ' ' || *c > '~')
			*c = '_';
	}
	memcpy(id->mark.lasting, id->own, sizeof(id->mark.lasting));
}

/* Which data it is: a layer's data is that of what it stands on, unless it says
 * something else or does not last. A store without identity may be another one
 * tomorrow. */
static void identify(struct backend_plugin *be)
{
	struct backend_info *to = &be->base.info;

	to->is_lasting = be->info.caps & RBP_LASTING;
	if (be->base.below && to->is_lasting) {
		to->id = be->base.below->info.id;
		to->life = be->base.below->info.life;
	}
	if (!be->base.below)
		to->id.is_device = true;
	if (*be->info.identity)
		name_store(&be->info, &to->id);
}

static void plugin_host_describe(struct backend_plugin *be,
				 const struct backend_options *opt)
{
	const struct rbp_info *from = &be->info;
	struct backend_info *to = &be->base.info;
	uint32_t caps = from->caps;

	to->kind = be->plugin->name;
	to->size = from->bytes - from->bytes % opt->block_size;
	to->min_block = from->block_size;
	to->optimal_block = from->optimal_io ? from->optimal_io : 4096;
	to->read_only = opt->read_only || !(caps & RBP_CAN_WRITE);
	to->unmap_granularity = caps & RBP_CAN_UNMAP && !to->read_only
					? from->unmap_granularity
					: 0;
	to->unmap_zeroes = caps & RBP_UNMAP_ZEROES;
	to->volatile_cache = caps & RBP_WRITE_CACHE && !to->read_only;
	to->forgets = caps & RBP_LOSES_UNFLUSHED;
	to->may_flush_to_write = be->base.below != NULL;
	to->fua = caps & RBP_CAN_FUA;
	to->atomic_len = from->atomic_write;
	to->read_cache = caps & RBP_READ_CACHE;
	to->zero = caps & RBP_CAN_ZERO;
	to->extents = caps & RBP_CAN_EXTENT;
	to->rotational = caps & RBP_ROTATIONAL;
	to->has_notes = be->notes && be->plugin->put_notes;
	identify(be);
}

static void plugin_close(struct backend *base)
{
	struct backend_plugin *be = to_plugin(base);

	plugin_threads_free(be->helpers);
	if (be->is_open)
		be->plugin->close(be->v);
	pthread_mutex_destroy(&be->vol.lock);
	pthread_mutex_destroy(&be->set_lock);
	pthread_mutex_destroy(&be->notes_lock);
	free(be->notes);
	free(be->location);
	free(be->args);
	free(be);
}

/* The plugin's own part. Its clause gets the volume's name before it. */
static int call_open(struct backend_plugin *be,
		     const struct backend_options *opt, struct error *e)
{
	char clause[256] = "";
	const char *wrong;
	int err;

	be->info.size = sizeof(be->info);
	be->info.volume_block = opt->block_size;
	be->info.open_flags = opt->read_only ? RBP_OPEN_READ_ONLY : 0;
	err = be->plugin->open(&be->vol, be->location, be->args, &be->v,
			       &be->info, clause, sizeof(clause));
	clause[sizeof(clause) - 1] = '\0';
	if (err) {
		err = err < 0 ? err : -EIO;
		return error_set(e, err, "%s: %s", be->vol.name,
				 *clause ? clause : strerror(-err));
	}
	be->is_open = true;
	wrong = plugin_host_what_is_wrong(be, opt->block_size);
	if (!wrong)
		return 0;
	return error_set(e, -EINVAL, "%s: %s", be->vol.name, wrong);
}

static int out_of_memory(struct error *e)
{
	return error_set(e, -ENOMEM, "out of memory");
}

static int start_helpers(struct backend_plugin *be, struct error *e)
{
	unsigned int threads =
		be->info.threads ? be->info.threads : THREADS_DEFAULT;

	if (be->plugin->submit)
		return 0;
	if (plugin_threads_create(be->plugin->blocking, be->v, threads,
				  host_done, &be->helpers))
		return out_of_memory(e);
	return 0;
}

/* @below is given back where this fails before it belongs to the backend. */
static int plugin_host_open_plugin(const struct plugin_spec *spec,
				   const char *location, struct backend *below,
				   const struct backend_options *opt,
				   struct backend **ret, struct error *e)
{
	struct backend_plugin *be = calloc(1, sizeof(*be));
	int err = 0;

	if (!be) {
		backend_close(below);
		return out_of_memory(e);
	}
	be->base.ops = below ? &plugin_layer_ops : &backend_plugin;
	be->base.below = below;
	pthread_mutex_init(&be->vol.lock, NULL);
	pthread_mutex_init(&be->set_lock, NULL);
	pthread_mutex_init(&be->notes_lock, NULL);
	if (location)
		snprintf(be->vol.name, sizeof(be->vol.name), "%s:%.*s",
			 spec->name, 200, location);
	else
		snprintf(be->vol.name, sizeof(be->vol.name), "%.200s: %s",
			 opt->path, spec->name);
	if (location)
		be->location = strdup(location);
	if (location && !be->location)
		err = out_of_memory(e);
	if (!err)
		err = plugin_load(spec->name, &be->plugin, e);
	if (err && location)
		plugin_load_advise(spec->name, e);
	if (!err && !be->plugin->is_layer != !below)
		err = error_set(
			e, -EINVAL,
			below ? "plugin %s is a store, not a layer: name it "
				"in front, %s:LOCATION"
			      : "plugin %s is a layer: put it on a store "
				"with ,layer=%s",
			spec->name, spec->name);
	if (!err)
		err = plugin_args(be->plugin, spec, &be->args, e);
	if (!err && below)
		describe_below(below, &be->info);
	if (!err)
		err = call_open(be, opt, e);
	if (!err)
		err = start_helpers(be, e);
	if (err) {
		backend_close(&be->base);
		return err;
	}
	plugin_host_describe(be, opt);
	*ret = &be->base;
	return 0;
}

static int plugin_open(const struct backend_options *opt, struct backend **ret,
		       struct error *e)
{
	return plugin_host_open_plugin(opt->plugin, opt->path, NULL, opt, ret,
				       e);
}

int backend_plugin_add_layer(struct backend *below,
			     const struct plugin_spec *spec,
			     const struct backend_options *opt,
			     struct backend **ret, struct error *e)
{
	return plugin_host_open_plugin(spec, NULL, below, opt, ret, e);
}

/* ---- parameters that change ---- */

/* The uppermost; NULL: there is none. */
static struct backend_plugin *plugin_host_find(struct backend *be,
					       const char *name)
{
	for (; be; be = be->below) {
		if ((be->ops == &backend_plugin ||
		     be->ops == &plugin_layer_ops) &&
		    !strcmp(to_plugin(be)->plugin->name, name))
			return to_plugin(be);
	}
	return NULL;
}

static int plugin_host_set_params(struct backend_plugin *be,
				  const struct rbp_arg *args, struct error *e)
{
	char clause[256] = "";
	int err = be->plugin->set_params(be->v, args, clause, sizeof(clause));

	if (!err)
		return 0;
	err = err < 0 ? err : -EIO;
	clause[sizeof(clause) - 1] = '\0';
	return error_set(e, err, "%s: %s", be->vol.name,
			 *clause ? clause : strerror(-err));
}

int backend_set_params(struct backend *base, const struct plugin_spec *spec,
		       struct error *e)
{
	struct backend_plugin *be = plugin_host_find(base, spec->name);
	struct rbp_arg *args;
	int err;

	if (!be)
		return error_set(e, -ENOENT, "the volume has no plugin '%s'",
				 spec->name);
	if (!be->plugin->set_params)
		return error_set(
			e, -ENOTSUP,
			"no parameter of plugin %s can be changed while the "
			"volume is served",
			spec->name);
	err = plugin_args_given(be->plugin, spec, &args, e);
	if (err)
		return err;
	pthread_mutex_lock(&be->set_lock);
	err = plugin_host_set_params(be, args, e);
	pthread_mutex_unlock(&be->set_lock);
	free(args);
	return err;
}

/* ---- size ---- */

static int plugin_measure(struct backend *base, uint64_t *ret_size)
{
	struct backend_plugin *be = to_plugin(base);
	int err = 0;

	if (be->plugin->measure)
		err = be->plugin->measure(be->v, ret_size);
	return err < 0 ? err : 0;
}

/* ---- who serves the data ---- */

static void plugin_paths(struct backend *base, struct backend_paths *ret)
{
	struct backend_plugin *be = to_plugin(base);
	struct rbp_paths paths = { .size = sizeof(paths) };

	if (be->plugin->paths)
		be->plugin->paths(be->v, &paths);
	ret->cnt = paths.cnt;
	ret->own = paths.own;
	ret->active = paths.active <= paths.cnt ? paths.active : 0;
}

static uint64_t plugin_epoch(struct backend *base)
{
	struct backend_plugin *be = to_plugin(base);
	struct rbp_paths paths = { .size = sizeof(paths) };

	if (be->plugin->paths)
		be->plugin->paths(be->v, &paths);
	return paths.epoch;
}

/* Passes @req to a function of the store that is not for its blocks. */
static void plugin_host_ask(struct backend_plugin *be,
			    struct block_request *req,
			    void (*ask)(void *v, struct rbp_io *io))
{
	struct rbp_queue *q = be->queues[req->worker->index];
	struct plugin_io *p = q->free;

	if (!p) {
		req->done(req, -EAGAIN);
		return;
	}
	note_thread(q);
	q->free = p->next;
	fill_io(p, req);
	atomic_store_explicit(&p->state, IO_SUBMITTED, memory_order_relaxed);
	ask(be->v, &p->io);
}

static void plugin_set_path(struct backend *base, struct block_request *req)
{
	struct backend_plugin *be = to_plugin(base);

	plugin_host_ask(be, req, be->plugin->set_path);
}

/* ---- notes ---- */

static int plugin_on_notes(struct backend *base,
			   int (*take)(void *user, uint64_t version,
				       const void *data, size_t len),
			   void *user)
{
	struct backend_plugin *be = to_plugin(base);

	pthread_mutex_lock(&be->notes_lock);
	be->take_notes = take;
	be->notes_user = user;
	pthread_mutex_unlock(&be->notes_lock);
	/* Nobody writes to these any more. */
	return take(user, be->notes_version, be->notes, be->notes_len);
}

static void plugin_get_notes(struct backend *base, struct block_request *req)
{
	struct backend_plugin *be = to_plugin(base);

	plugin_host_ask(be, req, be->plugin->get_notes);
}

static void plugin_put_notes(struct backend *base, struct block_request *req)
{
	struct backend_plugin *be = to_plugin(base);

	plugin_host_ask(be, req, be->plugin->put_notes);
}

static void plugin_notes_taken(struct backend *base, uint64_t version)
{
	struct backend_plugin *be = to_plugin(base);

	be->plugin->notes_taken(be->v, version);
}

const struct backend_ops backend_plugin = {
	.name = "plugin",
	.location = BACKEND_AT_PLUGIN,
	.open = plugin_open,
	.close = plugin_close,
	.attach = plugin_attach,
	.detach = plugin_detach,
	.submit = plugin_submit,
	.measure = plugin_measure,
	.paths = plugin_paths,
	.epoch = plugin_epoch,
	.set_path = plugin_set_path,
	.on_notes = plugin_on_notes,
	.get_notes = plugin_get_notes,
	.put_notes = plugin_put_notes,
	.notes_taken = plugin_notes_taken,
};

static const struct backend_ops plugin_layer_ops = {
	.name = "plugin",
	.close = plugin_close,
	.attach = plugin_attach,
	.detach = plugin_detach,
	.submit = plugin_submit,
	.measure = plugin_measure,
};
