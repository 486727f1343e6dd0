/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Orders writes that share blocks with a read-modify-write.
 *
 * A write that does not begin and end at block boundaries reads the blocks at its
 * ends, changes them and writes them back. This would undo another write to these
 * blocks in between. For this reason, such a write locks its blocks exclusively,
 * and every other write locks them shared. Locks on overlapping blocks are granted
 * in the order of the calls. While no exclusive lock is held or wanted, a shared
 * lock costs a list insertion and no comparison.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_RANGE_LOCK_H
#define FUSE_RANGE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* The locks of one volume. */
struct range_locks {
	struct list all; /* struct range_lock, in the order of the calls */
	unsigned int exclusive; /* exclusive locks that are held or wanted */
};

/* One lock; embed it. */
struct range_lock {
	struct list node;
	uint64_t begin; /* bytes, whole blocks */
	uint64_t end;	/* exclusive */
	bool exclusive;
	bool held;
	/* If range_lock_take() returned false: range_unlock() of another lock
	 * calls this when the lock is held. */
	void (*granted)(struct range_lock *lock);
};

void range_locks_init(struct range_locks *locks);

/* Set begin, end, exclusive and granted first. True: the lock is held. False:
 * granted() follows. */
bool range_lock_take(struct range_locks *locks, struct range_lock *lock);

void range_unlock(struct range_locks *locks, struct range_lock *lock);

#endif
