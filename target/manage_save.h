/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the configuration of a running target to the file that it was started
 * with. What the command line has added is left out: it is added again at the next
 * start. The file is replaced as a whole; FILE.1, FILE.2 and FILE.3 are the versions
 * before. Comments are lost.
 *
 * Thread: any but a worker's; with the lock of the struct manage. Blocks.
 */
#ifndef TARGET_MANAGE_SAVE_H
#define TARGET_MANAGE_SAVE_H

#include "target/manage.h"

/* A configuration without volumes does not replace one that has some, but with
 * @force. False: refused. */
bool manage_save(struct manage *m, bool force, struct manage_fault *f);

/* What would be written, to be freed. */
json_t *manage_saved_form(const struct manage *m);

#endif
