/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes a running target what a configuration says: first all is checked, then
 * volumes are added, rules and limits changed, and volumes removed. When a volume
 * cannot be added, those that were added before it go again.
 *
 * Thread: any but a worker's; with the lock of the struct manage.
 */
#ifndef TARGET_MANAGE_APPLY_H
#define TARGET_MANAGE_APPLY_H

#include "target/manage.h"

struct manage_apply {
	bool dry_run; /* tell what would change */
	bool prune;   /* what the configuration does not have goes */
	bool force;   /* volumes in use may go, too */
};

/*
 * @want is canonical. *ret_changes, to be freed, is an array of objects: "action"
 * (add, change, remove, or restart: at the next start), "object", and for the middle
 * two "field", "from" and "to"; empty: nothing differs. False: refused, and nothing
 * has changed, unless @f says so of a volume that cannot be removed any more.
 */
bool manage_apply(struct manage *m, const json_t *want,
		  const struct manage_apply *how, json_t **ret_changes,
		  struct manage_fault *f);

/* Logs which volumes get another LUN when the target starts with @want, which is
 * canonical and has been applied. */
void manage_warn_of_numbers(struct manage *m, const json_t *want);

#endif
