/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Evidence that proof-load keeps of earlier rounds and prints after a
 * violation: the records of the last few rounds, and notes with times that say
 * what was done to the programs. If a value was not written in this round, the
 * journal of the round alone cannot say whether the value arrived late or was
 * never recorded.
 *
 * Thread: the judge's; all lanes rest. Allocates, and aborts when there is no
 * memory.
 */
#ifndef TESTS_PROOF_EVIDENCE_H
#define TESTS_PROOF_EVIDENCE_H

#include "tests/proof/journal.h"

#define EVIDENCE_ROUNDS	   4
#define EVIDENCE_NOTES	   256
#define EVIDENCE_NOTE_SIZE 96

struct evidence_note {
	uint64_t at; /* ns */
	char text[EVIDENCE_NOTE_SIZE];
};

/* The records of all lanes, lane by lane. */
struct evidence_round {
	struct journal_record *records;
	uint32_t first[JOURNAL_LANES + 1]; /* index of lane i's first record;
					    * the last entry: end */
};

struct evidence {
	uint64_t begin;		    /* ns; messages count from this time */
	const char *const *through; /* name of each nexus */
	unsigned int rounds;	    /* kept so far, including those that were
				     * overwritten */
	unsigned int notes;	    /* the same for notes */
	struct evidence_round round[EVIDENCE_ROUNDS];
	struct evidence_note note[EVIDENCE_NOTES];
};

__attribute__((format(printf, 2, 3))) void evidence_note(struct evidence *e,
							 const char *fmt, ...);

/* Copies the journals of a round after its check. */
void evidence_keep(struct evidence *e, const struct journal *j);

/* Prints what is known about @value in @block: its write, all operations that
 * touched the block, the ends of all lanes' records, the notes. */
void evidence_tell(const struct evidence *e, const struct journal *j,
		   uint32_t block, uint64_t value);

void evidence_free(struct evidence *e);

#endif
