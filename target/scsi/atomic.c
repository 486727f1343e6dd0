/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * COMPARE AND WRITE, ORWRITE, WRITE ATOMIC: no other command sees their blocks
 * half written (BLOCK_ALONE). The contents of the medium are read into
 * the buffer after the data-out. None of them moves data in place: an
 * interrupted transfer would leave half of the data on the medium.
 */
#include "target/scsi/disk.h"

static void atomic_prepare(struct scsi_task *task)
{
	task->buf_len += block_room(scsi_task_len(task));
}

/* The data-out has the expected contents, then the new ones. */
static bool execute_compare_write(struct scsi_task *task)
{
	scsi_task_blk(task, BLOCK_CMD_COMPARE_WRITE, scsi_task_good);
	task->blk.wanted = task->buf;
	if (task->buf) /* none with 0 blocks */
		task->blk.buf = task->buf + task->blk.len;
	return true;
}

const struct scsi_handler scsi_compare_write = {
	.prepare = atomic_prepare,
	.execute = execute_compare_write,
};

/* Reads everything before it writes anything, so an error changes nothing. */
static bool execute_orwrite(struct scsi_task *task)
{
	scsi_task_blk(task, BLOCK_CMD_OR, scsi_task_good);
	return true;
}

const struct scsi_handler scsi_orwrite = {
	.prepare = atomic_prepare,
	.execute = execute_orwrite,
};

static bool execute_write_atomic(struct scsi_task *task)
{
	scsi_task_blk(task, BLOCK_CMD_WRITE_ALONE, scsi_task_good);
	return true;
}

const struct scsi_handler scsi_write_atomic = {
	.execute = execute_write_atomic,
};
