/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A start serves what is there. What is not here yet comes later, as rdma-ctl volume add would
 * bring it: docs/waiting.md has the rule. Each volume that is away has a thread, which makes one
 * attempt after the other; one more looks for addresses.
 *
 * Thread: main, unless a function says otherwise.
 */
#ifndef TARGET_MANAGE_ARRIVE_H
#define TARGET_MANAGE_ARRIVE_H

#include "target/manage.h"

/* Opens the volumes of s->opt: those that are there are in s->luns then, and the others in
 * s->absents. @luns: the LUN of each. -errno with one line in @e: words are wrong. */
int arrive_open_volumes(struct server *s, const unsigned int luns[],
			struct error *e);

/* Call this when the target serves: the threads begin. */
void arrive_start(struct manage *m);
/* Tells the service manager what is waited for. Thread: any. */
void arrive_tell(struct server *s);
/* Call this after manage_end_asides(). False: a thread does not end. */
bool arrive_end(struct server *s);

#endif
