/* SPDX-License-Identifier: BSD-2-Clause */
/* Logical block provisioning: UNMAP, WRITE SAME, GET LBA STATUS. */
#include "protocol/scsi_pages.h"
#include "target/scsi/disk.h"

/* ---- UNMAP ---- */

/*
 * The decoded list is after the received one:
 *
 *   buf: parameter list | extents, of which `range_len` are valid
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

static bool unmap_more(struct block_cmd *blk)
{
	struct scsi_task *task = container_of(blk, struct scsi_task, blk);
	const struct scsi_extent *extent = extents_of(task) + task->at;
	uint64_t block_size = task->vol->block_size;

	if (task->at == task->range_len)
		return false;
	task->at++;
	blk->offset = extent->lba * block_size;
	blk->len = extent->blocks * block_size;
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
	scsi_task_blk(task, BLOCK_CMD_UNMAP, scsi_task_good);
	task->blk.len = 0;
	task->blk.more = unmap_more;
	return true;
}

const struct scsi_handler scsi_unmap = {
	.prepare = prepare_unmap,
	.execute = execute_unmap,
};

/* ---- WRITE SAME ---- */

/* The received block is the beginning of the buffer. */
static void prepare_write_same(struct scsi_task *task)
{
	if (!task->cmd.ndob)
		task->buf_len = block_room(scsi_task_len(task));
}

static bool execute_write_same(struct scsi_task *task)
{
	struct block_cmd *blk = &task->blk;

	scsi_task_blk(task, BLOCK_CMD_FILL, scsi_task_good);
	blk->may_unmap = task->cmd.unmap;
	if (task->cmd.ndob)
		blk->buf = NULL;
	blk->unit_len = task->vol->block_size;
	blk->room = task->buf;
	blk->room_len = task->buf_len;
	return true;
}

const struct scsi_handler scsi_write_same = {
	.prepare = prepare_write_same,
	.execute = execute_write_same,
};

/* ---- GET LBA STATUS ---- */

/*
 * The buffer has the answer and, in its second half, the ranges found:
 *
 *   buf: answer (LBA_STATUS_LEN) | ranges, of which `at` are valid
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

/* The blocks after the ranges that were found, at most as many as one range can
 * have. */
static uint64_t blocks_left(const struct scsi_task *task)
{
	return scsi_min(task->vol->blocks - task->cmd.lba - task->range_len,
			UINT32_MAX);
}

static bool find_range(struct scsi_task *task);

static bool have_range(struct scsi_task *task)
{
	const struct block_cmd *blk = &task->blk;

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

	scsi_task_blk(task, BLOCK_CMD_EXTENT, have_range);
	task->blk.offset += task->range_len * block_size;
	task->blk.len = blocks_left(task) * block_size;
	return true;
}

static bool execute_get_lba_status(struct scsi_task *task)
{
	task->at = 0;
	task->range_len = 0;
	return find_range(task);
}

const struct scsi_handler scsi_get_lba_status = {
	.prepare = prepare_get_lba_status,
	.execute = execute_get_lba_status,
};
