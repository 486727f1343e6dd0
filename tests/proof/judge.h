/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Judges the journals of all lanes, block by block, and tells of what must not
 * be: which block, what was there, what could have been, and all that happened
 * to that block.
 *
 * How long can a write still arrive whose answer was an error, or that was
 * never answered? Until the next operation of its nexus that succeeds: the
 * target answers the login of a nexus only when nothing of the old one can
 * reach the medium any more. So a failed write ends, at the latest, with the
 * first read or write of the same nexus that began after the failure and
 * succeeded; without one it remains open.
 *
 * The next round begins with what was read at the end of this one. No write may
 * arrive after that read, so every nexus has such a success before any of them
 * reads everything (PHASE_FENCE). Else one nexus reads a block, the late write of
 * another one arrives, as it may until that one has logged in again, and the
 * next round finds a value that nobody has written in it.
 *
 * Thread: the judge's; all lanes rest.
 */
#ifndef TESTS_PROOF_JUDGE_H
#define TESTS_PROOF_JUDGE_H

#include "tests/lib/history.h"
#include "tests/proof/journal.h"

struct judge {
	struct journal *j;
	uint64_t begin;	    /* ns; time 0 of messages */
	uint64_t replay_ns; /* see history.h */
	uint64_t *initial;  /* value of each block */
	struct history_cut *cuts;
	size_t cut_cnt;
	const char *const *through; /* name of each nexus, for messages */
	uint64_t ops;		    /* judged so far */
	uint32_t bad_block;	    /* after a wrong history: where, */
	uint64_t bad_value;	    /* and what was seen */
};

/* False, with all that is known printed, when a block's history is wrong. */
bool judge_all(struct judge *judge);

/*
 * After all was read and judged: takes what the first lane has read last as what
 * was there before, and empties the journals.
 */
void judge_forget(struct judge *judge);

/*
 * The time from @since until the slowest nexus has done something, ns;
 * UINT64_MAX when one has not.
 */
uint64_t judge_usable_after(const struct judge *judge, uint64_t since);

#endif
