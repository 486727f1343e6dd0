/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Applies the configuration file again, without pruning, and looks for volumes that
 * have grown: what SIGHUP and rdma-ctl reload ask for. What changes is logged, and
 * why not. Without a file there is nothing to apply.
 */
#ifndef TARGET_MANAGE_RELOAD_H
#define TARGET_MANAGE_RELOAD_H

#include "target/manage.h"

/* *ret_changes as manage_apply() has them, to be freed. False: refused, and nothing
 * has changed. Thread: any but a worker's; without the lock. */
bool manage_reload(struct manage *m, json_t **ret_changes,
		   struct manage_fault *f);

/* The same on a thread of its own. Thread: main, as the next. */
void manage_begin_reload(struct manage *m);
/* Waits for the end of that thread. */
void manage_await_reload(struct manage *m);

#endif
