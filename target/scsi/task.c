/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/task.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "target/scsi/disk.h"
#include "base/log.h"
#include "base/ticks.h"

/* Returns GOOD: task.c has already checked whether the unit is ready. */
const struct scsi_handler scsi_test_unit_ready;

static const struct scsi_handler *const handlers[SCSI_OP_CNT] = {
#define SCSI_OP_HANDLER(op, handler) [SCSI_OP_##op] = &scsi_##handler,
	SCSI_OPS(SCSI_OP_HANDLER)
#undef SCSI_OP_HANDLER
};

/* ---- the end ---- */

static inline struct volume *find_volume(const struct scsi_task *task)
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

bool scsi_task_good(struct scsi_task *task)
{
	task->status = SCSI_STATUS_GOOD;
	return task_end(task);
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

bool scsi_task_busy(struct scsi_task *task)
{
	task->status = SCSI_STATUS_BUSY;
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

bool scsi_task_take_turn(struct scsi_task *task,
			 void (*next)(struct unit_turn *turn, int err))
{
	task->turns = true;
	unit_turn_take(task->vol, task->worker, &task->turn, next);
	return false;
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

static bool task_leave_turns(struct scsi_task *task)
{
	return task->turns && unit_turn_leave(task->vol, &task->turn);
}

static bool task_leave_job(struct scsi_task *task)
{
	if (!task->on_job)
		return false;
	task->on_job = false;
	volume_job_leave(task->vol);
	return true;
}

/* True: the task has ended. */
static bool task_stop_draining(struct scsi_task *task)
{
	return task->turns && unit_turn_stop_draining(task->vol, &task->turn);
}

void scsi_task_cancel(struct scsi_task *task)
{
	scsi_task_stop(task);
	if (task_leave_turns(task) || task_leave_job(task))
		task_end(task);
	else if (!task_stop_draining(task))
		block_stop_waiting(&task->blk);
}

void scsi_task_answer(struct scsi_task *task, enum scsi_status status)
{
	task->status = (uint8_t)status;
	task->answered = task->answer(task);
}

static bool task_miscompare(struct scsi_task *task)
{
	struct scsi_sense sense = scsi_sense(SCSI_KEY_MISCOMPARE,
					     SCSI_ASC_MISCOMPARE_DURING_VERIFY);

	/* the first byte that differs (SBC-3 5.2) */
	sense.info_valid = true;
	sense.info = task->blk.at;
	return scsi_task_fail(task, &sense);
}

/* The initiator gets sense data. The administrator must see the failure as
 * well, but not a thousand times. */
void scsi_task_log_blk(const struct scsi_task *task)
{
	static _Thread_local struct log_limit limit;
	const struct rbp_io *io = &task->blk.bio.io;
	const struct volume *vol =
		container_of(task->blk.dev, struct volume, dev);
	char where[64] = "flush";
	unsigned int dropped;

	if (!log_limit_pass(&limit, 5, &dropped))
		return;
	if (dropped)
		log_error("%u more errors of volumes were not shown", dropped);
	if (io->op != RBP_FLUSH)
		snprintf(where, sizeof(where), "%llu bytes at block %llu",
			 (unsigned long long)io->len,
			 (unsigned long long)(io->offset / vol->block_size));
	volume_log(LOG_ERROR, "volume-error", vol, "%s: %s: %s",
		   task->cmd.info->name, where, strerror(-task->blk.res));
}

bool scsi_task_fail_blk(struct scsi_task *task)
{
	const struct rbp_io *io = &task->blk.bio.io;
	bool is_read = io->op == RBP_READ || io->op == RBP_EXTENT;
	struct scsi_sense sense = scsi_sense_from_errno(
		task->blk.res, is_read ? SCSI_MEDIUM_READ : SCSI_MEDIUM_WRITE);

	scsi_task_log_blk(task);
	/* The command succeeded up to here; a failed flush has no particular
	 * place. */
	if (sense.key == SCSI_KEY_MEDIUM_ERROR && io->op != RBP_FLUSH) {
		sense.info_valid = true;
		sense.info =
			(io->offset + io->progress) / task->vol->block_size;
	}
	return scsi_task_fail(task, &sense);
}

/* ---- writes that may be lost ---- */

bool scsi_task_pay(struct scsi_task *task)
{
	struct scsi_sense sense =
		scsi_sense(SCSI_KEY_HARDWARE_ERROR, SCSI_ASC_WRITE_ERROR);

	if (!writers_owes(&task->vol->dev.writers,
			  &task->nexus->writers[task->lun].ref,
			  task->nexus->writers[task->lun].port))
		return false;
	volume_log(LOG_WARNING, NULL, task->vol,
		   "%s fails, as unflushed writes of its initiator may have "
		   "been lost before",
		   task->cmd.info->name);
	task->tells = true;
	scsi_task_fail(task, &sense);
	return true;
}

void scsi_task_told(struct scsi_task *task)
{
	writers_told(&task->vol->dev.writers,
		     &task->nexus->writers[task->lun].ref,
		     task->nexus->writers[task->lun].port);
}

/* ---- block commands ---- */

/* A copy ends by its own function. */
static bool task_next(struct scsi_task *task)
{
	const struct block_cmd *blk = &task->blk;

	if (task->copies)
		return task->next(task);
	if (blk->was_stopped || blk->was_barred)
		return task_end(task);
	if (blk->res)
		return scsi_task_fail_blk(task);
	if (blk->differs)
		return task_miscompare(task);
	return task->next(task);
}

/* Block commands may end at once, even each of a long series, and the stack
 * must not grow with them. */
void scsi_task_run(struct scsi_task *task, bool more)
{
	while (more) {
		task->was_instant = block_start(&task->blk);
		if (!task->was_instant)
			return;
		more = task_next(task);
	}
}

static void task_blk_done(struct block_cmd *cmd)
{
	struct scsi_task *task = container_of(cmd, struct scsi_task, blk);

	scsi_task_run(task, task_next(task));
}

/* A format, an eject or write protection may have begun since prepare. Sets status and
 * sense data. */
static bool task_is_barred(struct scsi_task *task)
{
	struct scsi_sense sense;

	if (!scsi_volume_no_medium(task->vol, &sense) &&
	    !scsi_volume_not_ready(task->vol, &sense)) {
		if (!(task->cmd.info->flags & SCSI_CDB_WRITES) ||
		    !volume_is_protected(task->vol))
			return false;
		sense = scsi_sense(SCSI_KEY_DATA_PROTECT,
				   SCSI_ASC_SOFTWARE_WRITE_PROTECTED);
	}
	scsi_task_refuse(task, &sense);
	return true;
}

static bool task_blk_barred(struct block_cmd *cmd)
{
	return task_is_barred(container_of(cmd, struct scsi_task, blk));
}

void scsi_task_blk(struct scsi_task *task, enum block_kind kind,
		   bool (*next)(struct scsi_task *task))
{
	struct block_cmd *blk = &task->blk;

	task->next = next;
	memset(blk, 0, offsetof(struct block_cmd, res));
	blk->dev = &task->vol->dev;
	blk->worker = task->worker;
	blk->kind = kind;
	blk->fua = task->cmd.fua || (task->stable && kind != BLOCK_CMD_READ);
	blk->buf_index = task->buf_index;
	blk->offset = task->cmd.lba * task->vol->block_size;
	blk->len = scsi_task_len(task);
	blk->buf = task->buf;
	if (task->buf) {
		blk->room = task->buf + task->fetch_len;
		blk->room_len = task->buf_len - task->fetch_len;
	}
	blk->stop = &task->stopped;
	blk->barred = task_blk_barred;
	blk->writer = &task->nexus->writers[task->lun].ref;
	blk->port = task->nexus->writers[task->lun].port;
	blk->done = task_blk_done;
}

/* ---- prepare ---- */

static enum scsi_task_verdict task_refuse(struct scsi_task *task,
					  const struct scsi_sense *sense)
{
	scsi_task_refuse(task, sense);
	return SCSI_TASK_OVER;
}

/* Several targets serve the unit. If another one does so after this check, the
 * command has an old epoch (block.h). */
static __attribute__((noinline, cold)) bool
task_is_elsewhere(struct scsi_task *task, unsigned int flags)
{
	task->blk.bio.io.epoch = backend_epoch(task->vol->dev.backend);
	return !(flags & SCSI_CDB_STANDBY) && volume_is_standby(task->vol);
}

/* Checks before the CDB's fields are read (SAM-5 5.14): is there a unit, and
 * does it report something first? */
static bool check_unit(struct scsi_task *task, const struct scsi_cdb_info *row,
		       struct scsi_sense *ret_sense)
{
	unsigned int flags = row ? row->flags : 0;

	if (!task->vol && !(flags & SCSI_CDB_ABSENT_LUN)) {
		*ret_sense = scsi_nexus_no_volume(task->nexus, task->lun);
		return false;
	}
	if (!task->vol)
		return true;
	/* A deferred error first, because its cause is older. */
	if (!(flags & SCSI_CDB_PASSES_UA) &&
	    scsi_nexus_has_news(task->nexus, task->lun) &&
	    (scsi_nexus_take_deferred(task->nexus, task->lun, ret_sense) ||
	     scsi_nexus_take_attention(task->nexus, task->lun, ret_sense)))
		return false;
	if (task->vol->info.groups.cnt && task_is_elsewhere(task, flags)) {
		*ret_sense = scsi_sense(SCSI_KEY_NOT_READY,
					SCSI_ASC_TARGET_PORT_STANDBY);
		return false;
	}
	if (!(flags & SCSI_CDB_NO_MEDIUM) &&
	    scsi_volume_no_medium(task->vol, ret_sense))
		return false;
	if (flags & SCSI_CDB_PASSES_JOB ||
	    (flags & SCSI_CDB_PASSES_FAILED &&
	     !scsi_volume_is_busy(task->vol)) ||
	    !scsi_volume_not_ready(task->vol, ret_sense))
		return true;
	volume_job_save_again(task->vol, task->worker);
	return false;
}

static bool check_cdb(struct scsi_task *task, const struct scsi_cdb_info *row,
		      struct scsi_sense *ret_sense)
{
	return !scsi_cdb_decode_row(row, task->cdb, task->cdb_len, &task->cmd,
				    ret_sense);
}

/* A command that would change the medium is refused as on every write-protected
 * unit (scsi_cmd_check()). A command that would change other state that all
 * initiators see is refused for lack of access rights (SPC-4, ILLEGAL REQUEST). */
static bool check_reader(const struct scsi_task *task,
			 struct scsi_sense *ret_sense)
{
	if (task->cmd.info->flags & SCSI_CDB_WRITES ||
	    scsi_cmd_is_for_readers(&task->cmd))
		return true;
	*ret_sense =
		scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_NO_ACCESS_RIGHTS);
	return false;
}

/* What the initiator may do, and what the unit can do. */
static enum scsi_task_verdict task_check_cmd(struct scsi_task *task)
{
	bool is_reader = scsi_nexus_is_reader(task->nexus, task->lun);
	const struct scsi_disk_info *info = &task->vol->info;
	struct scsi_disk_info copy;
	struct scsi_sense sense;

	if (is_reader && !check_reader(task, &sense))
		return task_refuse(task, &sense);
	if (scsi_nexus_is_shut_out(task->nexus, task->vol,
				   (unsigned int)task->lun,
				   scsi_cmd_access(&task->cmd))) {
		task->status = SCSI_STATUS_RESERVATION_CONFLICT;
		return SCSI_TASK_OVER;
	}
	if (is_reader)
		info = scsi_task_info(task, &copy);
	if (scsi_cmd_check(&task->cmd, info, &sense))
		return task_refuse(task, &sense);
	return SCSI_TASK_GO;
}

/* The field of the CDB with the length of the data-out. */
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
	/* Read before the check for unit attentions: a command that finds none
	 * about WCE uses the former setting. */
	task->stable = task->vol && block_writes_through(&task->vol->dev);
	if (!check_unit(task, row, &sense) || !check_cdb(task, row, &sense))
		return task_refuse(task, &sense);
	if (task->vol && task_check_cmd(task) == SCSI_TASK_OVER)
		return SCSI_TASK_OVER;

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

	/* No byte of earlier contents may leave the buffer. */
	if (task->buf_len)
		memset(task->buf, 0, task->buf_len);
	if (handler->answer(task, task->buf, task->buf_len, &len, &sense))
		return scsi_task_fail(task, &sense);
	task->wanted_in = scsi_min(len, alloc_len);
	task->data_in_cnt = (uint32_t)scsi_min(len, task->buf_len);
	return scsi_task_good(task);
}

void scsi_task_found_out(struct scsi_task *task)
{
	task_answer(task, handlers[task->cmd.op]);
}

/* ---- data in place ---- */

/* False: the task has ended. */
static bool task_goes_on(struct scsi_task *task)
{
	return !(task->stopped || task_is_barred(task)) || task_end(task);
}

static void task_owns(struct block_owner *owner)
{
	struct scsi_task *task =
		container_of(owner, struct scsi_task, blk.owner);

	task->blk.waited_ticks = ticks_now();
	if (task_goes_on(task))
		task->owns(task);
}

/* The fabric is the store. */
bool scsi_task_own(struct scsi_task *task, void (*owns)(struct scsi_task *task))
{
	bool writes = task->cmd.info->flags & SCSI_CDB_WRITES;

	task->owns = owns;
	return block_own(&task->blk, &task->vol->dev, task->worker,
			 task->cmd.lba * task->vol->block_size,
			 scsi_task_len(task),
			 writes ? BLOCK_CHANGES : BLOCK_READS, task_owns) &&
	       task_goes_on(task);
}

/* ---- execute ---- */

/* Inline: a READ comes here. */
static inline __attribute__((always_inline)) void
task_do(struct scsi_task *task)
{
	const struct scsi_handler *handler = handlers[task->cmd.op];

	if (handler->execute)
		scsi_task_run(task, handler->execute(task));
	else if (!handler->answer)
		scsi_task_good(task);
	else if (!handler->find_out || !handler->find_out(task))
		task_answer(task, handler);
}

static void task_heard(struct block_owner *owner)
{
	struct scsi_task *task =
		container_of(owner, struct scsi_task, blk.owner);

	if (task->stopped)
		task_end(task);
	else if (task->cmd.info->flags & SCSI_CDB_JOB)
		scsi_task_execute(task);
	else
		task_do(task);
}

/* A job changes blocks without the task, and nobody sees what passes the task: there
 * must be a sign of life of a moment ago. A reservation or a mode that an initiator has
 * given up would shut out others: a late sign counts. Other commands need one with their
 * blocks. */
static __attribute__((noinline)) bool task_hears(struct scsi_task *task)
{
	unsigned int flags = task->cmd.info->flags;
	bool has_blocks = flags & SCSI_CDB_WRITES && !(flags & SCSI_CDB_JOB);

	return has_blocks || scsi_cmd_is_for_readers(&task->cmd) ||
	       block_owner_hear(&task->blk.owner, task_heard);
}

void scsi_task_execute(struct scsi_task *task)
{
	if (task->cmd.info->readers == SCSI_READERS_ALLOWED || task_hears(task))
		task_do(task);
}
