/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the writers share with the one who judges them: a piece of memory that
 * outlives each of them. A *lane* does one operation after the other, and keeps
 * its journal there: a record is begun before the operation is handed over, and
 * ended when its answer is known; so after a kill -9 of the writer the record
 * of what was under way is there. A *nexus* is what the target fences as one:
 * a mount, or one session of the library; lanes belong to one.
 *
 * Phases: the judge says what to do, each lane says when it does it.
 *
 * Thread: a lane is written by its owner. The judge reads, and empties, the
 * journals only while all lanes rest.
 */
#ifndef TESTS_PROOF_JOURNAL_H
#define TESTS_PROOF_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define JOURNAL_LANES	64
#define JOURNAL_RECORDS 32768
#define JOURNAL_SEEN	524288
#define JOURNAL_BLOCKS	16384

enum journal_op {
	JOURNAL_READ,
	JOURNAL_WRITE,
	JOURNAL_FLUSH,
};

enum journal_state {
	JOURNAL_BEGUN, /* handed over; no answer yet */
	JOURNAL_DONE,  /* err is its answer */
};

struct journal_record {
	uint64_t start; /* ns, CLOCK_MONOTONIC */
	uint64_t end;	/* ns; of BEGUN ones: 0 */
	uint32_t first; /* block */
	uint32_t cnt;	/* blocks; 0 for flush */
	uint32_t what;	/* WRITE: seq; READ: index of the first value seen */
	int16_t err;	/* 0 or a negative errno */
	uint8_t op;	/* enum journal_op */
	_Atomic uint8_t state;
};

enum journal_phase {
	PHASE_REST, /* begin nothing */
	PHASE_FILL, /* the first lane of all writes every block */
	PHASE_LOAD, /* read and write */
	/* The first lane of each nexus reads until that succeeds once: nothing
	 * that the nexus wrote before can arrive any more (judge.h). */
	PHASE_FENCE,
	PHASE_READ, /* the first lane of each nexus flushes and reads all */
	PHASE_QUIT, /* end */
};

struct lane {
	/* constant from the beginning */
	unsigned int number; /* 1 ... */
	unsigned int nexus;
	bool is_first; /* of its nexus */
	/* A failed flush is told to one lane of the nexus, not to each. */
	bool shares_errors;
	uint32_t own_first, own_cnt; /* blocks that no other lane writes */

	/* the owner's */
	uint64_t random;
	uint32_t seq;		 /* of the last write */
	_Atomic uint64_t ops;	 /* that were answered with success */
	_Atomic uint64_t errors; /* that were not */
	_Atomic uint32_t
		resting;      /* number of the phase in which it came to rest */
	_Atomic uint32_t cnt; /* records */
	uint32_t seen_cnt;
	uint32_t newest[JOURNAL_BLOCKS]; /* seq of its last acked write there */
	struct journal_record records[JOURNAL_RECORDS];
	uint64_t seen[JOURNAL_SEEN]; /* values */
};

struct journal {
	/* constant from the beginning */
	uint8_t run;
	uint32_t block_size; /* bytes */
	uint64_t offset;     /* bytes; where block 0 lies */
	uint32_t blocks;
	uint32_t shared_cnt;	  /* the first ones, which every lane writes */
	uint32_t max_blocks;	  /* of an operation */
	unsigned int flush_every; /* operations, on average; 0: never */
	unsigned int pause_us;	  /* between the operations of a lane */
	bool volatile_cache; /* a killed target loses what was not flushed */
	unsigned int lane_cnt;

	/* the judge's */
	_Atomic uint32_t phase;	   /* enum journal_phase */
	_Atomic uint32_t phase_nr; /* counts the changes */

	_Atomic bool violated; /* somebody has seen what must not be */
	/* Who has set it writes where and what; the judge reads it when all
	 * lanes rest. */
	uint32_t violated_block;
	uint64_t violated_value;
	struct lane lanes[JOURNAL_LANES];
};

/* Shared with all children; aborts when there is no memory. */
struct journal *journal_create(void);

uint64_t journal_now(void);

/* ---- for lanes ---- */

/* Room for the largest operation, and for reading everything? */
bool lane_has_room(const struct journal *j, const struct lane *l);

struct journal_record *lane_begin(struct lane *l, enum journal_op op,
				  uint32_t first, uint32_t cnt);
void lane_end(struct lane *l, struct journal_record *r, int err);

/* ---- for the judge; all lanes rest ---- */

/* A begun operation whose lane is dead or has given up: it fails now. */
void lane_bury(struct lane *l);
void lane_forget(struct lane *l);

#endif
