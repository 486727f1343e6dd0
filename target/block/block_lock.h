/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands that must find blocks as nobody else changes them (COMPARE AND
 * WRITE, ORWRITE, WRITE ATOMIC) hold them exclusively; all others that touch
 * blocks share them, as simple tasks are not ordered against each other.
 *
 * Sharing is what nearly every command does, so it costs no lock, no atomic
 * and no message: each worker has a book of the ranges that its own commands
 * use, which nobody else looks into. To take a range exclusively means that
 * every worker closes it in its book, and says so when its own commands have
 * left it; those that come later wait in that book:
 *
 *   owner's worker          keeper (first worker)         every worker
 *   block_hold_take()  -->  queues; when it is its
 *                           turn: close             -->   closes the range,
 *                           counts             <--        awaits what is in it
 *   held()             <--  all have closed
 *   block_hold_drop()  -->  open                    -->   opens it, lets those
 *                           the next one                  go on that waited
 *
 * The keeper serves one exclusive hold per volume at a time, in the order in
 * which they were asked for. Whoever has an exclusive hold waits for no other
 * hold, so there is no circle; whoever wants one is not overtaken in its
 * range, so it does not starve. Messages carry the changes of memory along:
 * what an exclusive hold has written, the next user of the blocks sees.
 *
 * Blocks that are read or written in place by RDMA are shared for as long as
 * the fabric has them. So an exclusive hold waits for initiators there, at
 * longest until the fabric gives up on them.
 *
 * What guards what: a book and the shared holds in it belong to their worker;
 * the queue to the keeper; an exclusive hold to whoever has its message.
 */
#ifndef TARGET_BLOCK_BLOCK_LOCK_H
#define TARGET_BLOCK_BLOCK_LOCK_H

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
	uint64_t end;	/* the block behind the last */
	bool exclusive;
	/* Called on the worker when take() returned false, for an exclusive
	 * hold maybe from within take(). */
	void (*held)(struct block_hold *hold);

	/* private */
	void (*drained)(struct block_hold *hold);
	enum block_hold_state state;
	struct block_locks *locks;
	struct block_worker *worker;
	struct list node; /* of a book, or of the queue */
	struct reactor_msg msg;
};

/* A worker's book. */
struct block_book {
	struct block_locks *locks;
	struct block_worker *worker;  /* NULL: none has this index */
	uint64_t closed_begin;	      /* the range that is closed ... */
	uint64_t closed_end;	      /* ... empty: all is open */
	unsigned int left;	      /* held here within it */
	struct list in_use;	      /* struct block_hold, shared, held */
	struct list waiting;	      /* the same, that wait */
	struct reactor_msg close_msg; /* to the worker, and back */
	struct reactor_msg open_msg;  /* to the worker */
};

/* The locks of one volume; embed it. */
struct block_locks {
	struct block_book books[BLOCK_WORKERS_MAX];
	struct block_worker *keeper; /* constant once there is I/O */

	/* the keeper's */
	struct list queue; /* struct block_hold, exclusive, that wait */
	struct block_hold *current; /* from its turn until it is dropped */
	unsigned int books_left;    /* that have not closed yet */
	bool choosing;

	struct reactor_msg drop_msg; /* from current's worker */
};

/* Thread: setup, as the next two. */
void block_locks_init(struct block_locks *locks);
/* For every worker before there is I/O; the first becomes the keeper. */
void block_locks_attach(struct block_locks *locks, struct block_worker *w);
/* No hold of anybody is left. Harmless when not attached. */
void block_locks_detach(struct block_locks *locks, struct block_worker *w);

/* Thread: @w. True: held at once; false: held() comes later. @hold stays put
 * until it is dropped. */
bool block_hold_take(struct block_locks *locks, struct block_worker *w,
		     struct block_hold *hold);

/*
 * Takes the whole of the blocks exclusively and gives it up at once: drained() is
 * called when every command that had its blocks before has left them, maybe from
 * within. Thread: @w. @hold stays put until then.
 */
void block_locks_drain(struct block_locks *locks, struct block_worker *w,
		       struct block_hold *hold,
		       void (*drained)(struct block_hold *hold));

/* Thread: the hold's worker. Gives up a hold, or the waiting for a shared one
 * (never that for an exclusive one). May call held() of others. No harm when
 * there is none. */
void block_hold_drop(struct block_hold *hold);

#endif
