/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/plugin_threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* I/Os in the order of their submission; the next one is in the scratch. */
struct io_list {
	struct rbp_io *first;
	struct rbp_io **end;
};

/*
 * At most one flush is in `work` or with a thread. Those that are submitted
 * meanwhile wait in `flushes`, and need no thread. The next flush is for all that
 * wait when it begins.
 */
struct plugin_threads {
	int (*run)(void *user, struct rbp_io *io);
	void *user;
	void (*done)(struct rbp_io *io, int res);
	unsigned int max;
	pthread_mutex_t lock;
	pthread_cond_t has_work;
	/* guarded by the lock */
	struct io_list work; /* no thread has taken them yet */
	unsigned int work_cnt;
	struct io_list flushes;
	bool is_flushing;
	unsigned int idle;
	unsigned int cnt;
	bool stopping;
	pthread_t threads[];
};

/* ---- lists ---- */

static struct rbp_io **next_of(struct rbp_io *io)
{
	return &((struct plugin_threads_scratch *)io->scratch)->next;
}

static void io_list_init(struct io_list *list)
{
	list->first = NULL;
	list->end = &list->first;
}

static void io_list_add(struct io_list *list, struct rbp_io *io)
{
	*next_of(io) = NULL;
	*list->end = io;
	list->end = next_of(io);
}

/* NULL: the list is empty. */
static struct rbp_io *io_list_take(struct io_list *list)
{
	struct rbp_io *io = list->first;

	if (!io)
		return NULL;
	list->first = *next_of(io);
	if (!list->first)
		list->end = &list->first;
	return io;
}

/* The lock is held. */
static void add_work(struct plugin_threads *pool, struct rbp_io *io)
{
	io_list_add(&pool->work, io);
	pool->work_cnt++;
	pthread_cond_signal(&pool->has_work);
}

/* ---- flushes ---- */

/* Takes the flushes that wait: @io is about to begin, and covers them. */
static struct rbp_io *take_flushes(struct plugin_threads *pool,
				   struct rbp_io *io)
{
	pthread_mutex_lock(&pool->lock);
	*next_of(io) = pool->flushes.first;
	io_list_init(&pool->flushes);
	pthread_mutex_unlock(&pool->lock);
	return io;
}

/* The next flush waits for its turn like any other I/O. */
static void begin_next_flush(struct plugin_threads *pool)
{
	struct rbp_io *next;

	pthread_mutex_lock(&pool->lock);
	next = io_list_take(&pool->flushes);
	pool->is_flushing = next;
	if (next)
		add_work(pool, next);
	pthread_mutex_unlock(&pool->lock);
}

/* One flush at a time: of two, the kernel may report lost writes to one only.
 * The next one begins when the host knows the result, and then fails. */
static void do_flush(struct plugin_threads *pool, struct rbp_io *io)
{
	struct rbp_io *covered = take_flushes(pool, io);
	int res = pool->run(pool->user, io);

	while (covered) {
		struct rbp_io *next = *next_of(covered);

		pool->done(covered, res);
		covered = next;
	}
	begin_next_flush(pool);
}

/* ---- threads ---- */

static void do_io(struct plugin_threads *pool, struct rbp_io *io)
{
	if (io->op == RBP_FLUSH)
		do_flush(pool, io);
	else
		pool->done(io, pool->run(pool->user, io));
}

/* Takes the oldest I/O. NULL: the pool ends. The lock is held. */
static struct rbp_io *plugin_threads_take(struct plugin_threads *pool)
{
	struct rbp_io *io;

	pool->idle++;
	while (!pool->work.first && !pool->stopping)
		pthread_cond_wait(&pool->has_work, &pool->lock);
	pool->idle--;
	io = io_list_take(&pool->work);
	if (io)
		pool->work_cnt--;
	return io;
}

static void *helper_main(void *arg)
{
	struct plugin_threads *pool = arg;
	struct rbp_io *io;

	pthread_setname_np(pthread_self(), "store");
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
	if (pool->idle <= pool->work_cnt && pool->cnt < pool->max &&
	    !pthread_create(&pool->threads[pool->cnt], NULL, helper_main, pool))
		pool->cnt++;
	return pool->cnt > 0;
}

/* False: there is no thread for @io. The lock is held. */
static bool plugin_threads_add(struct plugin_threads *pool, struct rbp_io *io)
{
	bool is_flush = io->op == RBP_FLUSH;

	if (is_flush && pool->is_flushing) {
		io_list_add(&pool->flushes, io);
		return true;
	}
	if (!have_thread(pool))
		return false;
	if (is_flush)
		pool->is_flushing = true;
	add_work(pool, io);
	return true;
}

void plugin_threads_submit(void *helpers, struct rbp_io *io)
{
	struct plugin_threads *pool = helpers;
	bool is_added;

	pthread_mutex_lock(&pool->lock);
	is_added = plugin_threads_add(pool, io);
	pthread_mutex_unlock(&pool->lock);
	/* A flush that was not done has lost nothing. */
	if (!is_added)
		pool->done(io, io->op == RBP_FLUSH ? -ENOTCONN : -ENOMEM);
}

int plugin_threads_create(int (*run)(void *user, struct rbp_io *io), void *user,
			  unsigned int max,
			  void (*done)(struct rbp_io *io, int res),
			  struct plugin_threads **ret)
{
	struct plugin_threads *pool =
		calloc(1, sizeof(*pool) + max * sizeof(pool->threads[0]));

	if (!pool)
		return -ENOMEM;
	pool->run = run;
	pool->user = user;
	pool->done = done;
	pool->max = max;
	io_list_init(&pool->work);
	io_list_init(&pool->flushes);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->has_work, NULL);
	*ret = pool;
	return 0;
}

void plugin_threads_free(struct plugin_threads *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stopping = true;
	pthread_cond_broadcast(&pool->has_work);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned int i = 0; i < pool->cnt; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_mutex_destroy(&pool->lock);
	pthread_cond_destroy(&pool->has_work);
	free(pool);
}
