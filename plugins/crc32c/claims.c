/* SPDX-License-Identifier: BSD-2-Clause */
/* I/Os that need their blocks for themselves, oldest first. */
#include "layer.h"

#include <stdlib.h>

static bool crclayer_overlap(const struct rbp_io *a, const struct rbp_io *b)
{
	return a->offset < b->offset + b->len && b->offset < a->offset + a->len;
}

/* True if @n must wait for one that came before it. */
static bool crclayer_must_wait(const struct crclayer *l,
			       const struct crclayer_io *n)
{
	const struct crclayer_io *other;

	TAILQ_FOREACH(other, &l->claims, claim)
	{
		if (other == n)
			return false;
		if (crclayer_overlap(other->io, n->io))
			return true;
	}
	return false;
}

/* @n needs its blocks for itself. */
void crclayer_claim(struct crclayer *l, struct crclayer_io *n)
{
	n->is_running = false;
	TAILQ_INSERT_TAIL(&l->claims, n, claim);
	l->waiting_cnt++;
}

void crclayer_release(struct crclayer *l, struct crclayer_io *n, int res)
{
	TAILQ_REMOVE(&l->claims, n, claim);
	free(n->block);
	crclayer_host->done(n->io, res);
}

struct crclayer_io *crclayer_next_to_run(struct crclayer *l)
{
	struct crclayer_io *n;

	if (!l->waiting_cnt)
		return NULL;
	TAILQ_FOREACH(n, &l->claims, claim)
	{
		if (!n->is_running && !crclayer_must_wait(l, n))
			return n;
	}
	return NULL;
}
