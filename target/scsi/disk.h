/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The disk behind task.h: one handler per enum scsi_op. SCSI_OPS in
 * protocol/scsi_cdb.h names the handlers. Before a handler is called, task.c
 * has checked what all commands have in common: the LUN, unit attentions, the
 * fields of the CDB, the range, write protection, and the length of the
 * data-out.
 *
 * A handler either answers from a table (answer), or does something (prepare,
 * execute). A command that uses blocks is a chain of steps. A step fills in
 * task->blk and returns true to execute it, or ends the task and returns false.
 * The next step follows if all went well. If the store fails, or a comparison
 * finds a difference, the task ends before it.
 */
#ifndef TARGET_SCSI_DISK_H
#define TARGET_SCSI_DISK_H

#include "target/scsi/task.h"

/* Answers from tables are at most this long. */
#define SCSI_ANSWER_MAX 8192u

struct scsi_handler {
	/*
	 * Fills in data-in at @buf, up to @cap bytes, and returns its full
	 * length. 0, or -errno with @ret_sense.
	 */
	int (*answer)(struct scsi_task *task, void *buf, size_t cap,
		      size_t *ret_len, struct scsi_sense *ret_sense);
	/* Gets what answer() needs, and then calls scsi_task_found_out().
	 * False: answer() needs nothing. May be NULL. */
	bool (*find_out)(struct scsi_task *task);
	/* Asks for buffers. fetch_len and buf_len are already the length of the
	 * data-out. NULL: nothing to add. */
	void (*prepare)(struct scsi_task *task);
	/* The first step. NULL: the status is GOOD. */
	bool (*execute)(struct scsi_task *task);
};

/* As unit_turn_take(), with task->turn. Return: for execute. */
bool scsi_task_take_turn(struct scsi_task *task,
			 void (*next)(struct unit_turn *turn, int err));

/* ---- ends of a task; each returns what the last step returns ---- */

bool scsi_task_good(struct scsi_task *task);
/* CONDITION MET */
bool scsi_task_met(struct scsi_task *task);
bool scsi_task_fail(struct scsi_task *task, const struct scsi_sense *sense);
/* IMMED: sends @status if possible. The task later ends with one of these
 * functions. */
void scsi_task_answer(struct scsi_task *task, enum scsi_status status);
/* After scsi_task_stop(): without a status, because nobody receives it. */
bool scsi_task_end_stopped(struct scsi_task *task);
/* The same for a task that has the turn and has changed nothing yet. True: it
 * was stopped while it waited, and the turn is given back. */
bool scsi_task_turned_too_late(struct scsi_task *task);
/* RESERVATION CONFLICT. */
bool scsi_task_conflict(struct scsi_task *task);
/* Ends it with BUSY: the initiator sends it again. */
bool scsi_task_busy(struct scsi_task *task);
/* task->blk has failed. */
bool scsi_task_fail_blk(struct scsi_task *task);

/* For find_out(): answer() now ends the task. */
void scsi_task_found_out(struct scsi_task *task);

/* ---- block commands ---- */

/*
 * Fills in task->blk for the blocks and the data of the command; writes are
 * stable if the command wants that. The caller then sets the other members.
 */
void scsi_task_blk(struct scsi_task *task, enum block_kind kind,
		   bool (*next)(struct scsi_task *task));

/* Discards the results of the copies that @nexus has asked LUN @lun for.
 * Thread: any. */
void scsi_copies_forget(struct scsi_nexus *nexus, unsigned int lun);

/* Continues a task that has waited for something other than a block command.
 * @more is what the following step has returned. */
void scsi_task_run(struct scsi_task *task, bool more);

/* Logs the failure of task->blk; scsi_task_fail_blk() calls it. */
void scsi_task_log_blk(const struct scsi_task *task);

/*
 * For a command whose initiator asks for a flush. Fails it if the initiator is
 * owed a failed flush (writers.h). True: the command has failed.
 */
bool scsi_task_pay(struct scsi_task *task);

/* Bytes of the command's blocks. */
static inline uint64_t scsi_task_len(const struct scsi_task *task)
{
	return task->cmd.blocks * task->vol->block_size;
}

static inline uint64_t scsi_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Sets NOT READY, MEDIUM NOT PRESENT if there is no medium for commands. False:
 * there is one. */
static inline bool scsi_volume_no_medium(const struct volume *vol,
					 struct scsi_sense *ret_sense)
{
	if (vol->state.medium == UNIT_MEDIUM_IN)
		return false;
	*ret_sense =
		scsi_sense(SCSI_KEY_NOT_READY, SCSI_ASC_MEDIUM_NOT_PRESENT);
	return true;
}

/* True if a reservation keeps @nexus from @access to @vol, its LUN @lun. */
static inline bool scsi_nexus_is_shut_out(struct scsi_nexus *nexus,
					  struct volume *vol, unsigned int lun,
					  enum scsi_access access)
{
	/* Orders what follows behind the change that set the version: whoever
	 * was told that a nexus is shut out finds it shut out. */
	uint64_t version =
		atomic_load_explicit(&vol->state.version, memory_order_acquire);

	return version & 1 &&
	       unit_state_look(&vol->state, version, nexus, lun, access);
}

/* The unit as the nexus of @task sees it: task->vol->info, or a write-protected
 * copy of it in @copy. */
const struct scsi_disk_info *scsi_task_info(const struct scsi_task *task,
					    struct scsi_disk_info *copy);

/* True if @nexus has a unit attention or a deferred error to report. Every command
 * asks. */
static inline bool scsi_nexus_has_news(struct scsi_nexus *nexus, int lun)
{
	return atomic_load_explicit(&nexus->ua[lun], memory_order_relaxed) ||
	       atomic_load_explicit(&nexus->deferred[lun],
				    memory_order_relaxed);
}

/* Takes the unit attention to report first. False: there is none. */
bool scsi_nexus_take_attention(struct scsi_nexus *nexus, int lun,
			       struct scsi_sense *ret_sense);

/* Keeps an error of a command that was answered before. The next command of the
 * nexus to the unit fails with it (SPC-4, deferred errors). Only the first
 * error is kept. */
void scsi_nexus_defer(struct scsi_nexus *nexus, int lun,
		      const struct scsi_sense *sense);
/* Takes the deferred error. False: there is none. */
bool scsi_nexus_take_deferred(struct scsi_nexus *nexus, int lun,
			      struct scsi_sense *ret_sense);

/* enum scsi_ua for enum scsi_pr_news. */
uint32_t scsi_pr_attentions(uint8_t news);

/* HARDWARE ERROR, INTERNAL TARGET FAILURE: a change that must survive could not
 * be written. */
bool scsi_task_fail_state(struct scsi_task *task);
/* NOT READY: a job runs, or was running when this was decided. */
bool scsi_task_fail_busy(struct scsi_task *task);

/* True while FORMAT UNIT or SANITIZE runs, or the state is not saved: no command
 * can leave that state. */
bool scsi_volume_is_busy(const struct volume *vol);
/* Sets the sense data if a job runs or has failed. False: the volume is ready. */
bool scsi_volume_tell(const struct volume *vol, struct scsi_sense *ret_sense);
/* The same, inline, because every command asks. */
static inline bool scsi_volume_not_ready(const struct volume *vol,
					 struct scsi_sense *ret_sense)
{
	return vol->job.state != VOLUME_READY &&
	       scsi_volume_tell(vol, ret_sense);
}

/* ---- handlers ---- */

#define SCSI_OP_HANDLER(op, handler) \
	extern const struct scsi_handler scsi_##handler;
SCSI_OPS(SCSI_OP_HANDLER)
#undef SCSI_OP_HANDLER

#endif
