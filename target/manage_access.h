/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of access rules and limits.
 *
 * Thread: any but a worker's; with the lock of the struct manage.
 */
#ifndef TARGET_MANAGE_ACCESS_H
#define TARGET_MANAGE_ACCESS_H

#include "target/manage.h"

/* The rules of a volume, or of the target. */
struct manage_allow {
	const char *volume;  /* NULL: the target */
	const json_t *rules; /* canonical; NULL: none */
};

/* Sets @cnt lists of rules at once, so that nobody sees a volume by the new rules of
 * one and the old ones of another. *ret_ended: sessions that end by it. */
bool manage_set_allow(struct manage *m, const struct manage_allow *allow,
		      unsigned int cnt, unsigned int *ret_ended,
		      struct manage_fault *f);
/* Takes the limits of @config. */
bool manage_set_limits(struct manage *m, const json_t *config,
		       struct manage_fault *f);

#endif
