/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands that read the medium without sending data: VERIFY, WRITE AND VERIFY,
 * PRE-FETCH. They read it in pieces, into the buffer after the data-out. */
#include "target/scsi/disk.h"

static void prepare_verify(struct scsi_task *task)
{
	task->buf_len += block_room(scsi_task_len(task));
}

/* By BYTCHK: compares with all of the data-out, with one block of it, or with
 * nothing. */
static void verify_set_wanted(struct scsi_task *task)
{
	if (task->cmd.bytchk)
		task->blk.wanted = task->buf;
	if (task->cmd.bytchk == SCSI_BYTCHK_ONE_BLOCK)
		task->blk.unit_len = task->vol->block_size;
}

/* ---- VERIFY ---- */

static bool execute_verify(struct scsi_task *task)
{
	scsi_task_blk(task, BLOCK_CMD_COMPARE, scsi_task_good);
	verify_set_wanted(task);
	return true;
}

const struct scsi_handler scsi_verify = {
	.prepare = prepare_verify,
	.execute = execute_verify,
};

/* ---- WRITE AND VERIFY ---- */

/* Verifies the medium, not the cache. No other command can use the blocks
 * meanwhile, so it verifies exactly what it wrote. */
static bool execute_write_verify(struct scsi_task *task)
{
	scsi_task_blk(task, BLOCK_CMD_WRITE_COMPARE, scsi_task_good);
	task->blk.fua = true;
	verify_set_wanted(task);
	return true;
}

const struct scsi_handler scsi_write_verify = {
	.prepare = prepare_verify,
	.execute = execute_write_verify,
};

/* ---- PRE-FETCH ---- */

/* How much of a shared cache one command may fill. Bytes. */
#define PREFETCH_MAX (16u << 20)

static bool prefetch_reads(const struct scsi_task *task)
{
	return block_caching(&task->vol->dev) == BLOCK_CACHES_READS &&
	       scsi_task_len(task) <= PREFETCH_MAX;
}

static void prepare_prefetch(struct scsi_task *task)
{
	if (prefetch_reads(task))
		prepare_verify(task);
}

/*
 * CONDITION MET means that all blocks are cached, GOOD that they would not all
 * fit (SBC-3 5.8). If the rest would not fit, nothing is read. With IMMED, the
 * status is a forecast.
 */
static bool execute_prefetch(struct scsi_task *task)
{
	if (block_caching(&task->vol->dev) == BLOCK_CACHES_ALL)
		return scsi_task_met(task);
	if (!prefetch_reads(task))
		return scsi_task_good(task);
	if (task->cmd.immed)
		scsi_task_answer(task, SCSI_STATUS_CONDITION_MET);
	scsi_task_blk(task, BLOCK_CMD_COMPARE, scsi_task_met);
	/* It has its status, and does no harm. */
	task->blk.barred = NULL;
	return true;
}

const struct scsi_handler scsi_prefetch = {
	.prepare = prepare_prefetch,
	.execute = execute_prefetch,
};
