/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store for tests: memory, whose I/O is ended by a thread of its own.
 * LOCATION is the size in bytes. With hold=on, no I/O ends until the test calls
 * async_release(). With epochs=on, another target may have served meanwhile:
 * async_switch(). With loses=on, the first flush fails, and later ones do not.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rdma_block_plugin.h>

#define DEPTH 4096

struct store {
	struct rbp_vol *vol;
	uint8_t *memory;
	uint64_t bytes;
	int hold;
	int has_epochs;
	int loses;
	uint64_t epoch; /* only for the test's thread */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;
	/* guarded by the lock */
	struct rbp_io *ring[DEPTH];
	unsigned int head;
	unsigned int tail;
	int stopping;
};

static const struct rbp_host *host;
static struct store *last;

/* For the test, through dlsym(): the number of I/Os that wait, the end of
 * waiting, another size. */
unsigned int async_waiting(void);
void async_release(void);
void async_grow(uint64_t bytes);
void async_switch(void);

void async_switch(void)
{
	last->epoch += 2;
}

unsigned int async_waiting(void)
{
	unsigned int cnt;

	pthread_mutex_lock(&last->lock);
	cnt = last->tail - last->head;
	pthread_mutex_unlock(&last->lock);
	return cnt;
}

void async_release(void)
{
	pthread_mutex_lock(&last->lock);
	last->hold = 0;
	pthread_cond_signal(&last->work);
	pthread_mutex_unlock(&last->lock);
}

void async_grow(uint64_t bytes)
{
	last->bytes = bytes;
	host->resized(last->vol);
}

static void do_io(struct store *s, struct rbp_io *io)
{
	int res = 0;

	switch (io->op) {
	case RBP_READ:
		memcpy(io->buf, s->memory + io->offset, io->len);
		break;
	case RBP_WRITE:
		memcpy(s->memory + io->offset, io->buf, io->len);
		break;
	case RBP_ZERO:
	case RBP_UNMAP:
		memset(s->memory + io->offset, 0, io->len);
		break;
	case RBP_EXTENT:
		io->extent_len = io->len;
		io->extent_mapped = 1;
		break;
	case RBP_FLUSH:
		res = s->loses ? -EIO : 0;
		s->loses = 0;
		break;
	}
	host->done(io, res);
}

static void *thread_main(void *arg)
{
	struct store *s = arg;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct rbp_io *io;

		while ((s->head == s->tail || s->hold) && !s->stopping)
			pthread_cond_wait(&s->work, &s->lock);
		if (s->head == s->tail)
			break;
		io = s->ring[s->head++ % DEPTH];
		pthread_mutex_unlock(&s->lock);
		do_io(s, io);
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int store_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->vol = vol;
	s->epoch = 1;
	s->bytes = strtoull(location, NULL, 10);
	s->memory = calloc(2, s->bytes);
	if (!s->memory) {
		free(s);
		return -ENOMEM;
	}
	for (; args->name; args++) {
		if (!strcmp(args->name, "hold"))
			s->hold = (int)args->number;
		else if (!strcmp(args->name, "epochs"))
			s->has_epochs = (int)args->number;
		else if (!strcmp(args->name, "loses"))
			s->loses = (int)args->number;
	}
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	pthread_create(&s->thread, NULL, thread_main, s);
	info->caps = RBP_CAN_WRITE | RBP_CAN_FLUSH | RBP_CAN_FUA |
		     RBP_CAN_ZERO | RBP_CAN_UNMAP | RBP_CAN_EXTENT |
		     RBP_UNMAP_ZEROES;
	info->bytes = s->bytes;
	info->block_size = 512;
	info->unmap_granularity = 4096;
	*ret_v = s;
	last = s;
	return 0;
}

static void store_close(void *v)
{
	struct store *s = v;

	pthread_mutex_lock(&s->lock);
	s->stopping = 1;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	free(s->memory);
	free(s);
}

static void store_submit(void *v, struct rbp_io *io)
{
	struct store *s = v;

	if (s->has_epochs && io->epoch && io->epoch != s->epoch) {
		host->done(io, -ESHUTDOWN);
		return;
	}
	pthread_mutex_lock(&s->lock);
	s->ring[s->tail++ % DEPTH] = io;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
}

static int store_measure(void *v, uint64_t *ret_bytes)
{
	*ret_bytes = ((struct store *)v)->bytes;
	return 0;
}

static void store_paths(void *v, struct rbp_paths *ret)
{
	const struct store *s = v;

	if (!s->has_epochs)
		return;
	ret->cnt = 2;
	ret->own = 1;
	ret->active = 1;
	ret->epoch = s->epoch;
}

static void store_set_path(void *v, struct rbp_io *io)
{
	host->done(io, 0);
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *h)
{
	static const struct rbp_param params[] = {
		{ "hold", RBP_BOOL, "off", "end nothing until released" },
		{ "epochs", RBP_BOOL, "off", "one of two targets" },
		{ "loses", RBP_BOOL, "off", "the first flush fails" },
		{ NULL, RBP_STRING, NULL, NULL },
	};
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.name = "async",
		.version = "1",
		.help = "memory whose I/O another thread ends",
		.params = params,
		.open = store_open,
		.close = store_close,
		.submit = store_submit,
		.measure = store_measure,
		.paths = store_paths,
		.set_path = store_set_path,
	};

	host = h;
	return &plugin;
}
