/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/request.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "target/port/task_mgmt.h"
#include "target/port/task_set.h"
#include "target/port/watchdog.h"

static struct worker *req_worker_of(const struct request *req)
{
	return req->ch->worker;
}

static struct nexus_share *share_of(const struct request *req)
{
	return &req->ch->nexus->shares[req_worker_of(req)->index];
}

void request_init(struct request *req, struct request_slab *slab, uint8_t *rsp)
{
	memset(req, 0, sizeof(*req));
	req->slab = slab;
	req->rsp = rsp;
	req->state = REQUEST_FREE;
	list_init(&req->node);
}

/* The one door through which a request changes its state. */
static void request_set_state(struct request *req, enum request_state state)
{
	enum request_state from = req->state;

	req->state = state;
	if (!list_empty(&req_worker_of(req)->managing))
		task_mgmt_request_moved(req, from, state);
}

static void req_post(struct request *req)
{
	req->posted_us = watchdog_posted(req->ch);
	xp_post(req->ch->xp, &req->chain);
}

/* ---- the end ---- */

static void release_iu(struct request *req)
{
	if (req->iu)
		xp_iu_release(req->iu);
	req->iu = NULL;
}

/* Nobody has the request any more: memory and slot go back. */
static void req_end(struct request *req)
{
	struct worker *w = req_worker_of(req);
	void *block = req->block;
	void *table = req->table;

	assert(!req->waits_for && !req->blocked);
	task_set_leave(req);
	req->block = NULL;
	req->table = NULL;
	release_iu(req);
	if (!req->is_tmf)
		scsi_task_release(&req->task);
	request_set_state(req, REQUEST_FREE);
	channel_request_ended(req->ch, req);
	/* Last: this may set others going. */
	arena_put(w->arena, block);
	arena_put(w->tables, table);
}

void request_drop(struct request *req)
{
	srp_ledger_abandon(&req->ch->ledger);
	req_end(req);
}

static void response_done(struct xp_chain *chain, int status)
{
	struct request *req = container_of(chain, struct request, chain);

	if (status == 0)
		watchdog_done(req->ch, WATCHED_SEND);
	/* The initiator ignores the answer to a task that it has aborted. If
	 * another one aborts the task now, the answer still counts. */
	if (status == 0 && !req->is_tmf && req->fate != FATE_SILENT)
		scsi_task_delivered(&req->task);
	if (!req->lingers) {
		req_end(req);
		return;
	}
	request_set_state(req, REQUEST_LINGERING);
	request_start_blocked(req->ch);
}

/* ---- the response ---- */

static void set_residuals(const struct request *req, struct srp_rsp *rsp)
{
	const struct scsi_task *t = &req->task;
	uint32_t out_cnt = req->fetched ? t->fetch_len : 0;

	if (t->wanted_out > t->data_out_len) {
		rsp->resid_flags |= SRP_RSP_OUT_OVERFLOW;
		rsp->out_resid = (uint32_t)(t->wanted_out - t->data_out_len);
	} else if (out_cnt < t->data_out_len) {
		rsp->resid_flags |= SRP_RSP_OUT_UNDERFLOW;
		rsp->out_resid = t->data_out_len - out_cnt;
	}
	if (t->wanted_in > t->data_in_len) {
		rsp->resid_flags |= SRP_RSP_IN_OVERFLOW;
		rsp->in_resid = (uint32_t)(t->wanted_in - t->data_in_len);
	} else if (t->data_in_cnt < t->data_in_len) {
		rsp->resid_flags |= SRP_RSP_IN_UNDERFLOW;
		rsp->in_resid = t->data_in_len - t->data_in_cnt;
	}
}

static int encode_rsp(struct request *req, struct srp_rsp *rsp)
{
	struct channel *ch = req->ch;
	size_t cap = CHANNEL_RSP_SIZE;
	int len;

	if (cap > ch->ti_iu_len)
		cap = ch->ti_iu_len;
	rsp->tag = req->tag;
	rsp->req_lim_delta = srp_ledger_answer(&ch->ledger);
	len = srp_rsp_encode(req->rsp, cap, rsp);
	assert(len > 0);
	return len;
}

/*
 * Posts the response, behind data-in when there is any. The IU goes back to
 * the transport first: the credit that the response returns is backed by a
 * posted receive.
 */
static void post_response(struct request *req, struct srp_rsp *rsp)
{
	struct channel *ch = req->ch;
	int len = encode_rsp(req, rsp);

	release_iu(req);
	request_set_state(req, REQUEST_RESPONDING);
	ch->requests_cnt++;
	req_worker_of(req)->counters.commands++;
	req->chain.send[0] = (struct xp_sge){ .addr = req->rsp,
					      .len = (uint32_t)len,
					      .mr = request_rsp_mr(req) };
	req->chain.send_cnt = 1;
	req->chain.done = response_done;
	req_post(req);
}

/* The local key for task.buf. */
static struct xp_mr *buffer_mr(const struct request *req)
{
	const struct worker *w = req_worker_of(req);
	enum xp_kind kind = req->ch->kind;

	if (req->task.buf_is_volume)
		return worker_volume_mr(w, req->task.vol, kind);
	return w->arena_mr[kind];
}

static void set_chain_data(struct request *req, enum xp_dir dir, uint32_t len)
{
	req->chain.dir = dir;
	req->chain.remote = req->descs;
	req->chain.remote_cnt = req->data.desc_cnt;
	req->chain.len = len;
	req->chain.local = req->task.buf;
	req->chain.local_mr = buffer_mr(req);
}

static void no_chain_data(struct request *req)
{
	req->chain.dir = XP_NO_DATA;
	req->chain.len = 0;
}

static void respond(struct request *req)
{
	const struct scsi_task *t = &req->task;
	struct srp_rsp rsp = {
		.status = t->status,
		.sense = t->sense_len ? t->sense : NULL,
		.sense_len = t->sense_len,
	};

	set_residuals(req, &rsp);
	no_chain_data(req);
	if (t->data_in_cnt > 0)
		set_chain_data(req, XP_RDMA_WRITE, t->data_in_cnt);
	else
		scsi_task_release(&req->task);
	log_debug("channel %u tag %016llx LUN %d: CDB %02x, status %02x",
		  req->ch->number, (unsigned long long)req->tag, t->lun,
		  t->cmd.info ? t->cmd.info->opcode : 0xff, t->status);
	post_response(req, &rsp);
}

/* Answers with CHECK CONDITION without going any further. */
static void req_refuse(struct request *req, enum scsi_key key,
		       enum scsi_asc code)
{
	struct scsi_sense sense = scsi_sense(key, code);

	scsi_task_refuse(&req->task, &sense);
	respond(req);
}

/*
 * Answers an SRP_CMD that contradicts itself, and lets the channel end once
 * that answer and those of the other requests have left. The response code
 * says what SRP has for it; ib_srp looks at the status alone, so there is one
 * that is not GOOD, with sense data.
 */
static void refuse_iu(struct request *req, const char *what)
{
	struct scsi_sense sense = scsi_sense(
		SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_INVALID_FIELD_IN_COMMAND_IU);
	struct srp_rsp rsp = {
		.status = SCSI_STATUS_CHECK_CONDITION,
		.rsp_valid = true,
		.rsp_code = SRP_RSP_FIELDS_INVALID,
		.sense = req->task.sense,
	};
	struct channel *ch = req->ch;

	channel_complain(ch, "SRP_CMD with tag %016llx: %s; closing",
			 (unsigned long long)req->tag, what);
	scsi_task_refuse(&req->task, &sense);
	rsp.sense_len = req->task.sense_len;
	no_chain_data(req);
	post_response(req, &rsp);
	channel_drain(ch, "the initiator sent an invalid SRP_CMD");
}

static void respond_task_aborted(struct request *req)
{
	req->task.status = SCSI_STATUS_TASK_ABORTED;
	req->task.data_in_cnt = 0;
	req->task.sense_len = 0;
	req->task.tells = false;
	respond(req);
}

void request_answer_tmf(struct request *req, enum srp_rsp_code code)
{
	struct srp_rsp rsp = { .rsp_valid = true, .rsp_code = (uint8_t)code };

	if (!channel_can_answer(req->ch)) {
		request_drop(req);
		return;
	}
	no_chain_data(req);
	post_response(req, &rsp);
}

/* ---- abort ---- */

void request_stop_waiting(struct request *req)
{
	if (req->waits_for)
		arena_cancel_wait(req->waits_for, &req->waiter);
	req->waits_for = NULL;
	task_set_unblock(req);
	if (req->state == REQUEST_RECEIVED)
		scsi_task_release(&req->task);
	else if (req->state == REQUEST_EXECUTING || req->lingers)
		scsi_task_stop(&req->task);
}

/*
 * The fabric or the disk has let go of the request. False when it ends here,
 * because the channel does or because it was aborted.
 */
static bool may_go_on(struct request *req)
{
	if (!channel_can_answer(req->ch) || req->fate == FATE_SILENT) {
		request_drop(req);
		return false;
	}
	if (req->fate == FATE_ABORTED) {
		respond_task_aborted(req);
		return false;
	}
	return true;
}

static void end_waiting(struct request *req)
{
	request_stop_waiting(req);
	may_go_on(req);
}

void request_abort(struct request *req, enum request_fate fate)
{
	if (req->fate < fate)
		req->fate = fate;
	if (req->state == REQUEST_EXECUTING || req->lingers)
		/* Then it may be another request already. */
		scsi_task_cancel(&req->task);
	else if (req->state == REQUEST_RECEIVED)
		end_waiting(req);
}

/* ---- execution ---- */

/*
 * For scsi_task.answer. An initiator that is answered at once sends the next,
 * while the disk may be slow: so that there are requests left for its commands
 * and for task management, the answer of one too many comes when it is done.
 */
static bool answer_now(struct scsi_task *task)
{
	struct request *req = container_of(task, struct request, task);
	struct channel *ch = req->ch;

	if (ch->lingering_cnt == CHANNEL_LINGERING || !channel_can_answer(ch) ||
	    req->fate != FATE_ANSWER)
		return false;
	ch->lingering_cnt++;
	req->lingers = true;
	respond(req);
	return true;
}

/* The disk has let go; the fabric may still have the response. */
static void end_lingering(struct request *req)
{
	req->ch->lingering_cnt--;
	req->lingers = false;
	if (req->state == REQUEST_LINGERING)
		req_end(req);
}

static void executed(struct scsi_task *task)
{
	struct request *req = container_of(task, struct request, task);

	if (req->lingers)
		end_lingering(req);
	else if (may_go_on(req))
		respond(req);
}

/* For scsi_task.abort. */
static int req_abort_preempted(struct scsi_task *task,
			       const struct srp_port_id *ports,
			       unsigned int cnt)
{
	return task_mgmt_preempt(container_of(task, struct request, task),
				 ports, cnt);
}

static void execute(struct request *req)
{
	request_set_state(req, REQUEST_EXECUTING);
	scsi_task_execute(&req->task);
}

/* ---- data-out ---- */

static void fetch_done(struct xp_chain *chain, int status)
{
	struct request *req = container_of(chain, struct request, chain);

	if (status) {
		request_drop(req);
		return;
	}
	watchdog_done(req->ch, WATCHED_READ);
	req->fetched = true;
	if (may_go_on(req))
		execute(req);
}

static void copy_immediate(struct request *req)
{
	memcpy(req->task.buf, req->data.imm, req->task.fetch_len);
	req_worker_of(req)->counters.copied += req->task.fetch_len;
}

/* Everything has its place: gets the data-out there, then executes. */
static void fetch(struct request *req)
{
	struct scsi_task *t = &req->task;

	if (t->fetch_len == 0) {
		execute(req);
		return;
	}
	assert(t->fetch_len <= req->data.len);
	if (req->data.format == SRP_DATA_IMMEDIATE) {
		if (t->buf != req->data.imm)
			copy_immediate(req);
		req->fetched = true;
		execute(req);
		return;
	}
	request_set_state(req, REQUEST_FETCHING);
	req->chain = (struct xp_chain){ .done = fetch_done };
	set_chain_data(req, XP_RDMA_READ, t->fetch_len);
	req_post(req);
}

/*
 * Immediate data can stay where it is when the disk wants no more room than
 * that and the backend can do I/O from there.
 */
static bool immediate_in_place(const struct request *req)
{
	const struct scsi_task *t = &req->task;
	uintptr_t align = t->vol ? t->vol->backend->info.min_block : 0;

	return req->data_is_out && req->data.format == SRP_DATA_IMMEDIATE &&
	       t->buf_len == t->fetch_len && align > 0 &&
	       (uintptr_t)req->data.imm % align == 0;
}

static void use_block(struct request *req, void *block)
{
	req->block = block;
	req->task.buf = block;
	req->task.buf_index = arena_uring_index(req_worker_of(req)->arena);
	fetch(req);
}

static void block_granted(struct arena_waiter *waiter, void *block)
{
	struct request *req = container_of(waiter, struct request, waiter);

	req->waits_for = NULL;
	use_block(req, block);
}

/* A block of @arena, or NULL: then granted() comes later. */
static void *get_or_wait(struct request *req, struct arena *arena,
			 struct arena_user *user, size_t len,
			 void (*granted)(struct arena_waiter *w, void *block))
{
	void *block;

	req->waiter.user = user;
	req->waiter.granted = granted;
	block = arena_get_wait(arena, len, &req->waiter);
	if (!block) {
		req->waits_for = arena;
		req_worker_of(req)->counters.waits++;
	}
	return block;
}

static void req_blocks_held(struct scsi_task *task)
{
	fetch(container_of(task, struct request, task));
}

static void start_buffer(struct request *req)
{
	struct arena *arena = req_worker_of(req)->arena;
	struct scsi_task *t = &req->task;
	void *block;

	t->buf_index = -1;
	if (t->buf_is_volume) {
		scsi_task_hold(t, req_blocks_held);
		return;
	}
	if (t->buf_len == 0) {
		fetch(req);
		return;
	}
	if (immediate_in_place(req)) {
		t->buf = (uint8_t *)req->data.imm;
		fetch(req);
		return;
	}
	if (t->buf_len > arena_len(arena)) {
		req_refuse(req, SCSI_KEY_ILLEGAL_REQUEST,
			   SCSI_ASC_INSUFFICIENT_RESOURCES);
		return;
	}
	block = get_or_wait(req, arena, &share_of(req)->data, t->buf_len,
			    block_granted);
	if (block)
		use_block(req, block);
}

/* ---- descriptors ---- */

/* @raw and @descs may be the same memory. */
static void unpack_descs(const uint8_t *raw, uint32_t cnt,
			 struct srp_desc *descs)
{
	struct srp_desc desc;

	for (uint32_t i = 0; i < cnt; i++) {
		srp_desc_unpack(raw + (size_t)i * SRP_DESC_SIZE, 1, &desc);
		descs[i] = desc;
	}
}

static void table_read(struct xp_chain *chain, int status)
{
	struct request *req = container_of(chain, struct request, chain);
	const struct srp_data *data = &req->data;

	if (status) {
		request_drop(req);
		return;
	}
	watchdog_done(req->ch, WATCHED_READ);
	if (!may_go_on(req))
		return;
	/* Nobody has it any more: who ends it now must do so himself. */
	request_set_state(req, REQUEST_RECEIVED);
	if (srp_desc_table_check(req->table, data->desc_cnt, data->len) < 0) {
		refuse_iu(req, "the lengths in its descriptor table do not "
			       "add up");
		return;
	}
	unpack_descs(req->table, data->desc_cnt, req->table);
	req->descs = req->table;
	start_buffer(req);
}

/* The list in the IU is partial: the whole of it is in initiator memory. */
static void read_table(struct request *req)
{
	struct worker *w = req_worker_of(req);

	log_debug("channel %u tag %016llx: reads its table of %u descriptors",
		  req->ch->number, (unsigned long long)req->tag,
		  req->data.desc_cnt);
	request_set_state(req, REQUEST_READING);
	req->chain = (struct xp_chain){
		.dir = XP_RDMA_READ,
		.remote = &req->data.table,
		.remote_cnt = 1,
		.len = req->data.desc_cnt * SRP_DESC_SIZE,
		.local = req->table,
		.local_mr = w->tables_mr[req->ch->kind],
		.done = table_read,
	};
	req_post(req);
}

static void use_table(struct request *req, void *table)
{
	req->table = table;
	if (req->data.partial) {
		read_table(req);
		return;
	}
	srp_desc_unpack(req->data.descs, req->data.desc_cnt, table);
	req->descs = table;
	start_buffer(req);
}

static void table_granted(struct arena_waiter *waiter, void *table)
{
	struct request *req = container_of(waiter, struct request, waiter);

	req->waits_for = NULL;
	use_table(req, table);
}

static bool needs_descs(const struct request *req)
{
	if (req->data.len == 0 || req->data.format == SRP_DATA_IMMEDIATE)
		return false;
	return !req->data_is_out || req->task.fetch_len > 0;
}

static void start_descs(struct request *req)
{
	const struct srp_data *data = &req->data;
	void *table;

	if (!needs_descs(req)) {
		start_buffer(req);
		return;
	}
	if (data->desc_cnt > REQUEST_DESCS_MAX) {
		channel_complain(req->ch,
				 "SRP_CMD with tag %016llx: %u descriptors, "
				 "the limit is %u; command refused",
				 (unsigned long long)req->tag, data->desc_cnt,
				 REQUEST_DESCS_MAX);
		req_refuse(req, SCSI_KEY_ILLEGAL_REQUEST,
			   SCSI_ASC_INSUFFICIENT_RESOURCES);
		return;
	}
	if (!data->partial && data->desc_cnt <= REQUEST_DESCS) {
		srp_desc_unpack(data->descs, data->desc_cnt, req->own_descs);
		req->descs = req->own_descs;
		start_buffer(req);
		return;
	}
	table = get_or_wait(
		req, req_worker_of(req)->tables, &share_of(req)->tables,
		(size_t)data->desc_cnt * SRP_DESC_SIZE, table_granted);
	if (table)
		use_table(req, table);
}

/* ---- arrival ---- */

static void reset(struct request *req, struct xp_iu *iu)
{
	req->iu = iu;
	req->fate = FATE_ANSWER;
	req->fetched = false;
	req->lingers = false;
	req->is_tmf = false;
	req->attr = SRP_TASK_SIMPLE;
	req->blocked = false;
	req->waits_for = NULL;
	list_init(&req->waiter.node);
	memset(&req->data, 0, sizeof(req->data));
}

void request_start_tmf(struct request *req, uint64_t tag)
{
	reset(req, NULL);
	req->is_tmf = true;
	req->tag = tag;
	request_set_state(req, REQUEST_MANAGING);
}

static void fill_task(struct request *req, const struct srp_cmd_view *cmd)
{
	struct channel *ch = req->ch;
	struct scsi_task *t = &req->task;
	uint32_t lun;

	req->tag = cmd->tag;
	req->data_is_out = cmd->out.len > 0;
	req->data = req->data_is_out ? cmd->out : cmd->in;
	scsi_task_clear(t);
	t->worker = &ch->worker->block;
	t->nexus = &ch->nexus->scsi;
	t->lun = srp_lun_decode(cmd->lun, &lun) < 0 ? -1 : (int)lun;
	t->cdb = cmd->cdb;
	t->cdb_len = cmd->cdb_len;
	t->data_out_len = cmd->out.len;
	t->data_in_len = cmd->in.len;
	t->buf_index = -1;
	t->done = executed;
	t->answer = answer_now;
	t->abort = req_abort_preempted;
}

/* ---- the start ---- */

/* Unit attentions and reservations are looked at only now (SAM-5 5.14). */
static void start_task(struct request *req)
{
	if (scsi_task_prepare(&req->task) == SCSI_TASK_OVER)
		respond(req);
	else
		start_descs(req);
}

void request_start_blocked(struct channel *ch)
{
	struct request *req;

	while ((req = task_set_next(ch)))
		start_task(req);
}

/* ---- arrival of a command ---- */

static const char *decode_fault(int err)
{
	return err == -ENOTSUP ? "a data format that was not offered at login"
			       : "its lengths contradict each other";
}

/* Of an SRP_CMD that was refused; -1: it names none. */
static int undecoded_lun(const struct xp_iu *iu)
{
	uint64_t field;
	uint32_t lun;

	if (srp_cmd_lun(iu->data, iu->len, &field) < 0 ||
	    srp_lun_decode(field, &lun) < 0)
		return -1;
	return (int)lun;
}

/* srp_cmd_decode() refused it; its tag, at least, is there. */
static void refuse_undecoded(struct request *req, int err)
{
	struct srp_head head = { 0 };

	srp_head_decode(req->iu->data, req->iu->len, &head);
	req->tag = head.tag;
	req->task = (struct scsi_task){
		.nexus = &req->ch->nexus->scsi,
		.lun = undecoded_lun(req->iu),
	};
	refuse_iu(req, decode_fault(err));
}

void request_start(struct request *req, struct xp_iu *iu)
{
	struct srp_cmd_view cmd;
	int err = srp_cmd_decode(iu->data, iu->len, &req->ch->rules, &cmd);

	reset(req, iu);
	request_set_state(req, REQUEST_RECEIVED);
	if (err) {
		refuse_undecoded(req, err);
		return;
	}
	fill_task(req, &cmd);
	if (cmd.out.len > 0 && cmd.in.len > 0) {
		req_refuse(req, SCSI_KEY_ILLEGAL_REQUEST,
			   SCSI_ASC_INVALID_FIELD_IN_COMMAND_IU);
		return;
	}
	/* ACA, as there is none, and reserved values (SAM-5 8.6). */
	if (cmd.task_attr > SRP_TASK_ORDERED) {
		req_refuse(req, SCSI_KEY_ILLEGAL_REQUEST,
			   SCSI_ASC_INVALID_MESSAGE_ERROR);
		return;
	}
	if (task_set_enter(req, cmd.task_attr))
		start_task(req);
}
