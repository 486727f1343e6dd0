/* SPDX-License-Identifier: BSD-2-Clause */
/* Logical block provisioning: UNMAP, WRITE SAME, GET LBA STATUS. */
#include <string.h>

#include "protocol/scsi_pages.h"
#include "target/scsi/disk.h"

/* ---- UNMAP ---- */

/*
 * The decoded list lies behind the one that came:
 *   buf: parameter list | extents, of which `range_len` are good
 */
#define EXTENTS_MAX 64u

static struct scsi_extent *extents_of(const struct scsi_task *task)
{
	size_t align = _Alignof(struct scsi_extent);
	size_t offset = (task->fetch_len + align - 1) / align * align;

	return (struct scsi_extent *)(void *)(task->buf + offset);
}

static void prepare_unmap(struct scsi_task *task)
{
	task->buf_len +=
		(uint32_t)((EXTENTS_MAX + 1) * sizeof(struct scsi_extent));
}

/* The bytes of @left, from @offset of the volume on, that the next piece takes.
 * Pieces end at multiples of @piece, so that none cuts an allocation unit of the
 * store in two, which would then be zeroed and kept. */
static uint64_t aligned_piece(uint64_t offset, uint64_t left, uint64_t piece)
{
	return scsi_min(left, piece - offset % piece);
}

/* What is done is taken off the extent; the next follows when it is empty. */
static bool unmap_next(struct scsi_task *task, int res)
{
	struct scsi_extent *extent = extents_of(task);
	uint32_t block_size = task->vol->block_size;
	uint64_t len;

	if (res)
		return scsi_task_fail_blk(task, res);
	while (task->at < task->range_len && !extent[task->at].blocks)
		task->at++;
	if (task->at == task->range_len)
		return scsi_task_good(task);
	extent += task->at;
	len = aligned_piece(extent->lba * block_size,
			    (uint64_t)extent->blocks * block_size,
			    VOLUME_UNMAP_PIECE);
	scsi_task_blk(task, BLOCK_UNMAP, extent->lba * block_size, len,
		      unmap_next);
	extent->lba += len / block_size;
	extent->blocks -= (uint32_t)(len / block_size);
	return true;
}

static bool execute_unmap(struct scsi_task *task)
{
	struct scsi_sense sense;
	size_t cnt;

	if (scsi_unmap_decode(task->buf, task->fetch_len, &task->vol->info,
			      extents_of(task), EXTENTS_MAX, &cnt, &sense))
		return scsi_task_fail(task, &sense);
	task->at = 0;
	task->range_len = cnt;
	return unmap_next(task, 0);
}

const struct scsi_handler scsi_unmap = {
	.hold = SCSI_HOLD_ALL,
	.prepare = prepare_unmap,
	.execute = execute_unmap,
};

/* ---- WRITE SAME ---- */

/* A pattern is repeated in the buffer and written in pieces of that. */
static void prepare_write_same(struct scsi_task *task)
{
	const struct backend_info *store = &task->vol->dev.backend->info;

	task->range_len = task->cmd.blocks * task->vol->block_size;
	if (task->cmd.ndob && store->zero)
		return;
	task->buf_len = (uint32_t)scsi_min(task->range_len, SCSI_PIECE);
}

static bool thin_is_zero(const uint8_t *p, size_t len)
{
	return !p[0] && !memcmp(p, p + 1, len - 1);
}

static bool write_next(struct scsi_task *task, int res)
{
	uint64_t left;

	if (res)
		return scsi_task_fail_blk(task, res);
	left = task->range_len - task->at;
	if (!left)
		return scsi_task_good(task);
	scsi_task_blk(task, BLOCK_WRITE, task->at,
		      scsi_min(left, task->buf_len), write_next);
	task->at += task->blk.len;
	return true;
}

/* What may be deallocated costs the store no more than an UNMAP, and some stores
 * free nothing smaller. */
static uint64_t zero_piece(const struct scsi_task *task)
{
	return task->cmd.unmap && task->vol->info.unmap ? VOLUME_UNMAP_PIECE
							: VOLUME_ZERO_PIECE;
}

static bool zero_next(struct scsi_task *task, int res)
{
	uint64_t left;

	if (res)
		return scsi_task_fail_blk(task, res);
	left = task->range_len - task->at;
	if (!left)
		return scsi_task_good(task);
	scsi_task_blk(task, BLOCK_ZERO, task->at, left, zero_next);
	task->blk.len = aligned_piece(task->blk.offset, left, zero_piece(task));
	task->blk.may_unmap = task->cmd.unmap;
	task->at += task->blk.len;
	return true;
}

static void repeat(uint8_t *to, uint64_t len, const uint8_t *block,
		   uint32_t block_size)
{
	for (uint64_t at = 0; at < len; at += block_size) {
		if (to + at != block)
			memcpy(to + at, block, block_size);
	}
}

static bool write_pattern(struct scsi_task *task)
{
	uint32_t block_size = task->vol->block_size;

	if (task->cmd.ndob)
		memset(task->buf, 0, task->buf_len);
	else
		repeat(task->buf, task->buf_len, task->buf, block_size);
	task->at = 0;
	return write_next(task, 0);
}

static bool execute_write_same(struct scsi_task *task)
{
	const struct volume *vol = task->vol;
	bool zeroes =
		task->cmd.ndob || thin_is_zero(task->buf, vol->block_size);

	if (!zeroes || !vol->dev.backend->info.zero)
		return write_pattern(task);
	task->at = 0;
	return zero_next(task, 0);
}

const struct scsi_handler scsi_write_same = {
	.hold = SCSI_HOLD_SHARED,
	.prepare = prepare_write_same,
	.execute = execute_write_same,
};

/* ---- GET LBA STATUS ---- */

/*
 * The buffer holds the answer and, in its second half, the ranges found:
 *   buf: answer (LBA_STATUS_LEN) | ranges, of which `at` are good
 */
#define LBA_STATUS_LEN 2048u
#define RANGES_MAX     64u

_Static_assert(RANGES_MAX * sizeof(struct scsi_lba_range) <= LBA_STATUS_LEN,
	       "ranges fit behind the answer");
_Static_assert(SCSI_LBA_STATUS_HEADER_LEN +
			       RANGES_MAX * SCSI_LBA_STATUS_DESC_LEN <=
		       LBA_STATUS_LEN,
	       "the answer fits before the ranges");

static struct scsi_lba_range *ranges_of(const struct scsi_task *task)
{
	return (struct scsi_lba_range *)(void *)(task->buf + LBA_STATUS_LEN);
}

static void prepare_get_lba_status(struct scsi_task *task)
{
	task->buf_len = 2 * LBA_STATUS_LEN;
}

static bool send_ranges(struct scsi_task *task)
{
	uint64_t alloc_len = task->cmd.alloc_len;
	uint64_t cap = scsi_min(scsi_min(alloc_len, task->data_in_len),
				LBA_STATUS_LEN);
	size_t len = scsi_lba_status_encode(ranges_of(task), task->at,
					    task->buf, cap);

	task->wanted_in = scsi_min(len, alloc_len);
	task->data_in_cnt = (uint32_t)scsi_min(len, cap);
	return scsi_task_good(task);
}

static void add_range(struct scsi_task *task, uint64_t blocks, bool mapped)
{
	uint64_t done = task->range_len;

	ranges_of(task)[task->at++] = (struct scsi_lba_range){
		.lba = task->cmd.lba + done,
		.blocks = (uint32_t)blocks,
		.state = mapped ? SCSI_LBA_MAPPED : SCSI_LBA_DEALLOCATED,
	};
	task->range_len += blocks;
}

/* Blocks behind those that were found, as many as a range can name. */
static uint64_t blocks_left(const struct scsi_task *task)
{
	return scsi_min(task->vol->blocks - task->cmd.lba - task->range_len,
			UINT32_MAX);
}

static bool find_range(struct scsi_task *task);

static bool have_range(struct scsi_task *task, int res)
{
	const struct block_request *blk = &task->blk;

	if (res)
		return scsi_task_fail_blk(task, res);
	add_range(task, blk->extent_len / task->vol->block_size,
		  blk->extent_mapped);
	if (task->at == RANGES_MAX || !blocks_left(task) ||
	    task->at == scsi_lba_status_capacity(task->cmd.alloc_len))
		return send_ranges(task);
	return find_range(task);
}

static bool find_range(struct scsi_task *task)
{
	uint64_t block_size = task->vol->block_size;

	scsi_task_blk(task, BLOCK_EXTENT, task->range_len * block_size,
		      blocks_left(task) * block_size, have_range);
	return true;
}

/* What the store does not tell counts as mapped. */
static bool execute_get_lba_status(struct scsi_task *task)
{
	task->at = 0;
	task->range_len = 0;
	if (task->vol->dev.backend->info.extents)
		return find_range(task);
	add_range(task, blocks_left(task), /* mapped= */ true);
	return send_ranges(task);
}

const struct scsi_handler scsi_get_lba_status = {
	.prepare = prepare_get_lba_status,
	.execute = execute_get_lba_status,
};
