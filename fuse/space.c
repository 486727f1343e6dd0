/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/space.h"

#include <errno.h>
#include <linux/falloc.h>
#include <string.h>
#include <unistd.h>

#include "fuse/answer.h"
#include "fuse/data.h"
#include "fuse/slots.h"

/* ---- FALLOCATE ---- */

/*
 * Zeroes the whole blocks of the range. WRITE SAME with the UNMAP bit makes a
 * hole. The UNMAP command does not suffice: a target may ignore it, and then the
 * old data stays (SBC-3, UNMAP command).
 */
static void space_zero_blocks(struct slot *slot)
{
	uint64_t begin = data_round_up(slot, slot->range.offset);
	uint64_t end =
		data_round_down(slot, slot->range.offset + slot->range.len);

	if (slot->commands.err || begin >= end) {
		slot->work.zeroed(slot);
		return;
	}
	slot->commands.io.op = SRPI_WRITE_ZEROES;
	slot->commands.io.offset = begin;
	slot->commands.io.len = end - begin;
	slot->commands.io.buf = NULL;
	slot->commands.io.fua = false;
	slot->commands.io.discard = slot->work.discard;
	data_submit(slot, slot->work.zeroed);
}

/* Zeroes the part of the range that lies in the blocks at its unaligned ends. */
static void space_zero_edges(struct slot *slot)
{
	uint64_t end = slot->range.offset + slot->range.len;
	uint64_t block = slot->file->info->block_size;
	size_t head =
		slot->range.offset - data_round_down(slot, slot->range.offset);
	size_t tail = end - data_round_down(slot, end);

	if (slot->commands.err) {
		slot->work.zeroed(slot);
		return;
	}
	if (head && data_tail_block(slot) == slot_head(slot)) {
		memset(slot_head(slot) + head, 0, slot->range.len);
	} else {
		if (head)
			memset(slot_head(slot) + head, 0, block - head);
		memset(slot_tail(slot), 0, tail);
	}
	data_edges(slot, SRPI_WRITE, space_zero_blocks);
}

void space_zero(struct slot *slot, void (*zeroed)(struct slot *slot))
{
	slot->work.zeroed = zeroed;
	slot->commands.err = 0;
	if (data_begin_is_unaligned(slot) || data_end_is_unaligned(slot))
		data_edges(slot, SRPI_READ, space_zero_edges);
	else
		space_zero_blocks(slot);
}

static void space_fallocate_done(struct slot *slot)
{
	data_give_blocks_back(slot);
	answer_error(slot, data_errno(slot->commands.err));
}

static void space_zero_range(struct slot *slot)
{
	space_zero(slot, space_fallocate_done);
}

/* Returns 0 or a negative errno. A hole may end beyond the end of the file. */
static int space_check_range(struct slot *slot, uint32_t mode)
{
	uint64_t size = slot->file->info->size;

	if (slot->file->read_only)
		return -EROFS;
	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE |
		     FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	if (mode & FALLOC_FL_PUNCH_HOLE) {
		if (slot->range.offset > size)
			slot->range.offset = size;
		if (slot->range.len > size - slot->range.offset)
			slot->range.len = size - slot->range.offset;
		return 0;
	}
	if (slot->range.offset > size ||
	    slot->range.len > size - slot->range.offset)
		return -EFBIG;
	return 0;
}

void space_fallocate(struct slot *slot, const struct fuse_fallocate_in *in)
{
	uint32_t mode = in->mode;
	int err;

	slot->range.offset = in->offset;
	slot->range.len = in->length;
	slot->work.discard = mode & FALLOC_FL_PUNCH_HOLE;
	slot->commands.err = 0;
	err = space_check_range(slot, mode);
	/* Plain allocation does nothing: only the target can reserve space. */
	if (err || slot->range.len == 0 ||
	    !(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))) {
		answer_error(slot, err);
		return;
	}
	data_take_blocks(slot, space_zero_range);
}

/* ---- LSEEK ---- */

static void space_seek(struct slot *slot, uint64_t pos);

static void space_seek_done(struct slot *slot)
{
	bool want_data = slot->work.whence == SEEK_DATA;
	uint64_t pos = slot->commands.io.offset;
	uint64_t size = slot->file->info->size;

	if (slot->commands.err || slot->commands.io.extent_len == 0) {
		answer_error(slot, slot->commands.err
					   ? data_errno(slot->commands.err)
					   : -EIO);
		return;
	}
	if (slot->commands.io.extent_mapped == want_data) {
		answer_position(slot, pos > slot->range.offset
					      ? pos
					      : slot->range.offset);
		return;
	}
	pos += slot->commands.io.extent_len;
	if (pos < size)
		space_seek(slot, pos);
	else if (want_data)
		answer_error(slot, -ENXIO);
	else
		answer_position(slot, size);
}

static void space_seek(struct slot *slot, uint64_t pos)
{
	slot->commands.io.op = SRPI_EXTENT;
	slot->commands.io.offset = pos;
	slot->commands.io.len = slot->file->info->size - pos;
	slot->commands.io.buf = NULL;
	data_submit(slot, space_seek_done);
}

void space_lseek(struct slot *slot, const struct fuse_lseek_in *in)
{
	const struct srpi_volume_info *info = slot->file->info;

	slot->range.offset = in->offset;
	slot->work.whence = (int)in->whence;
	if (slot->work.whence != SEEK_DATA && slot->work.whence != SEEK_HOLE) {
		answer_error(slot, -EINVAL);
		return;
	}
	if (slot->range.offset >= info->size) {
		answer_error(slot, -ENXIO);
		return;
	}
	/* If a hole may read as other than zeroes, there are none to report. */
	if (!info->unmap || !info->unmap_zeroes) {
		answer_position(slot, slot->work.whence == SEEK_DATA
					      ? slot->range.offset
					      : info->size);
		return;
	}
	space_seek(slot, data_round_down(slot, slot->range.offset));
}
