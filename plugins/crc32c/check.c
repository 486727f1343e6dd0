/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks whether the data that was read is the data that was written. */
#include "layer.h"

#include <errno.h>

#include "crc32c.h"

/* The block certainly has @sum, at least until the next crash. */
static int crclayer_take_sum(struct crclayer *l, struct crcsum *c, uint32_t sum)
{
	if (l->is_read_only || l->is_broken)
		return 0;
	c->before = sum == c->sum ? c->before : c->sum;
	c->sum = sum;
	c->epoch = l->sums.epoch;
	c->flags &= CRCSUM_ANY;
	if (!l->has_cache) {
		c->before = sum;
		c->flags = 0;
	}
	return 1;
}

/* True if the block may have its earlier data. After a failure of the file, it
 * may have the record of a write whose data did not reach the backend below, or
 * failed there. */
static bool crclayer_may_be_before(const struct crclayer *l,
				   const struct crcsum *c)
{
	return crcsums_in_doubt(&l->sums, c) ||
	       (l->is_broken && c->epoch > l->sums.settled);
}

static bool crclayer_matches(const struct crclayer *l, const struct crcsum *c,
			     uint32_t sum)
{
	if (c->flags & CRCSUM_DAMAGED)
		return false;
	if (c->flags & CRCSUM_NONE || c->sum == sum)
		return true;
	return crclayer_may_be_before(l, c) &&
	       (c->before == sum || c->flags & CRCSUM_ANY);
}

static int crclayer_mismatch(struct crclayer *l, uint64_t block,
			     const struct crcsum *c, uint32_t sum)
{
	if (c->flags & CRCSUM_DAMAGED)
		crclayer_host->log(l->vol, RBP_ERROR,
				   "block %llu: its record in the file of "
				   "checksums is damaged",
				   (unsigned long long)block);
	else
		crclayer_host->log(l->vol, RBP_ERROR,
				   "block %llu does not match its checksum: it "
				   "is 0x%08x, 0x%08x was written",
				   (unsigned long long)block, sum, c->sum);
	return -EIO;
}

/* No change of @block is in progress: the data that was read is its present
 * data. */
int crclayer_judge_block(struct crclayer *l, uint64_t block, struct crcsum *c,
			 const void *data)
{
	uint32_t sum = crc32c_of(data, l->block_size);

	if (!crclayer_matches(l, c, sum))
		return crclayer_mismatch(l, block, c, sum);
	if (c->flags & CRCSUM_NONE) {
		if (!l->learns)
			return 0;
		/* Deallocated data may be back after a power cut. */
		*c = (struct crcsum){ .sum = sum, .before = sum };
		if (l->sums.forgot > l->sums.settled)
			c->flags = CRCSUM_ANY;
		return crclayer_take_sum(l, c, sum);
	}
	return crcsums_in_doubt(&l->sums, c) ? crclayer_take_sum(l, c, sum) : 0;
}

static int crclayer_visit_judge(struct crclayer *l, struct crclayer_io *n,
				uint64_t block, struct crcsum *c)
{
	int res = crclayer_judge_block(l, block, c, crclayer_data(l, n, block));

	if (res < 0)
		n->io->progress = block * l->block_size - n->io->offset;
	return res;
}

/* If a record cannot be written, no read fails, and no record is changed after
 * that. */
static int crclayer_judge(struct crclayer *l, struct crclayer_io *n)
{
	bool was_broken = l->is_broken;
	int err = crclayer_walk(l, n, crclayer_visit_judge);

	if (l->is_broken && !was_broken)
		err = crclayer_walk(l, n, crclayer_visit_judge);
	return err;
}

/* True if the data is good, whatever changes are in progress. */
static int crclayer_visit_glance(struct crclayer *l, struct crclayer_io *n,
				 uint64_t block, struct crcsum *c)
{
	if (c->flags & CRCSUM_NONE)
		return l->learns ? -EAGAIN : 0;
	if (c->flags & CRCSUM_DAMAGED || crcsums_in_doubt(&l->sums, c) ||
	    c->sum != crclayer_sum(l, n, block))
		return -EAGAIN;
	return 0;
}

/* The first check of the data that was read. */
void crclayer_glance(struct crclayer *l, struct crclayer_io *n)
{
	int err = n->res ? n->res : crclayer_walk(l, n, crclayer_visit_glance);

	if (err != -EAGAIN || n->res)
		crclayer_host->done(n->io, err);
	else if (n->was_quiet && n->begun == atomic_load(&l->begun))
		crclayer_host->done(n->io, crclayer_judge(l, n));
	else
		crclayer_claim(l, n);
}

void crclayer_looked(struct crclayer *l, struct crclayer_io *n)
{
	int err = n->res ? n->res : crclayer_judge(l, n);

	crclayer_release(l, n, err);
}
