/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/task.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "target/scsi/disk.h"
#include "base/log.h"

/* Says GOOD: whether the unit is ready has been looked at before. */
const struct scsi_handler scsi_test_unit_ready;

static const struct scsi_handler *const handlers[SCSI_OP_CNT] = {
#define SCSI_OP_HANDLER(op, handler) [SCSI_OP_##op] = &scsi_##handler,
	SCSI_OPS(SCSI_OP_HANDLER)
#undef SCSI_OP_HANDLER
};

/* ---- the end ---- */

static struct volume *find_volume(const struct scsi_task *task)
{
	if (task->lun < 0 || task->lun >= LUNS_MAX)
		return NULL;
	return scsi_nexus_volume(task->nexus, (unsigned int)task->lun);
}

void scsi_task_refuse(struct scsi_task *task, const struct scsi_sense *sense)
{
	const struct volume *vol = find_volume(task);

	task->status = SCSI_STATUS_CHECK_CONDITION;
	task->data_in_cnt = 0;
	task->sense_len =
		(uint32_t)scsi_sense_encode(sense, volume_sense_format(vol),
					    task->sense, sizeof(task->sense));
}

static bool task_end(struct scsi_task *task)
{
	if (!task->buf_is_volume || !task->data_in_cnt)
		scsi_task_release(task);
	task->done(task);
	return false;
}

/* With WCE off a write is stable when it is answered; those that were not
 * written as such are now made so. */
static bool task_needs_flush(const struct scsi_task *task)
{
	const struct block_request *blk = &task->blk;

	if (!(task->cmd.info->flags & SCSI_CDB_WRITES) ||
	    !(task->stable || volume_writes_through(task->vol)))
		return false;
	return blk->op != BLOCK_FLUSH && !blk->fua;
}

bool scsi_task_good(struct scsi_task *task)
{
	if (task_needs_flush(task))
		return scsi_task_flush(task, scsi_task_end);
	if (task->cmd.info->flags & SCSI_CDB_WRITES)
		scsi_task_note_written(task, task->vol);
	task->status = SCSI_STATUS_GOOD;
	return task_end(task);
}

/* What was written as synchronous, or flushed, is not in the cache. */
void scsi_task_note_written(struct scsi_task *task, struct volume *vol)
{
	const struct scsi_nexus *nexus = task->nexus;

	if (!vol->dev.write_cache || task->blk.op == BLOCK_FLUSH ||
	    task->blk.fua)
		return;
	for (unsigned int i = 0; i < LUNS_MAX; i++) {
		unsigned int lun = (unsigned int)(task->lun + i) % LUNS_MAX;

		if (scsi_nexus_slot(nexus, lun) != vol)
			continue;
		flush_record_wrote(&vol->dev.record, &task->nexus->writers[lun],
				   nexus->initiator.b);
		return;
	}
}

bool scsi_task_met(struct scsi_task *task)
{
	task->status = SCSI_STATUS_CONDITION_MET;
	return task_end(task);
}

bool scsi_task_conflict(struct scsi_task *task)
{
	task->status = SCSI_STATUS_RESERVATION_CONFLICT;
	task->data_in_cnt = 0;
	return task_end(task);
}

bool scsi_task_fail(struct scsi_task *task, const struct scsi_sense *sense)
{
	if (task->answered)
		scsi_nexus_defer(task->nexus, task->lun, sense);
	else
		scsi_task_refuse(task, sense);
	return task_end(task);
}

bool scsi_task_fail_state(struct scsi_task *task)
{
	struct scsi_sense sense = scsi_sense(SCSI_KEY_HARDWARE_ERROR,
					     SCSI_ASC_INTERNAL_TARGET_FAILURE);

	return scsi_task_fail(task, &sense);
}

bool scsi_task_end_stopped(struct scsi_task *task)
{
	return task_end(task);
}

bool scsi_task_turned_too_late(struct scsi_task *task)
{
	if (!task->stopped)
		return false;
	unit_turn_end(task->vol);
	scsi_task_end_stopped(task);
	return true;
}

void scsi_task_stop(struct scsi_task *task)
{
	task->stopped = true;
}

/* Where it would have gone on with its blocks it finds what has happened. */
static void wait_no_more(struct scsi_task *task)
{
	struct block_hold *hold = &task->hold;

	/* The messages of an exclusive hold are on their way. */
	if (hold->state != BLOCK_HOLD_WAITS || hold->exclusive)
		return;
	block_hold_drop(hold);
	hold->held(hold);
}

void scsi_task_cancel(struct scsi_task *task)
{
	scsi_task_stop(task);
	if (!task->on_job) {
		wait_no_more(task);
		return;
	}
	task->on_job = false;
	volume_job_leave(task->vol);
	task_end(task);
}

void scsi_task_end_fenced(struct scsi_task *task)
{
	/* Of others it means that there were two fences, no more. */
	if (task->copies && task->halted)
		wait_no_more(task);
}

void scsi_task_answer(struct scsi_task *task, enum scsi_status status)
{
	task->status = (uint8_t)status;
	task->answered = task->answer(task);
}

bool scsi_task_miscompare(struct scsi_task *task, uint64_t offset)
{
	struct scsi_sense sense = scsi_sense(SCSI_KEY_MISCOMPARE,
					     SCSI_ASC_MISCOMPARE_DURING_VERIFY);

	sense.info_valid = true;
	sense.info = offset;
	return scsi_task_fail(task, &sense);
}

/* The initiator hears of it as sense data; whoever looks after the store must
 * hear of it as well, though not a thousand times. */
void scsi_task_log_blk(const struct scsi_task *task, int err)
{
	static _Thread_local struct log_limit limit;
	const struct block_request *blk = &task->blk;
	const struct volume *vol = task->blk_vol;
	char where[64] = "flush";
	unsigned int dropped;

	if (!log_limit_pass(&limit, 5, &dropped))
		return;
	if (dropped)
		log_error("%u more errors of volumes were not shown", dropped);
	if (blk->op != BLOCK_FLUSH)
		snprintf(where, sizeof(where), "%llu bytes at block %llu",
			 (unsigned long long)blk->len,
			 (unsigned long long)(blk->offset / vol->block_size));
	log_error("LUN %u (%s): %s: %s: %s", vol->lun, vol->name,
		  task->cmd.info->name, where, strerror(-err));
}

bool scsi_task_fail_blk(struct scsi_task *task, int err)
{
	const struct block_request *blk = &task->blk;
	bool is_read = blk->op == BLOCK_READ || blk->op == BLOCK_EXTENT;
	struct scsi_sense sense = scsi_sense_from_errno(
		err, is_read ? SCSI_MEDIUM_READ : SCSI_MEDIUM_WRITE);

	scsi_task_log_blk(task, err);
	/* Up to here it went well; a flush failed at no place in particular. */
	if (sense.key == SCSI_KEY_MEDIUM_ERROR && blk->op != BLOCK_FLUSH) {
		sense.info_valid = true;
		sense.info =
			(blk->offset + blk->progress) / task->vol->block_size;
	}
	return scsi_task_fail(task, &sense);
}

/* ---- writes that may be lost ---- */

bool scsi_task_pay(struct scsi_task *task)
{
	struct scsi_sense sense =
		scsi_sense(SCSI_KEY_HARDWARE_ERROR, SCSI_ASC_WRITE_ERROR);

	if (!flush_record_owes(&task->vol->dev.record,
			       &task->nexus->writers[task->lun],
			       task->nexus->initiator.b))
		return false;
	log_warn("LUN %u (%s): %s fails, as unflushed writes of its initiator "
		 "may have been lost before",
		 task->vol->lun, task->vol->name, task->cmd.info->name);
	task->tells = true;
	scsi_task_fail(task, &sense);
	return true;
}

void scsi_task_delivered(struct scsi_task *task)
{
	if (task->tells)
		flush_record_told(&task->vol->dev.record,
				  &task->nexus->writers[task->lun],
				  task->nexus->initiator.b);
}

/* ---- block requests ---- */

/* Where task->blk is. Backends may answer at once, even each of a long row of
 * requests, and the stack must not grow by it. */
enum blk_state {
	BLK_SUBMITTING, /* submit has not returned */
	BLK_WAITING,	/* it has; the answer starts the next step */
	BLK_ANSWERED,	/* answered before submit returned */
};

void scsi_task_run(struct scsi_task *task, bool more)
{
	while (more) {
		if (task->stopped) {
			task_end(task);
			return;
		}
		task->blk_state = BLK_SUBMITTING;
		task->blk.record = &task->blk_vol->dev.record;
		block_submit(task->blk_vol->dev.backend, &task->blk);
		if (task->blk_state == BLK_SUBMITTING) {
			task->blk_state = BLK_WAITING;
			return;
		}
		more = task->next(task, task->blk_res);
	}
}

bool scsi_task_was_instant(const struct scsi_task *task)
{
	return task->blk_state == BLK_ANSWERED;
}

static void task_blk_done(struct block_request *req, int res)
{
	struct scsi_task *task = container_of(req, struct scsi_task, blk);

	if (task->blk_state == BLK_SUBMITTING) {
		task->blk_state = BLK_ANSWERED;
		task->blk_res = res;
		return;
	}
	scsi_task_run(task, task->next(task, res));
}

void scsi_task_blk(struct scsi_task *task, enum block_op op, uint64_t offset,
		   uint64_t len, bool (*next)(struct scsi_task *task, int res))
{
	bool whole = op == BLOCK_FLUSH;

	task->next = next;
	task->blk_vol = task->vol;
	task->blk = (struct block_request){
		.op = op,
		.offset =
			whole ? 0
			      : task->cmd.lba * task->vol->block_size + offset,
		.len = whole ? 0 : len,
		.buf = task->buf,
		.buf_index = task->buf_index,
		.worker = task->worker,
		.done = task_blk_done,
	};
}

bool scsi_task_flush(struct scsi_task *task,
		     bool (*next)(struct scsi_task *task, int res))
{
	scsi_task_blk(task, BLOCK_FLUSH, 0, 0, next);
	return true;
}

bool scsi_task_end(struct scsi_task *task, int res)
{
	if (res)
		return scsi_task_fail_blk(task, res);
	return scsi_task_good(task);
}

/* ---- prepare ---- */

static enum scsi_task_verdict task_refuse(struct scsi_task *task,
					  const struct scsi_sense *sense)
{
	scsi_task_refuse(task, sense);
	return SCSI_TASK_OVER;
}

/* Who may speak at all: is there a unit, and has it something to say first?
 * This comes before any look at the CDB's fields (SAM-5 5.14). */
static bool check_unit(struct scsi_task *task, const struct scsi_cdb_info *row,
		       struct scsi_sense *ret_sense)
{
	unsigned int flags = row ? row->flags : 0;

	if (!task->vol && !(flags & SCSI_CDB_ABSENT_LUN)) {
		*ret_sense = scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
					SCSI_ASC_LUN_NOT_SUPPORTED);
		return false;
	}
	if (!task->vol)
		return true;
	/* A deferred error first: what it is about is older. */
	if (!(flags & SCSI_CDB_PASSES_UA) &&
	    (scsi_nexus_take_deferred(task->nexus, task->lun, ret_sense) ||
	     scsi_nexus_take_attention(task->nexus, task->lun, ret_sense)))
		return false;
	if (!(flags & SCSI_CDB_STANDBY) && volume_is_standby(task->vol)) {
		*ret_sense = scsi_sense(SCSI_KEY_NOT_READY,
					SCSI_ASC_TARGET_PORT_STANDBY);
		return false;
	}
	if (!(flags & SCSI_CDB_NO_MEDIUM) &&
	    scsi_volume_no_medium(task->vol, ret_sense))
		return false;
	return flags & SCSI_CDB_PASSES_JOB ||
	       (flags & SCSI_CDB_PASSES_FAILED &&
		!scsi_volume_is_busy(task->vol)) ||
	       !scsi_volume_not_ready(task->vol, ret_sense);
}

static bool check_cdb(struct scsi_task *task, const struct scsi_cdb_info *row,
		      struct scsi_sense *ret_sense)
{
	return !scsi_cdb_decode_row(row, task->cdb, task->cdb_len, &task->cmd,
				    ret_sense);
}

/* What would change the medium is refused as on every write-protected unit
 * (scsi_cmd_check()); what would change anything else that others see, as to
 * who has no right to it (SPC-4, ILLEGAL REQUEST). */
static bool check_rights(const struct scsi_task *task,
			 struct scsi_sense *ret_sense)
{
	if (!task->vol || !scsi_nexus_is_reader(task->nexus, task->lun) ||
	    task->cmd.info->flags & SCSI_CDB_WRITES ||
	    scsi_cmd_is_for_readers(&task->cmd))
		return true;
	*ret_sense =
		scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_NO_ACCESS_RIGHTS);
	return false;
}

static bool is_shut_out(const struct scsi_task *task)
{
	return task->vol &&
	       unit_state_conflicts(&task->vol->state, &task->nexus->initiator,
				    &task->nexus->reserved[task->lun],
				    scsi_cmd_access(&task->cmd));
}

static bool check_cmd(struct scsi_task *task, struct scsi_sense *ret_sense)
{
	struct scsi_disk_info info;

	return !task->vol ||
	       !scsi_cmd_check(&task->cmd, scsi_task_info(task, &info),
			       ret_sense);
}

/* The field that says how much data-out there should be. */
static struct scsi_sense short_data_out(const struct scsi_cdb_info *info)
{
	if (info->blocks.len)
		return scsi_sense_cdb_field(info->blocks.byte, 7);
	return scsi_sense_cdb_field(info->param_len.byte, 7);
}

static void prepare_answer(struct scsi_task *task)
{
	uint64_t alloc_len = scsi_cmd_data_in_len(&task->cmd, 0);

	task->buf_len = (uint32_t)scsi_min(
		scsi_min(alloc_len, task->data_in_len), SCSI_ANSWER_MAX);
}

enum scsi_task_verdict scsi_task_prepare(struct scsi_task *task)
{
	const struct scsi_cdb_info *row = scsi_cdb_row(
		&task->nexus->luns->cdbs, task->cdb, task->cdb_len);
	const struct scsi_handler *handler;
	struct scsi_sense sense;
	uint64_t out_len;

	task->vol = find_volume(task);
	/* Before the look for unit attentions: who finds none of a change of
	 * WCE has what was so before it. */
	task->stable = task->vol && volume_writes_through(task->vol);
	if (!check_unit(task, row, &sense) || !check_cdb(task, row, &sense) ||
	    !check_rights(task, &sense))
		return task_refuse(task, &sense);
	if (is_shut_out(task)) {
		task->status = SCSI_STATUS_RESERVATION_CONFLICT;
		return SCSI_TASK_OVER;
	}
	if (!check_cmd(task, &sense))
		return task_refuse(task, &sense);

	handler = handlers[task->cmd.op];
	out_len = scsi_cmd_data_out_len(&task->cmd,
					task->vol ? task->vol->block_size : 0);
	task->wanted_out = out_len;
	if (task->data_out_len < out_len) {
		sense = short_data_out(task->cmd.info);
		return task_refuse(task, &sense);
	}
	task->fetch_len = (uint32_t)out_len;
	task->buf_len = (uint32_t)out_len;
	if (handler->answer)
		prepare_answer(task);
	else if (handler->prepare)
		handler->prepare(task);
	assert(task->buf_len >= task->fetch_len);
	assert(task->buf_len <= SCSI_TASK_BUF_MAX);
	return SCSI_TASK_GO;
}

/* ---- execute ---- */

static bool task_answer(struct scsi_task *task,
			const struct scsi_handler *handler)
{
	uint64_t alloc_len = scsi_cmd_data_in_len(&task->cmd, 0);
	struct scsi_sense sense;
	size_t len;

	/* Not a byte of what was here before may leave (nor be sent). */
	if (task->buf_len)
		memset(task->buf, 0, task->buf_len);
	if (handler->answer(task, task->buf, task->buf_len, &len, &sense))
		return scsi_task_fail(task, &sense);
	task->wanted_in = scsi_min(len, alloc_len);
	task->data_in_cnt = (uint32_t)scsi_min(len, task->buf_len);
	return scsi_task_good(task);
}

/* ---- the blocks ---- */

static void hold_held(struct block_hold *hold)
{
	struct scsi_task *task = container_of(hold, struct scsi_task, hold);
	struct scsi_sense sense;

	if (task->stopped)
		task_end(task);
	/* It may have begun to be formatted since prepare. */
	else if (scsi_volume_not_ready(task->vol, &sense))
		scsi_task_fail(task, &sense);
	else
		task->held(task);
}

void scsi_task_hold(struct scsi_task *task,
		    void (*held)(struct scsi_task *task))
{
	enum scsi_hold way = handlers[task->cmd.op]->hold;
	bool all = way == SCSI_HOLD_ALL;

	task->held = held;
	if (way == SCSI_HOLD_NONE) {
		held(task);
		return;
	}
	task->hold.begin = all ? 0 : task->cmd.lba;
	task->hold.end = all ? UINT64_MAX : task->cmd.lba + task->cmd.blocks;
	task->hold.exclusive = way == SCSI_HOLD_EXCLUSIVE;
	task->hold.held = hold_held;
	if (block_hold_take(&task->vol->dev.locks, task->worker, &task->hold))
		hold_held(&task->hold);
}

void scsi_task_release(struct scsi_task *task)
{
	block_hold_drop(&task->hold);
}

static void execute_held(struct scsi_task *task)
{
	const struct scsi_handler *handler = handlers[task->cmd.op];

	if (handler->answer)
		task_answer(task, handler);
	else if (handler->execute)
		scsi_task_run(task, handler->execute(task));
	else
		scsi_task_good(task);
}

void scsi_task_execute(struct scsi_task *task)
{
	if (task->hold.state == BLOCK_HOLD_HELD)
		execute_held(task);
	else
		scsi_task_hold(task, execute_held);
}
