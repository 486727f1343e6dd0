/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/start_signals.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/log.h"

/* No PID file is there yet. */
static void start_signals_take(struct start_signals *w, int sig)
{
	if (w->first) {
		log_error("second signal: exiting at once");
		log_exit(1);
	}
	w->first = sig;
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

static void *start_signals_main(void *arg)
{
	siginfo_t info = { .si_code = SI_USER };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	while (!start_signals_is_end(arg, &info)) {
		if (sigwaitinfo(&set, &info) > 0 &&
		    !start_signals_is_end(arg, &info))
			start_signals_take(arg, info.si_signo);
	}
	return NULL;
}

void start_signals_begin(struct start_signals *w)
{
	w->first = 0;
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
