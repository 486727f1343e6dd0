/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FORMAT UNIT and SANITIZE: jobs on the whole volume (volume_job.h). With
 * IMMED, the status is sent when the job has begun, otherwise when it has
 * ended. Meanwhile other commands get NOT READY with the progress. If the
 * command is aborted, the job continues, or does not begin if it still waits
 * for its turn.
 */
#include <errno.h>
#include <string.h>

#include "protocol/wire.h"
#include "target/scsi/disk.h"

/* ---- the state of the volume ---- */

static const struct {
	enum scsi_key key;
	enum scsi_asc code;
	bool progress;
} state_senses[] = {
	[VOLUME_FORMATTING] = { SCSI_KEY_NOT_READY, SCSI_ASC_FORMAT_IN_PROGRESS,
				true },
	[VOLUME_SANITIZING] = { SCSI_KEY_NOT_READY,
				SCSI_ASC_SANITIZE_IN_PROGRESS, true },
	[VOLUME_FORMAT_FAILED] = { SCSI_KEY_MEDIUM_ERROR,
				   SCSI_ASC_FORMAT_CORRUPTED, false },
	[VOLUME_SANITIZE_FAILED] = { SCSI_KEY_MEDIUM_ERROR,
				     SCSI_ASC_SANITIZE_FAILED, false },
	[VOLUME_UNSAVED] = { SCSI_KEY_NOT_READY, SCSI_ASC_BECOMING_READY,
			     false },
	[VOLUME_SAVING] = { SCSI_KEY_NOT_READY, SCSI_ASC_BECOMING_READY,
			    false },
};

bool scsi_volume_is_busy(const struct volume *vol)
{
	enum volume_state state = volume_state(vol);

	return state != VOLUME_READY && state != VOLUME_FORMAT_FAILED &&
	       state != VOLUME_SANITIZE_FAILED;
}

bool scsi_volume_tell(const struct volume *vol, struct scsi_sense *ret_sense)
{
	enum volume_state state = volume_state(vol);

	if (state == VOLUME_READY)
		return false;
	*ret_sense =
		scsi_sense(state_senses[state].key, state_senses[state].code);
	ret_sense->progress_valid = state_senses[state].progress;
	if (ret_sense->progress_valid)
		ret_sense->progress = (uint16_t)atomic_load(&vol->job.progress);
	return true;
}

/* ---- the job ---- */

static void job_done(void *user, int err)
{
	struct scsi_task *task = user;
	bool is_format = task->cmd.op == SCSI_OP_FORMAT_UNIT;
	struct scsi_sense sense = scsi_sense(
		SCSI_KEY_MEDIUM_ERROR,
		is_format ? SCSI_ASC_FORMAT_FAILED : SCSI_ASC_SANITIZE_FAILED);

	task->on_job = false;
	if (err == -ENOMEDIUM)
		sense = scsi_sense_from_errno(err, SCSI_MEDIUM_WRITE);
	if (err == -EACCES)
		sense = scsi_sense(SCSI_KEY_DATA_PROTECT,
				   SCSI_ASC_SOFTWARE_WRITE_PROTECTED);
	if (err == -ESTALE)
		scsi_task_fail_state(task);
	else if (err)
		scsi_task_fail(task, &sense);
	else
		scsi_task_run(task, scsi_task_good(task));
}

/* Another command was faster, or an earlier job has failed. */
bool scsi_task_fail_busy(struct scsi_task *task)
{
	struct scsi_sense sense =
		scsi_sense(SCSI_KEY_NOT_READY, SCSI_ASC_OPERATION_IN_PROGRESS);

	scsi_volume_not_ready(task->vol, &sense);
	return scsi_task_fail(task, &sense);
}

static bool format_refused(struct scsi_task *task, int err)
{
	struct scsi_sense sense = scsi_sense_from_errno(err, SCSI_MEDIUM_WRITE);

	if (err == -EBUSY)
		return scsi_task_fail_busy(task);
	if (err == -ESHUTDOWN)
		sense = scsi_sense(SCSI_KEY_NOT_READY,
				   SCSI_ASC_NOT_READY_CAUSE_NOT_REPORTABLE);
	return scsi_task_fail(task, &sense);
}

/* Once the job has the task, this function must not touch @task. */
static bool format_begin(struct scsi_task *task, enum volume_state from,
			 const struct volume_job_plan *plan, bool immed)
{
	int err;

	task->on_job = true;
	err = volume_job_start(task->vol, task->worker, from, plan, immed,
			       job_done, task);
	if (!err)
		return false;
	task->on_job = false;
	return format_refused(task, err);
}

/* ---- SANITIZE ---- */

/* The states in which a sanitize operation may begin: all, except that one that
 * failed in the restricted mode cannot be repeated in the unrestricted mode
 * (4.11). */
static bool may_sanitize(struct scsi_task *task, enum volume_state *ret_from)
{
	const struct volume_job *job = &task->vol->job;
	struct scsi_sense sense = scsi_sense_cdb_field(1, 5);

	*ret_from = volume_state(task->vol);
	if (*ret_from == VOLUME_SANITIZE_FAILED &&
	    !atomic_load(&job->lenient) && task->cmd.ause)
		return scsi_task_fail(task, &sense);
	if (!scsi_volume_is_busy(task->vol))
		return true;
	return format_refused(task, -EBUSY);
}

static bool sanitize(struct scsi_task *task, struct volume_job_plan *plan)
{
	enum volume_state from;

	if (!may_sanitize(task, &from))
		return false;
	plan->state = VOLUME_SANITIZING;
	plan->lenient = task->cmd.ause;
	return format_begin(task, from, plan, task->cmd.immed);
}

/* SBC-3, SANITIZE, OVERWRITE parameter list. */
#define OVERWRITE_HEADER_LEN 4
#define OVERWRITE_INVERT     0x80
#define OVERWRITE_TEST	     0x60
#define OVERWRITE_COUNT	     0x1f

static bool check_overwrite(const struct scsi_task *task,
			    struct scsi_sense *ret_sense)
{
	const uint8_t *b = task->buf;
	uint16_t pattern_len = wire_get16(b + 2);

	if (b[0] & OVERWRITE_TEST)
		*ret_sense = scsi_sense_data_field(0, 6);
	else if (!(b[0] & OVERWRITE_COUNT))
		*ret_sense = scsi_sense_data_field(0, 4);
	else if (b[1])
		*ret_sense = scsi_sense_data_field(1, 7);
	else if (!pattern_len || pattern_len > task->vol->block_size)
		*ret_sense = scsi_sense_data_field(2, 7);
	else if (pattern_len > task->fetch_len - OVERWRITE_HEADER_LEN)
		*ret_sense = scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
					SCSI_ASC_PARAMETER_LIST_LENGTH_ERROR);
	else
		return true;
	return false;
}

static bool execute_overwrite(struct scsi_task *task)
{
	const uint8_t *b = task->buf;
	struct volume_job_plan plan = { 0 };
	struct scsi_sense sense = scsi_sense_cdb_field(7, 7);

	/* A pattern has at least one byte and at most one block. */
	if (task->fetch_len < OVERWRITE_HEADER_LEN + 1 ||
	    task->fetch_len > OVERWRITE_HEADER_LEN + task->vol->block_size)
		return scsi_task_fail(task, &sense);
	if (!check_overwrite(task, &sense))
		return scsi_task_fail(task, &sense);
	plan.overwrite_cnt = b[0] & OVERWRITE_COUNT;
	plan.invert = b[0] & OVERWRITE_INVERT;
	plan.pattern = b + OVERWRITE_HEADER_LEN;
	plan.pattern_len = wire_get16(b + 2);
	return sanitize(task, &plan);
}

const struct scsi_handler scsi_sanitize_overwrite = {
	.execute = execute_overwrite,
};

/* Blocks that a file system frees keep their old contents on the disks below,
 * so they are overwritten first. */
static bool execute_erase(struct scsi_task *task)
{
	struct volume_job_plan plan = {
		.scrub = block_leaves_traces(&task->vol->dev),
		.erase = true,
	};

	return sanitize(task, &plan);
}

const struct scsi_handler scsi_sanitize_erase = { .execute = execute_erase };

static void exit_written(struct unit_turn *turn, int err)
{
	struct scsi_task *task = container_of(turn, struct scsi_task, turn);

	unit_turn_end(task->vol);
	if (err)
		scsi_task_fail_state(task);
	else
		scsi_task_good(task);
}

/* Another SANITIZE may have begun meanwhile. */
static void exit_turn(struct unit_turn *turn, int err)
{
	static const struct state_job none = { .state = VOLUME_READY };
	struct scsi_task *task = container_of(turn, struct scsi_task, turn);

	if (scsi_task_turned_too_late(task))
		return;
	if (volume_state(task->vol) == VOLUME_SANITIZE_FAILED)
		unit_state_set_job(task->vol, &none, exit_written);
	else
		exit_written(turn, 0);
}

static bool execute_exit(struct scsi_task *task)
{
	struct volume *vol = task->vol;
	struct scsi_sense sense = scsi_sense_cdb_field(1, 4);

	if (volume_state(vol) == VOLUME_SANITIZE_FAILED &&
	    !atomic_load(&vol->job.lenient))
		return scsi_task_fail(task, &sense);
	if (volume_state(vol) != VOLUME_SANITIZE_FAILED)
		return scsi_task_good(task);
	return scsi_task_take_turn(task, exit_turn);
}

const struct scsi_handler scsi_sanitize_exit = { .execute = execute_exit };

/* ---- FORMAT UNIT ---- */

/* SBC-3 5.3.2, 5.3.3: header, and initialization pattern descriptor. */
#define SHORT_HEADER_LEN 4
#define LONG_HEADER_LEN	 8
#define PATTERN_DESC_LEN 4
#define FORMAT_LIST_MAX	 (LONG_HEADER_LEN + PATTERN_DESC_LEN + UINT16_MAX)

#define FORMAT_FOV     0x80
#define FORMAT_OPTIONS 0x78 /* DPRY, DCRT, STPF, IP: only with FOV */
#define FORMAT_IP      0x08
#define FORMAT_IMMED   0x02
#define PATTERN_SI     0x20
#define PATTERN_REPEAT 0x01

/* The CDB has no list length: the whole data-out is taken. */
static void prepare_format(struct scsi_task *task)
{
	if (!task->cmd.fmtdata)
		return;
	task->fetch_len =
		(uint32_t)scsi_min(task->data_out_len, FORMAT_LIST_MAX);
	task->buf_len = task->fetch_len;
	task->wanted_out = task->fetch_len;
}

static size_t header_len(const struct scsi_task *task)
{
	return task->cmd.longlist ? LONG_HEADER_LEN : SHORT_HEADER_LEN;
}

static struct scsi_sense list_too_short(void)
{
	return scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
			  SCSI_ASC_PARAMETER_LIST_LENGTH_ERROR);
}

/* Checks that there is no protection information and no defect list. */
static bool check_header(const struct scsi_task *task,
			 struct scsi_sense *ret_sense)
{
	const uint8_t *b = task->buf;
	bool is_long = task->cmd.longlist;
	uint8_t refused_bits = b[1] & 0x05;
	uint8_t list_at = is_long ? 4 : 2;

	if (!(b[1] & FORMAT_FOV))
		refused_bits |= b[1] & FORMAT_OPTIONS;
	if (b[0])
		*ret_sense = scsi_sense_data_field(0, scsi_sense_top_bit(b[0]));
	else if (refused_bits)
		*ret_sense = scsi_sense_data_field(
			1, scsi_sense_top_bit(refused_bits));
	else if (is_long && wire_get16(b + 2))
		*ret_sense = scsi_sense_data_field(3, 7);
	else if (is_long ? wire_get32(b + 4) : wire_get16(b + 2))
		*ret_sense = scsi_sense_data_field(list_at, 7);
	else
		return true;
	return false;
}

/* Reads the initialization pattern, if there is one. */
static bool read_pattern(const struct scsi_task *task,
			 struct volume_job_plan *plan,
			 struct scsi_sense *ret_sense)
{
	uint16_t at = (uint16_t)header_len(task);
	const uint8_t *d = task->buf + at;
	size_t left = task->fetch_len - at;
	uint16_t len;

	if (left < PATTERN_DESC_LEN) {
		*ret_sense = list_too_short();
		return false;
	}
	len = wire_get16(d + 2);
	plan->scrub = d[0] & PATTERN_SI;
	if (d[0] & ~PATTERN_SI)
		*ret_sense = scsi_sense_data_field(at, 7);
	else if (d[1] > PATTERN_REPEAT)
		*ret_sense = scsi_sense_data_field(at + 1, 7);
	else if (d[1] ? !len || len > task->vol->block_size : len)
		*ret_sense = scsi_sense_data_field(at + 2, 7);
	else if (len > left - PATTERN_DESC_LEN)
		*ret_sense = list_too_short();
	else {
		plan->overwrite_cnt = d[1] == PATTERN_REPEAT;
		plan->erase = !plan->overwrite_cnt;
		plan->pattern = d + PATTERN_DESC_LEN;
		plan->pattern_len = len;
		return true;
	}
	return false;
}

static bool format_read_list(const struct scsi_task *task,
			     struct volume_job_plan *plan,
			     struct scsi_sense *ret_sense)
{
	if (task->fetch_len < header_len(task)) {
		*ret_sense = list_too_short();
		return false;
	}
	if (!check_header(task, ret_sense))
		return false;
	return !(task->buf[1] & FORMAT_IP) ||
	       read_pattern(task, plan, ret_sense);
}

/* Without a pattern, all blocks then read as zeroes, and are deallocated if the
 * volume is thin. */
static bool execute_format(struct scsi_task *task)
{
	struct volume_job_plan plan = { .state = VOLUME_FORMATTING,
					.erase = true };
	enum volume_state from = volume_state(task->vol);
	struct scsi_sense sense;

	if (task->cmd.fmtdata && !format_read_list(task, &plan, &sense))
		return scsi_task_fail(task, &sense);
	if (from != VOLUME_READY && from != VOLUME_FORMAT_FAILED)
		return format_refused(task, -EBUSY);
	return format_begin(task, from, &plan,
			    task->cmd.fmtdata && task->buf[1] & FORMAT_IMMED);
}

const struct scsi_handler scsi_format_unit = {
	.prepare = prepare_format,
	.execute = execute_format,
};
