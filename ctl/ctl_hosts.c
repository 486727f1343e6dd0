/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_hosts.h"

#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct host {
	char *address;
	char *name; /* NULL: none is known */
};

/* Two threads use it: who is last frees it. */
struct hosts {
	pthread_mutex_t lock; /* guards the names, and the rest */
	pthread_cond_t done_one;
	size_t done;
	unsigned int users;
	size_t cnt; /* constant, like the addresses */
	struct host host[];
};

static void hosts_put(struct hosts *h)
{
	bool is_last;

	pthread_mutex_lock(&h->lock);
	is_last = --h->users == 0;
	pthread_mutex_unlock(&h->lock);
	if (!is_last)
		return;
	for (size_t i = 0; i < h->cnt; i++) {
		free(h->host[i].address);
		free(h->host[i].name);
	}
	free(h);
}

/* NULL: it has none. */
static char *host_name(const char *address)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST };
	struct addrinfo *ai;
	char name[NI_MAXHOST];
	int err = getaddrinfo(address, NULL, &hints, &ai);

	if (err)
		return NULL;
	err = getnameinfo(ai->ai_addr, ai->ai_addrlen, name, sizeof(name), NULL,
			  0, NI_NAMEREQD);
	freeaddrinfo(ai);
	return err ? NULL : strdup(name);
}

static void *hosts_look(void *arg)
{
	struct hosts *h = arg;

	for (size_t i = 0; i < h->cnt; i++) {
		char *name = host_name(h->host[i].address);

		pthread_mutex_lock(&h->lock);
		h->host[i].name = name;
		h->done++;
		pthread_cond_signal(&h->done_one);
		pthread_mutex_unlock(&h->lock);
	}
	hosts_put(h);
	return NULL;
}

static bool hosts_have(const struct hosts *h, const char *address)
{
	for (size_t i = 0; i < h->cnt; i++)
		if (!strcmp(h->host[i].address, address))
			return true;
	return false;
}

/* Each address once. NULL: no memory. */
static struct hosts *hosts_new(const json_t *sessions)
{
	size_t max = json_array_size(sessions);
	struct hosts *h = calloc(1, sizeof(*h) + max * sizeof(h->host[0]));

	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->done_one, NULL);
	h->users = 1;
	for (size_t i = 0; i < max; i++) {
		const char *address = json_string_value(json_object_get(
			json_array_get(sessions, i), "address"));

		if (address && !hosts_have(h, address) &&
		    (h->host[h->cnt].address = strdup(address)))
			h->cnt++;
	}
	return h;
}

/* Waits for the thread, at most @ms. */
static json_t *hosts_await(struct hosts *h, unsigned int ms)
{
	json_t *names = json_object();
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&h->lock);
	while (h->done < h->cnt && !err)
		err = pthread_cond_clockwait(&h->done_one, &h->lock,
					     CLOCK_MONOTONIC, &until);
	for (size_t i = 0; i < h->done; i++)
		if (h->host[i].name)
			json_object_set_new(names, h->host[i].address,
					    json_string(h->host[i].name));
	pthread_mutex_unlock(&h->lock);
	return names;
}

json_t *ctl_host_names(const json_t *sessions, unsigned int ms)
{
	struct hosts *h = hosts_new(sessions);
	json_t *names = NULL;
	pthread_t thread;

	if (!h)
		return json_object();
	h->users++;
	if (h->cnt && !pthread_create(&thread, NULL, hosts_look, h)) {
		pthread_detach(thread);
		names = hosts_await(h, ms);
	} else {
		h->users--;
	}
	hosts_put(h);
	return names ? names : json_object();
}
