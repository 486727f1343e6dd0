/* SPDX-License-Identifier: BSD-2-Clause */
/* Lets steps of a journal's changes fail, after the kernel has carried them out. */
#ifndef TESTS_LIB_T_JOURNAL_H
#define TESTS_LIB_T_JOURNAL_H

#include <errno.h>

#include "target/disk/journal.h"

static unsigned int t_journal_fails; /* bits, by enum disk_journal_step */
static void (*t_journal_real)(struct reactor_op *op, int res,
			      unsigned int cqe_flags);

static void t_journal_done(struct reactor_op *op, int res,
			   unsigned int cqe_flags)
{
	const struct disk_journal *j =
		container_of(op, struct disk_journal, op);

	t_journal_real(op, t_journal_fails >> j->step & 1 ? -EIO : res,
		       cqe_flags);
}

/* From now on the steps @steps of @j fail; 0: none does. */
static inline void t_journal_fail(struct disk_journal *j, unsigned int steps)
{
	if (j->op.done != t_journal_done)
		t_journal_real = j->op.done;
	j->op.done = t_journal_done;
	t_journal_fails = steps;
}

/* A change fails, and is put back. */
#define T_JOURNAL_REFUSES (1u << DISK_JOURNAL_WRITES)
/* Nobody knows what the file has; it has what was there before. */
#define T_JOURNAL_IS_UNSURE \
	(1u << DISK_JOURNAL_SYNCS | 1u << DISK_JOURNAL_SYNCS_BACK)

#endif
