/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The disk behind task.h: one handler per enum scsi_op, found through the
 * table in task.c. A new command is a row in protocol/scsi_cdb.c and a
 * handler here; what all commands have in common (the LUN, unit attentions,
 * the fields of the CDB, range, write protection, the length of the data-out)
 * has been judged before a handler is called.
 *
 * A handler either answers from a table (answer), or does something (prepare,
 * execute). What uses blocks is a chain of steps: a step fills in task->blk, says
 * what is to be done with which blocks, and returns true to have it done; or it
 * ends the task and returns false. The next step comes when all went well: an
 * error of the store, or a difference that was found, ends the task before.
 */
#ifndef TARGET_SCSI_DISK_H
#define TARGET_SCSI_DISK_H

#include "target/scsi/task.h"

/* Answers from tables are shorter. */
#define SCSI_ANSWER_MAX 8192u

/* How a command has its blocks while it is executed; see block_lock.h. */
enum scsi_hold {
	SCSI_HOLD_NONE,	     /* touches none */
	SCSI_HOLD_SHARED,    /* those of its CDB */
	SCSI_HOLD_ALL,	     /* shares the whole volume */
	SCSI_HOLD_EXCLUSIVE, /* those of its CDB, alone */
};

struct scsi_handler {
	enum scsi_hold hold;
	/*
	 * Data-in made of what is known: fills in @buf up to @cap bytes and
	 * tells the full length. 0, or -errno with @ret_sense.
	 */
	int (*answer)(struct scsi_task *task, void *buf, size_t cap,
		      size_t *ret_len, struct scsi_sense *ret_sense);
	/* Finds out first what answer() tells of, and then calls
	 * scsi_task_found_out(). False: answer() knows all. May be NULL. */
	bool (*find_out)(struct scsi_task *task);
	/* Asks for buffers; fetch_len has been set to the data-out's length
	 * and buf_len to the same. NULL: nothing to add. */
	void (*prepare)(struct scsi_task *task);
	/* The first step. NULL: the status is GOOD. */
	bool (*execute)(struct scsi_task *task);
};

/* ---- ends of a task; the value of each is that of a last step ---- */

bool scsi_task_good(struct scsi_task *task);
/* CONDITION MET */
bool scsi_task_met(struct scsi_task *task);
bool scsi_task_fail(struct scsi_task *task, const struct scsi_sense *sense);
/* IMMED: has @status sent if possible; the task goes on to one of these ends. */
void scsi_task_answer(struct scsi_task *task, enum scsi_status status);
/* scsi_task_stop(): of no status, which nobody will see. */
bool scsi_task_end_stopped(struct scsi_task *task);
/* The same of a task that has the unit's turn and has changed nothing yet: true,
 * and the turn is given back, if it was stopped while it waited. */
bool scsi_task_turned_too_late(struct scsi_task *task);
/* RESERVATION CONFLICT. */
bool scsi_task_conflict(struct scsi_task *task);
/* task->blk has failed. */
bool scsi_task_fail_blk(struct scsi_task *task);

/* For find_out(): has answer() end the task. */
void scsi_task_found_out(struct scsi_task *task);

/* ---- block commands ---- */

/*
 * Makes task->blk one for the blocks and the data of the command, stable where that
 * was asked for. What else it needs is set after this.
 */
void scsi_task_blk(struct scsi_task *task, enum block_kind kind,
		   bool (*next)(struct scsi_task *task));

/* It is for @len bytes from @offset of @vol on instead, not of the command's LBA. */
void scsi_task_blk_at(struct scsi_task *task, struct volume *vol,
		      uint64_t offset, uint64_t len);

/*
 * Here alone tasks get their blocks, those of one volume at a time, so that no two
 * wait for each other in a circle. Shares @cnt blocks from @lba of @vol with other
 * tasks, or takes them exclusively. True: at once; false: @held is called when
 * @task has them, for an exclusive hold maybe from within. Harmless when it has
 * blocks already. scsi_task_release() gives them up.
 */
bool scsi_task_take_blocks(struct scsi_task *task, struct volume *vol,
			   uint64_t lba, uint64_t cnt, bool exclusive,
			   void (*held)(struct block_hold *hold));

/* Goes on with a task that has waited for something else than a block command:
 * @more is what the step that follows has returned. */
void scsi_task_run(struct scsi_task *task, bool more);

/* Logs the failure of task->blk; scsi_task_fail_blk() does. */
void scsi_task_log_blk(const struct scsi_task *task);

/*
 * For a command whose initiator asks for a flush. Fails it when the initiator is
 * owed a failed one (flush_record.h); true: it has failed.
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

/* NOT READY, MEDIUM NOT PRESENT, when that is so. */
bool scsi_volume_no_medium(const struct volume *vol,
			   struct scsi_sense *ret_sense);

/* Does a reservation keep @nexus from what is @access to @vol? */
bool scsi_nexus_is_shut_out(struct scsi_nexus *nexus, struct volume *vol,
			    enum scsi_access access);

/* Neither @vol nor what the administrator allows @nexus is read-only. */
bool scsi_nexus_may_write(const struct scsi_nexus *nexus,
			  const struct volume *vol);

/* The unit as the nexus of @task sees it: task->vol->info, or, made in @copy,
 * the same write-protected. */
const struct scsi_disk_info *scsi_task_info(const struct scsi_task *task,
					    struct scsi_disk_info *copy);

/* Takes the unit attention that is to be reported first; false: none. */
bool scsi_nexus_take_attention(struct scsi_nexus *nexus, int lun,
			       struct scsi_sense *ret_sense);

/* An error of a command that was answered before: the next one that the nexus
 * sends to the unit fails with it (SPC-4, deferred errors). One is kept, the
 * first. */
void scsi_nexus_defer(struct scsi_nexus *nexus, int lun,
		      const struct scsi_sense *sense);
/* Takes it; false: none. */
bool scsi_nexus_take_deferred(struct scsi_nexus *nexus, int lun,
			      struct scsi_sense *ret_sense);

/* enum scsi_ua for enum scsi_pr_news. */
uint32_t scsi_pr_attentions(uint8_t news);

/* HARDWARE ERROR, INTERNAL TARGET FAILURE: a change that must last could not be
 * written down. */
bool scsi_task_fail_state(struct scsi_task *task);

/* FORMAT UNIT or SANITIZE runs. */
bool scsi_volume_is_busy(const struct volume *vol);
/* It does, or has failed: what to say of it. False: the volume is ready. */
bool scsi_volume_tell(const struct volume *vol, struct scsi_sense *ret_sense);
/* The same; every command asks. */
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
