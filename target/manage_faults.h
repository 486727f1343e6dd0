/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults of volumes that are served, for tests.
 *
 * Thread: any but a worker's; with the lock of the struct manage.
 */
#ifndef TARGET_MANAGE_FAULTS_H
#define TARGET_MANAGE_FAULTS_H

#include "target/manage.h"

/* Replaces the fault rules of a volume, which must have been opened with some.
 * @rules: an array of texts; empty: none. */
bool manage_set_faults(struct manage *m, const char *name, const json_t *rules,
		       struct manage_fault *f);

#endif
