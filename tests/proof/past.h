/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What proof-load keeps of earlier rounds, to be told when something is wrong:
 * the records of the last few rounds, and notes of what was done to the
 * programs, with times. A round's journal alone cannot say whether a value
 * that nobody wrote in this round arrived late or was never recorded.
 *
 * Thread: the judge's; all lanes rest. Allocates, and aborts when there is no
 * memory.
 */
#ifndef TESTS_PROOF_PAST_H
#define TESTS_PROOF_PAST_H

#include "tests/proof/journal.h"

#define PAST_ROUNDS    4
#define PAST_NOTES     256
#define PAST_NOTE_SIZE 96

struct past_note {
	uint64_t at; /* ns */
	char text[PAST_NOTE_SIZE];
};

/* The records of all lanes, one lane after the other. */
struct past_round {
	unsigned int number; /* 1 ...; 0: none */
	struct journal_record *records;
	uint32_t first[JOURNAL_LANES + 1]; /* of lane i; the next one's: end */
};

struct past {
	uint64_t begin;		    /* ns; time 0 of messages */
	const char *const *through; /* name of each nexus */
	unsigned int rounds;	    /* kept so far, with those overwritten */
	unsigned int notes;	    /* likewise */
	struct past_round round[PAST_ROUNDS];
	struct past_note note[PAST_NOTES];
};

__attribute__((format(printf, 2, 3))) void past_note(struct past *p,
						     const char *fmt, ...);

/* Copies the journals of the round that was judged. */
void past_keep(struct past *p, const struct journal *j);

/* Prints what is known about @value in @block: the write of it, all that
 * touched the block, the ends of all lanes' records, the notes. */
void past_tell(const struct past *p, const struct journal *j, uint32_t block,
	       uint64_t value);

void past_free(struct past *p);

#endif
