/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands that move or secure blocks. */
#include "target/scsi/disk.h"

static uint64_t round_up(uint64_t n, uint32_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* RDMA moves the command's blocks in place where the store is memory. */
static void use_memory(struct scsi_task *task)
{
	uint8_t *at = block_in_place(task->vol->dev.backend,
				     task->cmd.lba * task->vol->block_size);

	task->buf_is_volume = at && task->buf_len;
	if (task->buf_is_volume)
		task->buf = at;
}

/* ---- READ ---- */

/* Whole blocks are read, even when the last does not fit the buffer. */
static void prepare_read(struct scsi_task *task)
{
	uint64_t fits;

	task->wanted_in = scsi_task_len(task);
	fits = scsi_min(task->wanted_in, task->data_in_len);
	task->range_len = round_up(fits, task->vol->block_size);
	task->buf_len = (uint32_t)task->range_len;
	use_memory(task);
}

static bool rw_have_read(struct scsi_task *task, int res)
{
	if (res)
		return scsi_task_fail_blk(task, res);
	task->data_in_cnt =
		(uint32_t)scsi_min(task->wanted_in, task->data_in_len);
	return scsi_task_good(task);
}

static bool rw_start_read(struct scsi_task *task, int res)
{
	if (res)
		return scsi_task_fail_blk(task, res);
	scsi_task_blk(task, BLOCK_READ, 0, task->range_len, rw_have_read);
	return true;
}

static bool execute_read(struct scsi_task *task)
{
	if (!task->range_len || task->buf_is_volume)
		return rw_have_read(task, 0);
	/* FUA: from the medium; so what is in the cache must be there. */
	if (task->cmd.fua && task->vol->dev.write_cache)
		return scsi_task_flush(task, rw_start_read);
	return rw_start_read(task, 0);
}

const struct scsi_handler scsi_read = {
	.hold = SCSI_HOLD_SHARED,
	.prepare = prepare_read,
	.execute = execute_read,
};

/* ---- WRITE ---- */

static void prepare_write(struct scsi_task *task)
{
	use_memory(task);
}

static bool have_written(struct scsi_task *task, int res)
{
	const struct volume *vol = task->vol;

	if (res)
		return scsi_task_fail_blk(task, res);
	if (task->cmd.fua && vol->dev.write_cache &&
	    !vol->dev.backend->info.fua)
		return scsi_task_flush(task, scsi_task_end);
	return scsi_task_good(task);
}

bool scsi_task_write(struct scsi_task *task, uint8_t *from, uint64_t len)
{
	const struct volume *vol = task->vol;

	scsi_task_blk(task, BLOCK_WRITE, 0, len, have_written);
	task->blk.buf = from;
	task->blk.fua =
		(task->cmd.fua || task->stable || volume_writes_through(vol)) &&
		vol->dev.write_cache && vol->dev.backend->info.fua;
	return true;
}

/* Into memory the data has been fetched already. */
static bool execute_write(struct scsi_task *task)
{
	if (!task->fetch_len || task->buf_is_volume)
		return have_written(task, 0);
	return scsi_task_write(task, task->buf, task->fetch_len);
}

const struct scsi_handler scsi_write = {
	.hold = SCSI_HOLD_SHARED,
	.prepare = prepare_write,
	.execute = execute_write,
};

/* ---- SYNCHRONIZE CACHE, START STOP UNIT ---- */

/* Secures all of the cache, whatever the range. */
static bool secure(struct scsi_task *task)
{
	if (task->cmd.immed)
		scsi_task_answer(task, SCSI_STATUS_GOOD);
	return scsi_task_flush(task, scsi_task_end);
}

static bool execute_sync_cache(struct scsi_task *task)
{
	if (scsi_task_pay(task))
		return false;
	return task->vol->read_only ? scsi_task_good(task) : secure(task);
}

const struct scsi_handler scsi_sync_cache = { .execute = execute_sync_cache };

/* ---- the medium ---- */

/* Everyone who sees the unit is told, once it is back. */
static bool load(struct scsi_task *task)
{
	if (unit_state_eject(&task->vol->state, false) > 0)
		scsi_attention_others(task->nexus->luns, task->vol,
				      /* except= */ NULL,
				      SCSI_UA_MEDIUM_MAY_DIFFER);
	return scsi_task_good(task);
}

static bool eject(struct scsi_task *task, int res)
{
	struct scsi_sense sense = scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
					     SCSI_ASC_REMOVAL_PREVENTED);

	if (res)
		return scsi_task_fail_blk(task, res);
	if (unit_state_eject(&task->vol->state, true) < 0)
		return scsi_task_fail(task, &sense);
	return scsi_task_good(task);
}

/* Stopping secures the cache. The unit stays ready: others use it too; only
 * that the medium is out keeps them off it; whether it may be taken out is known
 * only then, so with IMMED, too, that status comes at the end. */
static bool execute_start_stop(struct scsi_task *task)
{
	const struct scsi_cmd *cmd = &task->cmd;
	bool flushes = !cmd->start && !cmd->no_flush && !task->vol->read_only;

	if (cmd->start && cmd->loej)
		return load(task);
	if (flushes && scsi_task_pay(task))
		return false;
	if (flushes && cmd->loej)
		return scsi_task_flush(task, eject);
	if (flushes)
		return secure(task);
	return cmd->loej ? eject(task, 0) : scsi_task_good(task);
}

const struct scsi_handler scsi_start_stop = { .execute = execute_start_stop };

static bool execute_prevent(struct scsi_task *task)
{
	unit_state_prevent(&task->vol->state, &task->nexus->prevents[task->lun],
			   task->cmd.prevent);
	return scsi_task_good(task);
}

const struct scsi_handler scsi_prevent_removal = { .execute = execute_prevent };
