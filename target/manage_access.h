/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who may use what, and how much: access rules and limits.
 *
 * Thread: any but a worker's; with the lock of the struct manage.
 */
#ifndef TARGET_MANAGE_ACCESS_H
#define TARGET_MANAGE_ACCESS_H

#include "target/manage.h"

/* @rules: canonical, NULL: none. *ret_ended: sessions that end by it. */
bool manage_set_allow(struct manage *m, const json_t *rules,
		      unsigned int *ret_ended, struct manage_fault *f);
bool manage_set_volume_allow(struct manage *m, const char *name,
			     const json_t *rules, unsigned int *ret_ended,
			     struct manage_fault *f);
/* Takes the limits of @config. */
bool manage_set_limits(struct manage *m, const json_t *config,
		       struct manage_fault *f);

#endif
