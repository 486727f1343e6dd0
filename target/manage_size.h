/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sizes of volumes that are served.
 *
 * Thread: any but a worker's; with the lock of the struct manage.
 */
#ifndef TARGET_MANAGE_SIZE_H
#define TARGET_MANAGE_SIZE_H

#include "target/manage.h"

/* Makes the file of a volume @bytes long. If @bytes is 0, checks whether its
 * store has grown. *ret_bytes: the size that initiators see. The store has --stop-timeout to
 * answer; meanwhile others may change everything. */
bool manage_resize_volume(struct manage *m, const char *name, uint64_t bytes,
			  uint64_t *ret_bytes, struct manage_fault *f);

#endif
