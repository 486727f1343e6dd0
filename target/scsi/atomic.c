/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * COMPARE AND WRITE, ORWRITE, WRITE ATOMIC: no other command finds their
 * blocks half done (SCSI_HOLD_EXCLUSIVE). What the medium has is read behind
 * the data-out in the buffer. None of them moves data in place: half of a
 * transfer that breaks off would be on the medium.
 */
#include "target/scsi/disk.h"

static void atomic_prepare(struct scsi_task *task)
{
	task->buf_len += block_room(scsi_task_len(task));
}

/* The data-out is what should be there, then what to write. */
static bool execute_compare_write(struct scsi_task *task)
{
	scsi_task_blk(task, BLOCK_CMD_COMPARE_WRITE, scsi_task_good);
	task->blk.wanted = task->buf;
	if (task->buf) /* none with 0 blocks */
		task->blk.buf = task->buf + task->blk.len;
	return true;
}

const struct scsi_handler scsi_compare_write = {
	.hold = SCSI_HOLD_EXCLUSIVE,
	.prepare = atomic_prepare,
	.execute = execute_compare_write,
};

/* All is read before a byte is written: an error leaves all as it was. */
static bool execute_orwrite(struct scsi_task *task)
{
	scsi_task_blk(task, BLOCK_CMD_OR, scsi_task_good);
	return true;
}

const struct scsi_handler scsi_orwrite = {
	.hold = SCSI_HOLD_EXCLUSIVE,
	.prepare = atomic_prepare,
	.execute = execute_orwrite,
};

static bool execute_write_atomic(struct scsi_task *task)
{
	scsi_task_blk(task, BLOCK_CMD_WRITE, scsi_task_good);
	return true;
}

const struct scsi_handler scsi_write_atomic = {
	.hold = SCSI_HOLD_EXCLUSIVE,
	.execute = execute_write_atomic,
};
