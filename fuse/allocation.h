/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much of a volume is allocated, for st_blocks and df.
 *
 * allocation_get() queries the allocation map of the volume, extent by extent,
 * if the volume has been written since the last query. A query takes at most a
 * tenth of a second. If the map is not complete then, its part so far is
 * extrapolated to the volume. A volume counts as fully allocated if it is not
 * thinly provisioned, or if the target does not report its map. If the query has
 * no result after a fifth of a second, the last known value is used.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_ALLOCATION_H
#define FUSE_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include "initiator/srp_initiator.h"
#include "base/list.h"
#include "base/reactor.h"

struct allocation {
	struct srpi_session *session;
	struct reactor *reactor;
	const struct srpi_volume_info *info;
	struct srpi_io io;
	struct list waiters;
	bool known;	    /* allocated is the present value */
	bool asking;	    /* a query runs */
	bool changed;	    /* the volume was written during the query */
	bool gone;	    /* the volume has left */
	uint64_t allocated; /* bytes */
	uint64_t pos;	    /* bytes that the query has covered */
	uint64_t found;	    /* bytes of these that are allocated */
	uint64_t begun_us;
	struct reactor_timer answer_timer;
	bool answer_late; /* the query takes longer than ANSWER_MS */
};

struct allocation_waiter {
	struct list node;
	/* Called once, from within allocation_get() or later. @allocated: bytes. */
	void (*done)(struct allocation_waiter *w, uint64_t allocated);
};

void allocation_init(struct allocation *a, struct srpi_session *s,
		     struct reactor *r, unsigned int volume);

/* Calls @w->done with the allocated bytes. */
void allocation_get(struct allocation *a, struct allocation_waiter *w);

/* The volume was written, or has another size. */
static inline void allocation_changed(struct allocation *a)
{
	a->known = false;
	a->changed = true;
}

/* A command waits for its answer. */
static inline bool allocation_busy(const struct allocation *a)
{
	return a->asking;
}

#endif
