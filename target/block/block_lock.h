/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks on ranges of blocks. A command that needs blocks which nobody else changes
 * (COMPARE AND WRITE, ORWRITE, WRITE ATOMIC) holds them exclusively. All other
 * commands that touch blocks share them: simple tasks have no order.
 *
 * Nearly every command shares, so sharing costs no lock, no atomic and no message.
 * Each worker has a list of the ranges that its own commands use, which no other
 * thread reads. For an exclusive hold, every worker closes the range. It reports
 * this when its own commands have left the range; later commands wait in its list:
 *
 *   owner's worker          granter (first worker)        every worker
 *   block_hold_take()  -->  queues; when it is its
 *                           turn: close             -->   closes the range,
 *                           counts             <--        awaits what is in it
 *   held()             <--  all have closed
 *   block_hold_drop()  -->  open                    -->   opens it, lets those
 *                           the next one                  go on that waited
 *
 * The granter serves one exclusive hold per volume at a time, in the order of the
 * requests. A command with an exclusive hold waits for no other hold, so no two
 * commands wait for each other. No later command passes a waiting exclusive hold
 * in its range, so it does not starve. The messages order memory: the next user
 * of the blocks sees what the command with the exclusive hold has written.
 *
 * Blocks that RDMA reads or writes in place are shared while the fabric has them.
 * So an exclusive hold there waits for initiators, at most until the fabric gives
 * them up.
 *
 * Owners: the ranges of a worker, and the shared holds in them, belong to that
 * worker; the queue belongs to the granter; an exclusive hold belongs to the
 * worker that has its message.
 */
#ifndef TARGET_BLOCK_BLOCK_LOCK_H
#define TARGET_BLOCK_BLOCK_LOCK_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "target/block/block_worker.h"

struct block_locks;

enum block_hold_state {
	BLOCK_HOLD_NONE,
	BLOCK_HOLD_WAITS, /* held() will be called */
	BLOCK_HOLD_HELD,
};

/* One command's hold on a range; embed it, zeroed. */
struct block_hold {
	/* set before block_hold_take() */
	uint64_t begin; /* block */
	uint64_t end;	/* the block after the last */
	bool exclusive;
	/* Called on the worker if take() returned false. For an exclusive hold
	 * it may be called from within take(). */
	void (*held)(struct block_hold *hold);

	/* private */
	void (*drained)(struct block_hold *hold);
	enum block_hold_state state;
	struct block_ranges *ranges; /* those of its worker */
	struct list node;	     /* of ranges, or of the granter's queue */
	struct reactor_msg msg;
};

/* The ranges of one worker. */
struct block_ranges {
	struct block_locks *locks;
	struct block_worker *worker;  /* NULL: no worker has this index */
	uint64_t closed_begin;	      /* the range that is closed ... */
	uint64_t closed_end;	      /* ... empty: nothing is closed */
	unsigned int left;	      /* holds of this worker within it */
	struct list in_use;	      /* struct block_hold, shared, held */
	struct list waiting;	      /* struct block_hold, shared, waiting */
	struct reactor_msg close_msg; /* to the worker, and back */
	struct reactor_msg open_msg;  /* to the worker */
};

/* The locks of one volume; embed it. */
struct block_locks {
	struct block_ranges ranges[BLOCK_WORKERS_MAX];
	struct block_worker *granter; /* constant once there is I/O */

	/* members of the granter */
	struct list queue;	    /* struct block_hold, exclusive, waiting */
	struct block_hold *current; /* from its turn until it is dropped */
	unsigned int workers_left;  /* workers that have not closed yet */
	bool choosing;

	struct reactor_msg drop_msg; /* from current's worker */
};

/* The locks of a volume without workers. Thread of this and the next two:
 * setup. */
void block_locks_init(struct block_locks *locks);
/* Call it for every worker before there is I/O. The first one becomes the
 * granter. */
void block_locks_attach(struct block_locks *locks, struct block_worker *w);
/* No hold is left. Does nothing if @w is not attached. */
void block_locks_detach(struct block_locks *locks, struct block_worker *w);

/* True if an exclusive hold wants @hold's range, or has it. Private. */
static inline bool block_hold_is_shut_out(const struct block_ranges *ranges,
					  const struct block_hold *hold)
{
	return hold->begin < ranges->closed_end &&
	       ranges->closed_begin < hold->end;
}

/* For block_hold_take(), if another hold may be in the way. Returns false. */
bool block_hold_wait(struct block_hold *hold);

/* True: held at once; false: held() is called later. @hold must not move until
 * it is dropped. Thread: @w. */
static inline bool block_hold_take(struct block_locks *locks,
				   struct block_worker *w,
				   struct block_hold *hold)
{
	struct block_ranges *ranges = &locks->ranges[w->index];

	assert(hold->state == BLOCK_HOLD_NONE);
	hold->ranges = ranges;
	if (hold->exclusive || block_hold_is_shut_out(ranges, hold))
		return block_hold_wait(hold);
	hold->state = BLOCK_HOLD_HELD;
	list_add_tail(&ranges->in_use, &hold->node);
	return true;
}

/*
 * Takes all blocks exclusively and drops them at once. Calls drained(), maybe
 * from within, when every command that had blocks before has dropped them.
 * @hold must not move until then. Thread: @w.
 */
void block_locks_drain(struct block_locks *locks, struct block_worker *w,
		       struct block_hold *hold,
		       void (*drained)(struct block_hold *hold));

/* For block_hold_drop(), if another hold may wait for this one. */
void block_hold_end(struct block_hold *hold);

/* Drops a hold, or a shared hold that still waits, but never an exclusive one
 * that waits. May call held() of other holds. Does nothing if there is no hold.
 * Thread: that of the hold. */
static inline void block_hold_drop(struct block_hold *hold)
{
	if (hold->state == BLOCK_HOLD_NONE)
		return;
	if (hold->exclusive || hold->ranges->left) {
		block_hold_end(hold);
		return;
	}
	list_del(&hold->node);
	hold->state = BLOCK_HOLD_NONE;
}

#endif
