/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/metrics_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exposition.h"
#include "base/log.h"
#include "fuse/metrics.h"

/* ---- the thread ---- */

/* NULL: the end. */
static char *metrics_writer_next(struct metrics_writer *w, size_t *ret_len)
{
	char *text = NULL;

	pthread_mutex_lock(&w->lock);
	while (!w->stopping && !w->text)
		pthread_cond_wait(&w->changed, &w->lock);
	if (!w->stopping) {
		text = w->text;
		*ret_len = w->len;
		w->text = NULL;
	}
	pthread_mutex_unlock(&w->lock);
	return text;
}

/* Says once that it fails, and once that it works again. */
static bool metrics_writer_save(const struct metrics_writer *w,
				const char *text, size_t len, bool had_failed)
{
	struct error e;
	int err = exposition_save(w->path, text, len, &e);

	if (err && !had_failed)
		log_error("--metrics-file: %s; trying again", e.text);
	if (!err && had_failed)
		log_notice("--metrics-file: %s is written again", w->path);
	return err;
}

static void *metrics_writer_run(void *arg)
{
	struct metrics_writer *w = arg;
	bool failed = false;
	size_t len = 0;
	char *text;

	pthread_setname_np(pthread_self(), "metrics");
	while ((text = metrics_writer_next(w, &len))) {
		failed = metrics_writer_save(w, text, len, failed);
		free(text);
	}
	reactor_send(w->reactor, &w->ended_msg);
	return NULL;
}

static void metrics_writer_note_end(struct reactor_msg *msg)
{
	container_of(msg, struct metrics_writer, ended_msg)->ended = true;
}

/* ---- the reactor ---- */

/* A text that still waits is older, and not written. */
static void metrics_writer_fire(struct reactor_timer *t)
{
	struct metrics_writer *w =
		container_of(t, struct metrics_writer, timer);
	size_t len;
	char *text = fuse_metrics_text(w->tree, w->mount_path, &len);

	if (text) {
		pthread_mutex_lock(&w->lock);
		free(w->text);
		w->text = text;
		w->len = len;
		pthread_cond_signal(&w->changed);
		pthread_mutex_unlock(&w->lock);
	}
	reactor_timer_set(w->reactor, &w->timer, METRICS_WRITER_MS);
}

static char *metrics_writer_path(const char *path)
{
	_cleanup_free_ char *dir = *path == '/' ? NULL : getcwd(NULL, 0);
	char *whole;

	return asprintf(&whole, "%s%s%s", dir ? dir : "", dir ? "/" : "",
			path) < 0
		       ? NULL
		       : whole;
}

int metrics_writer_start(struct metrics_writer *w, const char *path,
			 struct reactor *r, const struct tree *tree,
			 const char *mount_path, struct error *e)
{
	int err;

	*w = (struct metrics_writer){ .reactor = r,
				      .tree = tree,
				      .mount_path = mount_path,
				      .path = metrics_writer_path(path),
				      .ended_msg.run =
					      metrics_writer_note_end };
	if (!w->path)
		return error_set(e, -ENOMEM, "out of memory");
	/* Other users read it. */
	umask(S_IWGRP | S_IWOTH);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	reactor_timer_init(&w->timer, metrics_writer_fire);
	err = -pthread_create(&w->thread, NULL, metrics_writer_run, w);
	if (err) {
		free(w->path);
		return error_set(e, err, "cannot start a thread: %s",
				 strerror(-err));
	}
	w->started = true;
	metrics_writer_fire(&w->timer);
	return 0;
}

void metrics_writer_stop(struct metrics_writer *w)
{
	if (!w->started)
		return;
	reactor_timer_stop(&w->timer);
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

bool metrics_writer_has_ended(const struct metrics_writer *w)
{
	return !w->started || w->ended;
}

void metrics_writer_end(struct metrics_writer *w)
{
	if (!w->started)
		return;
	pthread_join(w->thread, NULL);
	w->started = false;
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w->text);
	free(w->path);
}
