/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks the journals of all lanes, block by block. For a violation, it prints
 * the block, the value that was read, the allowed values, and all operations on
 * that block.
 *
 * A write that failed, or was never answered, may still arrive later, until the
 * next operation of its nexus succeeds: the target answers the login of a nexus
 * only when no write of the old one can reach the medium any more. Therefore a
 * failed write ends, at the latest, with the first read or write of the same
 * nexus that began after the failure and succeeded. Without one, it stays open.
 *
 * The next round begins with the values that were read at the end of this one.
 * No write may arrive after that read. Therefore every nexus has such a success
 * before any of them reads all blocks (PHASE_FENCE). Otherwise, one nexus could
 * read a block, a late write of another nexus could then arrive, because that
 * nexus has not logged in again, and the next round would find a value that was
 * not written in it.
 *
 * Thread: the judge's; all lanes rest.
 */
#ifndef TESTS_PROOF_JUDGE_H
#define TESTS_PROOF_JUDGE_H

#include "tests/lib/history.h"
#include "tests/proof/journal.h"

struct judge {
	struct journal *j;
	uint64_t begin;	    /* ns; messages count from this time */
	uint64_t replay_ns; /* see history.h */
	uint64_t *initial;  /* value of each block */
	struct history_cut *cuts;
	size_t cut_cnt;
	const char *const *through; /* name of each nexus, for messages */
	uint64_t ops;		    /* checked so far */
	uint32_t bad_block;	    /* after a violation: the block */
	uint64_t bad_value;	    /* and the value that was read */
};

/* False if the history of a block is wrong; prints all that is known. */
bool judge_all(struct judge *judge);

/*
 * After all blocks were read and checked: the last values that the first lane
 * has read become the initial values. Empties the journals.
 */
void judge_forget(struct judge *judge);

/*
 * Returns the time from @since until the slowest nexus had a success, in ns.
 * UINT64_MAX if one had none.
 */
uint64_t judge_usable_after(const struct judge *judge, uint64_t since);

#endif
