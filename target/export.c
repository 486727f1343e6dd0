/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/export.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "config.h"
#include "base/exposition.h"
#include "base/ticks.h"
#include "target/collect.h"
#include "target/metrics_http.h"

struct export
{
	struct server *server;
	int stop_fd; /* eventfd: tells the thread to end */
	pthread_t thread;
	bool has_thread;
	/* only for the thread */
	struct metrics_http *http; /* NULL: --metrics was not given */
	char *text;		   /* from the last collection; NULL: never */
	size_t len;
	uint64_t text_ms;
	uint64_t file_due_ms;
	bool file_failed; /* the log says that the file failed */
};

/* ---- the thread ---- */

static bool export_is_fresh(const struct export *x)
{
	return x->text && ticks_clock_ms() - x->text_ms < EXPORT_FRESH_MS;
}

/* Without memory for a new text, the last text stays. */
static const char *export_page(void *user, size_t *ret_len)
{
	struct export *x = user;
	size_t len;
	char *text;

	if (!export_is_fresh(x) &&
	    collect_exposition(x->server, &text, &len) == 0) {
		free(x->text);
		x->text = text;
		x->len = len;
		x->text_ms = ticks_clock_ms();
	}
	*ret_len = x->len;
	return x->text;
}

/* Logs once that writing fails, and once that it works again. */
static void export_write_file(struct export *x)
{
	const char *path = x->server->opt->metrics_file;
	struct error e = { 0 };
	size_t len;
	const char *text = export_page(x, &len);
	int err = text ? exposition_save(path, text, len, &e) : 0;

	if (err && !x->file_failed)
		log_error("--metrics-file: %s; trying again", e.text);
	if (!err && x->file_failed)
		log_notice("--metrics-file: %s is written again", path);
	x->file_failed = err;
	x->file_due_ms = ticks_clock_ms() + EXPORT_FILE_MS;
}

static int export_file_timeout_ms(const struct export *x)
{
	uint64_t now = ticks_clock_ms();

	if (!x->server->opt->metrics_file)
		return -1;
	return now < x->file_due_ms ? (int)(x->file_due_ms - now) : 0;
}

/* Milliseconds until metrics_http_run() has work; -1: no limit. */
static int export_page_timeout_ms(const struct export *x)
{
	return HAVE_HTTP && x->http ? metrics_http_timeout_ms(x->http) : -1;
}

/* Returns the earlier of two timeouts; -1 is none. */
static int export_sooner_ms(int a, int b)
{
	if (a < 0 || b < 0)
		return a < 0 ? b : a;
	return a < b ? a : b;
}

static void *export_main(void *arg)
{
	struct export *x = arg;
	struct pollfd fds[2] = {
		{ .fd = x->stop_fd, .events = POLLIN },
		{ .fd = HAVE_HTTP && x->http ? metrics_http_fd(x->http) : -1,
		  .events = POLLIN },
	};

	pthread_setname_np(pthread_self(), "metrics");
	while (!fds[0].revents) {
		int file_ms = export_file_timeout_ms(x);
		int http_ms = export_page_timeout_ms(x);

		if (file_ms == 0)
			export_write_file(x);
		poll(fds, 2, export_sooner_ms(file_ms, http_ms));
		if (HAVE_HTTP && x->http)
			metrics_http_run(x->http);
	}
	return NULL;
}

/* ---- life cycle ---- */

int export_open(struct server *s, struct error *e)
{
	struct export *x;

	if (!s->opt->metrics && !s->opt->metrics_file)
		return 0;
	x = calloc(1, sizeof(*x));
	if (!x)
		return error_set(e, -ENOMEM, "out of memory");
	s->export = x;
	x->server = s;
	x->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (x->stop_fd < 0)
		return error_set(e, -errno, "cannot serve metrics: %s",
				 strerror(errno));
	if (!HAVE_HTTP || !s->opt->metrics)
		return 0;
	return metrics_http_open(s->opt->metrics, export_page, x, &x->http, e);
}

int export_start(struct server *s, struct error *e)
{
	struct export *x = s->export;
	int err;

	if (!x)
		return 0;
	/* Worker 0 will run soon. */
	server_calls_open(s);
	err = -pthread_create(&x->thread, NULL, export_main, x);
	if (err)
		return error_set(e, err, "cannot start a thread: %s",
				 strerror(-err));
	x->has_thread = true;
	return 0;
}

void export_close(struct server *s)
{
	struct export *x = s->export;
	const uint64_t one = 1;

	if (!x)
		return;
	/* The thread may be waiting for worker 0, which has ended. */
	server_calls_close(s);
	if (x->has_thread &&
	    write(x->stop_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(x->thread, NULL);
	if (HAVE_HTTP && x->http)
		metrics_http_close(x->http);
	if (x->stop_fd >= 0)
		close(x->stop_fd);
	free(x->text);
	free(x);
	s->export = NULL;
}
