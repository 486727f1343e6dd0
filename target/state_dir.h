/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where this target keeps what survives a restart: --state-dir; or a directory that is
 * there by default (base/state_dir.h). The latter has the number of the target as its name
 * (state_port.h), since initiators know a target by its number, and two targets of one user
 * may serve the same volume. Their identifier is one: a volume that has none of its own is
 * the same disk behind each of them. If --state-dir has named the place of these directories
 * before, what the target left there is used.
 *
 * What cannot be made is done without: the target serves, and promises nothing that needs
 * it. What is there has been promised: it is used, or the start fails.
 *
 * Thread: setup. Blocks.
 */
#ifndef TARGET_STATE_DIR_H
#define TARGET_STATE_DIR_H

#include <stdbool.h>

#include "base/error.h"
#include "config/options.h"

/* Embed it, zeroed. */
struct target_state_dir {
	const char *path; /* NULL: nothing survives */
	const char *
		id_path; /* where the identifier of the target is; NULL: nowhere */
	char base[4096]; /* where the directories by default are */
	char by_default[4096 + 8];
	bool was_there; /* before this start */
	unsigned int
		number; /* of the target; 0: it is another one after each start */
	struct error none; /* if nothing survives: why, as one clause */
};

/* Decides which directory it is, and makes nothing. 0, or a negative errno with one clause in
 * @e. */
int target_state_dir_choose(struct target_state_dir *d,
			    const struct target_options *opt, struct error *e);

/* Makes the place of the directory by default, for --user, with the rights of the user that
 * starts the target. */
void target_state_dir_make(struct target_state_dir *d,
			   const struct target_options *opt);

/*
 * Makes the directory by default, and looks whether the target may use it, both with the
 * rights of --user. If it could not be made, d->path is NULL then. A negative errno with one clause in @e: it is there
 * and cannot be used.
 */
int target_state_dir_check(struct target_state_dir *d,
			   const struct target_options *opt, struct error *e);

/* The target listens on @port. Once it was kept, the target is the same when @port is its first
 * one. 0, or a negative errno with one clause in @e. Thread: setup, or with the lock of
 * changes. */
int target_state_dir_keep_port(const struct target_state_dir *d,
			       unsigned int port, struct error *e);

#endif
