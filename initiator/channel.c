/* SPDX-License-Identifier: BSD-2-Clause */
#include "initiator/channel.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/scsi_cdb.h"
#include "protocol/srp_iu.h"

/* Bytes for an IU that this side builds: a command with immediate data from
 * ini_cmd.param needs SRP_IMM_OFFSET + INI_PARAM_MAX. */
#define IU_STRIDE 128

/* One generation in a tag. */
#define TAG_GENERATION (UINT64_C(1) << 32)

/* Receive buffers in addition to one for each command: for task management
 * and requests of the target. */
#define EXTRA_RECVS (1 + INI_REPLIES)

static struct ini_channel *channel_of(struct xp_chan *xp)
{
	return xp_chan_user(xp);
}

void ini_channel_fail(struct ini_channel *ch, int err, const char *text)
{
	if (ch->state >= INI_CHANNEL_CLOSING)
		return;
	error_set(&ch->why, err, "%s", text);
	ini_channel_close(ch);
}

/* Ends a channel because the target broke the protocol. */
static void protocol_error(struct ini_channel *ch, const char *what)
{
	char text[160];

	snprintf(text, sizeof(text), "protocol error: %s", what);
	ini_channel_fail(ch, -EPROTO, text);
}

/* ---- sending ---- */

/* The slot's part of the registered memory for parameter lists. */
static uint8_t *slot_param(const struct ini_slot *slot)
{
	return slot->channel->params + slot->index * INI_PARAM_MAX;
}

/* The target moves the data: describes the buffer. */
static void describe_direct(const struct ini_slot *slot, struct xp_mr *mr,
			    const void *buf, struct srp_data_args *data,
			    struct srp_desc *desc)
{
	xp_mr_remote(mr, slot->channel->xp, buf, &desc->addr, &desc->key);
	desc->len = slot->cmd->len;
	data->format = SRP_DATA_DIRECT;
	data->descs = desc;
	data->desc_cnt = 1;
}

/* Describes data-out; returns how many pieces the SEND has behind the IU. */
static unsigned int describe_out(struct ini_slot *slot,
				 struct srp_data_args *data,
				 struct srp_desc *desc)
{
	const struct ini_channel *ch = slot->channel;
	const struct ini_cmd *cmd = slot->cmd;
	bool is_param = cmd->dir == INI_PARAM_OUT;

	if (ch->imm_max && cmd->len <= ch->imm_max) {
		data->format = SRP_DATA_IMMEDIATE;
		data->imm_len = cmd->len;
		data->imm_offset = SRP_IMM_OFFSET;
		if (is_param)
			return 0; /* goes into the IU itself */
		slot->chain.send[1].addr = cmd->buf;
		slot->chain.send[1].len = cmd->len;
		slot->chain.send[1].mr = cmd->mr;
		return 1;
	}
	if (is_param) {
		memcpy(slot_param(slot), cmd->param, cmd->len);
		describe_direct(slot, ch->params_mr, slot_param(slot), data,
				desc);
	} else {
		describe_direct(slot, cmd->mr, cmd->buf, data, desc);
	}
	return 0;
}

/* Describes the data buffer; returns how many pieces the SEND has behind the
 * IU. */
static unsigned int describe_data(struct ini_slot *slot,
				  struct srp_cmd_args *args,
				  struct srp_desc *desc)
{
	const struct ini_cmd *cmd = slot->cmd;

	if (cmd->dir == INI_DATA_IN)
		describe_direct(slot, cmd->mr, cmd->buf, &args->in, desc);
	else if (cmd->dir == INI_PARAM_IN)
		describe_direct(slot, slot->channel->params_mr,
				slot_param(slot), &args->in, desc);
	else if (cmd->dir != INI_NO_DATA)
		return describe_out(slot, &args->out, desc);
	return 0;
}

static void ini_channel_send_done(struct xp_chain *chain, int status);

void ini_channel_send(struct ini_channel *ch, struct ini_cmd *cmd)
{
	struct ini_slot *slot = ch->free_slots;
	struct srp_desc desc;
	struct srp_cmd_args args;
	int len;

	ch->free_slots = slot->next_free;
	ch->busy++;
	ch->busy_bytes += cmd->len;
	srp_credit_spend(&ch->credit);
	slot->cmd = cmd;
	slot->sending = true;
	slot->answered = false;

	/* Field by field: what describes no data is not read, and is large. */
	args.tag = slot->tag;
	args.lun = cmd->lun;
	args.task_attr = SRP_TASK_SIMPLE;
	args.cdb = cmd->cdb;
	args.cdb_len = SCSI_CDB_LEN;
	args.out.format = SRP_DATA_NONE;
	args.in.format = SRP_DATA_NONE;
	slot->chain.send_cnt = 1 + describe_data(slot, &args, &desc);
	len = srp_cmd_encode(slot->iu, IU_STRIDE, &args);
	assert(len > 0);
	if (cmd->dir == INI_PARAM_OUT &&
	    args.out.format == SRP_DATA_IMMEDIATE) {
		memcpy(slot->iu + len, cmd->param, cmd->len);
		len += cmd->len;
	}
	slot->chain.send[0].len = len;
	xp_post(ch->xp, &slot->chain);
}

/* ---- slots ---- */

struct ini_cmd *ini_channel_oldest(const struct ini_channel *ch)
{
	struct ini_cmd *oldest = NULL;

	for (unsigned int i = 0; ch->busy && i < ch->slot_cnt; i++) {
		struct ini_cmd *cmd = ch->slots[i].cmd;

		if (cmd && cmd->kind != INI_QUESTION &&
		    (!oldest || cmd->sent_us < oldest->sent_us))
			oldest = cmd;
	}
	return oldest;
}

bool ini_channel_sent_before(const struct ini_channel *ch, uint64_t lun,
			     uint64_t sent_no)
{
	for (unsigned int i = 0; ch->busy && i < ch->slot_cnt; i++) {
		const struct ini_cmd *cmd = ch->slots[i].cmd;

		if (cmd && cmd->lun == lun &&
		    (cmd->sent_no < sent_no || ch->slots[i].answered))
			return true;
	}
	return false;
}

static void slot_free(struct ini_slot *slot)
{
	struct ini_channel *ch = slot->channel;

	ch->busy_bytes -= slot->cmd->len;
	slot->cmd = NULL;
	slot->tag += TAG_GENERATION;
	slot->next_free = ch->free_slots;
	ch->free_slots = slot;
	ch->busy--;
}

static void slot_finish(struct ini_slot *slot)
{
	struct ini_channel *ch = slot->channel;
	struct ini_cmd *cmd = slot->cmd;
	int err = slot->err;

	/* The target may write to the memory of the slot at any time: use a
	 * copy. */
	if (cmd->dir == INI_PARAM_IN)
		memcpy(cmd->param, slot_param(slot), cmd->len);
	slot_free(slot);
	ch->events->answered(ch, cmd, err);
	if (ini_channel_can_send(ch))
		ch->events->ready(ch);
}

/* The command is done when its SEND has completed and its answer is there. */
static void slot_settle(struct ini_slot *slot)
{
	if (!slot->sending && slot->answered)
		slot_finish(slot);
}

static void ini_channel_send_done(struct xp_chain *chain, int status)
{
	struct ini_slot *slot = container_of(chain, struct ini_slot, chain);

	/* A failed SEND ends the channel, which then settles the slot. A
	 * response that came before counts. */
	slot->sending = false;
	slot_settle(slot);
}

/* ---- receiving ---- */

/* Bytes of the buffer that the target did not transfer. */
static uint32_t bytes_missing(const struct ini_cmd *cmd,
			      const struct srp_rsp *rsp)
{
	uint32_t resid = 0;

	if (!rsp->resid_flags)
		return 0;
	if (ini_dir_is_in(cmd->dir) &&
	    (rsp->resid_flags & SRP_RSP_IN_UNDERFLOW))
		resid = rsp->in_resid;
	if (!ini_dir_is_in(cmd->dir) &&
	    (rsp->resid_flags & SRP_RSP_OUT_UNDERFLOW))
		resid = rsp->out_resid;
	return resid < cmd->len ? resid : cmd->len;
}

/* Fills in the results of the command, and returns its errno. */
static int ini_channel_judge(struct ini_cmd *cmd, const struct srp_rsp *rsp)
{
	cmd->status = rsp->status;
	cmd->data_len = cmd->len - bytes_missing(cmd, rsp);
	cmd->has_sense =
		rsp->sense &&
		scsi_sense_decode(rsp->sense, rsp->sense_len, &cmd->sense) == 0;
	if (rsp->rsp_valid && rsp->rsp_code != SRP_RSP_COMPLETE)
		return -EIO;
	if (rsp->status == SCSI_STATUS_GOOD)
		return 0;
	if (rsp->status == SCSI_STATUS_BUSY ||
	    rsp->status == SCSI_STATUS_TASK_SET_FULL)
		return -EBUSY;
	/* By another initiator, which resets the unit, say. If it is to keep us
	 * out, the answer to the next attempt is RESERVATION CONFLICT. */
	if (rsp->status == SCSI_STATUS_TASK_ABORTED)
		return -EAGAIN;
	if (rsp->status == SCSI_STATUS_CHECK_CONDITION && cmd->has_sense)
		return scsi_sense_to_errno(&cmd->sense);
	return -EIO;
}

static void rsp_received(struct ini_channel *ch, const void *iu, size_t len)
{
	struct ini_slot *slot;
	struct srp_rsp rsp;
	uint32_t index;

	if (srp_rsp_decode(iu, len, &rsp)) {
		protocol_error(ch, "malformed SRP_RSP");
		return;
	}
	index = (uint32_t)rsp.tag;
	slot = index < ch->slot_cnt ? &ch->slots[index] : NULL;
	if (!slot || !slot->cmd || slot->answered || slot->tag != rsp.tag) {
		protocol_error(ch, "answer to a command that was not sent");
		return;
	}
	srp_credit_add(&ch->credit, rsp.req_lim_delta);
	slot->err = ini_channel_judge(slot->cmd, &rsp);
	slot->answered = true;
	slot_settle(slot);
}

static void reply_done(struct xp_chain *chain, int status)
{
	container_of(chain, struct ini_reply, chain)->sending = false;
}

static struct ini_reply *free_reply(struct ini_channel *ch)
{
	for (unsigned int i = 0; i < INI_REPLIES; i++) {
		if (!ch->replies[i].sending)
			return &ch->replies[i];
	}
	return NULL;
}

/* Answers a request of the target. */
static void reply_to_target(struct ini_channel *ch, enum srp_opcode opcode,
			    uint64_t tag)
{
	struct ini_reply *r = free_reply(ch);
	int len;

	if (!r) {
		protocol_error(ch, "more requests than we can answer at once");
		return;
	}
	len = srp_bare_encode(r->iu, IU_STRIDE, opcode, tag);
	memset(&r->chain, 0, sizeof(r->chain));
	r->chain.send[0].addr = r->iu;
	r->chain.send[0].len = len;
	r->chain.send[0].mr = ch->block_mr;
	r->chain.send_cnt = 1;
	r->chain.done = reply_done;
	r->sending = true;
	xp_post(ch->xp, &r->chain);
}

static void credit_added(struct ini_channel *ch, int32_t delta)
{
	srp_credit_add(&ch->credit, delta);
	if (ini_channel_can_send(ch))
		ch->events->ready(ch);
}

static void cred_req_received(struct ini_channel *ch, const void *iu,
			      size_t len)
{
	struct srp_cred_req req;

	if (srp_cred_req_decode(iu, len, &req)) {
		protocol_error(ch, "malformed SRP_CRED_REQ");
		return;
	}
	reply_to_target(ch, SRP_CRED_RSP, req.tag);
	credit_added(ch, req.req_lim_delta);
}

static void aer_req_received(struct ini_channel *ch, const void *iu, size_t len)
{
	struct scsi_sense sense;
	struct srp_aer_req req;

	if (srp_aer_req_decode(iu, len, &req)) {
		protocol_error(ch, "malformed SRP_AER_REQ");
		return;
	}
	reply_to_target(ch, SRP_AER_RSP, req.tag);
	credit_added(ch, req.req_lim_delta);
	if (req.sense &&
	    scsi_sense_decode(req.sense, req.sense_len, &sense) == 0)
		ch->events->attention(ch, req.lun, &sense);
}

static void t_logout_received(struct ini_channel *ch, const void *iu,
			      size_t len)
{
	struct srp_t_logout out;

	if (srp_t_logout_decode(iu, len, &out)) {
		protocol_error(ch, "malformed SRP_T_LOGOUT");
		return;
	}
	error_set(&ch->why, -ECONNRESET, "the target logged us out: %s",
		  srp_logout_reason_name(out.reason));
	ini_channel_close(ch);
}

static void ini_channel_received(struct xp_chan *xp, struct xp_iu *iu)
{
	struct ini_channel *ch = channel_of(xp);
	struct srp_head head;

	if (srp_head_decode(iu->data, iu->len, &head))
		protocol_error(ch, "IU shorter than its header");
	else if (head.opcode == SRP_RSP)
		rsp_received(ch, iu->data, iu->len);
	else if (head.opcode == SRP_CRED_REQ)
		cred_req_received(ch, iu->data, iu->len);
	else if (head.opcode == SRP_AER_REQ)
		aer_req_received(ch, iu->data, iu->len);
	else if (head.opcode == SRP_T_LOGOUT)
		t_logout_received(ch, iu->data, iu->len);
	else
		protocol_error(ch, srp_opcode_name(head.opcode));
	xp_iu_release(iu);
}

/* ---- the life of a channel ---- */

/* As both sides have agreed at login. */
static uint32_t channel_imm_max(const struct ini_channel *ch)
{
	uint32_t max = ch->granted.it_iu_len < ch->login.it_iu_len
			       ? ch->granted.it_iu_len
			       : ch->login.it_iu_len;

	return ch->granted.imm_data && max > SRP_IMM_OFFSET
		       ? max - SRP_IMM_OFFSET
		       : 0;
}

static void channel_established(struct xp_chan *xp, const void *pdata,
				size_t len)
{
	struct ini_channel *ch = channel_of(xp);
	const char *problem;

	if (ch->state != INI_CHANNEL_LOGIN)
		return;
	if (srp_login_rsp_decode(pdata, len, &ch->granted)) {
		protocol_error(ch, "no SRP_LOGIN_RSP; is this an SRP target?");
		return;
	}
	problem = srp_login_rsp_problem(&ch->granted, &ch->login);
	if (problem) {
		protocol_error(ch, problem);
		return;
	}
	srp_credit_init(&ch->credit, ch->granted.req_lim);
	ch->imm_max = channel_imm_max(ch);
	ch->state = INI_CHANNEL_RUNNING;
	ch->logged_in = true;
	ch->events->running(ch);
}

/* A channel that is closing stays so. The fabric may know the reason. */
static void channel_closing(struct xp_chan *xp)
{
	struct ini_channel *ch = channel_of(xp);

	if (ch->state < INI_CHANNEL_CLOSING)
		ch->state = INI_CHANNEL_CLOSING;
}

static void ini_channel_closed(struct xp_chan *xp, const struct error *why)
{
	struct ini_channel *ch = channel_of(xp);

	/* Until all callbacks have returned: one of them may end the
	 * session, which frees channels that are CLOSED. */
	ch->state = INI_CHANNEL_CLOSING;
	if (ch->why.err == 0)
		ch->why = *why;
	for (unsigned int i = 0; i < ch->slot_cnt; i++) {
		struct ini_slot *slot = &ch->slots[i];
		struct ini_cmd *cmd = slot->cmd;

		if (!cmd)
			continue;
		slot_free(slot);
		ch->events->lost(ch, cmd);
	}
	ch->state = INI_CHANNEL_CLOSED;
	ch->events->closed(ch);
}

static const struct xp_handler handler = {
	.established = channel_established,
	.received = ini_channel_received,
	.closing = channel_closing,
	.closed = ini_channel_closed,
};

bool ini_channel_rejected(const struct ini_channel *ch,
			  struct srp_login_rej *ret_rej)
{
	size_t len;
	const void *data = xp_chan_reject_data(ch->xp, &len);

	return srp_login_rej_decode(data, len, ret_rej) == 0;
}

void ini_channel_close(struct ini_channel *ch)
{
	if (ch->state >= INI_CHANNEL_CLOSING)
		return;
	ch->state = INI_CHANNEL_CLOSING;
	xp_close(ch->xp);
}

void ini_channel_free(struct ini_channel *ch)
{
	if (!ch)
		return;
	if (ch->xp)
		xp_chan_free(ch->xp);
	xp_mr_free(ch->params_mr);
	xp_mr_free(ch->block_mr);
	free(ch->params);
	free(ch->block);
	free(ch->slots);
	free(ch);
}

/* Makes the slots and the IUs; the last IUs are for replies. */
static int channel_make_slots(struct ini_channel *ch, struct xp *xp,
			      unsigned int depth, uint32_t generation,
			      struct error *e)
{
	size_t params_len = ((size_t)depth * INI_PARAM_MAX + 4095) & ~4095ul;
	int err;

	ch->block_len =
		((size_t)(depth + INI_REPLIES) * IU_STRIDE + 4095) & ~4095ul;
	ch->slots = calloc(depth, sizeof(*ch->slots));
	ch->block = aligned_alloc(4096, ch->block_len);
	ch->params = aligned_alloc(4096, params_len);
	if (!ch->slots || !ch->block || !ch->params) {
		error_set(e, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	memset(ch->block, 0, ch->block_len);
	memset(ch->params, 0, params_len);
	err = xp_mr_register(xp, ch->block, ch->block_len, XP_LOCAL,
			     &ch->block_mr, e);
	if (err)
		return err;
	err = xp_mr_register(xp, ch->params, params_len, XP_REMOTE,
			     &ch->params_mr, e);
	if (err)
		return err;
	ch->slot_cnt = depth;
	for (unsigned int i = depth; i-- > 0;) {
		struct ini_slot *slot = &ch->slots[i];

		slot->channel = ch;
		slot->index = (uint16_t)i;
		slot->tag = generation * TAG_GENERATION + i;
		slot->iu = ch->block + (size_t)i * IU_STRIDE;
		slot->chain.send[0].addr = slot->iu;
		slot->chain.send[0].mr = ch->block_mr;
		slot->chain.done = ini_channel_send_done;
		slot->next_free = ch->free_slots;
		ch->free_slots = slot;
	}
	for (unsigned int i = 0; i < INI_REPLIES; i++)
		ch->replies[i].iu = ch->block + (size_t)(depth + i) * IU_STRIDE;
	return 0;
}

int ini_channel_open(struct xp *xp, const struct ini_channel_params *p,
		     struct ini_channel **ret_ch, struct error *e)
{
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];
	struct ini_channel *ch = calloc(1, sizeof(*ch));
	const struct xp_chan_params params = {
		.handler = &handler,
		.user = ch,
		.recv_cnt = p->depth + EXTRA_RECVS,
		.pdata = pdata,
		.pdata_len = sizeof(pdata),
		.timeout_ms = p->timeout_ms,
		.route = p->route,
		.key = p->key,
	};
	int err;

	if (!ch) {
		error_set(e, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	ch->events = p->events;
	ch->user = p->user;
	ch->login = p->login;
	srp_login_req_encode(pdata, sizeof(pdata), &p->login);
	err = channel_make_slots(ch, xp, p->depth, p->generation, e);
	if (!err)
		err = xp_connect(xp, p->addr, p->addr_len, &params, &ch->xp, e);
	if (err) {
		ini_channel_free(ch);
		return err;
	}
	*ret_ch = ch;
	return 0;
}
