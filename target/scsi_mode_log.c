/* SPDX-License-Identifier: BSD-2-Clause */
/* MODE SENSE, MODE SELECT, LOG SENSE. */
#include <errno.h>

#include "protocol/scsi_log.h"
#include "protocol/scsi_mode.h"
#include "target/scsi_disk.h"

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

static bool select_done(struct scsi_task *task, int res)
{
	if (res)
		return scsi_task_fail_blk(task, res);
	return scsi_task_good(task);
}

static struct scsi_task *task_of(struct unit_turn *turn)
{
	return container_of(turn, struct scsi_task, turn);
}

/* With the write cache going off, what is in it is made stable first (SBC-3,
 * caching mode page). */
static void select_written(struct unit_turn *turn, int err)
{
	struct scsi_task *task = task_of(turn);
	struct scsi_modes was = task->vol->state.modes_were;
	struct scsi_modes is = task->vol->state.to_be.modes;

	unit_turn_end(task->vol);
	if (err) {
		scsi_task_fail_state(task);
		return;
	}
	if (!scsi_modes_equal(&was, &is))
		scsi_attention_others(task->nexus->luns, task->vol, task->nexus,
				      SCSI_UA_MODE_CHANGED);
	if (was.wce && !is.wce && scsi_task_pay(task))
		return;
	if (was.wce && !is.wce) {
		/* It is off already: even one that is to end must do this. */
		task->stopped = false;
		scsi_task_run(task, scsi_task_flush(task, select_done));
	} else {
		scsi_task_good(task);
	}
}

static void select_turn(struct unit_turn *turn, int err)
{
	struct scsi_task *task = task_of(turn);
	struct scsi_sense sense;
	struct scsi_modes modes;

	err = scsi_mode_select_decode(&task->vol->info, &task->cmd, task->buf,
				      task->fetch_len, &modes, &sense);
	if (!err) {
		unit_state_set_modes(task->vol, &modes, task->cmd.save,
				     select_written);
		return;
	}
	unit_turn_end(task->vol);
	scsi_task_fail(task, &sense);
}

static bool execute_mode_select(struct scsi_task *task)
{
	unit_turn_take(task->vol, task->worker, &task->turn, select_turn);
	return false;
}

const struct scsi_handler scsi_mode_select = { .execute = execute_mode_select };

/* ---- LOG SENSE ---- */

/* In use by the store, bytes; what it does not know counts as all. */
static uint64_t used(const struct volume *vol)
{
	struct backend *be = vol->backend;

	return be->ops->used ? be->ops->used(be)
			     : vol->blocks * vol->block_size;
}

static int log_sense(struct scsi_task *task, void *buf, size_t cap,
		     size_t *ret_len, struct scsi_sense *ret_sense)
{
	return scsi_log_sense_encode(&task->vol->info, used(task->vol),
				     &task->cmd, buf, cap, ret_len, ret_sense);
}

const struct scsi_handler scsi_log_sense = { .answer = log_sense };
