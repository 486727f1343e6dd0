/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store for tests that starts a thread when it is loaded and one in open().
 * LOCATION does not matter; the volume has zeroes. It is built a second time
 * with RBP_NEEDS_RIGHTS, as starter-rights.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma_block_plugin.h>

#ifndef STARTER_NEEDS
#define STARTER_NEEDS 0
#define STARTER_NAME  "starter"
#endif

struct starter {
	pthread_t thread;
	sem_t end;
};

static void *starter_wait(void *arg)
{
	struct starter *s = arg;

	pthread_setname_np(pthread_self(), STARTER_NAME);
	while (sem_wait(&s->end))
		;
	return NULL;
}

static void *starter_stay(void *arg)
{
	pthread_setname_np(pthread_self(), STARTER_NAME);
	for (;;)
		pause();
	return NULL;
}

static int starter_open(struct rbp_vol *vol, const char *location,
			const struct rbp_arg *args, void **ret_v,
			struct rbp_info *info, char *msg, size_t msg_len)
{
	struct starter *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	sem_init(&s->end, 0, 0);
	if (pthread_create(&s->thread, NULL, starter_wait, s)) {
		free(s);
		return -EAGAIN;
	}
	info->bytes = 1u << 20;
	info->block_size = 512;
	*ret_v = s;
	return 0;
}

static void starter_close(void *v)
{
	struct starter *s = v;

	sem_post(&s->end);
	pthread_join(s->thread, NULL);
	sem_destroy(&s->end);
	free(s);
}

static int starter_read(void *v, void *buf, uint64_t len, uint64_t offset)
{
	memset(buf, 0, len);
	return 0;
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *host)
{
	static const struct rbp_blocking blocking = {
		.size = sizeof(blocking),
		.read = starter_read,
	};
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.name = STARTER_NAME,
		.version = "1",
		.help = "starts threads in open(); zeroes",
		.needs = STARTER_NEEDS,
		.open = starter_open,
		.close = starter_close,
		.blocking = &blocking,
	};
	pthread_t thread;

	if (pthread_create(&thread, NULL, starter_stay, NULL))
		return NULL;
	pthread_detach(thread);
	return &plugin;
}
