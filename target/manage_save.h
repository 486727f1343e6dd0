/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the configuration of a running target to the file that it was started
 * with. Values that the command line has added are left out, because they are
 * added again at the next start. The file is replaced as a whole; FILE.1,
 * FILE.2 and FILE.3 are the earlier versions. Comments are lost.
 *
 * Thread: any but a worker's; with the lock of the struct manage. Blocks.
 *
 * manage_save() gives the lock up while it reads the file, whose server may not answer.
 * What it writes includes the changes of others meanwhile. A reload waits for it: the
 * file does not have the change yet, and would undo it.
 */
#ifndef TARGET_MANAGE_SAVE_H
#define TARGET_MANAGE_SAVE_H

#include "target/manage.h"

/* A configuration without volumes replaces one that has some only with @force.
 * False: refused. */
bool manage_save(struct manage *m, bool force, struct manage_fault *f);

/* Returns what manage_save() would write; the caller frees it. */
json_t *manage_saved_form(const struct manage *m);

#endif
