/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that the writers share with the judge. It outlives each writer. A
 * *lane* does one operation after the other, and keeps its journal in this
 * memory. A record begins before the operation is submitted, and ends when its
 * answer is known. Therefore, after a kill -9 of the writer, the journal has a
 * record of the operation in flight. A *nexus* is a mount or a session of the
 * library: the target fences it as a whole. Each lane belongs to a nexus.
 *
 * Phases: the judge sets the phase, and each lane reports when it has entered
 * it.
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
	JOURNAL_BEGUN, /* submitted; no answer yet */
	JOURNAL_DONE,  /* err is its answer */
};

struct journal_record {
	uint64_t start; /* ns, CLOCK_MONOTONIC */
	uint64_t end;	/* ns; of BEGUN ones: 0 */
	uint32_t first; /* block */
	uint32_t cnt;	/* blocks; 0 for flush */
	uint32_t what;	/* WRITE: seq; READ: index of its first value in seen */
	int16_t err;	/* 0 or a negative errno */
	uint8_t op;	/* enum journal_op */
	_Atomic uint8_t state;
};

enum journal_phase {
	PHASE_REST, /* begin nothing */
	PHASE_FILL, /* the first lane of all writes every block */
	PHASE_LOAD, /* read and write */
	/* The first lane of each nexus reads until a read succeeds. After that,
	 * no earlier write of the nexus can arrive (judge.h). */
	PHASE_FENCE,
	PHASE_READ, /* the first lane of each nexus flushes and reads all */
	PHASE_QUIT, /* end */
};

struct lane {
	/* constant from the start */
	unsigned int number; /* 1 ... */
	unsigned int nexus;
	bool is_first; /* of its nexus */
	/* The kernel reports a failed flush to one lane of the nexus, not to
	 * each. */
	bool shares_errors;
	uint32_t own_first, own_cnt; /* blocks that no other lane writes */

	/* only the owner changes these */
	uint64_t random;
	uint32_t seq;		  /* of the last write */
	_Atomic uint64_t ops;	  /* operations that succeeded */
	_Atomic uint64_t errors;  /* operations that failed */
	_Atomic uint32_t resting; /* number of the phase in which it stopped */
	_Atomic uint32_t cnt;	  /* records */
	uint32_t seen_cnt;
	uint32_t newest[JOURNAL_BLOCKS]; /* for each block: seq of its last
					  * acked write */
	struct journal_record records[JOURNAL_RECORDS];
	uint64_t seen[JOURNAL_SEEN]; /* values */
};

struct journal {
	/* constant from the start */
	uint8_t run;
	uint32_t block_size; /* bytes */
	uint64_t offset;     /* bytes; where block 0 is */
	uint32_t blocks;
	uint32_t shared_cnt;	  /* first blocks, which every lane writes */
	uint32_t max_blocks;	  /* of an operation */
	unsigned int flush_every; /* average number of operations; 0: never */
	unsigned int pause_us;	  /* between the operations of a lane */
	bool volatile_cache;	  /* a killed target loses unflushed data */
	unsigned int lane_cnt;

	/* only the judge changes these */
	_Atomic uint32_t phase;	   /* enum journal_phase */
	_Atomic uint32_t phase_nr; /* number of phase changes so far */

	_Atomic bool violated; /* a lane has seen a violation */
	/* The lane that sets it stores block and value. The judge reads them
	 * when all lanes rest. */
	uint32_t violated_block;
	uint64_t violated_value;
	struct lane lanes[JOURNAL_LANES];
};

/* Shared with all child processes. Aborts when there is no memory. */
struct journal *journal_create(void);

uint64_t journal_now(void);

/* ---- for lanes ---- */

/* True if there is room for the largest operation, and for reading all
 * blocks. */
bool lane_has_room(const struct journal *j, const struct lane *l);

struct journal_record *lane_begin(struct lane *l, enum journal_op op,
				  uint32_t first, uint32_t cnt);
void lane_end(struct lane *l, struct journal_record *r, int err);

/* ---- for the judge; all lanes rest ---- */

/* Ends an operation whose lane is dead or has given up: the operation fails
 * now. */
void lane_bury(struct lane *l);
void lane_forget(struct lane *l);

#endif
