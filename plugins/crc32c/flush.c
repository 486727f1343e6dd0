/* SPDX-License-Identifier: BSD-2-Clause */
/* Flushes of the backend below, and the epochs that they settle. */
#include "layer.h"

#include <errno.h>

/* For a flush that begins now: the writes of each epoch up to this one have
 * ended. */
static uint64_t crclayer_covered(const struct crclayer *l)
{
	uint64_t covered = l->sums.epoch;
	const struct crclayer_io *n;

	TAILQ_FOREACH(n, &l->claims, claim)
	{
		if (n->is_running && n->step == CRCLAYER_CHANGE &&
		    n->epoch <= covered)
			covered = n->epoch - 1;
	}
	return covered;
}

/* Returns 0, and @n asks for a flush; or a negative errno. */
int crclayer_begin_flush(struct crclayer *l, struct crclayer_io *n,
			 enum crclayer_step step)
{
	int err;

	if (l->is_broken)
		return -EIO;
	n->epoch = crclayer_covered(l);
	err = l->is_read_only ? 0 : crcsums_next_epoch(&l->sums);
	if (err)
		return crclayer_break(l, err);
	crclayer_to_worker(l, n, step);
	return 0;
}

int crclayer_end_flush(struct crclayer *l, const struct crclayer_io *n)
{
	int err;

	if (n->res || l->is_read_only)
		return n->res;
	err = crcsums_settle(&l->sums, n->epoch);
	return err ? crclayer_break(l, err) : 0;
}
