/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands that transfer blocks or make them stable. */
#include <errno.h>

#include "target/scsi/disk.h"
#include "target/scsi/unit_medium.h"

static uint64_t round_up(uint64_t n, uint32_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* If the store is memory, RDMA moves the blocks of the command in place. */
static void use_memory(struct scsi_task *task)
{
	uint8_t *at = block_in_place(&task->vol->dev,
				     task->cmd.lba * task->vol->block_size);

	task->buf_is_volume = at && task->buf_len;
	if (task->buf_is_volume)
		task->buf = at;
}

/* ---- READ ---- */

/* Whole blocks are read, even if the last one does not fit into the buffer. */
static void prepare_read(struct scsi_task *task)
{
	uint64_t len = scsi_task_len(task);

	task->wanted_in = len;
	if (len > task->data_in_len)
		len = round_up(task->data_in_len, task->vol->block_size);
	task->buf_len = (uint32_t)len;
	use_memory(task);
}

static bool rw_have_read(struct scsi_task *task)
{
	task->data_in_cnt =
		(uint32_t)scsi_min(task->wanted_in, task->data_in_len);
	return scsi_task_good(task);
}

/* The fabric takes the data from the memory of the store. */
static bool execute_read(struct scsi_task *task)
{
	if (task->buf_is_volume)
		return rw_have_read(task);
	scsi_task_blk(task, BLOCK_CMD_READ, rw_have_read);
	task->blk.len = task->buf_len;
	return true;
}

const struct scsi_handler scsi_read = {
	.prepare = prepare_read,
	.execute = execute_read,
};

/* ---- WRITE ---- */

static void prepare_write(struct scsi_task *task)
{
	use_memory(task);
}

/* The fabric has put the data into the memory of the store: it is not copied
 * again. */
static bool execute_write(struct scsi_task *task)
{
	scsi_task_blk(task, BLOCK_CMD_WRITE, scsi_task_good);
	return true;
}

const struct scsi_handler scsi_write = {
	.prepare = prepare_write,
	.execute = execute_write,
};

/* ---- SYNCHRONIZE CACHE, START STOP UNIT ---- */

/* Flushes the whole cache, for any range. */
static bool secure(struct scsi_task *task)
{
	if (task->cmd.immed)
		scsi_task_answer(task, SCSI_STATUS_GOOD);
	scsi_task_blk(task, BLOCK_CMD_FLUSH, scsi_task_good);
	return true;
}

static bool execute_sync_cache(struct scsi_task *task)
{
	if (scsi_task_pay(task))
		return false;
	return task->vol->read_only ? scsi_task_good(task) : secure(task);
}

const struct scsi_handler scsi_sync_cache = { .execute = execute_sync_cache };

/* ---- the medium ---- */

/* True if the command flushes the cache. */
static bool start_stop_flushes(const struct scsi_task *task)
{
	return !task->cmd.start && !task->cmd.no_flush && !task->vol->read_only;
}

static void start_stop_ejected(struct unit_turn *turn, int err)
{
	struct scsi_task *task = container_of(turn, struct scsi_task, turn);
	struct scsi_sense sense = scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
					     SCSI_ASC_REMOVAL_PREVENTED);

	task->blk = task->vol->state.flush;
	unit_turn_end(task->vol);
	if (!err)
		scsi_task_good(task);
	else if (err == -ECANCELED)
		scsi_task_end_stopped(task);
	else if (err == -EIO)
		scsi_task_fail_blk(task);
	else if (err == -EBUSY)
		scsi_task_fail_busy(task);
	else
		scsi_task_fail(task, &sense);
}

static void start_stop_turn(struct unit_turn *turn, int err)
{
	struct scsi_task *task = container_of(turn, struct scsi_task, turn);
	struct lun_map *luns = task->nexus->luns;
	bool flushes = start_stop_flushes(task);
	struct volume *vol = task->vol;

	if (scsi_task_turned_too_late(task))
		return;
	if (task->cmd.start) {
		unit_medium_load(vol, luns);
		unit_turn_end(vol);
		scsi_task_good(task);
	} else if (flushes && scsi_task_pay(task)) {
		/* The task has ended; this gives the turn back. */
		unit_turn_end(vol);
	} else {
		unit_medium_eject(vol, luns, flushes, start_stop_ejected);
	}
}

/* Stopping flushes the cache. The unit stays ready, because others use it, too;
 * only an ejected medium stops them. Whether the medium may be ejected is known
 * only after the flush. For this reason the status of an eject comes at the
 * end, also with IMMED. */
static bool execute_start_stop(struct scsi_task *task)
{
	if (task->cmd.loej) {
		return scsi_task_take_turn(task, start_stop_turn);
	}
	if (!start_stop_flushes(task))
		return scsi_task_good(task);
	return !scsi_task_pay(task) && secure(task);
}

const struct scsi_handler scsi_start_stop = { .execute = execute_start_stop };

static bool execute_prevent(struct scsi_task *task)
{
	unit_state_prevent(&task->vol->state, &task->nexus->prevents[task->lun],
			   task->cmd.prevent);
	return scsi_task_good(task);
}

const struct scsi_handler scsi_prevent_removal = { .execute = execute_prevent };
