/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Applies the configuration file again, without pruning, and looks for volumes
 * that have grown. SIGHUP and rdma-ctl reload do this. The log has the changes,
 * or the reason for a refusal. Without a file, only sizes are checked.
 */
#ifndef TARGET_MANAGE_RELOAD_H
#define TARGET_MANAGE_RELOAD_H

#include "base/given_files.h"
#include "target/manage.h"

/* How long the end of the target waits for a change. */
#define MANAGE_LAST_MS 30000

/* @given and *ret_changes are as in manage_apply(); the caller frees *ret_changes.
 * False: refused, and nothing has changed. Thread: any but a worker's; without the lock. */
bool manage_reload(struct manage *m, struct given_files *given,
		   json_t **ret_changes, struct manage_fault *f);

/* The same on a thread of its own. While that runs, it is done once more after that,
 * however often it is asked for. Thread: main, as for the next function. */
void manage_begin_reload(struct manage *m);
/* Waits for the end of that thread, after manage_end_asides(). False: it does not end soon. */
bool manage_await_reload(struct manage *m);

#endif
