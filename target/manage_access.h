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
	const json_t *rules; /* canonical; NULL: a volume follows the target's */
};

/* A change of rules that needs no more memory. free() it. */
struct manage_allow_change;

/* Reads @cnt lists of rules, which are borrowed. Changes nothing. NULL: refused. */
struct manage_allow_change *
manage_prepare_allow(struct manage *m, const struct manage_allow *allow,
		     unsigned int cnt, struct manage_fault *f);
/* Sets them at once, and logs from what to what, so that nobody sees a volume by the new rules of one and the old
 * ones of another. The volumes are served as before manage_prepare_allow(). *ret_ended:
 * sessions that end by it. False: the target is stopping. */
bool manage_make_allow(struct manage *m, struct manage_allow_change *c,
		       unsigned int *ret_ended, struct manage_fault *f);
/* Both, for one list. */
bool manage_set_allow(struct manage *m, const struct manage_allow *allow,
		      unsigned int *ret_ended, struct manage_fault *f);

#define MANAGE_RULES_SIZE 512

/* Canonical rules as a line: "10.0.0.1 10.0.0.2:ro". NULL: "as the target". Cut off when
 * it is longer than @buf, which it returns. */
const char *manage_rules_text(const json_t *rules,
			      char buf[static MANAGE_RULES_SIZE]);

/* True if they let everybody in: others only narrow them. */
bool manage_are_open(const json_t *rules);

/* Reads the limits of @config. */
bool manage_read_limits(const json_t *config, struct port_limits *ret,
			struct manage_fault *f);
/* Takes them. False: the target is stopping. */
bool manage_set_limits(struct manage *m, struct port_limits *limits,
		       struct manage_fault *f);

#endif
