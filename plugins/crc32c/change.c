/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes, zeroes and unmaps: what must be known and stable before their data
 * goes to the backend below, and their records afterwards. */
#include "layer.h"

#include <errno.h>
#include <stdlib.h>

/* Ends the walk at a block that cannot be written yet. */
#define CRCLAYER_IN_DOUBT  (-EAGAIN)
#define CRCLAYER_UNSETTLED (-EBUSY)

static int crclayer_visit_old(struct crclayer *l, struct crclayer_io *n,
			      uint64_t block, struct crcsum *c)
{
	n->block_offset = block * l->block_size;
	if (c->flags & (CRCSUM_NONE | CRCSUM_ANY | CRCSUM_DAMAGED))
		return 0;
	if (crcsums_in_doubt(&l->sums, c))
		return CRCLAYER_IN_DOUBT;
	return crclayer_is_unsettled(l, c) ? CRCLAYER_UNSETTLED : 0;
}

static int crclayer_visit_new(struct crclayer *l, struct crclayer_io *n,
			      uint64_t block, struct crcsum *c)
{
	bool any = c->flags & (CRCSUM_NONE | CRCSUM_DAMAGED);

	if (c->flags & CRCSUM_ANY &&
	    (crcsums_in_doubt(&l->sums, c) || crclayer_is_unsettled(l, c)))
		any = true;
	*c = (struct crcsum){
		.sum = crclayer_sum(l, n, block),
		.before = c->sum,
		.epoch = l->sums.epoch,
		.flags = any ? CRCSUM_ANY : 0,
	};
	return 1;
}

/* The write has ended, and is stable. */
static int crclayer_visit_stable(struct crclayer *l, struct crclayer_io *n,
				 uint64_t block, struct crcsum *c)
{
	c->before = c->sum;
	c->flags = 0;
	return 1;
}

/* The write has failed: the contents of the block are unknown. */
static int crclayer_visit_failed(struct crclayer *l, struct crclayer_io *n,
				 uint64_t block, struct crcsum *c)
{
	c->flags |= CRCSUM_DOUBT;
	return 1;
}

static int crclayer_record(struct crclayer *l, struct crclayer_io *n)
{
	if (crclayer_has_sums(n->io))
		return crclayer_walk(l, n, crclayer_visit_new);
	return crcsums_forget(&l->sums, n->io->offset / l->block_size,
			      n->io->len / l->block_size);
}

/* The records of @n have their state for the time when its data may be
 * below. */
static void crclayer_begin_change(struct crclayer *l, struct crclayer_io *n)
{
	int err = crclayer_record(l, n);

	if (err) {
		crclayer_release(l, n, crclayer_break(l, err));
		return;
	}
	n->epoch = l->sums.epoch;
	/* In this order: see crclayer_submit(). */
	atomic_fetch_add(&l->under_way, 1);
	atomic_fetch_add(&l->begun, 1);
	l->must_sync = l->syncs;
	crclayer_to_worker(l, n, CRCLAYER_CHANGE);
}

void crclayer_end_change(struct crclayer *l, struct crclayer_io *n)
{
	bool is_stable =
		!l->has_cache || (l->has_fua && n->io->flags & RBP_FUA);
	int err = 0;

	if (crclayer_has_sums(n->io) && (n->res || is_stable))
		err = crclayer_walk(l, n,
				    n->res ? crclayer_visit_failed
					   : crclayer_visit_stable);
	atomic_fetch_sub(&l->under_way, 1);
	if (err)
		err = crclayer_break(l, err);
	crclayer_release(l, n, n->res ? n->res : err);
}

/* Reads a block of @n, to learn which of two sums it has. */
static void crclayer_resolve(struct crclayer *l, struct crclayer_io *n)
{
	if (!n->block && posix_memalign(&n->block, 4096, l->block_size)) {
		n->block = NULL;
		crclayer_release(l, n, -ENOMEM);
		return;
	}
	crclayer_to_worker(l, n, CRCLAYER_RESOLVE);
}

/* Waits for a flush. The first I/O that needs the flush asks for it. */
static void crclayer_park(struct crclayer *l, struct crclayer_io *n)
{
	int err = 0;

	if (l->settler) {
		TAILQ_INSERT_TAIL(&l->parked, n, node);
		return;
	}
	err = crclayer_begin_flush(l, n, CRCLAYER_SETTLE);
	if (err)
		crclayer_release(l, n, err);
	else
		l->settler = n;
}

/* @n has its blocks for itself, and must be written. */
void crclayer_change(struct crclayer *l, struct crclayer_io *n)
{
	int err = l->is_broken ? -EIO : 0;

	if (!err && crclayer_has_sums(n->io))
		err = crclayer_walk(l, n, crclayer_visit_old);
	if (err == CRCLAYER_IN_DOUBT)
		crclayer_resolve(l, n);
	else if (err == CRCLAYER_UNSETTLED)
		crclayer_park(l, n);
	else if (err)
		crclayer_release(l, n, crclayer_break(l, err));
	else
		crclayer_begin_change(l, n);
}

void crclayer_settled(struct crclayer *l, struct crclayer_io *n)
{
	struct crclayer_list parked = TAILQ_HEAD_INITIALIZER(parked);
	int err = crclayer_end_flush(l, n);

	l->settler = NULL;
	TAILQ_CONCAT(&parked, &l->parked, node);
	while (n) {
		if (err)
			crclayer_release(l, n, err);
		else
			crclayer_change(l, n);
		n = TAILQ_FIRST(&parked);
		if (n)
			TAILQ_REMOVE(&parked, n, node);
	}
}

/* Returns 0, or a negative errno of the file. */
static int crclayer_take_block(struct crclayer *l, const struct crclayer_io *n)
{
	uint64_t block = n->block_offset / l->block_size;
	struct crcsum c;
	int res = crcsums_read(&l->sums, block, 1, &c);

	if (res)
		return res;
	res = n->res ? n->res : crclayer_judge_block(l, block, &c, n->block);
	/* A block that a power cut has torn may be unreadable now. */
	if (n->res)
		c.flags = CRCSUM_ANY | CRCSUM_DOUBT;
	/* If the target dies before the block is written, it stays damaged. */
	else if (res < 0)
		c = (struct crcsum){ .sum = c.sum,
				     .before = c.sum,
				     .epoch = l->sums.epoch };
	return res ? crcsums_write(&l->sums, block, 1, &c) : 0;
}

/* The block of a write in doubt has been read. */
void crclayer_resolved(struct crclayer *l, struct crclayer_io *n)
{
	int err = n->res == -EIO ? 0 : n->res;

	if (!err) {
		err = crclayer_take_block(l, n);
		if (err)
			err = crclayer_break(l, err);
	}
	if (err)
		crclayer_release(l, n, err);
	else
		crclayer_change(l, n);
}
