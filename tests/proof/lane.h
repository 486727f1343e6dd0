/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The next step of a lane, for any carrier: it chooses an operation, fills the
 * buffer, and checks the result of a read. A lane never has two operations at
 * once.
 *
 *	while (lane_next(&w) != LANE_QUIT)
 *		...do w.op..., lane_answered(&w, res);
 *
 * Thread: the lane's.
 */
#ifndef TESTS_PROOF_LANE_H
#define TESTS_PROOF_LANE_H

#include "tests/proof/journal.h"

enum lane_step {
	LANE_GO,   /* do w->record, with w->buf */
	LANE_WAIT, /* nothing now; call again in a millisecond */
	LANE_QUIT,
};

/* A lane at work, in the process that carries it. */
struct lane_work {
	struct journal *j;
	struct lane *lane;
	const char *through;	       /* the path or URI, for messages */
	uint8_t *buf;		       /* max_blocks, aligned for O_DIRECT */
	struct journal_record *record; /* in flight, or NULL */
	/* PHASE_FILL, PHASE_FENCE and PHASE_READ: */
	uint32_t phase_nr; /* the phase that it works for */
	uint32_t next;	   /* the next block */
	bool flushed;
};

/* Fills in @ret; aborts when there is no memory. */
void lane_open(struct lane_work *ret, struct journal *j, struct lane *lane,
	       const char *through);

enum lane_step lane_next(struct lane_work *w);

/* @res: 0 or a negative errno. */
void lane_answered(struct lane_work *w, int res);

/* Offset and length of the record in flight, in bytes. */
static inline uint64_t lane_offset(const struct lane_work *w)
{
	return w->j->offset + (uint64_t)w->record->first * w->j->block_size;
}

static inline uint32_t lane_len(const struct lane_work *w)
{
	return w->record->cnt * w->j->block_size;
}

/* ---- the two carriers; both return when all their lanes have quit ---- */

/* Threads that read and write the file @path. */
int lane_file_run(struct journal *j, struct lane **lanes, unsigned int cnt,
		  const char *path);

/* One session of libsrpi, with a lane for each command in flight. It logs in
 * again, as the same initiator, whenever the session has ended. */
int lane_srpi_run(struct journal *j, struct lane **lanes, unsigned int cnt,
		  const char *uri);

#endif
