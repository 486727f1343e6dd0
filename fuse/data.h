/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for a file's data: READ, WRITE and FSYNC here, FALLOCATE and LSEEK
 * in space.c. They live in a slot, and allocate and copy nothing; but bytes
 * that share a block with others are read, changed and written back.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_DATA_H
#define FUSE_DATA_H

#include "fuse/dev.h"
#include "fuse/tree.h"

/* The device's user is the tree. False: not a request for data. */
bool data_request(struct slot *slot, const struct fuse_in_header *in);

/* ---- between data.c and space.c ---- */

static inline uint64_t data_round_down(const struct slot *slot, uint64_t pos)
{
	return pos & ~(uint64_t)(slot->file->info->block_size - 1);
}

static inline uint64_t data_round_up(const struct slot *slot, uint64_t pos)
{
	return data_round_down(slot, pos + slot->file->info->block_size - 1);
}

/* True when the range shares a block with bytes that are not in it: at its
 * begin, at its end. */
static inline bool data_begin_is_unaligned(const struct slot *slot)
{
	return data_round_down(slot, slot->range.offset) != slot->range.offset;
}

static inline bool data_end_is_unaligned(const struct slot *slot)
{
	uint64_t end = slot->range.offset + slot->range.len;

	return data_round_down(slot, end) != end;
}

/*
 * Where the block of each end lies, once data_edges() is through: the
 * range's first block in slot_head(), its last in slot_tail(), or in
 * slot_head() as well when the first is the last.
 */
uint8_t *data_tail_block(const struct slot *slot);

/* Locks the blocks of the range, then calls @then. */
void data_lock(struct slot *slot, bool exclusive,
	       void (*then)(struct slot *slot));

/* Reads (or writes back) the blocks at the cut ends, then calls @then; see
 * slot->err there. */
void data_edges(struct slot *slot, enum srpi_op op,
		void (*then)(struct slot *slot));

/* Sends slot->io, whose op, offset, len and buf are set; then @then. */
void data_submit(struct slot *slot, void (*then)(struct slot *slot));

/* Unlocks, and notes that the file's data have changed. */
void data_unlock(struct slot *slot);

/*
 * Zeroes what the writer behind slot->fh has skipped, then calls @filled; see
 * slot->err there. Uses slot->range.offset and len; nothing is locked before or
 * after.
 */
void data_fill_holes(struct slot *slot, void (*filled)(struct slot *slot));

/* The errno for a program that uses the file. */
int data_errno(int err);

/*
 * Zeroes slot->range.offset and len, which must be locked exclusively, then calls
 * @zeroed; see slot->err there. The payload in the slot stays as it is.
 */
void space_zero(struct slot *slot, void (*zeroed)(struct slot *slot));

void space_fallocate(struct slot *slot, const struct fuse_fallocate_in *in);
void space_lseek(struct slot *slot, const struct fuse_lseek_in *in);

#endif
