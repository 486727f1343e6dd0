/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGTERM and SIGINT while the target opens its stores. They are blocked, and stay pending
 * until the target serves, or a wait for a lock ends because of one (base/file_lock.h).
 * But a store may never come back from open(): a second signal ends the process at once.
 *
 * Thread: main.
 */
#ifndef TARGET_START_SIGNALS_H
#define TARGET_START_SIGNALS_H

#include <pthread.h>
#include <stdbool.h>

struct start_signals {
	pthread_t thread;
	bool has_thread;
	int first; /* the signal that has come; 0: none */
};

/* Begins to watch; without a thread, nothing is watched. */
void start_signals_begin(struct start_signals *w);
/* Ends that. A signal that has come is pending again. */
void start_signals_end(struct start_signals *w);

#endif
