/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extents of the backend below. Who skips a hole takes it for zeroes, and does
 * not read it. So if the store has lost data and reports a hole there, the
 * blocks count as allocated, and a read of them finds the fault.
 */
#include "layer.h"

/* Records that one I/O looks at. The next extent begins after them. */
#define CRCLAYER_HOLE_MAX (64u * CRCLAYER_CHUNK)

/* True if the block was written, and not with zeroes. */
static bool crclayer_has_data(const struct crclayer *l, const struct crcsum *c)
{
	if (c->flags & CRCSUM_NONE)
		return false;
	return c->flags & CRCSUM_DAMAGED || c->sum != l->zero_sum;
}

/* Sets *@ret_same to the number of blocks from @first on, up to @cnt, that are
 * like the first one. */
static int crclayer_look_at_hole(struct crclayer *l, uint64_t first,
				 uint64_t cnt, uint64_t *ret_same,
				 bool *ret_has_data)
{
	uint64_t at = 0;

	while (at < cnt) {
		unsigned int n = cnt - at < CRCLAYER_CHUNK
					 ? (unsigned int)(cnt - at)
					 : CRCLAYER_CHUNK;
		int err = crcsums_read(&l->sums, first + at, n, l->records);

		if (err)
			return err;
		if (!at)
			*ret_has_data = crclayer_has_data(l, &l->records[0]);
		for (unsigned int i = 0; i < n; i++, at++) {
			*ret_same = at;
			if (crclayer_has_data(l, &l->records[i]) !=
			    *ret_has_data)
				return 0;
		}
	}
	*ret_same = cnt;
	return 0;
}

static int crclayer_judge_hole(struct crclayer *l, struct rbp_io *io)
{
	uint64_t first = io->offset / l->block_size;
	uint64_t cnt = io->extent_len / l->block_size;
	uint64_t without = crcsums_without(&l->sums, first, cnt);
	bool has_data = false;
	int err = 0;

	if (without)
		cnt = without;
	else
		err = crclayer_look_at_hole(
			l, first,
			cnt < CRCLAYER_HOLE_MAX ? cnt : CRCLAYER_HOLE_MAX, &cnt,
			&has_data);
	io->extent_len = cnt * l->block_size;
	io->extent_mapped = has_data;
	return err;
}

void crclayer_found_extent(struct crclayer *l, struct crclayer_io *n)
{
	int err = n->res;

	if (!err && !n->io->extent_mapped)
		err = crclayer_judge_hole(l, n->io);
	crclayer_host->done(n->io, err);
}
