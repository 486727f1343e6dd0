/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/block_io.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "target/block/backend.h"
#include "target/block/plugin_host.h"
#include "target/block/plugin_io.h"
#include "target/block/plugin_threads.h"

void block_io_start(struct rbp_queue *q, struct block_io *bio,
		    struct rbp_io *io)
{
	io->queue = q;
	io->queue_data = q->data;
	q->events.has_submits = true;
	if (io->op)
		q->submit(q->v, io);
	else
		bio->ask(q->be->v, io);
}

static void block_io_enter(struct rbp_queue *q, struct block_io *bio)
{
	if (bio->io.op == RBP_FLUSH &&
	    (!q->be->can_flush || q->be->flush_error)) {
		bio->done(bio, q->be->flush_error);
	} else if (q->plugin) {
		plugin_io_enter(q, bio);
	} else {
		bio->io.scratch = bio->scratch;
		bio->is_submitted = true;
		block_io_start(q, bio, &bio->io);
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

int block_io_judge(struct rbp_io *io, int res)
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

void block_io_note_failure(const struct rbp_io *io, int res)
{
	if (io->op == RBP_FLUSH && block_io_may_have_lost(res))
		atomic_store(&io->queue->be->flush_error, res < 0 ? res : -EIO);
}

/* The owner gets it back last: done() may reuse or free it. */
void block_io_done(struct rbp_io *io, int res)
{
	struct block_io *bio = block_io_of(io);

	assert(bio->is_submitted);
	bio->is_submitted = false;
	if (res)
		block_io_note_failure(io, res);
	if (res || io->op > RBP_WRITE)
		res = block_io_judge(io, res);
	io->queue->ended_cnt++;
	bio->done(bio, res);
}

/* ---- layers ---- */

/* The layer uses an operation that it was not told about. */
bool block_io_is_refused(struct rbp_queue *q, const struct block_io *bio)
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

void block_io_forward(struct rbp_io *io)
{
	struct rbp_queue *q = io->queue;

	if (block_io_is_refused(q, block_io_of(io))) {
		block_io_done(io, -EINVAL);
		return;
	}
	q->ended_cnt++;
	block_io_submit(q->be->below, block_io_of(io));
}

/* ---- queues ---- */

static void block_queue_free(struct rbp_queue *q)
{
	if (!q)
		return;
	plugin_io_close(q->plugin);
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
	if (!be->type && plugin_io_open(q, &q->plugin)) {
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
