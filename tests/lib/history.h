/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks histories for linearizability. The history of one block consists of
 * writes, each of another value, and of reads. Each has the times between which
 * it took place. A history is correct if its operations can be put in an order
 * that agrees with these times and in which every read returns the value of the
 * last write before it. The proof programs and the simulation use it.
 *
 * A write that failed, or was never answered, may have taken place or not, at
 * any time from its start to its end. The caller knows when it can no longer
 * arrive (tests/proof/judge.h). With UINT64_MAX as its end, it may take place
 * at any time.
 *
 * Each value is written once. Therefore pairs of values are enough to judge a
 * history (Gibbons and Korach, "Testing shared memories", 1997). Let f be the
 * earliest end and s the latest start of the operations on a value. Values a
 * and b contradict each other if f(a) < s(b) and f(b) < s(a).
 *
 * COMPARE AND WRITE finds one value and replaces it by another one. No other
 * value can come between the two, and no second command can replace the same
 * value.
 *
 * If a connection is lost while a write is in flight, the write is sent again.
 * It may then take place twice or more often, and in between, reads can return
 * values that other initiators wrote. Such a write lasts at least as long as a
 * reconnect. Therefore a write that lasts @replay_ns or longer may take place
 * several times between its start and its end, and each read of it counts as
 * one of these times.
 *
 * A power cut loses data that was not flushed. Between two power cuts, the
 * history must be correct by itself. It begins with the data that survived the
 * earlier cut: one value for each block, which is not older than any confirmed
 * write. A write is confirmed if it was acknowledged and then flushed with
 * success by the same lane.
 *
 * A read that overlaps in time with a write of the same block may see half of
 * the write: the page cache copies, and gives no guarantee. Such a read returns
 * HISTORY_MIXED. No other read may be mixed.
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

#define HISTORY_MIXED UINT64_MAX /* a read of parts of several values */

struct history_op {
	uint64_t start;
	uint64_t end;	/* UINT64_MAX: open */
	uint64_t value; /* written, or seen */
	/* For COMPARE AND WRITE: the value that it found, less than @value. 0:
	 * another command, or it found 0, which is not checked. */
	uint64_t instead;
	bool is_write;
	bool acked;	 /* writes: answered with success; reads: always true */
	bool confirmed;	 /* acked, and later flushed with success */
	const void *tag; /* for the caller */
};

/* The machine lost its volatile memory at some time between these two. */
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
	/* A block was mixed, and no write of it was in flight. */
	HISTORY_TORN,
	/* A read returned a value that was not written yet. */
	HISTORY_UNWRITTEN,
	/* The operations on two values contradict each other: an old value came
	 * back, or an acknowledged one is missing. */
	HISTORY_CONTRADICTION,
	/* After a power cut, a read returned a value older than a confirmed
	 * write. */
	HISTORY_LOST,
	/* After a power cut, two reads returned different old values. */
	HISTORY_TWO_SURVIVORS,
	/* COMPARE AND WRITE found a value that was no longer there. */
	HISTORY_NOT_FOUND,
	/* Two COMPARE AND WRITE commands succeeded and had found the same
	 * value. */
	HISTORY_REPLACED_TWICE,
};

/* The operations that show a fault. Members that do not apply are NULL. */
struct history_fault {
	enum history_verdict verdict;
	uint64_t value;		       /* the wrong value that was read */
	uint64_t other;		       /* the value that contradicts it */
	const struct history_op *seen; /* a read of value */
	/* CONTRADICTION: first[0], of one value, was over before second[0], of
	 * the other value, began; and first[1], of the other value, was over
	 * before second[1] began. LOST: first[0] is the confirmed write.
	 * NOT_FOUND, REPLACED_TWICE: first[] are the commands. */
	const struct history_op *first[2];
	const struct history_op *second[2];
};

struct history_fault history_check(const struct history *h);

/* Describes what a block did: "lost a write that was acknowledged and
 * flushed". */
const char *history_verdict_text(enum history_verdict verdict);

/* True if a read at the time of @op could have returned @value. */
bool history_allows(const struct history *h, const struct history_op *op,
		    uint64_t value);

#endif
