/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the metrics of a mount (metrics.h) to a file, for the textfile collector of
 * node_exporter. The reactor makes the text. A thread of its own writes it: the file may
 * lie on a slow disk, or on a mount that this process serves.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_METRICS_WRITER_H
#define FUSE_METRICS_WRITER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/reactor.h"
#include "fuse/tree.h"

/* Time between two writes of the file. */
#define METRICS_WRITER_MS 10000

/* Embed it, zeroed; all is private. */
struct metrics_writer {
	struct reactor *reactor;
	const struct tree *tree;
	const char *mount_path;
	char *path; /* absolute: a daemon changes its directory */
	struct reactor_timer timer;
	bool started;
	pthread_t thread;
	pthread_mutex_t lock; /* of the next four */
	pthread_cond_t changed;
	char *text; /* to write; NULL: none */
	size_t len;
	bool stopping;
	struct reactor_msg ended_msg;
	bool ended; /* the thread writes nothing any more */
};

/* Writes @path at once, then from time to time. @tree and @mount_path are borrowed until
 * metrics_writer_stop(). Return: 0 or -errno with @e. */
int metrics_writer_start(struct metrics_writer *w, const char *path,
			 struct reactor *r, const struct tree *tree,
			 const char *mount_path, struct error *e);

/* Asks the thread to end. Run the reactor, and answer requests, until
 * metrics_writer_has_ended(). If the thread was not started, it has ended. */
void metrics_writer_stop(struct metrics_writer *w);
bool metrics_writer_has_ended(const struct metrics_writer *w);
/* Frees. Call this when the thread has ended. */
void metrics_writer_end(struct metrics_writer *w);

#endif
