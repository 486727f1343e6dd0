/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much of a volume is allocated: what st_blocks and df tell.
 *
 * The target is asked for the map of the volume, extent by extent, when
 * somebody wants to know and the volume has been written to since the last
 * time. This is bounded: a map of more pieces than can be asked for in a tenth
 * of a second is told by its beginning, the rest in the same proportion. A
 * volume that is not thinly provisioned is allocated, all of it, and so is one
 * whose target does not tell. Who asks waits a fifth of a second at most: when
 * the target has not answered by then, it is told what was known last.
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
	bool known; /* allocated is right */
	bool asking;
	bool changed; /* while asking */
	uint64_t allocated;
	uint64_t pos;
	uint64_t found;
	uint64_t begun_us;
	struct reactor_timer answer_timer;
	bool answer_late; /* the answer is */
};

struct allocation_waiter {
	struct list node;
	/* Once; from within allocation_get() or later. @allocated: bytes. */
	void (*done)(struct allocation_waiter *w, uint64_t allocated);
};

void allocation_init(struct allocation *a, struct srpi_session *s,
		     struct reactor *r, unsigned int volume);

void allocation_get(struct allocation *a, struct allocation_waiter *w);

static inline void allocation_changed(struct allocation *a)
{
	a->known = false;
	a->changed = true;
}

/* An answer of the target is awaited. */
static inline bool allocation_busy(const struct allocation *a)
{
	return a->asking;
}

#endif
