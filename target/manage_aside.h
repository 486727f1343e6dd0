/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that may hang for ever, because a file server or a disk does not answer. They are
 * made on a thread of their own. Whoever needs the result waits for a limited time, and not
 * when the target ends.
 *
 * Thread: any but a worker's, unless a function says otherwise.
 */
#ifndef TARGET_MANAGE_ASIDE_H
#define TARGET_MANAGE_ASIDE_H

#include "base/log.h"
#include "target/manage.h"

/* Embed it. */
struct manage_aside {
	/* May be called for longer than anybody waits: it uses nothing that ends before
	 * free(). */
	void (*run)(struct manage_aside *job);
	/* Frees the job, with all that run() has left in it. */
	void (*free)(struct manage_aside *job);

	/* private */
	const struct log_caller *caller; /* of the thread that waits */
	bool is_done;
	bool is_left;
};

/*
 * Calls run(), and waits for it, or until manage_end_asides(). @seconds: at most; 0: there is
 * no limit. Return: 0: it has returned, and the caller frees @job when it has taken the
 * results. -ETIMEDOUT: the store has not answered; -ESHUTDOWN: the target is stopping; or
 * another -errno: no thread can be started. Each has a clause in @e, and @job is free, or
 * will be.
 */
int manage_run_aside(const struct manage *m, struct manage_aside *job,
		     unsigned int seconds, struct error *e);
/* The same for a store, without the lock of @m, which the caller has: others may change
 * everything meanwhile. It waits for --stop-timeout. */
int manage_run_unlocked(struct manage *m, struct manage_aside *job,
			struct error *e);

/*
 * Both in two steps: begins run(); 0, or -errno with a clause in @e, and @job is free. Then
 * waits as above, and returns 0, or -ETIMEDOUT: it goes on, and the caller may wait for it again,
 * or leave it; or -ESHUTDOWN: it is left. @m: NULL: the target has not begun to serve.
 */
int manage_begin_aside(struct manage_aside *job, struct error *e);
int manage_await_aside(const struct manage *m, struct manage_aside *job,
		       unsigned int seconds);
/* Frees @job, now or when run() has returned. */
void manage_leave_aside(struct manage_aside *job);

/* The target ends: nobody waits any more, now and later. Thread: main. */
void manage_end_asides(struct manage *m);

#endif
