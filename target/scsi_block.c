/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands that move, compare or secure blocks. */
#include <string.h>

#include "target/scsi_disk.h"

static uint64_t range_len(const struct scsi_task *task)
{
	return task->cmd.blocks * task->vol->block_size;
}

static uint64_t round_up(uint64_t n, uint32_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* The last step of what ends with a block request. */
static bool done_step(struct scsi_task *task, int res)
{
	if (res)
		return scsi_task_fail_blk(task, res);
	return scsi_task_good(task);
}

static bool flush(struct scsi_task *task,
		  bool (*next)(struct scsi_task *task, int res))
{
	scsi_task_blk(task, BLOCK_FLUSH, 0, 0, next);
	return true;
}

/* ---- READ ---- */

/* Whole blocks are read, even when the last does not fit the buffer. */
static void prepare_read(struct scsi_task *task)
{
	uint64_t fits;

	task->wanted_in = range_len(task);
	fits = scsi_min(task->wanted_in, task->data_in_len);
	task->range_len = round_up(fits, task->vol->block_size);
	task->buf_len = (uint32_t)task->range_len;
	task->buf_is_volume = task->buf_len && scsi_task_memory(task);
	if (task->buf_is_volume)
		task->buf = scsi_task_memory(task);
}

static bool have_read(struct scsi_task *task, int res)
{
	if (res)
		return scsi_task_fail_blk(task, res);
	task->data_in_cnt =
		(uint32_t)scsi_min(task->wanted_in, task->data_in_len);
	return scsi_task_good(task);
}

static bool start_read(struct scsi_task *task, int res)
{
	if (res)
		return scsi_task_fail_blk(task, res);
	scsi_task_blk(task, BLOCK_READ, 0, task->range_len, have_read);
	return true;
}

static bool execute_read(struct scsi_task *task)
{
	if (!task->range_len || task->buf_is_volume)
		return have_read(task, 0);
	/* FUA: from the medium; so what is in the cache must be there. */
	if (task->cmd.fua && task->vol->write_cache)
		return flush(task, start_read);
	return start_read(task, 0);
}

const struct scsi_handler scsi_read = {
	.prepare = prepare_read,
	.execute = execute_read,
};

/* ---- WRITE ---- */

static void prepare_write(struct scsi_task *task)
{
	task->buf_is_volume = task->fetch_len && scsi_task_memory(task);
	if (task->buf_is_volume)
		task->buf = scsi_task_memory(task);
}

static bool have_written(struct scsi_task *task, int res)
{
	const struct volume *vol = task->vol;

	if (res)
		return scsi_task_fail_blk(task, res);
	if (task->cmd.fua && vol->write_cache && !vol->backend->info.fua)
		return flush(task, done_step);
	return scsi_task_good(task);
}

/* Into memory the data has been fetched already. */
static bool execute_write(struct scsi_task *task)
{
	const struct volume *vol = task->vol;

	if (!task->fetch_len || task->buf_is_volume)
		return have_written(task, 0);
	scsi_task_blk(task, BLOCK_WRITE, 0, task->fetch_len, have_written);
	task->blk.fua =
		task->cmd.fua && vol->write_cache && vol->backend->info.fua;
	return true;
}

const struct scsi_handler scsi_write = {
	.prepare = prepare_write,
	.execute = execute_write,
};

/* ---- VERIFY ---- */

/* Behind the data-out lies room for a piece of the medium. */
static void prepare_verify(struct scsi_task *task)
{
	task->range_len = range_len(task);
	if (!scsi_task_memory(task))
		task->buf_len +=
			(uint32_t)scsi_min(task->range_len, SCSI_PIECE);
}

/* The offset of the first byte that differs is the information, as it is with
 * COMPARE AND WRITE (SBC-3 5.2). */
static bool miscompare(struct scsi_task *task, const uint8_t *medium,
		       uint64_t len)
{
	struct scsi_sense sense = scsi_sense(SCSI_KEY_MISCOMPARE,
					     SCSI_ASC_MISCOMPARE_DURING_VERIFY);
	uint64_t i = 0;

	while (i < len && medium[i] == task->buf[task->at + i])
		i++;
	sense.info_valid = true;
	sense.info = task->at + i;
	return scsi_task_fail(task, &sense);
}

static bool is_equal(const struct scsi_task *task, const uint8_t *medium,
		     uint64_t len)
{
	return !task->cmd.bytchk || !memcmp(medium, task->buf + task->at, len);
}

static bool verify_piece(struct scsi_task *task);

static bool have_piece(struct scsi_task *task, int res)
{
	const uint8_t *medium = task->blk.buf;
	uint64_t len = task->blk.len;

	if (res)
		return scsi_task_fail_blk(task, res);
	if (!is_equal(task, medium, len))
		return miscompare(task, medium, len);
	task->at += len;
	return verify_piece(task);
}

static bool verify_piece(struct scsi_task *task)
{
	uint64_t left = task->range_len - task->at;

	if (!left)
		return scsi_task_good(task);
	scsi_task_blk(task, BLOCK_READ, task->at, scsi_min(left, SCSI_PIECE),
		      have_piece);
	task->blk.buf = task->buf + task->fetch_len;
	return true;
}

static bool verify_memory(struct scsi_task *task, const uint8_t *medium)
{
	if (task->range_len && !is_equal(task, medium, task->range_len))
		return miscompare(task, medium, task->range_len);
	return scsi_task_good(task);
}

static bool execute_verify(struct scsi_task *task)
{
	const uint8_t *medium = scsi_task_memory(task);

	task->at = 0;
	return medium ? verify_memory(task, medium) : verify_piece(task);
}

const struct scsi_handler scsi_verify = {
	.prepare = prepare_verify,
	.execute = execute_verify,
};

/* ---- SYNCHRONIZE CACHE, START STOP UNIT ---- */

/*
 * All of the cache, whatever the range. With IMMED set, too, the status comes
 * when it is stable: later than asked for, and never with a lie that a
 * deferred error would have to correct.
 */
static bool execute_sync_cache(struct scsi_task *task)
{
	if (task->vol->read_only)
		return scsi_task_good(task);
	return flush(task, done_step);
}

const struct scsi_handler scsi_sync_cache = { .execute = execute_sync_cache };

/* Stopping secures the cache. The unit stays ready: others use it too. */
static bool execute_start_stop(struct scsi_task *task)
{
	if (task->cmd.start || task->cmd.no_flush || task->vol->read_only)
		return scsi_task_good(task);
	return flush(task, done_step);
}

const struct scsi_handler scsi_start_stop = { .execute = execute_start_stop };
