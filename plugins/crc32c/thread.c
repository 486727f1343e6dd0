/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread of a volume. Only this thread uses the records. */
#include "layer.h"

#include <errno.h>
#include <sys/eventfd.h>

static void *crclayer_main(void *arg);

/* The first call starts the thread, so that the thread has only the rights with
 * which rdma-target serves. */
void crclayer_to_thread(struct crclayer *l, struct crclayer_io *n)
{
	int err = 0;

	pthread_mutex_lock(&l->lock);
	if (!l->has_thread)
		err = pthread_create(&l->thread, NULL, crclayer_main, l);
	if (!err) {
		l->has_thread = true;
		TAILQ_INSERT_TAIL(&l->inbox, n, node);
		pthread_cond_signal(&l->work);
	}
	pthread_mutex_unlock(&l->lock);
	if (err)
		crclayer_host->done(n->io, -err);
}

/* The worker does @step of @n, after this turn of the thread. */
void crclayer_to_worker(struct crclayer *l, struct crclayer_io *n,
			enum crclayer_step step)
{
	n->step = step;
	TAILQ_INSERT_TAIL(&l->ready, n, node);
}

/* @n has its blocks for itself now. */
static void crclayer_start(struct crclayer *l, struct crclayer_io *n)
{
	n->is_running = true;
	l->waiting_cnt--;
	if (n->io->op == RBP_READ)
		crclayer_to_worker(l, n, CRCLAYER_LOOK);
	else
		crclayer_change(l, n);
}

static void crclayer_begin(struct crclayer *l, struct crclayer_io *n)
{
	int err;

	if (n->io->op != RBP_FLUSH) {
		crclayer_claim(l, n);
		return;
	}
	err = crclayer_begin_flush(l, n, CRCLAYER_FLUSH);
	if (err)
		crclayer_host->done(n->io, err);
}

/* The backend below has done the step of @n. */
static void crclayer_go_on(struct crclayer *l, struct crclayer_io *n)
{
	switch (n->step) {
	case CRCLAYER_BEGIN:
		crclayer_begin(l, n);
		break;
	case CRCLAYER_READ:
		crclayer_glance(l, n);
		break;
	case CRCLAYER_LOOK:
		crclayer_looked(l, n);
		break;
	case CRCLAYER_RESOLVE:
		crclayer_resolved(l, n);
		break;
	case CRCLAYER_SETTLE:
		crclayer_settled(l, n);
		break;
	case CRCLAYER_CHANGE:
		crclayer_end_change(l, n);
		break;
	case CRCLAYER_FLUSH:
		crclayer_host->done(n->io, crclayer_end_flush(l, n));
		break;
	case CRCLAYER_EXTENT:
		crclayer_found_extent(l, n);
		break;
	}
}

/* Makes records stable before data goes below. False: they are not. */
static bool crclayer_sync(struct crclayer *l)
{
	int err = l->must_sync ? crcsums_sync(&l->sums) : 0;

	l->must_sync = false;
	if (err)
		crclayer_break(l, err);
	return !err;
}

static void crclayer_deliver(struct crclayer *l)
{
	struct crclayer_queues filled = TAILQ_HEAD_INITIALIZER(filled);
	bool is_synced = crclayer_sync(l);
	struct crclayer_queue *q;
	struct crclayer_io *n;

	while ((n = TAILQ_FIRST(&l->ready))) {
		TAILQ_REMOVE(&l->ready, n, node);
		if (n->step == CRCLAYER_CHANGE && !is_synced) {
			n->res = -EIO;
			crclayer_end_change(l, n);
			continue;
		}
		q = n->io->queue_data;
		pthread_mutex_lock(&l->lock);
		TAILQ_INSERT_TAIL(&q->outbox, n, node);
		pthread_mutex_unlock(&l->lock);
		if (!q->is_filled)
			TAILQ_INSERT_TAIL(&filled, q, filled);
		q->is_filled = true;
	}
	while ((q = TAILQ_FIRST(&filled))) {
		TAILQ_REMOVE(&filled, q, filled);
		q->is_filled = false;
		eventfd_write(q->wake_fd, 1);
	}
}

static void crclayer_turn(struct crclayer *l, struct crclayer_list *todo)
{
	struct crclayer_io *n;

	while ((n = TAILQ_FIRST(todo))) {
		TAILQ_REMOVE(todo, n, node);
		crclayer_go_on(l, n);
	}
	do {
		while ((n = crclayer_next_to_run(l)))
			crclayer_start(l, n);
		crclayer_deliver(l);
	} while (crclayer_next_to_run(l));
}

static void *crclayer_main(void *arg)
{
	struct crclayer *l = arg;

	pthread_setname_np(pthread_self(), "crc32c");
	pthread_mutex_lock(&l->lock);
	while (!TAILQ_EMPTY(&l->inbox) || !l->stopping) {
		struct crclayer_list todo = TAILQ_HEAD_INITIALIZER(todo);

		if (TAILQ_EMPTY(&l->inbox)) {
			pthread_cond_wait(&l->work, &l->lock);
			continue;
		}
		TAILQ_CONCAT(&todo, &l->inbox, node);
		pthread_mutex_unlock(&l->lock);
		crclayer_turn(l, &todo);
		pthread_mutex_lock(&l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}
