/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One SCSI command on its way through the disk: what lies between the port
 * (request.c, which knows IUs and RDMA) and the backend (which knows blocks).
 *
 *   request.c                        task.c, scsi_*.c
 *   fills in the upper part   -->    scsi_task_prepare(): decodes and checks
 *                                    the CDB, says which buffer and how much
 *                                    data-out it needs, or refuses
 *   takes a buffer, fetches   -->    scsi_task_execute(): does it, then calls
 *   the data-out                     task->done() with status, data and sense
 *
 * A command that prepare() has refused is not executed. Both run on the
 * channel's worker. Nothing is allocated.
 *
 * When the initiator's buffer disagrees with the CDB: too short for the
 * data-out, the command is refused (05/24/00, pointing at the length) and
 * nothing is written; longer, the rest is not fetched. Too short for the
 * data-in, what fits is sent. The residuals tell in each case (SRP r16a 6.9).
 */
#ifndef TARGET_SCSI_TASK_H
#define TARGET_SCSI_TASK_H

#include <stdatomic.h>
#include <string.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_sense.h"
#include "target/scsi/nexus_buffer.h"
#include "target/scsi/volume.h"

#define SCSI_SENSE_MAX 96

/* Unit attentions that wait for one I_T nexus on one LUN, as bits; the lowest
 * bit is reported first (SAM-5 5.14: resets before all else). Channels of a
 * nexus may live on several workers. */
enum scsi_ua {
	SCSI_UA_POWER_ON = 1u << 0,	     /* 29h/01h */
	SCSI_UA_LUN_RESET = 1u << 1,	     /* 29h/03h */
	SCSI_UA_NEXUS_LOSS = 1u << 2,	     /* 29h/07h */
	SCSI_UA_PREEMPTED = 1u << 3,	     /* 2Ah/03h, reservations */
	SCSI_UA_RELEASED = 1u << 4,	     /* 2Ah/04h, reservations */
	SCSI_UA_UNREGISTERED = 1u << 5,	     /* 2Ah/05h */
	SCSI_UA_MEDIUM_MAY_DIFFER = 1u << 6, /* 28h/00h */
	SCSI_UA_CAPACITY_CHANGED = 1u << 7,  /* 2Ah/09h */
	SCSI_UA_MODE_CHANGED = 1u << 8,	     /* 2Ah/01h */
	SCSI_UA_LUNS_CHANGED = 1u << 9,	     /* 3Fh/0Eh */
	SCSI_UA_PATH_CHANGED = 1u << 10,     /* 2Ah/06h */
};

#define SCSI_NEXUS_COPIES 16

/* The I_T nexus as SCSI sees it. The port's nexus embeds it. */
struct scsi_nexus {
	struct lun_map *luns;
	/* The volumes that it sees, by LUN (lun_view.h), and which of them it
	 * may only read. Set before scsi_nexus_init(). NULL: all volumes,
	 * writable. */
	struct volume *const *vol;
	const bool *read_only;
	/* Its principal on each of them (access.h). Worker 0 changes it by atomic stores.
	 * NULL: it has none. */
	const uint64_t *principal;
	/* LUNs where it will see a volume that is not here yet. Worker 0 changes them by atomic
	 * stores. NULL: none. */
	const bool *awaited;
	struct list node; /* luns->nexuses, under its lock */
	struct srp_port_id initiator;
	_Atomic uint32_t ua[LUNS_MAX];
	_Atomic uint64_t deferred[LUNS_MAX]; /* scsi_nexus_defer() */
	/* The results of its last copies, until a reset of their unit or the
	 * loss of the nexus. SPC-2 has the reset for FAILED SEGMENT DETAILS, and
	 * FreeBSD's CTL for the status, too. Private to copy.c. */
	_Atomic uint64_t copies[SCSI_NEXUS_COPIES];
	_Atomic uint64_t reserved[LUNS_MAX]; /* scsi_nexus_is_shut_out() */
	struct scsi_writer {		     /* writers.h */
		writer_ref ref;
		uint8_t port[WRITER_PORT_LEN];
	} writers[LUNS_MAX];
	uint32_t prevents[LUNS_MAX]; /* unit_state_prevent() */
	struct nexus_buffer buffer;  /* WRITE BUFFER */
};

/* True if an access rule (":ro") allows @nexus only to read LUN @lun. False for
 * a volume that is read-only for all initiators: its state outside the medium
 * may be changed. */
static inline bool scsi_nexus_is_reader(const struct scsi_nexus *nexus, int lun)
{
	return nexus->read_only && nexus->read_only[lun];
}

/*
 * The volume that @nexus has as @lun; NULL: none. Worker 0 adds and removes
 * volumes while other workers read. A volume stays valid until each worker has
 * handled a message after its removal.
 */
static inline struct volume *scsi_nexus_slot(const struct scsi_nexus *nexus,
					     unsigned int lun)
{
	return __atomic_load_n(&nexus->vol[lun], __ATOMIC_ACQUIRE);
}

/* The same for a new command: NULL also for a volume that is being removed. */
static inline struct volume *scsi_nexus_volume(const struct scsi_nexus *nexus,
					       unsigned int lun)
{
	struct volume *vol = scsi_nexus_slot(nexus, lun);

	return vol && !vol->leaving ? vol : NULL;
}

/* Why there is no volume: the sense data for a command. */
static inline struct scsi_sense
scsi_nexus_no_volume(const struct scsi_nexus *nexus, int lun)
{
	if (nexus->awaited && lun >= 0 && lun < LUNS_MAX &&
	    __atomic_load_n(&nexus->awaited[lun], __ATOMIC_RELAXED))
		return scsi_sense(SCSI_KEY_NOT_READY, SCSI_ASC_BECOMING_READY);
	return scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_LUN_NOT_SUPPORTED);
}

/* The nexus as reservations of its LUN @lun know it. */
struct scsi_pr_nexus scsi_nexus_at(const struct scsi_nexus *nexus,
				   unsigned int lun);
/* True if @nexus has @vol, and is @who there, by any target port. */
bool scsi_nexus_is(const struct scsi_nexus *nexus, const struct volume *vol,
		   const struct scsi_pr_nexus *who);

/* Its principal on LUN @lun, which is at @at, is @principal from now on. Reservations
 * and unflushed writes go with it. Thread: worker 0. */
void scsi_nexus_take_principal(struct scsi_nexus *nexus, unsigned int lun,
			       uint64_t *at, uint64_t principal);

/* On a new nexus, POWER_ON is pending for every LUN, because the state of the
 * unit may have changed since its initiator last saw it. @luns is borrowed.
 * scsi_nexus_end() undoes this: nothing is told to the nexus any more, and what
 * ends with it has ended. scsi_nexus_fini() follows when no command of it is left.
 * Thread: any, as for all functions here. */
void scsi_nexus_init(struct scsi_nexus *nexus, struct lun_map *luns,
		     const struct srp_port_id *initiator);
void scsi_nexus_end(struct scsi_nexus *nexus);
void scsi_nexus_fini(struct scsi_nexus *nexus);
/* Call it before worker 0 gives @nexus a volume as @lun, where it had none. */
void scsi_nexus_gain(struct scsi_nexus *nexus, unsigned int lun);
/* Call it before worker 0 removes the volume that @nexus has as @lun. No
 * command of any nexus uses it then. */
void scsi_nexus_lose(struct scsi_nexus *nexus, unsigned int lun);
/* Adds a unit attention for @lun (or every LUN: -1). */
void scsi_nexus_attention(struct scsi_nexus *nexus, int lun, uint32_t bit);
/* Adds it for all nexuses that see @vol, except @except (or NULL) ... */
void scsi_attention_others(struct lun_map *luns, const struct volume *vol,
			   const struct scsi_nexus *except, uint32_t bits);
/* ... and for those of an initiator. */
void scsi_attention_nexus(struct lun_map *luns, const struct volume *vol,
			  const struct scsi_pr_nexus *who, uint32_t bits);
/* Ends the prevention of removal by all nexuses of an initiator. */
void scsi_nexus_allow_removal(struct lun_map *luns, struct volume *vol,
			      const struct scsi_pr_nexus *who);
/* I_T nexus loss: raises the unit attention, ends the reservation of RESERVE,
 * and discards the results of copies. */
void scsi_nexus_lost(struct scsi_nexus *nexus);

/*
 * The last step of a logical unit reset, when its commands have ended. Ends the reservation
 * of RESERVE and the prevention of removal, and discards the results of the unit's copies.
 * Then makes the saved mode values current, for which nobody waits: a change of the unit
 * that is under way ends first, and the cache is flushed if this switches it off. If that
 * fails, the log says so, and the values stay. vol->managed counts it. Thread: @w.
 */
void scsi_reset_finish(struct lun_map *luns, struct volume *vol,
		       struct block_worker *w);

enum scsi_task_verdict {
	SCSI_TASK_GO,	/* get buffer and data-out, then execute */
	SCSI_TASK_OVER, /* status and sense are set; done() is not called */
};

struct scsi_task {
	/* set by the port before prepare; scsi_task_clear() keeps them */
	struct block_worker *worker;
	struct scsi_nexus *nexus;
	int lun; /* flat number; -1: the LUN field names no LUN */
	const uint8_t *cdb;
	uint32_t cdb_len;
	uint32_t data_out_len; /* bytes that the initiator describes */
	uint32_t data_in_len;
	/* Called once after execute, maybe from within it. */
	void (*done)(struct scsi_task *task);
	/*
	 * IMMED: called before done(), at most once, maybe from within execute,
	 * when status may be sent although the disk continues. True: the status
	 * has been sent. done() then only says that the disk has finished, and
	 * a later failure becomes a deferred error.
	 */
	bool (*answer)(struct scsi_task *task);
	/*
	 * PREEMPT AND ABORT: ends the commands of @nexuses on this LUN, except
	 * PERSISTENT RESERVE OUT, then calls task->aborted(), maybe from
	 * within. @nexuses is borrowed for the call. -ENOMEM: nothing is ended.
	 */
	int (*abort)(struct scsi_task *task,
		     const struct scsi_pr_nexus *nexuses, unsigned int cnt);

	/* set by prepare */
	struct volume *vol; /* NULL: the LUN has no volume; and cmd, below */
	/* The write must be stable when it is answered, even if WCE changes.
	 * The cache was off when the command came, and its initiator has not
	 * been told of a change. */
	bool stable;

	/* set by the port before execute, unless buf_is_volume */
	uint8_t *buf;
	int buf_index; /* io_uring fixed buffer of buf, or -1 */

	/* scsi_task_clear() zeroes the members from here to cmd.op. */

	/* set by prepare */
	uint32_t fetch_len; /* data-out bytes to have in buf at execute */
	uint32_t buf_len;   /* bytes of buffer wanted, >= fetch_len; 0: none */
	bool buf_is_volume; /* buf points into the volume's own memory: no
			      * buffer is needed, data moves in place */

	/* result, set by prepare (SCSI_TASK_OVER) or before done() */
	uint8_t status;	      /* SCSI status */
	uint32_t data_in_cnt; /* bytes of data-in that lie at buf, at most
			       * data_in_len */
	/* The length that the command itself would transfer, for the residuals:
	 * underflow if it is less than the initiator describes, overflow if
	 * more. */
	uint64_t wanted_out;
	uint64_t wanted_in;
	uint32_t sense_len; /* of sense, below */

	/* private to the disk */
	bool answered;	    /* answer() has returned true */
	bool stopped;	    /* scsi_task_stop() */
	bool on_job;	    /* waits for its job to begin or end */
	bool turns;	    /* has taken a turn of the unit, or waits for it */
	bool tells;	    /* reports that writes may be lost; see
		        * scsi_task_delivered() */
	bool copies;	    /* EXTENDED COPY, and its list is known */
	uint64_t at;	    /* ranges that are done */
	uint64_t range_len; /* bytes or blocks that the command is about */

	/* From here on, each member is written before it is read, except those
	 * that scsi_task_clear() sets. */
	/* Set by prepare. Before that, op is 0, which is no READ, and info is
	 * NULL. */
	struct scsi_cmd cmd;
	/* set by the disk before it calls abort() */
	void (*aborted)(struct scsi_task *task);
	void (*owns)(struct scsi_task *task);
	bool (*next)(struct scsi_task *task); /* disk.h */
	bool was_instant; /* blk ended before block_start() returned */
	struct block_cmd blk;
	struct unit_turn turn;
	struct reactor_msg msg; /* to the task itself */
	uint8_t sense[SCSI_SENSE_MAX];
};

/* Makes a task without a command. Zeroes only members that are read before they
 * are written, because most commands use few of the others. */
static inline void scsi_task_clear(struct scsi_task *task)
{
	const size_t begin = offsetof(struct scsi_task, fetch_len);
	const size_t end =
		offsetof(struct scsi_task, cmd.op) + sizeof(task->cmd.op);

	memset((char *)task + begin, 0, end - begin);
	task->vol = NULL;
	task->cmd.info = NULL;
	task->blk.waited_ticks = 0;
	task->blk.owner.state = BLOCK_OWNER_NONE;
}

/*
 * For a task that moves data in place (buf_is_volume), after prepare: gets its
 * blocks before the fabric touches them. True: the task has them. False: @owns
 * is called when it has them, or task->done(), maybe at once, with the reason
 * why they may not be touched now. Other tasks get their blocks in
 * scsi_task_execute().
 */
bool scsi_task_own(struct scsi_task *task,
		   void (*owns)(struct scsi_task *task));

/*
 * Drops the blocks, or stops waiting for them. Every task does this before
 * done(), except one whose data-in is in the volume's memory: its sender does
 * it. Does nothing if there are none. May start other tasks.
 */
static inline void scsi_task_release(struct scsi_task *task)
{
	block_disown(&task->blk);
}

/*
 * The initiator waits no longer for the task, which executes, or whose data
 * moves in place. What the store or the fabric still has of it is over before
 * others use the blocks (block_owner.h). True: there is something that changes
 * blocks.
 */
static inline bool scsi_task_give_up(struct scsi_task *task)
{
	return block_give_up(&task->blk);
}

/* An executing task submits nothing more to the store. Its result must not be
 * reported. */
void scsi_task_stop(struct scsi_task *task);

/* The same, and done() follows as soon as possible: the task no longer waits
 * for blocks, for those of others, for a turn, nor for a job (FORMAT UNIT, SANITIZE). May call done()
 * from within. */
void scsi_task_cancel(struct scsi_task *task);

/* True if the task reports that writes may be lost. */
void scsi_task_told(struct scsi_task *task);

/* The answer of the task has reached the initiator, which has not aborted the
 * task. Call it before the task is cleared. */
static inline void scsi_task_delivered(struct scsi_task *task)
{
	if (task->tells && !task->stopped)
		scsi_task_told(task);
}

/*
 * EXTENDED COPY is a task of each volume that it reads or writes, and not only of
 * its LUN. True if @task is a copy with such a list. Stays true until it is cleared.
 */
bool scsi_task_touches(const struct scsi_task *task, const struct volume *vol);
/* True if @task, whose CDB is still there, is a copy whose list is not known yet:
 * that may name any volume. */
bool scsi_task_may_copy(const struct scsi_task *task);

/* Sets status and sense data, in the format that the unit uses, for a command
 * that the port refuses. */
void scsi_task_refuse(struct scsi_task *task, const struct scsi_sense *sense);

/* The longest buffer (buf_len) that a command needs: the largest transfer, and
 * a piece of the medium to compare with it. Bytes. */
#define SCSI_TASK_BUF_MAX (VOLUME_MAX_TRANSFER + BLOCK_PIECE)

enum scsi_task_verdict scsi_task_prepare(struct scsi_task *task);
void scsi_task_execute(struct scsi_task *task);

#endif
