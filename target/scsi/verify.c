/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands that read the medium and send none of it: VERIFY, WRITE AND VERIFY,
 * PRE-FETCH. They read it in pieces, behind the data-out in the buffer. */
#include <string.h>

#include "target/scsi/disk.h"

/* ---- comparing ---- */

static bool one_block(const struct scsi_task *task)
{
	return task->cmd.bytchk == SCSI_BYTCHK_ONE_BLOCK;
}

/* What byte @at of the command's blocks should be. */
static uint8_t wanted(const struct scsi_task *task, uint64_t at)
{
	return task->buf[one_block(task) ? at % task->vol->block_size : at];
}

/* @len: whole blocks, from task->at on */
static bool is_equal(const struct scsi_task *task, const uint8_t *medium,
		     uint64_t len)
{
	uint32_t block_size = task->vol->block_size;

	if (!task->cmd.bytchk)
		return true;
	if (!one_block(task))
		return !memcmp(medium, task->buf + task->at, len);
	for (uint64_t i = 0; i < len; i += block_size) {
		if (memcmp(medium + i, task->buf, block_size))
			return false;
	}
	return true;
}

static bool miscompare(struct scsi_task *task, const uint8_t *medium,
		       uint64_t len)
{
	uint64_t i = 0;

	while (i < len && medium[i] == wanted(task, task->at + i))
		i++;
	return scsi_task_miscompare(task, task->at + i);
}

/* ---- reading in pieces ---- */

/* Behind the data-out lies room for a piece of the medium. */
static void verify_make_room(struct scsi_task *task, uint64_t len)
{
	task->range_len = len;
	task->buf_len += (uint32_t)scsi_min(len, SCSI_PIECE);
}

static bool verify_next_piece(struct scsi_task *task);

static bool have_piece(struct scsi_task *task, int res)
{
	const uint8_t *medium = task->blk.buf;
	uint64_t len = task->blk.len;

	if (res)
		return scsi_task_fail_blk(task, res);
	if (!is_equal(task, medium, len))
		return miscompare(task, medium, len);
	task->at += len;
	return verify_next_piece(task);
}

static bool all_read(struct scsi_task *task)
{
	return task->cmd.op == SCSI_OP_PREFETCH ? scsi_task_met(task)
						: scsi_task_good(task);
}

static bool verify_next_piece(struct scsi_task *task)
{
	uint64_t left = task->range_len - task->at;

	if (!left)
		return all_read(task);
	scsi_task_blk(task, BLOCK_READ, task->at, scsi_min(left, SCSI_PIECE),
		      have_piece);
	task->blk.buf = task->buf + task->fetch_len;
	return true;
}

static bool verify(struct scsi_task *task)
{
	task->at = 0;
	return verify_next_piece(task);
}

/* ---- VERIFY ---- */

static void prepare_verify(struct scsi_task *task)
{
	verify_make_room(task, scsi_task_len(task));
}

const struct scsi_handler scsi_verify = {
	.hold = SCSI_HOLD_SHARED,
	.prepare = prepare_verify,
	.execute = verify,
};

/* ---- WRITE AND VERIFY ---- */

static bool stable(struct scsi_task *task, int res)
{
	if (res)
		return scsi_task_fail_blk(task, res);
	return verify(task);
}

/* What is verified is on the medium, not in the cache; and, as nobody else has
 * the blocks meanwhile, what was written. */
static bool written(struct scsi_task *task, int res)
{
	if (res)
		return scsi_task_fail_blk(task, res);
	if (task->vol->dev.write_cache)
		return scsi_task_flush(task, stable);
	return verify(task);
}

static bool execute_write_verify(struct scsi_task *task)
{
	if (!task->fetch_len)
		return scsi_task_good(task);
	scsi_task_blk(task, BLOCK_WRITE, 0, task->fetch_len, written);
	return true;
}

const struct scsi_handler scsi_write_verify = {
	.hold = SCSI_HOLD_EXCLUSIVE,
	.prepare = prepare_verify,
	.execute = execute_write_verify,
};

/* ---- PRE-FETCH ---- */

/* Of a cache that everybody shares one command may fill so much. Bytes. */
#define PREFETCH_MAX (16u << 20)

static bool has_cache(const struct scsi_task *task)
{
	const struct backend_info *store = &task->vol->dev.backend->info;

	return store->read_cache && !store->memory;
}

static void prepare_prefetch(struct scsi_task *task)
{
	if (has_cache(task))
		verify_make_room(task,
				 scsi_min(scsi_task_len(task), PREFETCH_MAX));
}

/*
 * CONDITION MET says that all blocks are cached, GOOD that not all of them
 * would fit (SBC-3 5.8). What lies in memory is as good as cached. Nothing is
 * read when the rest would not fit. With IMMED the status foretells.
 */
static bool execute_prefetch(struct scsi_task *task)
{
	if (task->vol->dev.backend->info.memory)
		return scsi_task_met(task);
	if (!has_cache(task) || scsi_task_len(task) > PREFETCH_MAX)
		return scsi_task_good(task);
	if (task->cmd.immed)
		scsi_task_answer(task, SCSI_STATUS_CONDITION_MET);
	task->at = 0;
	return verify_next_piece(task);
}

const struct scsi_handler scsi_prefetch = {
	.prepare = prepare_prefetch,
	.execute = execute_prefetch,
};
