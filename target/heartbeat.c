/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/heartbeat.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "config.h"
#include "base/log.h"
#if HAVE_JSON
#include "target/control/control.h"
#endif
#include "target/port/hang.h"
#include "target/service_notify.h"

/* A thread that the heartbeat checks. */
struct pulse {
	struct reactor_msg msg; /* for a worker */
	atomic_bool turned;	/* since the last request */
	unsigned int missed;	/* requests in a row that it has missed */
	unsigned int control; /* turns of the control thread at the last look */
};

struct heartbeat {
	struct server *server;
	uint64_t period_ms;
	int stop_fd; /* eventfd: tells the thread to end */
	pthread_t thread;
	bool has_thread;
	struct pulse workers[WORKERS_MAX];
	struct pulse control;
};

/* ---- requests ---- */

static void pulse_run(struct reactor_msg *msg)
{
	atomic_store(&container_of(msg, struct pulse, msg)->turned, true);
}

static void heartbeat_ask_worker(struct heartbeat *h, unsigned int i)
{
	struct pulse *p = &h->workers[i];

	p->msg.run = pulse_run;
	reactor_send(h->server->workers[i].reactor, &p->msg);
}

static void heartbeat_ask_control(struct heartbeat *h)
{
#if HAVE_JSON
	if (h->server->control)
		h->control.control = control_poke(h->server->control);
#endif
}

static void heartbeat_ask_all(struct heartbeat *h)
{
	for (unsigned int i = 0; i < h->server->worker_cnt; i++)
		heartbeat_ask_worker(h, i);
	heartbeat_ask_control(h);
}

/* ---- answers ---- */

static unsigned int heartbeat_seconds(const struct heartbeat *h,
				      const struct pulse *p)
{
	return (unsigned int)(p->missed * h->period_ms / 1000);
}

static void heartbeat_log_worker(struct heartbeat *h, unsigned int i)
{
	struct pulse *p = &h->workers[i];
	char what[384];

	hang_describe(&h->server->workers[i], what, sizeof(what));
	log_error("worker %u has hung for %u s: %s; the service manager ends "
		  "the target if this lasts",
		  i, heartbeat_seconds(h, p), what);
}

/* Counts how often the thread has missed in a row. True: it has turned. */
static bool pulse_take(struct pulse *p, bool turned)
{
	p->missed = turned ? 0 : p->missed + 1;
	return turned;
}

/* True: the worker continues. It gets the next request only after it has
 * answered the last one. */
static bool heartbeat_look_at_worker(struct heartbeat *h, unsigned int i)
{
	struct pulse *p = &h->workers[i];
	unsigned int had_missed = p->missed;

	if (pulse_take(p, atomic_exchange(&p->turned, false))) {
		if (had_missed >= HEARTBEAT_PARTS / 2)
			log_notice("worker %u goes on", i);
		heartbeat_ask_worker(h, i);
		return true;
	}
	if (p->missed == HEARTBEAT_PARTS / 2)
		heartbeat_log_worker(h, i);
	return false;
}

static bool heartbeat_look_at_control(struct heartbeat *h)
{
	struct pulse *p = &h->control;
	unsigned int before = p->control;

	if (!h->server->control)
		return true;
	heartbeat_ask_control(h);
	if (pulse_take(p, p->control != before))
		return true;
	if (p->missed == HEARTBEAT_PARTS / 2)
		log_error("the thread of the control socket has hung for %u "
			  "s; the service manager ends the target if this "
			  "lasts",
			  heartbeat_seconds(h, p));
	return false;
}

static void heartbeat_beat(struct heartbeat *h)
{
	bool all = heartbeat_look_at_control(h);

	for (unsigned int i = 0; i < h->server->worker_cnt; i++)
		all = heartbeat_look_at_worker(h, i) && all;
	if (all)
		service_notify(h->server->notify_fd, SERVICE_ALIVE);
}

static void *heartbeat_main(void *arg)
{
	struct heartbeat *h = arg;
	struct pollfd stop = { .fd = h->stop_fd, .events = POLLIN };

	pthread_setname_np(pthread_self(), "heartbeat");
	heartbeat_ask_all(h);
	while (poll(&stop, 1, (int)h->period_ms) == 0)
		heartbeat_beat(h);
	return NULL;
}

/* ---- life cycle ---- */

int heartbeat_start(struct server *s, struct error *e)
{
	uint64_t us = s->notify_fd >= 0 ? service_watchdog_us() : 0;
	struct heartbeat *h;
	int err;

	if (!us)
		return 0;
	h = calloc(1, sizeof(*h));
	if (!h)
		return error_set(e, -ENOMEM, "out of memory");
	s->heartbeat = h;
	h->server = s;
	h->period_ms = us / 1000 / HEARTBEAT_PARTS + 1;
	h->stop_fd = eventfd(0, EFD_CLOEXEC);
	err = h->stop_fd < 0
		      ? -errno
		      : -pthread_create(&h->thread, NULL, heartbeat_main, h);
	h->has_thread = !err;
	return err ? error_set(e, err, "cannot start the heartbeat: %s",
			       strerror(-err))
		   : 0;
}

void heartbeat_end(struct server *s)
{
	struct heartbeat *h = s->heartbeat;

	if (!h || !h->has_thread)
		return;
	eventfd_write(h->stop_fd, 1);
	pthread_join(h->thread, NULL);
	h->has_thread = false;
}

void heartbeat_free(struct server *s)
{
	struct heartbeat *h = s->heartbeat;

	if (h && h->stop_fd >= 0)
		close(h->stop_fd);
	free(h);
	s->heartbeat = NULL;
}
