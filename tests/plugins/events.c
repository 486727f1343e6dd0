/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store for tests: memory, whose I/O is ended by an event of the worker.
 * LOCATION selects the event:
 *   watch   kick() puts a byte for each I/O into a pipe, and each ready() takes one
 *   both    the same, through a socket that is watched for writing as well
 *   timer   a timer ends all that there are
 *   kick    kick() ends all that there are
 *   leave   as watch; queue_del() leaves the watch and a timer that is set
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma_block_plugin.h>

#define BYTES (16u << 20)
#define DEPTH 4096

struct store {
	const char *way;
	uint8_t *memory;
};

struct queue {
	struct store *store;
	struct rbp_watch *watch;
	struct rbp_timer *timer;
	int fds[2];
	struct rbp_io *ring[DEPTH];
	unsigned int head;
	unsigned int tail;
	unsigned int told; /* the pipe has a byte for each one before it */
};

static const struct rbp_host *host;

/* For the test, through dlsym(). */
unsigned int events_kicks;
unsigned int events_ready;
unsigned int events_writable;
unsigned int events_fired;

static int is_way(const struct queue *q, const char *way)
{
	return !strcmp(q->store->way, way);
}

static int uses_pipe(const struct queue *q)
{
	return is_way(q, "watch") || is_way(q, "both") || is_way(q, "leave");
}

static void end_one(struct queue *q)
{
	struct rbp_io *io = q->ring[q->head++ % DEPTH];
	uint8_t *at = q->store->memory + io->offset;

	if (io->op == RBP_READ)
		memcpy(io->buf, at, io->len);
	else if (io->op == RBP_WRITE)
		memcpy(at, io->buf, io->len);
	host->done(io, 0);
}

static void ready(void *user, uint32_t events)
{
	struct queue *q = user;
	char byte;

	events_ready++;
	if (events & RBP_WRITABLE) {
		events_writable++;
		host->watch_set(q->watch, RBP_READABLE);
	}
	if ((events & RBP_READABLE) && read(q->fds[0], &byte, 1) == 1)
		end_one(q);
}

static void fire(void *user)
{
	struct queue *q = user;

	events_fired++;
	while (is_way(q, "timer") && q->head != q->tail)
		end_one(q);
}

static int open_ends(struct queue *q)
{
	if (is_way(q, "both"))
		return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				  q->fds);
	return pipe2(q->fds, O_CLOEXEC);
}

static int queue_add(void *v, struct rbp_queue *queue, void **ret)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (!q || (q->store = v, open_ends(q))) {
		free(q);
		return -ENOMEM;
	}
	q->watch = host->watch_add(
		queue, q->fds[0],
		is_way(q, "both") ? RBP_READABLE | RBP_WRITABLE : RBP_READABLE,
		ready, q);
	q->timer = host->timer_add(queue, fire, q);
	if (!q->watch || !q->timer) {
		close(q->fds[0]);
		close(q->fds[1]);
		free(q);
		return -ENOMEM;
	}
	if (is_way(q, "leave"))
		host->timer_set(q->timer, /* delay_ms= */ 500);
	*ret = q;
	return 0;
}

static void queue_del(void *queue_data)
{
	struct queue *q = queue_data;

	/* Readable at this time, so that an extra call would be noticed. */
	if (is_way(q, "leave")) {
		if (write(q->fds[1], "x", 1) != 1)
			abort();
	} else {
		host->watch_del(q->watch);
		host->timer_del(q->timer);
	}
	close(q->fds[0]);
	close(q->fds[1]);
	free(q);
}

static void store_submit(void *v, struct rbp_io *io)
{
	struct queue *q = io->queue_data;

	q->ring[q->tail++ % DEPTH] = io;
	if (is_way(q, "timer"))
		host->timer_set(q->timer, /* delay_ms= */ 1);
}

static void store_kick(void *v, void *queue_data)
{
	struct queue *q = queue_data;

	events_kicks++;
	while (is_way(q, "kick") && q->head != q->tail)
		end_one(q);
	for (; uses_pipe(q) && q->told != q->tail; q->told++) {
		if (write(q->fds[1], "x", 1) != 1)
			abort();
	}
}

static int store_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->way = location;
	s->memory = calloc(1, BYTES);
	if (!s->memory) {
		free(s);
		return -ENOMEM;
	}
	info->caps = RBP_CAN_WRITE | RBP_CAN_FLUSH;
	info->bytes = BYTES;
	info->block_size = 512;
	*ret_v = s;
	return 0;
}

static void store_close(void *v)
{
	struct store *s = v;

	free(s->memory);
	free(s);
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *h)
{
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.name = "events",
		.version = "1",
		.help = "memory whose I/O an event ends; LOCATION says which",
		/* socketpair() in queue_add() */
		.needs = RBP_NEEDS_NETWORK,
		.open = store_open,
		.close = store_close,
		.queue_add = queue_add,
		.queue_del = queue_del,
		.submit = store_submit,
		.kick = store_kick,
	};

	host = h;
	return &plugin;
}
