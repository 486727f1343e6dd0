/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The medium of removable volumes.
 *
 * Thread: any but a worker's; with the lock of the struct manage.
 */
#ifndef TARGET_MANAGE_MEDIUM_H
#define TARGET_MANAGE_MEDIUM_H

#include "target/manage.h"

/* Ejects the medium of a removable volume, or inserts it again. False: refused; also if
 * that has not ended after --stop-timeout, and then the medium stays where it is. */
bool manage_eject_volume(struct manage *m, const char *name, bool eject,
			 struct manage_fault *f);

#endif
