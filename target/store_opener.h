/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that opens the files and block devices of the configuration, a child of the
 * target. It is made before the target opens anything, keeps the rights of the user that
 * starts the target, and has none of its data. It opens what --backing names, and nothing
 * else, until nothing is waited for any more: what comes late is opened with the same rights as
 * what was there at the start. A file server that hangs holds a thread of this process, and
 * neither the start nor the end of the target.
 *
 * Thread: any, unless a function says otherwise.
 */
#ifndef TARGET_STORE_OPENER_H
#define TARGET_STORE_OPENER_H

#include <sys/types.h>

#include "base/given_files.h"
#include "config/options.h"

/* Embed it; -1: there is no process. */
struct store_opener {
	int socket;
	pid_t pid; /* 0: it has ended */
};

/* Makes the process. @unused_fd: that it need not have. No other thread may run. 0, or -errno
 * with one line in @e. Thread: setup. */
int store_opener_fork(struct store_opener *o, const struct target_options *opt,
		      int unused_fd, struct error *e);
/* It ends: nothing is to be opened any more. */
void store_opener_dismiss(struct store_opener *o);
/* A child of the target has ended. Thread: main. */
void store_opener_ended(struct store_opener *o);
/* It ends, whatever it does. Thread: setup. */
void store_opener_close(struct store_opener *o);

/*
 * Asks for @cnt open files of the store of opt->backings[@index]; 0: only whether it
 * answers. Returns a descriptor, which can be read when there is an answer, for
 * store_opener_answer(); or -errno.
 */
int store_opener_ask(const struct store_opener *o, unsigned int index,
		     unsigned int cnt);
/*
 * Waits for the answer, and closes @answer. 0: @ret has the open files. Or -errno: -EPIPE: the
 * process has ended.
 */
int store_opener_answer(int answer, struct given_file *ret);

#endif
