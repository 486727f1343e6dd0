/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/nexus_buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "protocol/scsi_cdb.h"
#include "protocol/wire.h"
#include "target/scsi/disk.h"

/* ---- the buffer ---- */

void nexus_buffer_init(struct nexus_buffer *b)
{
	pthread_mutex_init(&b->lock, NULL);
	b->bytes = NULL;
	b->echo_len = 0;
}

void nexus_buffer_fini(struct nexus_buffer *b)
{
	secret_unmap(b->bytes, SCSI_BUFFER_LEN);
	pthread_mutex_destroy(&b->lock);
}

/* The lock is held. */
static int buffer_store(struct nexus_buffer *b, uint32_t offset, const void *p,
			uint32_t len)
{
	if (len == 0)
		return 0;
	if (!b->bytes)
		b->bytes = secret_map(SCSI_BUFFER_LEN);
	if (!b->bytes)
		return -ENOMEM;
	memcpy(b->bytes + offset, p, len);
	return 0;
}

int nexus_buffer_write(struct nexus_buffer *b, uint32_t offset, const void *p,
		       uint32_t len)
{
	int err;

	pthread_mutex_lock(&b->lock);
	b->echo_len = 0;
	err = buffer_store(b, offset, p, len);
	pthread_mutex_unlock(&b->lock);
	return err;
}

void nexus_buffer_read(struct nexus_buffer *b, uint32_t offset, void *p,
		       uint32_t len)
{
	if (len == 0)
		return;
	pthread_mutex_lock(&b->lock);
	if (b->bytes)
		memcpy(p, b->bytes + offset, len);
	else
		memset(p, 0, len);
	pthread_mutex_unlock(&b->lock);
}

int nexus_buffer_write_echo(struct nexus_buffer *b, int lun, const void *p,
			    uint32_t len)
{
	int err;

	pthread_mutex_lock(&b->lock);
	err = buffer_store(b, 0, p, len);
	b->echo_lun = lun;
	b->echo_len = err ? 0 : len;
	pthread_mutex_unlock(&b->lock);
	return err;
}

int nexus_buffer_read_echo(struct nexus_buffer *b, int lun, void *p,
			   uint32_t cap)
{
	int len = -ENODATA;

	pthread_mutex_lock(&b->lock);
	if (b->echo_len && b->echo_lun == lun) {
		len = (int)b->echo_len;
		if (cap)
			memcpy(p, b->bytes, scsi_min(cap, b->echo_len));
	}
	pthread_mutex_unlock(&b->lock);
	return len;
}

/* ---- WRITE BUFFER ---- */

static bool execute_write_buffer(struct scsi_task *task)
{
	struct nexus_buffer *b = &task->nexus->buffer;
	const struct scsi_cmd *cmd = &task->cmd;
	struct scsi_sense sense;
	int err;

	if (cmd->buffer_mode == SCSI_BUFFER_ECHO)
		err = nexus_buffer_write_echo(b, task->lun, task->buf,
					      task->fetch_len);
	else
		err = nexus_buffer_write(b, cmd->buffer_offset, task->buf,
					 task->fetch_len);
	if (!err)
		return scsi_task_good(task);
	sense = scsi_sense_from_errno(err, SCSI_MEDIUM_WRITE);
	return scsi_task_fail(task, &sense);
}

const struct scsi_handler scsi_write_buffer = { .execute =
							execute_write_buffer };

/* ---- READ BUFFER ---- */

/* The most that the command can answer. */
static uint32_t buffer_answer_len(const struct scsi_cmd *cmd)
{
	switch (cmd->buffer_mode) {
	case SCSI_BUFFER_DATA:
		return SCSI_BUFFER_LEN - cmd->buffer_offset;
	case SCSI_BUFFER_ECHO:
		return SCSI_ECHO_LEN;
	default:
		return SCSI_BUFFER_DESCRIPTOR_LEN;
	}
}

static void prepare_read_buffer(struct scsi_task *task)
{
	task->buf_len = (uint32_t)scsi_min(
		scsi_min(task->cmd.alloc_len, task->data_in_len),
		buffer_answer_len(&task->cmd));
}

/* SPC-4, READ BUFFER: any offset; the capacity, zero of a buffer that there is
 * not. EBOS, and the capacity of the echo buffer. */
static void put_descriptor(const struct scsi_cmd *cmd,
			   uint8_t d[SCSI_BUFFER_DESCRIPTOR_LEN])
{
	memset(d, 0, SCSI_BUFFER_DESCRIPTOR_LEN);
	if (cmd->buffer_mode == SCSI_BUFFER_ECHO_DESCRIPTOR) {
		d[0] = 1;
		wire_put16(d + 2, SCSI_ECHO_LEN);
	} else if (cmd->buffer_id == 0) {
		wire_put24(d + 1, SCSI_BUFFER_LEN);
	}
}

static bool buffer_answer(struct scsi_task *task, uint32_t len)
{
	task->wanted_in = scsi_min(len, task->cmd.alloc_len);
	task->data_in_cnt = (uint32_t)scsi_min(len, task->buf_len);
	return scsi_task_good(task);
}

static bool answer_echo(struct scsi_task *task)
{
	int len = nexus_buffer_read_echo(&task->nexus->buffer, task->lun,
					 task->buf, task->buf_len);
	struct scsi_sense sense = scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
					     SCSI_ASC_COMMAND_SEQUENCE_ERROR);

	return len < 0 ? scsi_task_fail(task, &sense)
		       : buffer_answer(task, (uint32_t)len);
}

static bool execute_read_buffer(struct scsi_task *task)
{
	const struct scsi_cmd *cmd = &task->cmd;
	uint8_t d[SCSI_BUFFER_DESCRIPTOR_LEN];

	if (cmd->buffer_mode == SCSI_BUFFER_ECHO)
		return answer_echo(task);
	if (cmd->buffer_mode == SCSI_BUFFER_DATA) {
		nexus_buffer_read(&task->nexus->buffer, cmd->buffer_offset,
				  task->buf, task->buf_len);
	} else {
		put_descriptor(cmd, d);
		if (task->buf_len)
			memcpy(task->buf, d, task->buf_len);
	}
	return buffer_answer(task, buffer_answer_len(cmd));
}

const struct scsi_handler scsi_read_buffer = {
	.prepare = prepare_read_buffer,
	.execute = execute_read_buffer,
};
