/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/start_signals.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/log.h"
#include "base/stop_signal.h"

#define START_SIGNALS_LOOK_S 4
/* More than FILE_LOCK_ENDING_MS: a file may be in use. */
#define START_SIGNALS_LOOKS 5

/* No PID file is there yet. */
static void start_signals_take(struct start_signals *w, int sig)
{
	if (w->first && stop_signal_is_same(w->first_ms))
		return;
	if (w->first) {
		log_error("second signal: exiting at once");
		log_exit(1);
	}
	w->first = sig;
	w->first_ms = ticks_clock_ms();
	/* It is not pending any more. */
	file_lock_end_waits(true);
	log_notice("%s: stopping when the stores are open; a second signal "
		   "stops at once",
		   strsignal(sig));
}

/* From start_signals_end(), for the thread alone. */
static bool start_signals_is_end(const struct start_signals *w,
				 const siginfo_t *info)
{
	return info->si_code == SI_QUEUE && info->si_value.sival_ptr == w;
}

/* Once for each store that this many looks have found. */
static void start_signals_look(struct start_signals *w)
{
	const char *store = atomic_load(w->opening);

	if (store != w->seen)
		w->looks = 0;
	w->seen = store;
	if (store && ++w->looks == START_SIGNALS_LOOKS)
		log_warn(
			"%s: its store does not open; the target serves nothing "
			"before that",
			store);
}

static void *start_signals_main(void *arg)
{
	const struct timespec pause = { .tv_sec = START_SIGNALS_LOOK_S };
	siginfo_t info = { .si_code = SI_USER };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	while (!start_signals_is_end(arg, &info)) {
		if (sigtimedwait(&set, &info, &pause) <= 0)
			start_signals_look(arg);
		else if (!start_signals_is_end(arg, &info))
			start_signals_take(arg, info.si_signo);
	}
	return NULL;
}

void start_signals_begin(struct start_signals *w, start_signals_store *opening)
{
	*w = (struct start_signals){ .opening = opening };
	w->has_thread =
		!pthread_create(&w->thread, NULL, start_signals_main, w);
}

void start_signals_end(struct start_signals *w)
{
	if (w->has_thread) {
		pthread_sigqueue(w->thread, SIGTERM,
				 (union sigval){ .sival_ptr = w });
		pthread_join(w->thread, NULL);
	}
	if (w->first)
		kill(getpid(), w->first);
}
