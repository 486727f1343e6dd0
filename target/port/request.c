/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In the order of events: arrival, request_run_steps() with the whole life of a
 * command, its steps, the response, the end, then aborts and task management.
 */
#include "target/port/request.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/probe.h"
#include "target/port/hang.h"
#include "target/port/slow.h"
#include "target/port/task_mgmt.h"
#include "target/port/task_set.h"
#include "target/port/watchdog.h"

static void request_fill_task(struct request *req,
			      const struct srp_cmd_view *cmd);
static void request_advance(struct request *req);
static void request_resume(struct request *req);

/* Steps of request_run_steps(). False: the request now waits for an event, or was
 * refused. */
static bool request_take_table(struct request *req);
static bool request_unpack_iu(struct request *req);
static bool request_unpack_table(struct request *req);
static bool request_take_buffer(struct request *req);
static bool request_fetch_data(struct request *req);
static bool request_give_to_disk(struct request *req);

/* Callbacks of the disk: scsi_task.done, .answer, .abort. */
static void request_disk_done(struct scsi_task *task);
static bool request_answer_now(struct scsi_task *task);
static int request_abort_preempted(struct scsi_task *task,
				   const struct scsi_pr_nexus *nexuses,
				   unsigned int cnt);

static void request_respond(struct request *req);
static void request_refuse(struct request *req, enum scsi_key key,
			   enum scsi_asc code);
static void request_refuse_iu(struct request *req, const char *what);
static void request_refuse_undecoded(struct request *req, int err);
static void request_end(struct request *req);

static struct nexus_share *request_share(const struct request *req)
{
	return &req->ch->nexus->shares[req->worker->index];
}

void request_init(struct request *req, struct worker *w,
		  struct request_slab *slab, uint8_t *rsp)
{
	memset(req, 0, sizeof(*req));
	req->slab = slab;
	req->worker = w;
	req->rsp = rsp;
	req->task.worker = &w->block;
	req->task.done = request_disk_done;
	req->task.answer = request_answer_now;
	req->task.abort = request_abort_preempted;
	req->state = REQUEST_FREE;
	list_init(&req->node);
}

/* Makes every change of state. */
static void request_set_state(struct request *req, enum request_state state)
{
	enum request_state from = req->state;

	req->state = state;
	if (task_mgmt_awaits(state) && !list_empty(&req->worker->managing))
		task_mgmt_request_moved(req, from, state);
}

/* ---- time ---- */

/* The event that ends @stage came at @when. */
static void request_passed_at(struct request *req, enum meter_stage stage,
			      uint64_t when)
{
	meter_clock_pass(&req->clock, stage, when, !req->passed);
	req->passed = true;
}

static void request_passed(struct request *req, enum meter_stage stage)
{
	request_passed_at(req, stage, ticks_now());
}

/* @req has got what it waited for, and continues. */
__attribute__((noinline)) static void request_queued(struct request *req)
{
	request_passed(req, METER_QUEUE);
	request_advance(req);
}

static void request_count_in(const struct request *req,
			     struct meter_share *share, uint64_t ticks)
{
	const struct scsi_task *t = &req->task;
	struct meter_counts *counts =
		&share->op[t->cmd.info ? meter_op_of[t->cmd.op] : METER_OTHER];

	meter_count(counts, meter_bucket(ticks), ticks,
		    t->data_in_cnt + t->fetch_len);
	if (req->passed)
		meter_count_stages(counts, &req->clock);
}

__attribute__((noinline, cold)) static void
request_count_any(const struct request *req, uint64_t ticks)
{
	uint64_t now = req->clock.arrived + ticks;
	uint64_t arrived = request_arrived(req);
	uint64_t since = req->passed ? req->clock.since : arrived;
	const struct worker *w = req->worker;
	const struct volume *vol = req->task.vol;

	if (now - arrived >= w->slow_ticks)
		slow_command(req, now, /* answered= */ true);
	request_count_in(req, req->ch->meter, now - since);
	if (vol)
		request_count_in(req, vol->meter_shares[w->index], now - since);
}

/*
 * A command has been answered. A READ that did not wait takes the shortest
 * path: tests/bench/instructions.json counts its instructions.
 */
static inline void request_count(const struct request *req)
{
	const struct worker *w = req->worker;
	const struct scsi_task *t = &req->task;
	uint64_t ticks = meter_clock_ticks(&req->clock);
	uint64_t bytes = t->data_in_cnt;
	uint64_t place;

	/* The limit of all but READs is 0, as is that of a command that has
	 * no operation. A READ without a volume was refused, and has passed a
	 * stage. */
	if (ticks >= w->plain_ticks[t->cmd.op]) {
		request_count_any(req, ticks);
		return;
	}
	place = histogram_place(ticks_exact_ns(ticks));
	meter_count(&req->ch->meter->op[METER_READ],
		    place - HISTOGRAM_FIRST_PLACE, ticks, bytes);
	/* Each count adds the same offset in its own instruction. gcc would
	 * first do so in another one. */
	__asm__("" : "+r"(place));
	meter_count(&t->vol->meter_shares[w->index]->op[METER_READ],
		    place - HISTOGRAM_FIRST_PLACE, ticks, bytes);
}

/* ---- arrival ---- */

static void request_reset(struct request *req, struct xp_iu *iu)
{
	req->iu = iu;
	req->fate = FATE_ANSWER;
	req->fetched = false;
	req->lingers = false;
	req->was_ended = false;
	req->given_up = false;
	req->calling_disk = false;
	req->passed = false;
	req->is_tmf = false;
	req->attr = SRP_TASK_SIMPLE;
	req->blocked = false;
	req->waits_for = NULL;
}

void request_start(struct request *req, struct xp_iu *iu)
{
	struct srp_cmd_view cmd;
	int err;

	meter_clock_start(&req->clock);
	PROBE(rdma_target, command_arrive, req, iu->data, req->ch->number);
	err = srp_cmd_decode(iu->data, iu->len, &req->ch->rules, &cmd);
	request_reset(req, iu);
	request_set_state(req, REQUEST_RECEIVED);
	if (err) {
		request_refuse_undecoded(req, err);
		return;
	}
	request_fill_task(req, &cmd);
	if (cmd.out.len > 0 && cmd.in.len > 0) {
		request_refuse(req, SCSI_KEY_ILLEGAL_REQUEST,
			       SCSI_ASC_INVALID_FIELD_IN_COMMAND_IU);
		return;
	}
	/* ACA, which the target does not support, and reserved values (SAM-5
	 * 8.6). */
	if (cmd.task_attr > SRP_TASK_ORDERED) {
		request_refuse(req, SCSI_KEY_ILLEGAL_REQUEST,
			       SCSI_ASC_INVALID_MESSAGE_ERROR);
		return;
	}
	if (task_set_enter(req, cmd.task_attr))
		request_advance(req);
}

void request_start_blocked(struct channel *ch)
{
	struct request *req;

	while ((req = task_set_next(ch)))
		request_queued(req);
}

static void request_fill_task(struct request *req,
			      const struct srp_cmd_view *cmd)
{
	struct channel *ch = req->ch;
	struct scsi_task *t = &req->task;
	uint32_t lun;

	req->tag = cmd->tag;
	req->data_is_out = cmd->out.len > 0;
	req->data = req->data_is_out ? cmd->out : cmd->in;
	scsi_task_clear(t);
	t->nexus = &ch->nexus->scsi;
	t->lun = srp_lun_decode(cmd->lun, &lun) < 0 ? -1 : (int)lun;
	t->cdb = cmd->cdb;
	t->cdb_len = cmd->cdb_len;
	t->data_out_len = cmd->out.len;
	t->data_in_len = cmd->in.len;
}

/* ---- the life of a command ---- */

/*
 * The event that @req waits for in its state has come. Runs the next steps,
 * until one must wait for another event. Each case is an event, and begins the
 * step that follows it. What a READ of memory does not need is not inline, so
 * that there are few registers to save.
 */
static void request_run_steps(struct request *req)
{
	switch (req->state) {
	case REQUEST_FREE:
	case REQUEST_MANAGING:
		assert(!"not a command");
		return;

	case REQUEST_RECEIVED: /* its task attribute lets it start */
		/* Unit attentions and reservations count from now (SAM-5
		 * 5.14). */
		if (scsi_task_prepare(&req->task) == SCSI_TASK_OVER) {
			/* cmd may be that of another command. */
			request_passed(req, METER_QUEUE);
			request_respond(req);
			return;
		}
		if (!request_take_table(req))
			return;
		__attribute__((fallthrough));

	case REQUEST_NEED_TABLE: /* it has memory for its descriptors */
		if (!request_unpack_iu(req))
			return;
		__attribute__((fallthrough));

	case REQUEST_READING: /* the descriptors are in memory */
		if (req->state == REQUEST_READING && !request_unpack_table(req))
			return;
		if (!request_take_buffer(req))
			return;
		__attribute__((fallthrough));

	case REQUEST_NEED_BUFFER: /* it has memory for its data */
		if (!request_fetch_data(req))
			return;
		__attribute__((fallthrough));

	case REQUEST_FETCHING: /* the data-out is in memory */
		req->fetched = true;
		if (!request_give_to_disk(req))
			return;
		__attribute__((fallthrough));

	case REQUEST_EXECUTING: /* the disk has finished */
		request_respond(req);
		return;

	case REQUEST_RESPONDING: /* the response was sent */
		if (req->lingers) {
			request_set_state(req, REQUEST_LINGERING);
			channel_request_lingers(req->ch);
			return;
		}
		__attribute__((fallthrough));

	case REQUEST_LINGERING: /* the disk has finished, too */
		request_end(req);
		return;
	}
}

static void request_advance(struct request *req)
{
	struct worker *w = req->worker;

	hang_enter(w, req);
	request_run_steps(req);
	hang_leave(w);
}

static void request_respond_aborted(struct request *req)
{
	req->task.status = SCSI_STATUS_TASK_ABORTED;
	req->task.data_in_cnt = 0;
	req->task.sense_len = 0;
	req->task.tells = false;
	request_respond(req);
}

/*
 * Neither the fabric nor the disk has the request. False: it ends here,
 * because its channel ends or because it was aborted.
 */
static bool request_may_go_on(struct request *req)
{
	if (!channel_can_answer(req->ch) || req->fate == FATE_SILENT) {
		request_drop(req);
		return false;
	}
	if (req->fate == FATE_ABORTED) {
		request_respond_aborted(req);
		return false;
	}
	return true;
}

/* Like request_advance(), after an event that takes time. Meanwhile the channel
 * may have closed, or the command may have been aborted. */
static void request_resume(struct request *req)
{
	if (request_may_go_on(req))
		request_advance(req);
}

static void request_post_chain(struct request *req)
{
	req->posted_us = watchdog_posted(req->ch);
	xp_post(req->ch->xp, &req->chain);
}

/* The RDMA READ of a descriptor table or of data-out is done. */
static void request_read_done(struct xp_chain *chain, int status)
{
	struct request *req = container_of(chain, struct request, chain);

	if (status) {
		request_drop(req);
		return;
	}
	watchdog_done(req->ch, WATCHED_READ);
	request_passed(req, METER_FETCH);
	request_resume(req);
}

/* For an arena: @req no longer waits for a block. */
static void request_table_granted(struct arena_waiter *waiter, void *block)
{
	struct request *req = container_of(waiter, struct request, waiter);

	req->waits_for = NULL;
	req->table = block;
	request_queued(req);
}

static void request_use_block(struct request *req, void *block)
{
	req->block = block;
	req->task.buf = block;
	req->task.buf_index = arena_uring_index(req->worker->arena);
}

static void request_block_granted(struct arena_waiter *waiter, void *block)
{
	struct request *req = container_of(waiter, struct request, waiter);

	req->waits_for = NULL;
	request_use_block(req, block);
	request_queued(req);
}

/* A block of @arena, or NULL: granted() is called later. */
static void *request_get_block(struct request *req, struct arena *arena,
			       struct arena_user *user, size_t len,
			       void (*granted)(struct arena_waiter *w,
					       void *block))
{
	void *block;

	req->waiter.user = user;
	req->waiter.granted = granted;
	list_init(&req->waiter.node);
	block = arena_get_wait(arena, len, &req->waiter);
	if (!block) {
		req->waits_for = arena;
		req->worker->counters.waits++;
	}
	return block;
}

/* ---- step: memory for the descriptors ---- */

static bool request_needs_descs(const struct request *req)
{
	if (req->data.len == 0 || req->data.format == SRP_DATA_IMMEDIATE)
		return false;
	return !req->data_is_out || req->task.fetch_len > 0;
}

static bool request_needs_table(const struct request *req)
{
	return req->data.partial || req->data.desc_cnt > REQUEST_DESCS;
}

/* Memory of the tables. */
static __attribute__((noinline)) bool request_get_table(struct request *req)
{
	const struct srp_data *data = &req->data;

	if (data->desc_cnt > REQUEST_DESCS_MAX) {
		channel_complain(req->ch,
				 "SRP_CMD with tag %016llx: %u descriptors, "
				 "the limit is %u; command refused",
				 (unsigned long long)req->tag, data->desc_cnt,
				 REQUEST_DESCS_MAX);
		request_refuse(req, SCSI_KEY_ILLEGAL_REQUEST,
			       SCSI_ASC_INSUFFICIENT_RESOURCES);
		return false;
	}
	req->table = request_get_block(
		req, req->worker->tables, &request_share(req)->tables,
		(size_t)data->desc_cnt * SRP_DESC_SIZE, request_table_granted);
	if (!req->table)
		request_set_state(req, REQUEST_NEED_TABLE);
	return req->table;
}

static bool request_take_table(struct request *req)
{
	return !request_needs_descs(req) || !request_needs_table(req) ||
	       request_get_table(req);
}

/* ---- step: descriptors ---- */

/* The list in the IU is partial. The initiator's memory has all of it. */
static __attribute__((noinline)) void request_read_table(struct request *req)
{
	struct worker *w = req->worker;

	log_debug("channel %u tag %016llx: reads its table of %u descriptors",
		  req->ch->number, (unsigned long long)req->tag,
		  req->data.desc_cnt);
	request_set_state(req, REQUEST_READING);
	req->chain = (struct xp_chain){
		.dir = XP_RDMA_READ,
		.remote = &req->data.desc,
		.len = req->data.desc_cnt * SRP_DESC_SIZE,
		.local = req->table,
		.local_mr = w->tables_mr[req->ch->kind],
		.done = request_read_done,
	};
	request_post_chain(req);
}

static bool request_unpack_iu(struct request *req)
{
	const struct srp_data *data = &req->data;
	struct srp_desc *descs = req->own_descs;

	if (!request_needs_descs(req))
		return true;
	if (data->format == SRP_DATA_DIRECT) {
		req->descs = &req->data.desc;
		return true;
	}
	if (data->partial) {
		request_read_table(req);
		return false;
	}
	if (req->table)
		descs = req->table;
	srp_desc_unpack(data->descs, data->desc_cnt, descs);
	req->descs = descs;
	return true;
}

/* @raw and @descs may be the same memory. */
static void request_unpack_in_place(const uint8_t *raw, uint32_t cnt,
				    struct srp_desc *descs)
{
	struct srp_desc desc;

	for (uint32_t i = 0; i < cnt; i++) {
		srp_desc_unpack(raw + (size_t)i * SRP_DESC_SIZE, 1, &desc);
		descs[i] = desc;
	}
}

static __attribute__((noinline)) bool request_unpack_table(struct request *req)
{
	const struct srp_data *data = &req->data;

	/* The fabric no longer has the request: from now on, an abort ends it
	 * at once. */
	request_set_state(req, REQUEST_NEED_BUFFER);
	if (srp_desc_table_check(req->table, data->desc_cnt, data->len) < 0) {
		request_refuse_iu(req, "the lengths in its descriptor table do "
				       "not add up");
		return false;
	}
	request_unpack_in_place(req->table, data->desc_cnt, req->table);
	req->descs = req->table;
	return true;
}

/* ---- step: memory for the data ---- */

/* Immediate data can stay in the IU if the disk needs no more memory than that,
 * and the backend can do I/O from there. */
static bool request_can_use_iu(const struct request *req)
{
	const struct scsi_task *t = &req->task;
	uintptr_t align = t->vol ? t->vol->dev.backend->info.min_block : 0;

	return req->data_is_out && req->data.format == SRP_DATA_IMMEDIATE &&
	       t->buf_len == t->fetch_len && align > 0 &&
	       (uintptr_t)req->data.imm % align == 0;
}

/* For scsi_task_own(). */
static void request_has_blocks(struct scsi_task *task)
{
	struct request *req = container_of(task, struct request, task);

	if (req->calling_disk)
		req->calling_disk = false; /* request_own_volume() continues */
	else
		request_queued(req);
}

/* Data moves to or from the memory of the volume. */
static bool request_own_volume(struct request *req)
{
	request_set_state(req, REQUEST_NEED_BUFFER);
	req->calling_disk = true;
	if (!scsi_task_own(&req->task, request_has_blocks) &&
	    req->calling_disk) {
		req->calling_disk = false;
		return false;
	}
	req->calling_disk = false;
	if (req->state == REQUEST_NEED_BUFFER)
		return true;
	/* The disk has refused it. */
	request_respond(req);
	return false;
}

/* Memory of the arena. */
static __attribute__((noinline)) bool request_take_arena(struct request *req)
{
	struct arena *arena = req->worker->arena;
	struct scsi_task *t = &req->task;
	void *block;

	if (t->buf_len > arena_len(arena)) {
		request_refuse(req, SCSI_KEY_ILLEGAL_REQUEST,
			       SCSI_ASC_INSUFFICIENT_RESOURCES);
		return false;
	}
	block = request_get_block(req, arena, &request_share(req)->data,
				  t->buf_len, request_block_granted);
	if (block)
		request_use_block(req, block);
	else
		request_set_state(req, REQUEST_NEED_BUFFER);
	return block;
}

static bool request_is_too_much(const struct request *req)
{
	const struct volume *vol = req->task.vol;

	return vol &&
	       atomic_load_explicit(&vol->lingering, memory_order_relaxed) >=
		       REQUEST_LINGERING_MAX &&
	       req->task.cmd.info->flags & (SCSI_CDB_BLOCKS | SCSI_CDB_WRITES);
}

static bool request_take_buffer(struct request *req)
{
	struct scsi_task *t = &req->task;

	t->buf_index = -1;
	if (t->buf_is_volume)
		return request_own_volume(req);
	if (request_is_too_much(req)) {
		t->status = SCSI_STATUS_BUSY;
		request_respond(req);
		return false;
	}
	if (t->buf_len == 0)
		return true;
	if (request_can_use_iu(req)) {
		t->buf = (uint8_t *)req->data.imm;
		return true;
	}
	return request_take_arena(req);
}

/* ---- step: data-out ---- */

/* The local key for task.buf. */
static struct xp_mr *request_buf_mr(const struct request *req)
{
	const struct worker *w = req->worker;
	enum xp_kind kind = req->ch->kind;

	if (req->task.buf_is_volume)
		return worker_volume_mr(w, req->task.vol, kind);
	return w->arena_mr[kind];
}

static void request_set_chain_data(struct request *req, enum xp_dir dir,
				   uint32_t len)
{
	req->chain.dir = dir;
	req->chain.remote = req->descs;
	req->chain.len = len;
	req->chain.local = req->task.buf;
	req->chain.local_mr = request_buf_mr(req);
}

static void request_copy_immediate(struct request *req)
{
	struct scsi_task *t = &req->task;

	if (t->buf == req->data.imm)
		return;
	memcpy(t->buf, req->data.imm, t->fetch_len);
	req->worker->counters.copied += t->fetch_len;
}

/* There is data-out. */
static __attribute__((noinline)) bool request_fetch_some(struct request *req)
{
	uint32_t len = req->task.fetch_len;

	assert(len <= req->data.len);
	if (req->data.format == SRP_DATA_IMMEDIATE) {
		request_copy_immediate(req);
		return true;
	}
	request_set_state(req, REQUEST_FETCHING);
	req->chain = (struct xp_chain){ .done = request_read_done };
	request_set_chain_data(req, XP_RDMA_READ, len);
	request_post_chain(req);
	return false;
}

static bool request_fetch_data(struct request *req)
{
	return req->task.fetch_len == 0 || request_fetch_some(req);
}

/* ---- step: the disk ---- */

static bool request_give_to_disk(struct request *req)
{
	PROBE(rdma_target, command_submit, req, req->task.cdb, req->task.lun);
	request_set_state(req, REQUEST_EXECUTING);
	req->calling_disk = true;
	scsi_task_execute(&req->task);
	if (req->calling_disk) {
		req->calling_disk = false;
		/* A thread of the kernel may write; it does not read what the
		 * page cache has. */
		if (!req->task.data_in_len)
			reactor_helped(req->worker->reactor);
		return false;
	}
	return request_may_go_on(req);
}

/* The fabric may still have its response. Or its IU was the data of the disk: then
 * it has none yet. */
static void request_end_lingering(struct request *req)
{
	req->ch->requests.lingering--;
	req->lingers = false;
	if (req->was_ended && req->task.vol)
		atomic_fetch_sub(&req->task.vol->lingering, 1);
	if (req->state == REQUEST_LINGERING && req->iu)
		request_resume(req);
	else if (req->state == REQUEST_LINGERING)
		request_advance(req);
}

/* Time that the command waits for blocks is time in the queue. */
static void request_passed_disk(struct request *req)
{
	if (req->task.blk.waited_ticks)
		request_passed_at(req, METER_QUEUE, req->task.blk.waited_ticks);
	request_passed(req, METER_BACKEND);
}

/* The disk has finished, and nobody waits for it. */
static __attribute__((noinline)) void request_leave_disk(struct request *req)
{
	request_passed_disk(req);
	request_resume(req);
}

/* For scsi_task.done. */
static void request_disk_done(struct scsi_task *task)
{
	struct request *req = container_of(task, struct request, task);

	if (req->lingers) {
		request_end_lingering(req);
		return;
	}
	PROBE(rdma_target, command_complete, req, task->status);
	/* scsi_task_own() has found that the disk refuses the command. */
	if (req->state == REQUEST_NEED_BUFFER)
		request_set_state(req, REQUEST_EXECUTING);
	if (req->calling_disk) {
		req->calling_disk = false; /* the caller of the disk
					    * continues */
		return;
	}
	request_leave_disk(req);
}

/*
 * For scsi_task.answer. An initiator sends its next command when it gets the
 * answer, and the disk may be slow. To keep requests free for other commands
 * and for task management, the target limits how many linger. It answers a
 * further one when its work is done.
 */
static bool request_answer_now(struct scsi_task *task)
{
	struct request *req = container_of(task, struct request, task);
	struct channel *ch = req->ch;

	if (ch->requests.lingering >= CHANNEL_LINGERING ||
	    !channel_can_answer(ch) || req->fate != FATE_ANSWER)
		return false;
	ch->requests.lingering++;
	req->lingers = true;
	request_respond(req);
	return true;
}

/* For scsi_task.abort. */
static int request_abort_preempted(struct scsi_task *task,
				   const struct scsi_pr_nexus *nexuses,
				   unsigned int cnt)
{
	return task_mgmt_preempt(container_of(task, struct request, task),
				 nexuses, cnt);
}

/* ---- the response ---- */

static void request_release_iu(struct request *req)
{
	if (req->iu)
		xp_iu_release(req->iu);
	req->iu = NULL;
}

/* The initiator has the answer. */
static inline void request_delivered(struct request *req)
{
	watchdog_done(req->ch, WATCHED_SEND);
	if (req->is_tmf)
		return;
	request_count(req);
	/* It ignores the answer to a task that it has aborted. If another nexus
	 * aborts the task now, the answer still counts. */
	if (req->fate != FATE_SILENT)
		scsi_task_delivered(&req->task);
}

static void request_response_done(struct xp_chain *chain, int status)
{
	struct request *req = container_of(chain, struct request, chain);

	PROBE(rdma_target, command_respond, req, req->task.status, status);
	if (status == 0)
		request_delivered(req);
	request_advance(req);
}

static int request_encode_rsp(struct request *req, struct srp_rsp *rsp)
{
	struct channel *ch = req->ch;
	int len;

	rsp->tag = req->tag;
	rsp->req_lim_delta = srp_ledger_answer(&ch->ledger);
	len = srp_rsp_encode(req->rsp, CHANNEL_RSP_SIZE, rsp);
	assert(len > 0);
	return len;
}

/*
 * Sends the response, after the data-in if there is any. The IU goes back to
 * the transport first, because a posted receive must back the credit that the
 * response returns.
 */
static inline void request_send_rsp(struct request *req, struct srp_rsp *rsp)
{
	struct channel *ch = req->ch;
	int len = request_encode_rsp(req, rsp);

	request_release_iu(req);
	request_set_state(req, REQUEST_RESPONDING);
	ch->requests.answered++;
	req->worker->counters.commands++;
	req->chain.send[0] = (struct xp_sge){ .addr = req->rsp,
					      .len = (uint32_t)len,
					      .mr = request_rsp_mr(req) };
	req->chain.send_cnt = 1;
	req->chain.done = request_response_done;
	request_post_chain(req);
}

static void request_set_residuals(const struct request *req,
				  struct srp_rsp *rsp)
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

static void request_set_no_data(struct request *req)
{
	req->chain.dir = XP_NO_DATA;
	req->chain.len = 0;
}

/* Answers with the status, sense data and data-in of the task. */
static void request_respond(struct request *req)
{
	const struct scsi_task *t = &req->task;
	struct srp_rsp rsp = {
		.status = t->status,
		.sense = t->sense_len ? t->sense : NULL,
		.sense_len = t->sense_len,
	};

	request_set_residuals(req, &rsp);
	request_set_no_data(req);
	if (t->data_in_cnt > 0)
		request_set_chain_data(req, XP_RDMA_WRITE, t->data_in_cnt);
	else if (!req->lingers)
		scsi_task_release(&req->task);
	log_debug("channel %u tag %016llx LUN %d: CDB %02x, status %02x",
		  req->ch->number, (unsigned long long)req->tag, t->lun,
		  t->cmd.info ? t->cmd.info->opcode : 0xff, t->status);
	request_send_rsp(req, &rsp);
}

/* Answers with CHECK CONDITION. The disk does not get the command. */
static void request_refuse(struct request *req, enum scsi_key key,
			   enum scsi_asc code)
{
	struct scsi_sense sense = scsi_sense(key, code);

	scsi_task_refuse(&req->task, &sense);
	request_respond(req);
}

/*
 * Answers an SRP_CMD that contradicts itself. The channel ends when this answer
 * and the answers to its other requests are sent. The response has the code
 * that SRP defines. ib_srp checks only the status, so the status is not GOOD,
 * and there is sense data.
 */
static void request_refuse_iu(struct request *req, const char *what)
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
	request_set_no_data(req);
	request_send_rsp(req, &rsp);
	channel_drain(ch, "the initiator sent an invalid SRP_CMD");
}

static const char *request_decode_fault(int err)
{
	return err == -ENOTSUP ? "a data format that was not offered at login"
			       : "its lengths contradict each other";
}

/* The LUN of an SRP_CMD that srp_cmd_decode() refused; -1: unknown. */
static int request_undecoded_lun(const struct xp_iu *iu)
{
	uint64_t field;
	uint32_t lun;

	if (srp_cmd_lun(iu->data, iu->len, &field) < 0 ||
	    srp_lun_decode(field, &lun) < 0)
		return -1;
	return (int)lun;
}

/* For an SRP_CMD that srp_cmd_decode() refused. It has a tag: the channel has
 * checked that. */
static void request_refuse_undecoded(struct request *req, int err)
{
	struct srp_head head = { 0 };

	srp_head_decode(req->iu->data, req->iu->len, &head);
	req->tag = head.tag;
	scsi_task_clear(&req->task);
	req->task.nexus = &req->ch->nexus->scsi;
	req->task.lun = request_undecoded_lun(req->iu);
	request_refuse_iu(req, request_decode_fault(err));
}

/* ---- the end ---- */

/* Neither the fabric nor the disk has the request: gives back its memory and
 * its slot. */
static void request_end(struct request *req)
{
	struct worker *w = req->worker;
	void *block = req->block;
	void *table = req->table;

	assert(!req->waits_for && !req->blocked);
	task_set_leave(req);
	req->block = NULL;
	req->table = NULL;
	request_release_iu(req);
	if (!req->is_tmf)
		scsi_task_release(&req->task);
	request_set_state(req, REQUEST_FREE);
	hang_leave(w);
	channel_request_ended(req->ch, req);
	/* Last, because requests that wait for these blocks continue from
	 * within. */
	arena_put(w->arena, block);
	arena_put(w->tables, table);
}

/* If it was slow, the log says so. */
static void request_look_at_dropped(const struct request *req)
{
	uint64_t now = ticks_now();

	if (now - request_arrived(req) >= req->worker->slow_ticks)
		slow_command(req, now, /* answered= */ false);
}

void request_drop(struct request *req)
{
	if (!req->is_tmf)
		request_look_at_dropped(req);
	srp_ledger_abandon(&req->ch->ledger);
	request_end(req);
}

/* ---- abort ---- */

void request_stop_waiting(struct request *req, enum request_fate fate)
{
	if (req->fate < fate)
		req->fate = fate;
	if (req->waits_for)
		arena_cancel_wait(&req->waiter);
	req->waits_for = NULL;
	task_set_unblock(req);
	if (request_only_waits(req))
		scsi_task_release(&req->task);
	else if (req->state == REQUEST_EXECUTING || req->lingers)
		scsi_task_stop(&req->task);
}

void request_serve_waiters(struct worker *w)
{
	arena_serve_waiters(w->arena);
	arena_serve_waiters(w->tables);
}

/* A posted receive must back a credit, so it keeps its credit, too, and gets no
 * answer before the disk has finished. */
static bool request_uses_iu(const struct request *req)
{
	return req->iu && request_can_use_iu(req) &&
	       req->task.buf == req->data.imm;
}

/* Nobody waits for the disk, which has @req, nor for its answer. */
static void request_linger(struct request *req)
{
	struct channel *ch = req->ch;

	req->given_up = scsi_task_give_up(&req->task);
	req->was_ended = true;
	req->lingers = true;
	ch->requests.lingering++;
	if (req->task.vol)
		atomic_fetch_add(&req->task.vol->lingering, 1);
	arena_disown(req->worker->arena, req->block);
	arena_disown(req->worker->tables, req->table);
	if (request_uses_iu(req)) {
		request_set_state(req, REQUEST_LINGERING);
	} else if (req->fate == FATE_ABORTED && channel_can_answer(ch)) {
		request_respond_aborted(req);
	} else {
		request_look_at_dropped(req);
		request_release_iu(req);
		srp_ledger_abandon(&ch->ledger);
		request_set_state(req, REQUEST_LINGERING);
	}
	channel_request_lingers(ch);
}

void request_abort(struct request *req, enum request_fate fate)
{
	struct worker *w = req->worker;
	bool executes = req->state == REQUEST_EXECUTING && !req->lingers;

	request_stop_waiting(req, fate);
	if (executes)
		request_linger(req);
	/* After this, @req may be another request. */
	if (executes || req->lingers)
		scsi_task_cancel(&req->task);
	else if (request_only_waits(req))
		request_resume(req);
	else
		return;
	/* Its memory does not count for its initiator any more. */
	request_serve_waiters(w);
}

/* ---- task management ---- */

void request_start_tmf(struct request *req, uint64_t tag)
{
	request_reset(req, NULL);
	req->is_tmf = true;
	req->tag = tag;
	request_set_state(req, REQUEST_MANAGING);
}

void request_answer_tmf(struct request *req, enum srp_rsp_code code)
{
	struct srp_rsp rsp = { .rsp_valid = true, .rsp_code = (uint8_t)code };

	if (!channel_can_answer(req->ch)) {
		request_drop(req);
		return;
	}
	request_set_no_data(req);
	request_send_rsp(req, &rsp);
}
