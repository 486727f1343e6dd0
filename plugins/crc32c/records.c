/* SPDX-License-Identifier: BSD-2-Clause */
/* The records of the blocks of an I/O: walks over them, and their meaning. */
#include "layer.h"

#include <errno.h>
#include <string.h>

#include "crc32c.h"

/* Stops all changes, because the contents of the file would be unknown. */
int crclayer_break(struct crclayer *l, int err)
{
	if (!l->is_broken)
		crclayer_host->log(
			l->vol, RBP_ERROR,
			"the file of checksums fails (%s); writes "
			"and flushes fail until the volume is opened "
			"again",
			strerror(-err));
	l->is_broken = true;
	return -EIO;
}

static int crclayer_visit_chunk(struct crclayer *l, struct crclayer_io *n,
				uint64_t first, unsigned int cnt,
				crclayer_visit *visit)
{
	bool has_changed = false;
	int res = crcsums_read(&l->sums, first, cnt, l->records);

	for (unsigned int i = 0; i < cnt && res >= 0; i++) {
		res = visit(l, n, first + i, &l->records[i]);
		has_changed |= res > 0;
	}
	if (res >= 0 && has_changed) {
		res = crcsums_write(&l->sums, first, cnt, l->records);
		if (res)
			res = crclayer_break(l, res);
	}
	return res < 0 ? res : 0;
}

/* Visits the records of all blocks of @n, in ascending order. Returns 0, or the
 * first error. */
int crclayer_walk(struct crclayer *l, struct crclayer_io *n,
		  crclayer_visit *visit)
{
	uint64_t block = n->io->offset / l->block_size;
	uint64_t end = block + n->io->len / l->block_size;
	int err = 0;

	while (block < end && !err) {
		unsigned int cnt = end - block < CRCLAYER_CHUNK
					   ? (unsigned int)(end - block)
					   : CRCLAYER_CHUNK;

		err = crclayer_visit_chunk(l, n, block, cnt, visit);
		block += cnt;
	}
	return err;
}

const void *crclayer_data(const struct crclayer *l, const struct crclayer_io *n,
			  uint64_t block)
{
	return (const uint8_t *)n->io->buf +
	       (block * l->block_size - n->io->offset);
}

/* Returns the checksum of @block after @n. */
uint32_t crclayer_sum(const struct crclayer *l, const struct crclayer_io *n,
		      uint64_t block)
{
	if (n->io->op == RBP_ZERO)
		return l->zero_sum;
	return crc32c_of(crclayer_data(l, n, block), l->block_size);
}

/* True if blocks have sums after @io. */
bool crclayer_has_sums(const struct rbp_io *io)
{
	return io->op == RBP_WRITE ||
	       (io->op == RBP_ZERO && io->len <= CRCLAYER_ZERO_MAX);
}

/* True if a crash may leave the earlier data. */
bool crclayer_is_unsettled(const struct crclayer *l, const struct crcsum *c)
{
	return l->has_cache && c->epoch > l->sums.settled &&
	       (c->sum != c->before || c->flags & CRCSUM_ANY);
}
