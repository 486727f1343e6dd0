/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks histories for linearizability. The history of one block consists of
 * writes, each of another value, and of reads. Each has the times between which
 * it took place. A history is right if its operations can be put in an order
 * that keeps to these times and in which every read gives the value of the last
 * write before it. The proof programs and the simulation use it.
 *
 * A write that failed, or was never answered, may have taken place or not, at
 * any time from its start to its end (the caller knows when it can no longer
 * arrive, see tests/proof/judge.h); UINT64_MAX: at any time at all.
 *
 * As values are written once, a history can be judged by pairs of values
 * (Gibbons and Korach, "Testing shared memories", 1997): with f the earliest
 * end and s the latest start of the operations on a value, values a and b
 * contradict each other if f(a) < s(b) and f(b) < s(a).
 *
 * COMPARE AND WRITE finds one value and puts another one in its place. No other
 * value can come between the two, and no second one can take the place.
 *
 * A write that is under way when a connection is lost is sent again, and may so
 * take place twice, or more often: other initiators can have written, and been
 * seen, in between. It lasts at least as long as it takes to connect again, so
 * a write that lasts @replay_ns or longer counts as one that may take place
 * several times from its start to its end; each read of it then stands for a
 * time of its own.
 *
 * A power cut takes with it what was not flushed. So between two power cuts
 * the history must be right by itself, beginning with whatever survived the
 * earlier one: one value for each block, and none that is older than a write
 * which was confirmed, that is acknowledged and then flushed with success by
 * the same lane.
 *
 * A read that a write of the same block overlaps in time may see it half done:
 * the page cache copies, and nobody promises more. It gives HISTORY_MIXED, and
 * nothing else may be mixed.
 *
 * Times are nanoseconds, or numbers of events: only their order counts.
 *
 * Thread: any. Allocates, and aborts when there is no memory.
 */
#ifndef TESTS_LIB_HISTORY_H
#define TESTS_LIB_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_MIXED UINT64_MAX /* the value of a read of parts of several */

struct history_op {
	uint64_t start;
	uint64_t end;	/* UINT64_MAX: open */
	uint64_t value; /* written, or seen */
	/* Of COMPARE AND WRITE: the value that it found, less than @value. 0:
	 * another command, or it found 0, which is not checked. */
	uint64_t instead;
	bool is_write;
	bool acked;	 /* writes: answered with success; reads always are */
	bool confirmed;	 /* acked, and flushed later */
	const void *tag; /* the caller's */
};

/* The machine lost its volatile memory at some time between the two. */
struct history_cut {
	uint64_t begin;
	uint64_t end;
};

struct history {
	struct history_op *ops;
	size_t cnt;
	uint64_t initial;		/* value before all operations */
	uint64_t replay_ns;		/* 0: no write takes place twice */
	const struct history_cut *cuts; /* in order of time */
	size_t cut_cnt;
};

enum history_verdict {
	HISTORY_GOOD,
	/* A block was mixed, and nobody was writing to it. */
	HISTORY_TORN,
	/* A value was read that nobody had written by then. */
	HISTORY_UNWRITTEN,
	/* The operations on two values contradict each other: an old value
	 * came back, or an acknowledged one is missing. */
	HISTORY_CONTRADICTION,
	/* After a power cut something older than a confirmed write was read. */
	HISTORY_LOST,
	/* After a power cut two old values were read, one after the other. */
	HISTORY_TWO_SURVIVORS,
	/* COMPARE AND WRITE found a value that was not there any more. */
	HISTORY_NOT_FOUND,
	/* Two of them were answered with success and had found the same. */
	HISTORY_REPLACED_TWICE,
};

/* Operations that show it; those that do not apply are NULL. */
struct history_fault {
	enum history_verdict verdict;
	uint64_t value;		       /* that was seen, and must not be */
	uint64_t other;		       /* that stands against it */
	const struct history_op *seen; /* a read of value */
	/* CONTRADICTION: first[0], of one value, was over before second[0], of
	 * the other, began, and first[1], of the other, before second[1]. LOST:
	 * the confirmed write is first[0]. NOT_FOUND, REPLACED_TWICE: the
	 * commands are first[]. */
	const struct history_op *first[2];
	const struct history_op *second[2];
};

struct history_fault history_check(const struct history *h);

/* "lost a write that was acknowledged and flushed": what a block did. */
const char *history_verdict_text(enum history_verdict verdict);

/* Could a read at @op, in place of the one that was, have given @value? */
bool history_allows(const struct history *h, const struct history_op *op,
		    uint64_t value);

#endif
