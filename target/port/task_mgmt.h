/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Task management: ABORT TASK, ABORT TASK SET, CLEAR TASK SET and LOGICAL UNIT
 * RESET. After the answer, no command that the function covers touches its
 * initiator's memory, nor submits anything to the store. A command that only waits
 * ends at once. For one that the fabric has, the function waits. One that the disk
 * has lingers (request.h): the function never waits for a store. Until the store
 * answers, nobody reads or changes the blocks (block_owner.h), so that to every
 * initiator the write came before the answer to the function.
 *
 *   function          covers the commands of
 *   ABORT TASK        this channel with the tag
 *   ABORT TASK SET    this nexus on the LUN
 *   CLEAR TASK SET    the same: a nexus has a task set of its own (SAM-5 7.4;
 *                     TST = 001b, which the control mode page reports)
 *   LUN RESET         every nexus on the LUN; unit attention 29h/03h for all.
 *                     The mode values become the saved ones, maybe after the
 *                     answer (scsi_reset_finish())
 *   (PREEMPT AND ABORT, which is a command, the nexuses preempted on the LUN)
 *
 * Commands of the nexus that asks end without an answer; the answer to the
 * function returns their credits, or SRP_CRED_REQ on another channel. Commands
 * of other nexuses are answered with status TASK ABORTED (as with TAS = 1,
 * which the control mode page reports), so that no initiator waits in vain.
 *
 * An EXTENDED COPY is a task of each volume that it reads or writes. If it was sent
 * to another LUN, all but ABORT TASK cover it too, and its initiator, whichever it
 * is, gets TASK ABORTED. A copy whose parameter list is not known yet might use the
 * volume, and ends as well.
 *
 * Long commands stop between two pieces (volume.h has the sizes).
 *
 * Channels may be on any worker, so each worker gets a part of the function to
 * do by message and sends it back when its part is done.
 */
#ifndef TARGET_PORT_TASK_MGMT_H
#define TARGET_PORT_TASK_MGMT_H

#include "protocol/srp_iu.h"
#include "target/port/request.h"

/* The part of a task management function that one worker does. */
struct task_mgmt_part {
	struct reactor_msg msg;
	struct task_mgmt *tm;
	struct worker *worker;
	struct list node;    /* worker->managing while left > 0 */
	unsigned int left;   /* covered commands that have not ended */
	uint64_t before_seq; /* covers only commands that arrived before */
	uint64_t began_us;   /* 0: it has not begun to receive them */
};

/* Begins an SRP_TSK_MGMT whose credit was taken. @req is free; it owns @iu from
 * now on. Thread: the worker of the channel. */
void task_mgmt_start(struct request *req, struct xp_iu *iu);

/*
 * For PREEMPT AND ABORT: ends the commands of the initiator @nexuses on the LUN
 * of @req as another nexus would, except PERSISTENT RESERVE OUT: that never
 * touches the medium, and two of them might wait for each other. Then calls
 * req->task.aborted(). @nexuses is borrowed for the call. -ENOMEM: nothing has
 * begun. Thread: the worker of the channel.
 */
int task_mgmt_preempt(struct request *req, const struct scsi_pr_nexus *nexuses,
		      unsigned int cnt);

/*
 * The same for a store whose reservations several targets share, whichever has
 * preempted. As the others know nothing of the blocks, it also waits until the store has
 * no change of the initiators. @done is called on worker 0, never from within. Thread:
 * worker 0.
 */
int task_mgmt_preempt_volume(struct port *port, struct volume *vol,
			     const struct scsi_pr_nexus *nexuses,
			     unsigned int cnt,
			     void (*done)(void *user, struct volume *vol,
					  unsigned int cnt),
			     void *user);

/*
 * Ends all commands on a volume that is being removed (volume.h), as LOGICAL
 * UNIT RESET does. It waits for more: at the end, neither the disk nor the
 * fabric has any of them, and no task management function works on the volume.
 * Embed it.
 */
struct task_mgmt_eviction {
	/* Called once on worker 0, never from within task_mgmt_evict(). */
	void (*done)(struct task_mgmt_eviction *ev);

	/* private */
	struct task_mgmt *tm;
	struct port *port;
	struct volume *vol;
	struct reactor_timer timer;
};

/* Takes what the eviction needs. -ENOMEM: nothing has changed. Thread: worker 0,
 * as for the next two. */
int task_mgmt_evict_prepare(struct port *port, struct volume *vol,
			    struct task_mgmt_eviction *ev);
/* Gives it back. */
void task_mgmt_evict_forget(struct task_mgmt_eviction *ev);
/* Begins the eviction. Call this after vol->leaving is set. */
void task_mgmt_evict(struct task_mgmt_eviction *ev);

/* True if a function may wait until a request comes into @state. */
static inline bool task_mgmt_awaits(enum request_state state)
{
	return state == REQUEST_FREE || state == REQUEST_RESPONDING ||
	       state == REQUEST_LINGERING;
}

/* Called by request_set_state(): @req changes from @from to @to, which
 * task_mgmt_awaits(). */
void task_mgmt_request_moved(struct request *req, enum request_state from,
			     enum request_state to);

#endif
