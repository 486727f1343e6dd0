/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens the store of a volume that is added while the target runs, or that the start waits
 * for.
 *
 * Thread: any but a worker's; with the lock of the struct manage, unless a function says
 * otherwise.
 */
#ifndef TARGET_MANAGE_OPEN_H
#define TARGET_MANAGE_OPEN_H

#include "target/manage.h"
#include "target/store_opener.h"

/*
 * As volume_open(), which may take long. A file or device has --stop-timeout, and is closed
 * when it answers later. A plugin has no limit, as one at a time may be opened. @unlocks: others
 * may change everything, but for stores that are plugins or memory. Takes what is left of
 * spec->given.
 */
int manage_open_volume(struct manage *m, const struct volume_spec *spec,
		       unsigned int lun, bool unlocks, struct volume **ret_vol,
		       struct error *e);

/* ---- without the lock, by a thread of its own, however long it takes ---- */

struct manage_opening;

/* A store that no call has brought: @index is its place in the options. */
struct manage_late_store {
	const struct store_opener *opener;
	const struct volume_spec *spec;
	unsigned int index;
	unsigned int lun;
	unsigned int workers;
	const char *target; /* as for volume_open() */
	bool has_rights;    /* that its thread gives up */
};

/* Begins. NULL: @e says why. */
struct manage_opening *manage_begin_opening(const struct manage_late_store *s,
					    struct error *e);
/* 0: *ret_vol is open; or -errno with one clause in @e; in both cases @o is gone. Or -ETIMEDOUT:
 * it has not answered for @seconds (0: no limit). @m: NULL: there is none yet. */
int manage_end_opening(const struct manage *m, struct manage_opening *o,
		       unsigned int seconds, struct volume **ret_vol,
		       struct error *e);
/* Closes the store, when it has answered. */
void manage_leave_opening(struct manage_opening *o);

#endif
