/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Volumes come and go while the target runs. The life of a volume (enum
 * manage_volume_state) is driven by the thread that asks for the change. It opens and
 * closes the store, which may block; all else is done by the workers, by message: each
 * lets the volume in and out by itself, and worker 0 shows it to initiators, or hides it.
 *
 * Thread: any but a worker's; with the lock of the struct manage.
 */
#ifndef TARGET_MANAGE_VOLUME_H
#define TARGET_MANAGE_VOLUME_H

#include "target/manage.h"

/* Adds the volume @vol, which is canonical. @meanwhile (canonical, may be NULL): the
 * rules of a volume without own ones until manage_set_allow(); they are not noted.
 * *ret_vol, borrowed, has its name and LUN. False: refused. */
bool manage_add_volume(struct manage *m, const json_t *vol,
		       const json_t *meanwhile, json_t **ret_vol,
		       struct manage_fault *f);
/* Removes it. It is refused while an initiator sees the volume, and when it cannot
 * be flushed; with @force it ends all commands first, and a flush that fails is
 * logged. */
bool manage_remove_volume(struct manage *m, const char *name, bool force,
			  struct manage_fault *f);
/* Flushes @vol, which stays. In standby it has nothing to flush. 0, or -errno and the
 * reason in @e. */
int manage_flush_volume(struct manage *m, struct volume *vol, struct error *e);

#endif
