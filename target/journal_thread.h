/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread that writes the journals of all volumes (target/disk/journal.h). Workers ask
 * stores, and may hang in one; this thread does not, so a worker that hangs keeps no other
 * from an answer that waits for a journal.
 *
 * Thread of all functions: main.
 */
#ifndef TARGET_JOURNAL_THREAD_H
#define TARGET_JOURNAL_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/reactor.h"

/* Embed it, zeroed. */
struct journal_thread {
	struct reactor *reactor; /* runs what is sent to it */
	pthread_t thread;
	bool started;
};

/* @unrestricted: its ring may do everything. 0, or -errno with one clause in @e. */
int journal_thread_open(struct journal_thread *t, bool unrestricted,
			struct error *e);
int journal_thread_start(struct journal_thread *t, struct error *e);
/* Ends the thread, if it runs. Nothing is written any more, except for volumes that are
 * abandoned. */
void journal_thread_stop(struct journal_thread *t);
/* After the volumes are closed. */
void journal_thread_close(struct journal_thread *t);

#endif
