/* SPDX-License-Identifier: BSD-2-Clause */
/* MODE SENSE, MODE SELECT, LOG SENSE. */

#include "protocol/scsi_log.h"
#include "protocol/scsi_mode.h"
#include "target/scsi/disk.h"

/* ---- MODE SENSE ---- */

static int mode_sense(struct scsi_task *task, void *buf, size_t cap,
		      size_t *ret_len, struct scsi_sense *ret_sense)
{
	struct unit_state *st = &task->vol->state;
	struct scsi_disk_info info;
	int err;

	pthread_mutex_lock(&st->lock);
	err = scsi_mode_sense_encode(scsi_task_info(task, &info), &task->cmd,
				     buf, cap, ret_len, ret_sense);
	pthread_mutex_unlock(&st->lock);
	return err;
}

const struct scsi_handler scsi_mode_sense = { .answer = mode_sense };

/* ---- MODE SELECT ---- */

static struct scsi_task *mode_log_task_of(struct unit_turn *turn)
{
	return container_of(turn, struct scsi_task, turn);
}

/* Raised before a command of these initiators uses the new values. An initiator
 * that takes the cache to be off therefore gets no write answered from the
 * cache. */
static void select_changes(struct unit_turn *turn)
{
	const struct scsi_task *task = mode_log_task_of(turn);

	scsi_attention_others(task->nexus->luns, task->vol, task->nexus,
			      SCSI_UA_MODE_CHANGED);
}

static void select_changed(struct unit_turn *turn, int err)
{
	struct scsi_task *task = mode_log_task_of(turn);
	int flush_err = task->vol->state.flush_err;

	task->blk = task->vol->state.flush;
	unit_turn_end(task->vol);
	if (flush_err == -ECANCELED) {
		scsi_task_end_stopped(task);
	} else if (flush_err) {
		scsi_task_fail_blk(task);
	} else if (err) {
		scsi_task_fail_state(task);
	} else {
		scsi_task_good(task);
	}
}

/* True: the task has ended, and changes nothing. */
static bool select_ends_early(struct scsi_task *task, struct scsi_modes *ret)
{
	struct volume *vol = task->vol;
	struct scsi_sense sense;

	if (scsi_mode_select_decode(&vol->info, &task->cmd, task->buf,
				    task->fetch_len, ret, &sense)) {
		scsi_task_fail(task, &sense);
		return true;
	}
	/* A job has begun since prepare. */
	if (unit_state_modes_protect(vol, ret) && scsi_volume_is_busy(vol)) {
		scsi_task_fail_busy(task);
		return true;
	}
	return unit_state_modes_flush(vol, ret) && scsi_task_pay(task);
}

static void select_turn(struct unit_turn *turn, int err)
{
	struct scsi_task *task = mode_log_task_of(turn);
	struct volume *vol = task->vol;
	struct scsi_modes modes;

	if (scsi_task_turned_too_late(task))
		return;
	if (select_ends_early(task, &modes))
		unit_turn_end(vol);
	else
		unit_state_set_modes(vol, &modes, task->cmd.save,
				     select_changes, select_changed);
}

static bool execute_mode_select(struct scsi_task *task)
{
	return scsi_task_take_turn(task, select_turn);
}

const struct scsi_handler scsi_mode_select = { .execute = execute_mode_select };

/* ---- LOG SENSE ---- */

static int log_sense(struct scsi_task *task, void *buf, size_t cap,
		     size_t *ret_len, struct scsi_sense *ret_sense)
{
	return scsi_log_sense_encode(&task->vol->info,
				     block_used(&task->vol->dev), &task->cmd,
				     buf, cap, ret_len, ret_sense);
}

static bool log_sense_has_usage(struct scsi_task *task)
{
	scsi_task_found_out(task);
	return false;
}

static bool log_sense_find_out(struct scsi_task *task)
{
	scsi_task_blk(task, BLOCK_CMD_USAGE, log_sense_has_usage);
	scsi_task_run(task, /* more= */ true);
	return true;
}

const struct scsi_handler scsi_log_sense = {
	.find_out = log_sense_find_out,
	.answer = log_sense,
};
