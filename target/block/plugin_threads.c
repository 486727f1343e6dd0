/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/plugin_threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct plugin_threads {
	const struct rbp_blocking *blocking;
	void *v;
	void (*done)(struct rbp_io *io, int res);
	unsigned int max;
	pthread_mutex_t lock;
	pthread_cond_t work;
	/* guarded by the lock: I/O that no thread has taken yet, oldest first */
	struct rbp_io *first;
	struct rbp_io **end;
	unsigned int waiting;
	unsigned int idle;
	unsigned int cnt;
	bool stopping;
	_Atomic uint64_t flushes; /* that were submitted */
	/* Held during a flush. Guards the number of flushes that were submitted
	 * before the last successful one began. */
	pthread_mutex_t flushing;
	uint64_t flushed;
	pthread_t threads[];
};

/* An I/O that waits keeps the next one in its scratch. */
static struct rbp_io **next_of(struct rbp_io *io)
{
	return &((struct plugin_threads_scratch *)io->scratch)->next;
}

static uint64_t *plugin_threads_flush_of(struct rbp_io *io)
{
	return &((struct plugin_threads_scratch *)io->scratch)->flush;
}

/* Flushes number @nr, unless a flush that began after its submission has done
 * so. */
static int plugin_threads_flush(struct plugin_threads *pool, uint64_t nr)
{
	uint64_t submitted = atomic_load(&pool->flushes);
	int res;

	if (nr <= pool->flushed)
		return 0;
	res = pool->blocking->flush(pool->v);
	if (!res)
		pool->flushed = submitted;
	return res;
}

/* One flush at a time: of two, the kernel may report lost writes to one only.
 * The next one begins when the host knows the result, and then fails. */
static void plugin_threads_do_flush(struct plugin_threads *pool,
				    struct rbp_io *io)
{
	pthread_mutex_lock(&pool->flushing);
	pool->done(io,
		   plugin_threads_flush(pool, *plugin_threads_flush_of(io)));
	pthread_mutex_unlock(&pool->flushing);
}

static int plugin_threads_do_other(const struct plugin_threads *pool,
				   struct rbp_io *io)
{
	const struct rbp_blocking *b = pool->blocking;

	switch (io->op) {
	case RBP_READ:
		return b->read(pool->v, io->buf, io->len, io->offset);
	case RBP_WRITE:
		return b->write(pool->v, io->buf, io->len, io->offset,
				io->flags);
	case RBP_FLUSH:
		break;
	case RBP_UNMAP:
		return b->unmap(pool->v, io->len, io->offset);
	case RBP_ZERO:
		return b->zero(pool->v, io->len, io->offset, io->flags);
	case RBP_EXTENT:
		return b->extent(pool->v, io->len, io->offset, &io->extent_len,
				 &io->extent_mapped);
	}
	return -EOPNOTSUPP;
}

static void do_io(struct plugin_threads *pool, struct rbp_io *io)
{
	if (io->op == RBP_FLUSH)
		plugin_threads_do_flush(pool, io);
	else
		pool->done(io, plugin_threads_do_other(pool, io));
}

/* Takes the oldest I/O. NULL: the pool ends. The lock is held. */
static struct rbp_io *plugin_threads_take(struct plugin_threads *pool)
{
	struct rbp_io *io;

	pool->idle++;
	while (!pool->first && !pool->stopping)
		pthread_cond_wait(&pool->work, &pool->lock);
	pool->idle--;
	io = pool->first;
	if (!io)
		return NULL;
	pool->waiting--;
	pool->first = *next_of(io);
	if (!pool->first)
		pool->end = &pool->first;
	return io;
}

static void *helper_main(void *arg)
{
	struct plugin_threads *pool = arg;
	struct rbp_io *io;

	pthread_setname_np(pthread_self(), "plugin");
	pthread_mutex_lock(&pool->lock);
	while ((io = plugin_threads_take(pool))) {
		pthread_mutex_unlock(&pool->lock);
		do_io(pool, io);
		pthread_mutex_lock(&pool->lock);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* The lock is held. False: there is no thread at all. */
static bool have_thread(struct plugin_threads *pool)
{
	if (pool->idle <= pool->waiting && pool->cnt < pool->max &&
	    !pthread_create(&pool->threads[pool->cnt], NULL, helper_main, pool))
		pool->cnt++;
	return pool->cnt > 0;
}

void plugin_threads_submit(void *helpers, struct rbp_io *io)
{
	struct plugin_threads *pool = helpers;
	bool has_thread;

	*next_of(io) = NULL;
	if (io->op == RBP_FLUSH)
		*plugin_threads_flush_of(io) =
			atomic_fetch_add(&pool->flushes, 1) + 1;
	pthread_mutex_lock(&pool->lock);
	has_thread = have_thread(pool);
	if (has_thread) {
		*pool->end = io;
		pool->end = next_of(io);
		pool->waiting++;
		pthread_cond_signal(&pool->work);
	}
	pthread_mutex_unlock(&pool->lock);
	/* A flush that was not done has lost nothing. */
	if (!has_thread)
		pool->done(io, io->op == RBP_FLUSH ? -ENOTCONN : -ENOMEM);
}

int plugin_threads_create(const struct rbp_blocking *blocking, void *v,
			  unsigned int max,
			  void (*done)(struct rbp_io *io, int res),
			  struct plugin_threads **ret)
{
	struct plugin_threads *pool =
		calloc(1, sizeof(*pool) + max * sizeof(pool->threads[0]));

	if (!pool)
		return -ENOMEM;
	pool->blocking = blocking;
	pool->v = v;
	pool->done = done;
	pool->max = max;
	pool->end = &pool->first;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	pthread_mutex_init(&pool->flushing, NULL);
	*ret = pool;
	return 0;
}

void plugin_threads_free(struct plugin_threads *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stopping = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned int i = 0; i < pool->cnt; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_mutex_destroy(&pool->lock);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->flushing);
	free(pool);
}
