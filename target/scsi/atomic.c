/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * COMPARE AND WRITE, ORWRITE, WRITE ATOMIC: no other command finds their
 * blocks half done (SCSI_HOLD_EXCLUSIVE). What the medium has is read behind
 * the data-out in the buffer. None of them moves data in place: half of a
 * transfer that breaks off would be on the medium.
 */
#include <string.h>

#include "target/scsi/disk.h"

/* ---- COMPARE AND WRITE ---- */

/*
 *   buf: what should be there | what to write | what is there
 * each of range_len bytes; the last one only where it must be read.
 */
static void prepare_compare_write(struct scsi_task *task)
{
	task->range_len = scsi_task_len(task);
	task->buf_len += (uint32_t)task->range_len;
}

static uint64_t first_difference(const uint8_t *a, const uint8_t *b)
{
	uint64_t i = 0;

	while (a[i] == b[i])
		i++;
	return i;
}

static bool have_medium(struct scsi_task *task, int res)
{
	uint64_t len = task->range_len;
	uint8_t *medium = task->buf + 2 * len;

	if (res)
		return scsi_task_fail_blk(task, res);
	if (memcmp(task->buf, medium, len))
		return scsi_task_miscompare(
			task, first_difference(task->buf, medium));
	return scsi_task_write(task, task->buf + len, len);
}

static bool execute_compare_write(struct scsi_task *task)
{
	if (!task->range_len)
		return scsi_task_good(task);
	scsi_task_blk(task, BLOCK_READ, 0, task->range_len, have_medium);
	task->blk.buf = task->buf + 2 * task->range_len;
	return true;
}

const struct scsi_handler scsi_compare_write = {
	.hold = SCSI_HOLD_EXCLUSIVE,
	.prepare = prepare_compare_write,
	.execute = execute_compare_write,
};

/* ---- ORWRITE ---- */

static void prepare_orwrite(struct scsi_task *task)
{
	task->buf_len += (uint32_t)scsi_min(task->fetch_len, SCSI_PIECE);
}

static void or_into(uint8_t *to, const uint8_t *from, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		to[i] |= from[i];
}

static bool read_next(struct scsi_task *task);

static bool atomic_have_read(struct scsi_task *task, int res)
{
	if (res)
		return scsi_task_fail_blk(task, res);
	or_into(task->buf + task->at, task->blk.buf, task->blk.len);
	task->at += task->blk.len;
	return read_next(task);
}

/* All is read before a byte is written: an error leaves all as it was. */
static bool read_next(struct scsi_task *task)
{
	uint64_t left = task->fetch_len - task->at;

	if (!left)
		return scsi_task_write(task, task->buf, task->fetch_len);
	scsi_task_blk(task, BLOCK_READ, task->at, scsi_min(left, SCSI_PIECE),
		      atomic_have_read);
	task->blk.buf = task->buf + task->fetch_len;
	return true;
}

static bool execute_orwrite(struct scsi_task *task)
{
	if (!task->fetch_len)
		return scsi_task_good(task);
	task->at = 0;
	return read_next(task);
}

const struct scsi_handler scsi_orwrite = {
	.hold = SCSI_HOLD_EXCLUSIVE,
	.prepare = prepare_orwrite,
	.execute = execute_orwrite,
};

/* ---- WRITE ATOMIC ---- */

static bool execute_write_atomic(struct scsi_task *task)
{
	if (!task->fetch_len)
		return scsi_task_good(task);
	return scsi_task_write(task, task->buf, task->fetch_len);
}

const struct scsi_handler scsi_write_atomic = {
	.hold = SCSI_HOLD_EXCLUSIVE,
	.execute = execute_write_atomic,
};
