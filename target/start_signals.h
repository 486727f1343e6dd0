/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGTERM and SIGINT while the target opens its stores. They are blocked, and stay pending
 * until the target serves, or a wait for a lock ends because of one (base/file_lock.h).
 * But a store may never come back from open(): the log says which one, and a second signal
 * ends the process at once.
 *
 * Thread: main.
 */
#ifndef TARGET_START_SIGNALS_H
#define TARGET_START_SIGNALS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What is being opened, for the log; NULL: nothing. */
typedef _Atomic(const char *) start_signals_store;

struct start_signals {
	start_signals_store *opening;
	/* of the thread alone */
	const char *seen;
	unsigned int looks; /* that have found it */
	pthread_t thread;
	bool has_thread;
	int first;	   /* the signal that has come; 0: none */
	uint64_t first_ms; /* when (ticks_clock_ms()) */
};

/* Begins to watch; without a thread, nothing is watched. */
void start_signals_begin(struct start_signals *w, start_signals_store *opening);
/* Ends that. A signal that has come is pending again. */
void start_signals_end(struct start_signals *w);

#endif
