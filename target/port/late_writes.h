/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * If a cable is cut, the target does not see the end of the connection, but an
 * initiator with another path soon sends its writes again by that. So a write
 * that its store has had for longer than LATE_WRITES_MS becomes an orphan
 * (target/scsi/orphans.h), although its connection may be alive: later writes to
 * the same blocks wait for it. An initiator needs longer than that to give up a
 * connection. (Not so an UNMAP: it is an orphan only when its connection ends.)
 *
 * Each worker has one timer, which runs only while stores have writes.
 * Thread: the worker.
 */
#ifndef TARGET_PORT_LATE_WRITES_H
#define TARGET_PORT_LATE_WRITES_H

#include "target/port/worker.h"

#define LATE_WRITES_MS 1000

void late_writes_init(struct worker *w);
void late_writes_stop(struct worker *w);

/* For late_writes_watch(). */
void late_writes_start(struct worker *w);

/* A store has a write of a channel of @w. */
static inline void late_writes_watch(struct worker *w)
{
	if (!w->watches_writes)
		late_writes_start(w);
}

#endif
