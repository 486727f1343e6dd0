/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes a running target to a configuration: first everything is checked,
 * then volumes are added, volumes are removed, all of them or none, and rules
 * and limits are changed. If a volume cannot be added or removed, those that
 * were added before are removed again.
 *
 * Thread: any but a worker's; with the lock of the struct manage, unless it only reports.
 */
#ifndef TARGET_MANAGE_APPLY_H
#define TARGET_MANAGE_APPLY_H

#include "base/given_files.h"
#include "target/manage.h"

struct manage_apply {
	/* Only report how @want differs from this. NULL: change the target. */
	const struct manage_view *view;
	/* With a view: tell what stands in the way, too, instead of refusing. */
	bool whole;
	bool prune;		   /* remove what the configuration lacks */
	bool force;		   /* also remove volumes in use */
	struct given_files *given; /* for what is added; may be NULL */
};

/*
 * @want is canonical. *ret_changes, which the caller frees, is an array of
 * objects: "action" (add, change, remove, restart: at the next start, or refused:
 * stands in the way), "object", and, for change and restart, "field", "from" and "to",
 * for refused, "field" and "reason". Empty: nothing differs. False: refused, and nothing has changed.
 */
bool manage_apply(struct manage *m, const json_t *want,
		  const struct manage_apply *how, json_t **ret_changes,
		  struct manage_fault *f);

#endif
