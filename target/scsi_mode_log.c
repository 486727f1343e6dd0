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
	int err;

	pthread_mutex_lock(&st->lock);
	err = scsi_mode_sense_encode(&task->vol->info, &task->cmd, buf, cap,
				     ret_len, ret_sense);
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

/* Decodes against what is current and makes it so, in one go. */
static int change_modes(struct scsi_task *task, struct scsi_modes *ret_was,
			struct scsi_modes *ret_is, struct scsi_sense *ret_sense)
{
	struct volume *vol = task->vol;
	int err;

	pthread_mutex_lock(&vol->state.lock);
	*ret_was = scsi_modes_current(&vol->info);
	err = scsi_mode_select_decode(&vol->info, &task->cmd, task->buf,
				      task->fetch_len, ret_is, ret_sense);
	if (!err) {
		err = unit_state_set_modes(vol, ret_is, task->cmd.save);
		if (err)
			*ret_sense =
				scsi_sense(SCSI_KEY_HARDWARE_ERROR,
					   SCSI_ASC_INTERNAL_TARGET_FAILURE);
	}
	pthread_mutex_unlock(&vol->state.lock);
	return err;
}

/* With the write cache going off, what is in it is made stable first (SBC-3,
 * caching mode page). */
static bool execute_mode_select(struct scsi_task *task)
{
	struct scsi_modes was, is;
	struct scsi_sense sense;

	if (change_modes(task, &was, &is, &sense))
		return scsi_task_fail(task, &sense);
	if (!scsi_modes_equal(&was, &is))
		scsi_attention_others(task->nexus->luns, task->vol, task->nexus,
				      SCSI_UA_MODE_CHANGED);
	if (!was.wce || is.wce)
		return scsi_task_good(task);
	scsi_task_blk(task, BLOCK_FLUSH, 0, 0, select_done);
	return true;
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
