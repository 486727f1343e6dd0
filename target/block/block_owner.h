/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who may use which blocks in the store, and since when. From the submission of an
 * I/O that changes blocks until the store has answered it, exactly these blocks belong
 * to it: no other I/O that changes one of them is submitted meanwhile, whoever sent it,
 * by whatever path. So an I/O that the store carries out late can never replace what a
 * later one has written.
 *
 * Some commands want their blocks alone (COMPARE AND WRITE, ORWRITE, WRITE ATOMIC, WRITE
 * AND VERIFY): they have all of them from their first I/O to the last that uses them, and
 * nobody reads the blocks meanwhile, either.
 *
 * An initiator may give a command up: it aborts it, or its connection ends. The
 * store still has the I/O, and its blocks may change later. So while a given-up
 * I/O has blocks, nobody reads them either.
 *
 * Those that need the same blocks get them in the order in which they came. Who
 * waits here has submitted nothing, and waits for answers of the store or for
 * those that came before it: so no two wait for each other.
 *
 * An initiator may also give a command up while it lies unread here, and send newer
 * ones by another path. So who changes blocks needs a sign of life of its sender, given
 * when nobody could pass it any more. A sign of a moment ago will do. Otherwise the sender
 * is asked, and until it is heard others may pass: then it is asked again, and now they
 * wait. If none has, the sign counts, however late it comes.
 *
 * The blocks of a volume are in stripes, each with a lock and a list, so that
 * workers seldom meet. Readers are not in the lists while "watch" is 0. They only note
 * their blocks, each worker in slots of its own:
 *
 *   a reader                                 one that readers must see
 *   notes its blocks, marks the slot         increments "watch", enters the lists
 *   "watch" is not 0: clears the mark,       a marked slot has some of its blocks:
 *   and goes by the lists                    waits, if it wants them alone
 *
 * All four are sequentially consistent, so at least one of the two sees the other. A
 * reader that ends clears the mark, then looks at "watch" again, and wakes those that
 * wait. A mark releases the note, so whoever sees the mark reads it, or that of a later
 * reader in the same slot. Then the earlier one has ended, and the later one sees "watch":
 * it never has the blocks of its note, and wakes whoever has waited for it. A note is
 * one word: nobody reads a part of one and a part of another.
 */
#ifndef TARGET_BLOCK_BLOCK_OWNER_H
#define TARGET_BLOCK_BLOCK_OWNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "target/block/block_worker.h"

/* Bytes of a stripe. No I/O is longer, so it touches at most two. */
#define BLOCK_STRIPE_LEN (4u << 20)
#define BLOCK_STRIPES	 64u /* a power of two */

struct block_owner;

enum block_owner_state {
	BLOCK_OWNER_NONE,
	BLOCK_OWNER_READS, /* has a slot, and is in no list */
	BLOCK_OWNER_ASKS,  /* its sender is asked for a sign; others may pass */
	BLOCK_OWNER_WAITS, /* others have some of the blocks */
	BLOCK_OWNER_HAS,   /* the blocks belong to it */
};

/* How the blocks are used. */
enum block_use {
	BLOCK_READS, /* changes nothing: waits only for what was given up or is alone */
	BLOCK_CHANGES, /* others may read them meanwhile */
	BLOCK_ALONE,   /* changes them, and nobody else uses them meanwhile */
	BLOCK_DRAINS,  /* only for block_owners_drain() */
};

/* A connection of an initiator. A front end embeds it. Thread: its worker. */
struct block_sender {
	/* True: shortly before, it had given up nothing that it has sent. */
	bool (*lives)(struct block_sender *sender);
	/* block_sender_heard() follows once: after this call it had given up nothing.
	 * If it ends instead, its commands are stopped. */
	void (*ask)(struct block_sender *sender);
	struct list asking; /* block_owner.wait_node */
	struct list later;  /* the same; they came after the call of ask() */
};

/* One entry in the list of a stripe. */
struct block_owner_place {
	struct list node;
	struct block_owner *owner;
};

/* What one I/O has, or waits for. Embed it, zeroed. */
struct block_owner {
	/* set before block_owner_take() */
	uint64_t begin; /* byte */
	uint64_t end; /* the byte after the last; at most BLOCK_STRIPE_LEN on */
	enum block_use use;
	/* NULL: the target itself, which gives up nothing. */
	struct block_sender *sender;
	/* Called on the worker if take() returned false, when it has the blocks. */
	void (*has)(struct block_owner *owner);

	/* private; guarded by the locks of its stripes */
	enum block_owner_state state; /* only its worker changes it */
	bool given_up;
	bool asks;  /* it has asked, and does not have the blocks again yet */
	bool heard; /* with what it asked for, it may have them */
	/* Its sender was heard, but others had passed: nobody does so again. */
	bool keeps_place;
	/* Others have read or changed its blocks since it asked. Who passes has only one of
	 * its locks. */
	atomic_bool passed;
	/* While it WAITS: the last one in its way, which tells it to look again. NULL:
	 * readers in slots are in its way. Never followed. */
	const struct block_owner *waits_for;
	atomic_bool is_told;
	struct block_owner_place places[2];
	unsigned int place_cnt;
	_Atomic uint64_t *marks; /* if it READS: of its slot */
	uint64_t mark;
	/* constant while it is in the lists */
	struct block_owners *of;
	struct block_worker *worker;
	/* In the waits of the worker, or asking; or has() is next. */
	struct list wait_node;
};

/* What waits on one worker. */
struct block_waits {
	struct block_worker *worker; /* NULL: none has waited */
	struct list waiting;	     /* block_owner.wait_node */
	atomic_bool told;	     /* msg is under way */
	struct reactor_msg msg;	     /* to the worker: look again */
};

/* The slots of one worker, which alone writes here. More readers go by the lists. */
#define BLOCK_MARKS 4u
struct block_readers {
	_Atomic uint64_t notes[BLOCK_MARKS * 64];
	_Atomic uint64_t marks[BLOCK_MARKS]; /* a bit for each slot */
};

/* Those of one volume; embed it, zeroed. */
struct block_owners {
	/* 0: readers need not look at the lists. Counts owners that were given up, those
	 * with "asks", and those that want blocks alone or drain. */
	_Atomic unsigned int watch;
	_Atomic unsigned int given_up; /* owners */
	struct block_readers readers[BLOCK_WORKERS_MAX];
	struct block_stripe {
		pthread_mutex_t lock;
		struct list owners; /* block_owner_place.node, oldest first */
	} stripes[BLOCK_STRIPES];
	struct block_waits waits[BLOCK_WORKERS_MAX];
};

/* Thread of these two: setup. */
void block_owners_init(struct block_owners *of);
void block_owners_fini(struct block_owners *of);

/*
 * @owner, which has no blocks and wants none, waits only for a sign of life of its
 * sender. True: there is one of a moment ago. False: @heard is called later; the sign
 * was given after this call, maybe long ago. Nobody sees who has passed @owner since. For
 * whom that matters calls this again until it is true.
 */
bool block_owner_hear(struct block_owner *owner,
		      void (*heard)(struct block_owner *owner));

/* Thread of these two: the worker of @sender. */
void block_sender_init(struct block_sender *sender,
		       bool (*lives)(struct block_sender *sender),
		       void (*ask)(struct block_sender *sender));
/* @sender was asked, and has answered. */
void block_sender_heard(struct block_sender *sender);

/* Whether the store has something that was given up. */
static inline bool block_owners_have_given_up(const struct block_owners *of)
{
	return atomic_load_explicit(&of->given_up, memory_order_acquire);
}

/* For the next functions. */
bool block_owner_take_slowly(struct block_owners *of, struct block_worker *w,
			     struct block_owner *owner);
void block_owner_end(struct block_owner *owner);
void block_owner_wake_watchers(const struct block_owner *reader);

static inline unsigned int block_stripe(uint64_t at)
{
	return (unsigned int)(at / BLOCK_STRIPE_LEN) % BLOCK_STRIPES;
}

/* Blocks are at least 512 bytes long, and no reader wants more of them than 8192. The
 * upper 4 bits of @begin do not fit in: ranges are compared modulo 2^60. */
static inline uint64_t block_note(uint64_t begin, uint64_t end)
{
	return begin << 4 | (end - begin - 1) >> 9;
}

static inline void block_owner_end_reading(struct block_owner *owner)
{
	owner->state = BLOCK_OWNER_NONE;
	atomic_fetch_sub(owner->marks, owner->mark);
	if (atomic_load(&owner->of->watch))
		block_owner_wake_watchers(owner);
}

/* A reader takes one of the slots from 64 * @i on. True: it has its blocks. False: if it
 * READS, it saw "watch" too late, and has to end that. */
static inline bool block_owner_read(struct block_owners *of,
				    struct block_readers *r, unsigned int i,
				    struct block_owner *owner)
{
	uint64_t note = block_note(owner->begin, owner->end);
	uint64_t marks =
		atomic_load_explicit(&r->marks[i], memory_order_relaxed);

	if (atomic_load_explicit(&of->watch, memory_order_relaxed) ||
	    marks == UINT64_MAX)
		return false;
	atomic_store_explicit(&r->notes[i * 64 + __builtin_ctzll(~marks)], note,
			      memory_order_relaxed);
	owner->of = of;
	owner->marks = &r->marks[i];
	owner->mark = ~marks & (marks + 1);
	owner->state = BLOCK_OWNER_READS;
	atomic_fetch_add(owner->marks, owner->mark);
	return !atomic_load(&of->watch);
}

/* True: @owner has the blocks at once; false: has() is called later. It does not
 * move until block_owner_drop(). Thread: @w, as for the others. */
static inline bool block_owner_take(struct block_owners *of,
				    struct block_worker *w,
				    struct block_owner *owner)
{
	return (owner->use == BLOCK_READS &&
		block_owner_read(of, &of->readers[w->index], 0, owner)) ||
	       block_owner_take_slowly(of, w, owner);
}

/* The store has answered, or nothing was submitted. Waits no longer: has() is not
 * called any more. Does nothing to one that has nothing and does not wait. */
static inline void block_owner_drop(struct block_owner *owner)
{
	if (owner->state == BLOCK_OWNER_READS)
		block_owner_end_reading(owner);
	else if (owner->state != BLOCK_OWNER_NONE)
		block_owner_end(owner);
}

/* Embed it, zeroed. */
struct block_drain {
	/* private */
	struct block_owner owner;
	void (*drained)(struct block_drain *drain);
};

/*
 * Calls @drained, maybe from within, when each I/O that has blocks now has given them
 * back. The caller has first changed what those that come later look at once they have
 * their blocks (block_cmd.barred). Thread: @w.
 */
void block_owners_drain(struct block_owners *of, struct block_worker *w,
			struct block_drain *drain,
			void (*drained)(struct block_drain *drain));

/* The I/Os that have blocks. Thread: any. */
unsigned int block_owners_count(struct block_owners *of);

/* Waits no longer. False: @drain does not wait. Otherwise drained() is not called. */
bool block_drain_stop(struct block_drain *drain);

/* Nobody waits for the I/O any more, but the store has it. True: it changes
 * blocks. */
bool block_owner_give_up(struct block_owner *owner);

/* Whether other senders wait until @owner gives its blocks back. Thread: its worker. */
bool block_owner_is_awaited(struct block_owner *owner);

#endif
