/* SPDX-License-Identifier: BSD-2-Clause */
/* A volume on one worker: calls the backend below, and gives I/Os to the
 * thread. */
#include "layer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void crclayer_ended(struct rbp_io *child, int res)
{
	struct rbp_io *io = child->parent;
	struct crclayer_io *n = io->scratch;
	struct crclayer_queue *q = io->queue_data;

	if (n->step != CRCLAYER_RESOLVE && n->step != CRCLAYER_SETTLE) {
		io->extent_len = child->extent_len;
		io->extent_mapped = child->extent_mapped;
		io->progress = child->progress;
	}
	n->res = res;
	crclayer_to_thread(q->layer, n);
}

static void crclayer_ask(struct crclayer_io *n)
{
	const struct crclayer_queue *q = n->io->queue_data;
	struct rbp_io *child = crclayer_host->child(n->io);

	child->ended = crclayer_ended;
	if (n->step == CRCLAYER_RESOLVE) {
		child->op = RBP_READ;
		child->flags = 0;
		child->offset = n->block_offset;
		child->len = q->layer->block_size;
		child->buf = n->block;
	}
	if (n->step == CRCLAYER_SETTLE) {
		child->op = RBP_FLUSH;
		child->flags = 0;
		child->offset = 0;
		child->len = 0;
		child->buf = NULL;
	}
	crclayer_host->below(child);
}

static void crclayer_woken(void *user, uint32_t events)
{
	struct crclayer_queue *q = user;
	struct crclayer_list todo = TAILQ_HEAD_INITIALIZER(todo);
	struct crclayer_io *n;
	eventfd_t count;

	eventfd_read(q->wake_fd, &count);
	pthread_mutex_lock(&q->layer->lock);
	TAILQ_CONCAT(&todo, &q->outbox, node);
	pthread_mutex_unlock(&q->layer->lock);
	while ((n = TAILQ_FIRST(&todo))) {
		TAILQ_REMOVE(&todo, n, node);
		crclayer_ask(n);
	}
}

void crclayer_queue_del(void *queue_data)
{
	struct crclayer_queue *q = queue_data;

	if (q->wake)
		crclayer_host->watch_del(q->wake);
	if (q->wake_fd >= 0)
		close(q->wake_fd);
	free(q);
}

int crclayer_queue_add(void *v, struct rbp_queue *queue, void **ret)
{
	struct crclayer_queue *q = calloc(1, sizeof(*q));
	int err = 0;

	if (!q)
		return -ENOMEM;
	q->layer = v;
	TAILQ_INIT(&q->outbox);
	q->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->wake_fd < 0)
		err = -errno;
	else
		q->wake = crclayer_host->watch_add(
			queue, q->wake_fd, RBP_READABLE, crclayer_woken, q);
	if (!err && !q->wake)
		err = -ENOMEM;
	if (err)
		crclayer_queue_del(q);
	else
		*ret = q;
	return err;
}

void crclayer_submit(void *v, struct rbp_io *io)
{
	struct crclayer *l = v;
	struct crclayer_io *n = io->scratch;

	*n = (struct crclayer_io){ .io = io, .step = CRCLAYER_BEGIN };
	if (io->op == RBP_EXTENT) {
		n->step = CRCLAYER_EXTENT;
		crclayer_ask(n);
	} else if (io->op == RBP_READ) {
		n->step = CRCLAYER_READ;
		/* begun shows any change that starts after this. */
		n->begun = atomic_load(&l->begun);
		n->was_quiet = !atomic_load(&l->under_way);
		crclayer_ask(n);
	} else {
		crclayer_to_thread(l, n);
	}
}
