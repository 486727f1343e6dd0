/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adds and removes volumes while the target runs. The thread that requests the
 * change moves the volume through its states (enum manage_volume_state); for a removal,
 * another one does. It opens and closes the store, which may block. The workers do all other steps
 * by message: each attaches and detaches the volume, and worker 0 shows it to
 * initiators, or hides it.
 *
 * Thread: any but a worker's; with the lock of the struct manage.
 */
#ifndef TARGET_MANAGE_VOLUME_H
#define TARGET_MANAGE_VOLUME_H

#include "base/given_files.h"
#include "target/manage.h"

struct manage_new_volume {
	const json_t *vol; /* canonical */
	/* Canonical: the rules of a volume without own ones until manage_set_allow(); they
	 * are not noted. NULL: there are none. */
	const json_t *meanwhile;
	/* Its store may be one of these files. Otherwise the target opens it, if it may.
	 * NULL: there are none. */
	struct given_files *given;
	/* It is a part of a larger change: nobody else changes anything until its store is
	 * open. */
	bool is_part;
};

/* Adds a volume: see manage_open.h. *ret_vol, borrowed, has its name and LUN. False:
 * refused. */
bool manage_add_volume(struct manage *m, const struct manage_new_volume *new,
		       json_t **ret_vol, struct manage_fault *f);
/* The same for one that the start waits for: @vol is its store, which is closed if it is
 * refused. -errno with one clause in @e; -ESHUTDOWN: the target is stopping, or it is gone. */
int manage_arrive_volume(struct manage *m, struct absent *a, struct volume *vol,
			 struct error *e);
/* Removes the volumes @names: all of them go, or, when one is refused, none. (If memory
 * runs out on the way, those before it have gone.) Refused while an initiator sees one, or
 * if one cannot be flushed. With @force, ends all commands first, and only logs a flush
 * that fails. True: they are gone for initiators. A thread of its own closes each store,
 * when it has answered. */
bool manage_remove_volumes(struct manage *m, const json_t *names, bool force,
			   struct manage_fault *f);
/* Forgets the LUNs of a volume that is gone. False: refused. */
bool manage_forget_luns(struct manage *m, const char *name,
			struct manage_fault *f);
/* Whether no initiator sees any of them, or @force. False: refused. With or without the
 * lock. */
bool manage_may_remove(struct manage *m, const json_t *names, bool force,
		       struct manage_fault *f);

#endif
