/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_host.h"

#include "tests/lib/t_must.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>

#include <cmocka.h>

/* Nothing takes so long, unless a test hangs. */
#define HANG_MS 60000
/* Each byte of a scratch at first. */
#define NOISE 0xa5

/* The functions of struct rbp_host do not say which host they mean. */
static struct t_host *the_host;
/* Any thread writes to it when something has changed that the test waits for. */
static int changed_fd = -1;

/* ---- the test ---- */

void t_host_begin(struct t_host *h)
{
	eventfd_t count;

	if (changed_fd < 0)
		changed_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	T_MUST(changed_fd >= 0);
	eventfd_read(changed_fd, &count);
	memset(h, 0, sizeof(*h));
	pthread_mutex_init(&h->lock, NULL);
	the_host = h;
}

void t_host_plug(struct t_host *h, const struct rbp_plugin *plugin)
{
	assert_non_null(plugin);
	assert_in_range(plugin->scratch_len, 0,
			sizeof(((struct t_request *)0)->scratch));
	h->plugin = plugin;
}

void t_host_end(struct t_host *h)
{
	for (unsigned int i = 0; i < T_HOST_WATCHES; i++)
		assert_false(h->watches[i].is_used);
	for (unsigned int i = 0; i < T_HOST_TIMERS; i++)
		assert_false(h->timers[i].is_used);
}

void t_host_add_queue(struct t_host *h, unsigned int queue)
{
	assert_int_equal(h->plugin->queue_add(h->volume, &h->queues[queue],
					      &h->queues[queue].data),
			 0);
}

void t_host_del_queue(struct t_host *h, unsigned int queue)
{
	if (h->queues[queue].data && h->plugin->queue_del)
		h->plugin->queue_del(h->queues[queue].data);
	h->queues[queue].data = NULL;
}

void t_host_del_queues(struct t_host *h)
{
	for (unsigned int i = 0; i < T_HOST_QUEUES; i++)
		t_host_del_queue(h, i);
}

/* ---- requests ---- */

void t_host_prepare(struct t_host *h, struct t_request *r, struct rbp_io io)
{
	r->io = io;
	r->io.scratch = r->scratch;
	memset(r->scratch, NOISE, sizeof(r->scratch));
	r->has_ended = false;
}

void t_host_submit(struct t_host *h, struct t_request *r, unsigned int queue,
		   struct rbp_io io)
{
	t_host_prepare(h, r, io);
	r->io.queue = &h->queues[queue];
	r->io.queue_data = h->queues[queue].data;
	h->plugin->submit(h->volume, &r->io);
}

/* A test that calls a part of a plugin has no scratch_len. */
static bool has_kept_to_its_scratch(const struct t_request *r)
{
	size_t len = the_host->plugin ? the_host->plugin->scratch_len
				      : sizeof(r->scratch);
	size_t left = sizeof(r->scratch) - len;
	const uint8_t *rest = r->scratch + len;

	return !left || (*rest == NOISE && !memcmp(rest, rest + 1, left - 1));
}

static void host_done(struct rbp_io *io, int res)
{
	struct t_request *r = (struct t_request *)(void *)io;

	pthread_mutex_lock(&the_host->lock);
	T_MUST(!r->has_ended);
	T_MUST(has_kept_to_its_scratch(r));
	r->has_ended = true;
	r->res = res;
	pthread_mutex_unlock(&the_host->lock);
	t_host_wake();
}

bool t_host_has_ended(struct t_host *h, const struct t_request *r)
{
	bool has_ended;

	pthread_mutex_lock(&h->lock);
	has_ended = r->has_ended;
	pthread_mutex_unlock(&h->lock);
	return has_ended;
}

int t_host_result(struct t_host *h, const struct t_request *r)
{
	while (!t_host_has_ended(h, r))
		t_host_turn(h);
	return r->res;
}

static struct rbp_io *host_child(struct rbp_io *io)
{
	struct t_request *r = (struct t_request *)(void *)io;

	r->child = *io;
	r->child.parent = io;
	return &r->child;
}

/* ---- reports ---- */

__attribute__((format(printf, 3, 4))) static void
host_log(struct rbp_vol *vol, enum rbp_log_level level, const char *fmt, ...)
{
	char *log = the_host->log;
	va_list args;
	size_t len;

	pthread_mutex_lock(&the_host->lock);
	the_host->last_level = level;
	len = strlen(log);
	if (len && len < T_HOST_LOG_LEN - 1)
		log[len++] = '\n';
	va_start(args, fmt);
	vsnprintf(log + len, T_HOST_LOG_LEN - len, fmt, args);
	va_end(args);
	pthread_mutex_unlock(&the_host->lock);
	t_host_wake();
}

static void host_resized(struct rbp_vol *vol)
{
	the_host->resized_cnt++;
	t_host_wake();
}

static void host_path_changed(struct rbp_vol *vol)
{
	the_host->path_changed_cnt++;
	t_host_wake();
}

static int host_notes(struct rbp_vol *vol, uint64_t version, const void *data,
		      size_t len)
{
	the_host->notes_version = version;
	return the_host->notes_res;
}

/* ---- watches ---- */

static struct rbp_watch *
host_watch_add(struct rbp_queue *queue, int fd, uint32_t events,
	       void (*ready)(void *user, uint32_t events), void *user)
{
	struct rbp_watch *w = the_host->watches;

	if (the_host->lacks_watches) {
		the_host->lacks_watches--;
		return NULL;
	}
	while (w < the_host->watches + T_HOST_WATCHES && w->is_used)
		w++;
	assert_in_range(w - the_host->watches, 0, T_HOST_WATCHES - 1);
	*w = (struct rbp_watch){ true, fd, events, ready, user };
	return w;
}

static void host_watch_set(struct rbp_watch *watch, uint32_t events)
{
	watch->events = events;
}

static void host_watch_del(struct rbp_watch *watch)
{
	assert_true(watch->is_used);
	watch->is_used = false;
}

/* ---- timers ---- */

static struct rbp_timer *host_timer_add(struct rbp_queue *queue,
					void (*fire)(void *user), void *user)
{
	struct rbp_timer *t = the_host->timers;

	while (t < the_host->timers + T_HOST_TIMERS && t->is_used)
		t++;
	assert_in_range(t - the_host->timers, 0, T_HOST_TIMERS - 1);
	*t = (struct rbp_timer){ .is_used = true, .fire = fire, .user = user };
	return t;
}

static void host_timer_set(struct rbp_timer *timer, uint64_t delay_ms)
{
	timer->is_set = true;
	timer->due_ns = the_host->now_ns + delay_ms * 1000000;
}

static void host_timer_stop(struct rbp_timer *timer)
{
	timer->is_set = false;
}

static void host_timer_del(struct rbp_timer *timer)
{
	assert_true(timer->is_used);
	timer->is_used = false;
	timer->is_set = false;
}

/* The timer that is due next, not after @until_ns, or NULL. */
static struct rbp_timer *host_due(struct t_host *h, uint64_t until_ns)
{
	struct rbp_timer *next = NULL;

	for (unsigned int i = 0; i < T_HOST_TIMERS; i++) {
		struct rbp_timer *t = &h->timers[i];

		if (t->is_set && t->due_ns <= until_ns &&
		    (!next || t->due_ns < next->due_ns))
			next = t;
	}
	return next;
}

void t_host_pass(struct t_host *h, uint64_t ms)
{
	uint64_t until_ns = h->now_ns + ms * 1000000;
	struct rbp_timer *t;

	while ((t = host_due(h, until_ns))) {
		if (t->due_ns > h->now_ns)
			h->now_ns = t->due_ns;
		t->is_set = false;
		t->fire(t->user);
	}
	h->now_ns = until_ns;
}

/* ---- turns ---- */

void t_host_wake(void)
{
	eventfd_write(changed_fd, 1);
}

void t_host_kick(struct t_host *h)
{
	for (unsigned int i = 0; i < T_HOST_QUEUES; i++) {
		if (h->queues[i].data && h->plugin->kick)
			h->plugin->kick(h->volume, h->queues[i].data);
	}
}

bool t_host_poll(struct t_host *h, int timeout_ms)
{
	struct pollfd fds[T_HOST_WATCHES + 1];
	eventfd_t count;

	for (unsigned int i = 0; i < T_HOST_WATCHES; i++) {
		const struct rbp_watch *w = &h->watches[i];

		fds[i] = (struct pollfd){
			.fd = w->is_used && w->events ? w->fd : -1,
			.events = (short)w->events,
		};
	}
	fds[T_HOST_WATCHES] = (struct pollfd){ changed_fd, POLLIN, 0 };
	if (poll(fds, T_HOST_WATCHES + 1, timeout_ms) <= 0)
		return false;
	if (fds[T_HOST_WATCHES].revents)
		eventfd_read(changed_fd, &count);
	for (unsigned int i = 0; i < T_HOST_WATCHES; i++) {
		const struct rbp_watch *w = &h->watches[i];

		/* A handler before may have deleted it. */
		if (fds[i].revents && w->is_used && w->fd == fds[i].fd)
			w->ready(w->user, (uint32_t)fds[i].revents);
	}
	return true;
}

void t_host_turn(struct t_host *h)
{
	t_host_kick(h);
	assert_true(t_host_poll(h, HANG_MS));
}

const struct rbp_host t_host_functions = {
	.size = sizeof(t_host_functions),
	.version = "test",
	.done = host_done,
	.log = host_log,
	.resized = host_resized,
	.child = host_child,
	.watch_add = host_watch_add,
	.watch_set = host_watch_set,
	.watch_del = host_watch_del,
	.timer_add = host_timer_add,
	.timer_set = host_timer_set,
	.timer_stop = host_timer_stop,
	.timer_del = host_timer_del,
	.path_changed = host_path_changed,
	.notes = host_notes,
};
