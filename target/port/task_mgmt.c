/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/task_mgmt.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/port/port.h"

/* For struct task_mgmt only; initiators cannot send these functions. */
#define PREEMPT 0
#define EVICT	0xff

/* An initiator that goes on sending does not delay its function for longer. */
#define PART_RECEIVES_MS 100

/* Time between two checks whether the functions on a volume have ended. */
#define EVICTION_STEP_MS 10

struct task_mgmt {
	/* The request of the function: SRP_TSK_MGMT in state MANAGING, or for
	 * PREEMPT a command in state EXECUTING. NULL for EVICT, and for PREEMPT
	 * on a store whose reservations targets share. */
	struct request *req;
	struct port *port;
	struct reactor *home; /* the reactor of that request */
	/* The volume at LUN of the asking nexus. NULL: none, which only ABORT
	 * TASK allows. */
	struct volume *vol;
	struct task_mgmt_eviction *eviction; /* EVICT */
	uint8_t function;
	uint64_t task_tag;
	struct scsi_pr_nexus *nexuses; /* PREEMPT: the initiators, nexus_cnt */
	/* PREEMPT without req */
	void (*preempted)(void *user, struct volume *vol, unsigned int cnt);
	void *user;
	unsigned int nexus_cnt;
	unsigned int parts_left;
	struct task_mgmt_part parts[];
};

static void part_returned(struct reactor_msg *msg);

/* The volume that the initiator knows as @lun; NULL: none. */
static struct volume *tmf_volume_of(const struct channel *ch, int lun)
{
	if (lun < 0 || lun >= LUNS_MAX)
		return NULL;
	return scsi_nexus_slot(&ch->nexus->scsi, (unsigned int)lun);
}

/* True for a task that was sent to the logical unit. Initiators may know it by
 * different LUNs. */
static bool tmf_is_for(const struct task_mgmt *tm, const struct request *req)
{
	return tm->function == SRP_TSK_ABORT_TASK ||
	       tmf_volume_of(req->ch, req->task.lun) == tm->vol;
}

static const struct nexus *tmf_nexus_of(const struct request *req)
{
	return req->ch->nexus;
}

/* ---- one worker's part ---- */

static bool tmf_is_preempted(const struct task_mgmt *tm,
			     const struct request *req)
{
	const struct scsi_cdb_info *info = req->task.cmd.info;

	if (info && info->op == SCSI_OP_PERSISTENT_OUT)
		return false;
	for (unsigned int i = 0; i < tm->nexus_cnt; i++) {
		if (scsi_nexus_is(&tmf_nexus_of(req)->scsi, tm->vol,
				  &tm->nexuses[i]))
			return true;
	}
	return false;
}

/*
 * True for commands that the asking channel received after the function. They
 * are not covered, although they may arrive before this worker runs its part:
 * otherwise they would never be answered. Commands of other channels have no
 * order relative to the function.
 */
static bool part_is_later(const struct task_mgmt *tm, const struct request *req)
{
	if (tm->function == EVICT)
		return false;
	return tm->function != PREEMPT && req->ch == tm->req->ch &&
	       req->seq > tm->req->seq;
}

/* Does the function cover commands of this initiator that arrived then? */
static bool tmf_concerns(const struct task_mgmt_part *part,
			 const struct request *req)
{
	const struct task_mgmt *tm = part->tm;

	if (req->seq >= part->before_seq || req->is_tmf ||
	    part_is_later(tm, req))
		return false;
	switch (tm->function) {
	case SRP_TSK_ABORT_TASK:
		return req->ch == tm->req->ch && req->tag == tm->task_tag;
	case SRP_TSK_ABORT_TASK_SET:
	case SRP_TSK_CLEAR_TASK_SET:
		return tmf_nexus_of(req) == tmf_nexus_of(tm->req);
	case PREEMPT:
		return tmf_is_preempted(tm, req);
	default:
		return true;
	}
}

/* True for a task that the function awaits, as long as it is there. */
static bool part_awaits(const struct task_mgmt_part *part,
			const struct request *req)
{
	return tmf_concerns(part, req) &&
	       (tmf_is_for(part->tm, req) ||
		scsi_task_touches(&req->task, part->tm->vol));
}

/* True for a task that the function ends: also a copy that might use the volume. It
 * does not begin, so the function need not await it. Its IU has the CDB. */
static bool part_ends(const struct task_mgmt_part *part,
		      const struct request *req)
{
	return part_awaits(part, req) || (tmf_concerns(part, req) && req->iu &&
					  scsi_task_may_copy(&req->task));
}

/* True: the end of the volume, or another target that serves the store and knows nothing
 * of the blocks, must find that the store has nothing of those before. */
static bool tmf_awaits_the_store(const struct task_mgmt *tm)
{
	return !tm->req;
}

/*
 * True: the function no longer waits for a covered request in @state. If its
 * own nexus ends a request, the fabric must no longer have it, because the initiator
 * frees its buffers. If another nexus ends it, it must only submit nothing any more;
 * its initiator may be dead, and its fabric slow to report that. If the volume is
 * being removed, all its requests must be gone, because the fabric may read or
 * write its memory.
 */
static bool part_is_settled(const struct task_mgmt_part *part,
			    const struct request *req, enum request_state state)
{
	const struct task_mgmt *tm = part->tm;

	if (!task_mgmt_awaits(state))
		return false;
	if (state == REQUEST_FREE)
		return true;
	if (tmf_awaits_the_store(tm))
		return tm->function == PREEMPT && !req->given_up;
	return state == REQUEST_LINGERING ||
	       tmf_nexus_of(req) != tmf_nexus_of(tm->req);
}

static void part_let_go(struct task_mgmt_part *part)
{
	assert(part->left > 0);
	if (--part->left > 0)
		return;
	list_del(&part->node);
	part->msg.run = part_returned;
	reactor_send(part->tm->home, &part->msg);
}

void task_mgmt_request_moved(struct request *req, enum request_state from,
			     enum request_state to)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &req->ch->worker->managing) {
		struct task_mgmt_part *part =
			container_of(it, struct task_mgmt_part, node);

		if (from != REQUEST_FREE && part_awaits(part, req) &&
		    !part_is_settled(part, req, from) &&
		    part_is_settled(part, req, to))
			part_let_go(part);
	}
}

static void part_for_each_request(struct task_mgmt_part *part,
				  void (*fn)(struct task_mgmt_part *part,
					     struct request *req))
{
	struct list *c;

	list_for_each(c, &part->worker->channels) {
		struct channel *ch =
			container_of(c, struct channel, worker_node);
		struct request *req;
		uint64_t next = 0;

		while ((req = channel_next_request(ch, next))) {
			next = req->seq + 1;
			if (tmf_concerns(part, req))
				fn(part, req);
		}
	}
}

/* An initiator gets an answer to a copy that it has sent to another LUN. */
static enum request_fate part_fate(const struct task_mgmt_part *part,
				   const struct request *req)
{
	const struct request *asks = part->tm->req;

	return asks && tmf_nexus_of(req) == tmf_nexus_of(asks) &&
			       tmf_is_for(part->tm, req)
		       ? FATE_SILENT
		       : FATE_ABORTED;
}

static void part_count_in(struct task_mgmt_part *part, struct request *req)
{
	if (part_awaits(part, req) && !part_is_settled(part, req, req->state))
		part->left++;
}

/* Before any is ended, because the end of one must not start another. It may end
 * another that was stopped. */
static void part_stop_one(struct task_mgmt_part *part, struct request *req)
{
	if (part_ends(part, req))
		request_stop_waiting(req, part_fate(part, req));
}

static void part_end_one(struct task_mgmt_part *part, struct request *req)
{
	if (part_ends(part, req))
		request_abort(req, part_fate(part, req));
}

/* The initiator takes all commands of the nexus on the LUN for ended, by whatever channel
 * it has sent them. */
static bool tmf_covers_channels(const struct task_mgmt *tm)
{
	return tm->req && tm->function != PREEMPT &&
	       tm->function != SRP_TSK_ABORT_TASK;
}

static bool part_has_unread(const struct task_mgmt_part *part)
{
	const struct request *asks = part->tm->req;
	struct list *it;

	list_for_each(it, &part->worker->channels) {
		const struct channel *ch =
			container_of(it, struct channel, worker_node);

		if (ch->nexus == tmf_nexus_of(asks) && ch != asks->ch &&
		    ch->xp && xp_chan_has_unread(ch->xp))
			return true;
	}
	return false;
}

/* True: commands that were sent before the function may lie unread, because this thread did
 * not run. Some are received in each turn. */
static bool part_receives(struct task_mgmt_part *part)
{
	uint64_t now = reactor_real_us(part->worker->reactor);

	if (part->began_us)
		return now - part->began_us < PART_RECEIVES_MS * 1000 &&
		       part_has_unread(part);
	part->began_us = now;
	return true;
}

static void part_run(struct reactor_msg *msg)
{
	struct task_mgmt_part *part =
		container_of(msg, struct task_mgmt_part, msg);
	const struct task_mgmt *tm = part->tm;
	struct worker *w = part->worker;

	if (tmf_covers_channels(tm) && part_receives(part)) {
		reactor_send(w->reactor, &part->msg);
		return;
	}
	part->before_seq = w->next_seq;
	part->left = 1; /* this function's own */
	part_for_each_request(part, part_count_in);
	list_add_tail(&w->managing, &part->node);
	part_for_each_request(part, part_stop_one);
	part_for_each_request(part, part_end_one);
	if (w->index == 0 && tm->function == SRP_TSK_LUN_RESET)
		scsi_attention_others(tm->port->luns, tm->vol,
				      /* except= */ NULL, SCSI_UA_LUN_RESET);
	part_let_go(part);
}

/* ---- the whole ---- */

static void tmf_free(struct task_mgmt *tm)
{
	if (tm->vol)
		atomic_fetch_sub(&tm->vol->managed, 1);
	free(tm->nexuses);
	free(tm);
}

/* Waits for the functions that found the volume before its removal began. */
static void eviction_look(struct reactor_timer *timer)
{
	struct task_mgmt_eviction *ev =
		container_of(timer, struct task_mgmt_eviction, timer);

	if (atomic_load(&ev->vol->managed) == 0)
		ev->done(ev);
	else
		reactor_timer_set(ev->port->workers[0].reactor, timer,
				  EVICTION_STEP_MS);
}

static void tmf_evicted(struct task_mgmt *tm)
{
	struct task_mgmt_eviction *ev = tm->eviction;

	tmf_free(tm);
	eviction_look(&ev->timer);
}

static void tmf_preempted(struct task_mgmt *tm)
{
	struct request *req = tm->req;

	/* The volume stays until the function about it has ended. */
	if (tm->preempted)
		tm->preempted(tm->user, tm->vol, tm->nexus_cnt);
	tmf_free(tm);
	if (req)
		req->task.aborted(&req->task);
}

static void part_returned(struct reactor_msg *msg)
{
	struct task_mgmt_part *part =
		container_of(msg, struct task_mgmt_part, msg);
	struct task_mgmt *tm = part->tm;
	struct request *req = tm->req;

	if (--tm->parts_left > 0)
		return;
	if (tm->function == EVICT) {
		tmf_evicted(tm);
		return;
	}
	if (tm->function == PREEMPT) {
		tmf_preempted(tm);
		return;
	}
	/* All commands under the old reservation and mode values have ended, except later
	 * ones. */
	if (tm->function == SRP_TSK_LUN_RESET)
		scsi_reset_finish(tm->port->luns, tm->vol,
				  &req->ch->worker->block);
	tmf_free(tm);
	request_answer_tmf(req, SRP_RSP_COMPLETE);
}

static void tmf_send_parts(struct task_mgmt *tm)
{
	const struct port *port = tm->port;

	for (unsigned int i = 0; i < tm->parts_left; i++) {
		struct task_mgmt_part *part = &tm->parts[i];

		part->tm = tm;
		part->worker = tm->function == SRP_TSK_ABORT_TASK
				       ? tm->req->ch->worker
				       : &port->workers[i];
		part->msg.run = part_run;
		list_init(&part->node);
		reactor_send(part->worker->reactor, &part->msg);
	}
}

/* Makes a function on @vol, which may be NULL, with @parts parts. NULL: no
 * memory. */
static struct task_mgmt *tmf_alloc(struct port *port, struct volume *vol,
				   uint8_t function, unsigned int parts)
{
	struct task_mgmt *tm =
		calloc(1, sizeof(*tm) + parts * sizeof(tm->parts[0]));

	if (!tm)
		return NULL;
	tm->port = port;
	tm->home = port->workers[0].reactor;
	tm->function = function;
	tm->vol = vol;
	if (vol)
		atomic_fetch_add(&vol->managed, 1);
	tm->parts_left = parts;
	return tm;
}

/* Makes a part for each worker. NULL: no memory. */
static struct task_mgmt *tmf_create(struct request *req, uint8_t function,
				    int lun, unsigned int parts)
{
	struct task_mgmt *tm = tmf_alloc(
		req->ch->port, tmf_volume_of(req->ch, lun), function, parts);

	if (!tm)
		return NULL;
	tm->req = req;
	tm->home = req->ch->worker->reactor;
	return tm;
}

/* @tm: NULL: no memory for it. */
static int tmf_start_preempt(struct task_mgmt *tm,
			     const struct scsi_pr_nexus *nexuses,
			     unsigned int cnt)
{
	if (tm)
		tm->nexuses = malloc(cnt * sizeof(*nexuses));
	if (!tm || !tm->nexuses) {
		if (tm)
			tmf_free(tm);
		return -ENOMEM;
	}
	memcpy(tm->nexuses, nexuses, cnt * sizeof(*nexuses));
	tm->nexus_cnt = cnt;
	tmf_send_parts(tm);
	return 0;
}

int task_mgmt_preempt(struct request *req, const struct scsi_pr_nexus *nexuses,
		      unsigned int cnt)
{
	return tmf_start_preempt(tmf_create(req, PREEMPT, req->task.lun,
					    req->ch->port->worker_cnt),
				 nexuses, cnt);
}

int task_mgmt_preempt_volume(struct port *port, struct volume *vol,
			     const struct scsi_pr_nexus *nexuses,
			     unsigned int cnt,
			     void (*done)(void *user, struct volume *vol,
					  unsigned int cnt),
			     void *user)
{
	struct task_mgmt *tm = tmf_alloc(port, vol, PREEMPT, port->worker_cnt);

	if (tm) {
		tm->preempted = done;
		tm->user = user;
	}
	return tmf_start_preempt(tm, nexuses, cnt);
}

int task_mgmt_evict_prepare(struct port *port, struct volume *vol,
			    struct task_mgmt_eviction *ev)
{
	ev->tm = tmf_alloc(port, vol, EVICT, port->worker_cnt);
	if (!ev->tm)
		return -ENOMEM;
	ev->tm->eviction = ev;
	ev->port = port;
	ev->vol = vol;
	reactor_timer_init(&ev->timer, eviction_look);
	return 0;
}

void task_mgmt_evict_forget(struct task_mgmt_eviction *ev)
{
	tmf_free(ev->tm);
}

void task_mgmt_evict(struct task_mgmt_eviction *ev)
{
	tmf_send_parts(ev->tm);
}

static void tmf_manage(struct request *req, const struct srp_tsk_mgmt *t,
		       int lun)
{
	struct port *port = req->ch->port;
	unsigned int parts =
		t->function == SRP_TSK_ABORT_TASK ? 1 : port->worker_cnt;
	struct task_mgmt *tm = tmf_create(req, t->function, lun, parts);

	if (!tm) {
		request_answer_tmf(req, SRP_RSP_TMF_FAILED);
		return;
	}
	tm->task_tag = t->task_tag;
	tmf_send_parts(tm);
}

/* A reset ends commands of other nexuses and changes what they see. The other
 * functions end only commands of the nexus itself. */
static bool tmf_may_reset(const struct channel *ch, int lun)
{
	return !scsi_nexus_is_reader(&ch->nexus->scsi, lun);
}

/* -1: @field is not the LUN of a volume of @ch. */
static int tmf_volume_lun(const struct channel *ch, uint64_t field)
{
	uint32_t lun;

	if (srp_lun_decode(field, &lun) < 0 || lun >= LUNS_MAX ||
	    !scsi_nexus_volume(&ch->nexus->scsi, lun))
		return -1;
	return (int)lun;
}

static void tmf_judge(struct request *req, const struct srp_tsk_mgmt *t)
{
	struct channel *ch = req->ch;
	int lun = tmf_volume_lun(ch, t->lun);

	log_event(LOG_INFO, &(struct log_about){ .nexus = ch->nexus->name },
		  "channel %u, %s: %s, LUN field %016llx, task %016llx",
		  ch->number, ch->nexus->name, srp_tsk_mgmt_name(t->function),
		  (unsigned long long)t->lun, (unsigned long long)t->task_tag);
	switch (t->function) {
	case SRP_TSK_ABORT_TASK:
		tmf_manage(req, t, lun);
		return;
	case SRP_TSK_ABORT_TASK_SET:
	case SRP_TSK_CLEAR_TASK_SET:
	case SRP_TSK_LUN_RESET:
		if (lun < 0)
			request_answer_tmf(req, SRP_RSP_FIELDS_INVALID);
		else if (t->function == SRP_TSK_LUN_RESET &&
			 !tmf_may_reset(ch, lun))
			request_answer_tmf(req, SRP_RSP_TMF_NOT_SUPPORTED);
		else
			tmf_manage(req, t, lun);
		return;
	default:
		/* CLEAR ACA, too: the target has no ACA (it refuses NACA). */
		request_answer_tmf(req, SRP_RSP_TMF_NOT_SUPPORTED);
		return;
	}
}

void task_mgmt_start(struct request *req, struct xp_iu *iu)
{
	struct channel *ch = req->ch;
	struct srp_tsk_mgmt t = { 0 };
	struct srp_head head = { 0 };
	int err = srp_tsk_mgmt_decode(iu->data, iu->len, &t);

	srp_head_decode(iu->data, iu->len, &head);
	xp_iu_release(iu);
	request_start_tmf(req, head.tag);
	if (err == 0) {
		tmf_judge(req, &t);
		return;
	}
	channel_complain(ch, "SRP_TSK_MGMT is too short; closing");
	request_answer_tmf(req, SRP_RSP_FIELDS_INVALID);
	channel_drain(ch, "invalid IU length");
}
