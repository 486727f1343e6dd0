/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/journal_thread.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"

static const uint8_t ring_ops[] = { IORING_OP_WRITE, IORING_OP_FSYNC };

int journal_thread_open(struct journal_thread *t, bool unrestricted,
			struct error *e)
{
	const struct reactor_options opt = {
		.ring_entries = 64,
		.ops = unrestricted ? NULL : ring_ops,
		.op_cnt = ARRAY_SIZE(ring_ops),
	};
	int err = reactor_create(&opt, &t->reactor);

	return err ? error_set(e, err, "cannot set up io_uring: %s%s",
			       strerror(-err), reactor_create_hint(err))
		   : 0;
}

static void *journal_thread_main(void *arg)
{
	struct journal_thread *t = arg;
	int err;

	pthread_setname_np(pthread_self(), "journals");
	err = reactor_run(t->reactor);
	if (err) {
		/* Answers that wait for a journal would never come. */
		log_error("journals: their ring failed: %s", strerror(-err));
		log_exit(EXIT_FAILURE);
	}
	return NULL;
}

int journal_thread_start(struct journal_thread *t, struct error *e)
{
	int err = pthread_create(&t->thread, NULL, journal_thread_main, t);

	t->started = err == 0;
	return err ? error_set(e, -err, "cannot start a thread: %s",
			       strerror(err))
		   : 0;
}

void journal_thread_stop(struct journal_thread *t)
{
	if (!t->started)
		return;
	reactor_stop(t->reactor);
	pthread_join(t->thread, NULL);
	t->started = false;
}

void journal_thread_close(struct journal_thread *t)
{
	reactor_destroy(t->reactor);
	t->reactor = NULL;
}
