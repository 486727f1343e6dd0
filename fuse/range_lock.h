/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Orders writes that share blocks with a read-modify-write.
 *
 * A write that does not begin and end on block boundaries reads the blocks at
 * its edges, changes them and writes them back; another write to these blocks
 * in between would be undone. So such a write takes its blocks exclusively,
 * and every write takes them at least shared. Requests for overlapping blocks
 * are granted in the order of asking. As long as no exclusive lock is held or
 * wanted, a shared one costs a list insertion and nothing is compared.
 *
 * Thread: the reactor's.
 */
#ifndef FUSE_RANGE_LOCK_H
#define FUSE_RANGE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* The locks of one volume. */
struct range_locks {
	struct list all;	/* struct range_lock, in order of asking */
	unsigned int exclusive; /* of them: held or wanted exclusively */
};

/* One lock; embed it. */
struct range_lock {
	struct list node;
	uint64_t begin; /* bytes, whole blocks */
	uint64_t end;	/* exclusive */
	bool exclusive;
	bool held;
	/* Called from range_unlock() of another, when take() returned false. */
	void (*granted)(struct range_lock *lock);
};

void range_locks_init(struct range_locks *locks);

/* Set begin, end, exclusive and granted first. True: held at once. */
bool range_lock_take(struct range_locks *locks, struct range_lock *lock);

void range_unlock(struct range_locks *locks, struct range_lock *lock);

#endif
