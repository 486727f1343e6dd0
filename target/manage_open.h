/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens the store of a volume that is added while the target runs.
 *
 * Thread: any but a worker's; with the lock of the struct manage.
 */
#ifndef TARGET_MANAGE_OPEN_H
#define TARGET_MANAGE_OPEN_H

#include "target/manage.h"

/*
 * As volume_open(), which may take long. A file or device has --stop-timeout, and is closed
 * when it answers later. A plugin has no limit, as one at a time may be opened. @unlocks: others
 * may change everything, but for stores that are plugins or memory. Takes what is left of
 * spec->given.
 */
int manage_open_volume(struct manage *m, const struct volume_spec *spec,
		       unsigned int lun, bool unlocks, struct volume **ret_vol,
		       struct error *e);

#endif
