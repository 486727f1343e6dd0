/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for the data of a file: READ, WRITE and FSYNC here, FALLOCATE and
 * LSEEK in space.c. A request lives in a slot; it allocates and copies nothing.
 * If a range does not begin and end at block boundaries, the blocks at its ends
 * are read, changed and written back.
 *
 * The steps of a READ: data_request(), fair_queue_run(), data_start_request(),
 * data_start_read(), data_submit(); later data_part_done(), data_read_done(),
 * answer_data().
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_DATA_H
#define FUSE_DATA_H

#include "fuse/dev.h"
#include "fuse/tree.h"

/* For dev_options.request; the user of the device is the tree. */
bool data_request(struct slot *slot, const struct fuse_in_header *in);

/* ---- for space.c and ops.c ---- */

static inline uint64_t data_round_down(const struct slot *slot, uint64_t pos)
{
	return pos & ~(uint64_t)(slot->file->info->block_size - 1);
}

static inline uint64_t data_round_up(const struct slot *slot, uint64_t pos)
{
	return data_round_down(slot, pos + slot->file->info->block_size - 1);
}

/* The first, or the last, block of the range has bytes outside the range. */
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
 * The last block of the range, which data_edges() has read. It lies at slot_tail().
 * If the range has only one block, it lies at slot_head().
 */
uint8_t *data_tail_block(const struct slot *slot);

/*
 * Calls @then when the blocks of the range may be changed. If the range does not begin
 * and end at block boundaries, its blocks are read, changed and written back: no other
 * write may change them meanwhile. Otherwise one operation changes them, which
 * srpi_submit() orders.
 */
void data_take_blocks(struct slot *slot, void (*then)(struct slot *slot));

/* Reads, or writes back, the blocks at the unaligned ends of the range. Then calls
 * @then; the result is in slot->commands.err. */
void data_edges(struct slot *slot, enum srpi_op op,
		void (*then)(struct slot *slot));

/* Sends slot->commands.io, whose op, offset, len and buf are set. Then calls
 * @then; the result is in slot->commands.err. */
void data_submit(struct slot *slot, void (*then)(struct slot *slot));

/* The blocks of the range have changed. */
void data_give_blocks_back(struct slot *slot);

/*
 * Zeroes the ranges that the writer of slot->fh has skipped. Then calls @filled;
 * the result is in slot->commands.err. Overwrites slot->range. The caller has no
 * blocks.
 */
void data_fill_holes(struct slot *slot, void (*filled)(struct slot *slot));

/* Converts an error of libsrpi to an errno for programs. */
int data_errno(int err);

#endif
