/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the configuration of a running target to the file that it was started
 * with. Values that the command line has added are left out, because they are
 * added again at the next start. The file is replaced as a whole; FILE.1,
 * FILE.2 and FILE.3 are the earlier versions. Comments are lost.
 *
 * Thread: any but a worker's; without the lock of the struct manage. Blocks: the server of
 * the file may not answer. What is written includes the changes of others meanwhile.
 */
#ifndef TARGET_MANAGE_SAVE_H
#define TARGET_MANAGE_SAVE_H

#include "target/manage.h"

/* A configuration without volumes replaces one that has some only with @force.
 * False: refused. */
bool manage_save(struct manage *m, bool force, struct manage_fault *f);

/* The same for a change that m->saves counts. */
bool manage_save_change(struct manage *m, struct manage_fault *f);

#endif
