/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_tgt.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/scsi_mode.h"
#include "protocol/scsi_pages.h"
#include "tests/lib/t_must.h"

/* ---- sending ---- */

void t_tgt_send_done(struct xp_chain *chain, int status)
{
	t_tgt_drop(container_of(chain, struct t_tgt_send, chain));
}

struct t_tgt_send *t_tgt_take(struct t_tgt_chan *ch)
{
	for (unsigned int i = 0; i < ch->tgt->send_cnt; i++) {
		struct t_tgt_send *s = &ch->tgt->sends[i];

		if (s->busy)
			continue;
		*s = (struct t_tgt_send){ .chain.done = t_tgt_send_done,
					  .ch = ch,
					  .data = s->data,
					  .iu = s->iu,
					  .busy = true };
		return s;
	}
	return NULL;
}

void t_tgt_drop(struct t_tgt_send *s)
{
	s->busy = false;
}

void t_tgt_post(struct t_tgt_send *s)
{
	if (s->ch->open && xp_chan_is_open(s->ch->xp))
		xp_post(s->ch->xp, &s->chain);
	else
		t_tgt_drop(s);
}

static void t_tgt_post_iu(struct t_tgt_send *s, int len)
{
	T_MUST(len > 0 && len <= (int)T_TGT_IU_LEN);
	s->chain.send[0] = (struct xp_sge){ .addr = s->iu,
					    .len = (uint32_t)len,
					    .mr = s->ch->tgt->mr };
	s->chain.send_cnt = 1;
	t_tgt_post(s);
}

bool t_tgt_send(struct t_tgt_chan *ch, const void *iu, size_t len)
{
	struct t_tgt_send *s = t_tgt_take(ch);

	T_MUST(len <= T_TGT_IU_LEN);
	if (!s)
		return false;
	memcpy(s->iu, iu, len);
	t_tgt_post_iu(s, (int)len);
	return true;
}

bool t_tgt_send_rsp(struct t_tgt_chan *ch, const struct srp_rsp *rsp)
{
	struct t_tgt_send *s = t_tgt_take(ch);

	if (!s)
		return false;
	s->rsp = *rsp;
	t_tgt_respond_as_is(s, 0);
	return true;
}

void t_tgt_respond_as_is(struct t_tgt_send *s, uint32_t len)
{
	T_MUST(len <= s->ch->tgt->data_len);
	if (len) {
		s->chain.dir = XP_RDMA_WRITE;
		s->chain.remote = &s->desc;
		s->chain.len = len;
		s->chain.local = s->data;
		s->chain.local_mr = s->ch->tgt->mr;
	}
	t_tgt_post_iu(s, srp_rsp_encode(s->iu, T_TGT_IU_LEN, &s->rsp));
}

void t_tgt_respond(struct t_tgt_send *s, uint32_t len)
{
	if (len > s->in_len)
		len = s->in_len;
	if (len < s->in_len) {
		s->rsp.resid_flags = SRP_RSP_IN_UNDERFLOW;
		s->rsp.in_resid = s->in_len - len;
	}
	t_tgt_respond_as_is(s, len);
}

void t_tgt_respond_status(struct t_tgt_send *s, enum scsi_status status)
{
	s->rsp.status = status;
	t_tgt_respond(s, 0);
}

void t_tgt_respond_sense(struct t_tgt_send *s, const struct scsi_sense *sense,
			 enum scsi_sense_format format)
{
	s->rsp.sense = s->sense;
	s->rsp.sense_len = (uint32_t)scsi_sense_encode(sense, format, s->sense,
						       sizeof(s->sense));
	t_tgt_respond_status(s, SCSI_STATUS_CHECK_CONDITION);
}

void t_tgt_refuse(struct t_tgt_send *s)
{
	struct scsi_sense sense =
		scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE);

	t_tgt_respond_sense(s, &sense, SCSI_SENSE_FIXED);
}

/* ---- channels ---- */

static void t_tgt_receive_cmd(struct t_tgt_chan *ch, const struct xp_iu *iu)
{
	struct t_tgt_send *s = t_tgt_take(ch);
	struct srp_cmd_view cmd;
	struct scsi_sense sense;

	T_MUST(!srp_cmd_decode(iu->data, iu->len, &ch->rules, &cmd));
	T_MUST(s || ch->tgt->loses_commands);
	if (!s)
		return;
	T_MUST(!scsi_cdb_decode(cmd.cdb, SCSI_CDB_LEN, &s->cmd, &sense));
	s->rsp = (struct srp_rsp){ .tag = cmd.tag, .req_lim_delta = 1 };
	s->in_len = cmd.in.len;
	if (cmd.in.descs)
		srp_desc_unpack(cmd.in.descs, 1, &s->desc);
	ch->tgt->ops->command(s, &cmd);
}

void t_tgt_receive(struct t_tgt_chan *ch, const struct xp_iu *iu)
{
	const struct t_tgt_ops *ops = ch->tgt->ops;
	struct srp_head head;

	T_MUST(!srp_head_decode(iu->data, iu->len, &head));
	if (head.opcode == SRP_CMD)
		t_tgt_receive_cmd(ch, iu);
	else if (ops->other)
		ops->other(ch, head.opcode);
}

static void t_tgt_received(struct xp_chan *xp, struct xp_iu *iu)
{
	struct t_tgt_chan *ch = xp_chan_user(xp);

	if (ch->tgt->ops->received)
		ch->tgt->ops->received(ch, iu);
	else
		t_tgt_receive(ch, iu);
	xp_iu_release(iu);
}

static void t_tgt_established(struct xp_chan *xp, const void *pdata, size_t len)
{
	struct t_tgt_chan *ch = xp_chan_user(xp);

	ch->open = true;
	if (ch->tgt->ops->established)
		ch->tgt->ops->established(ch);
}

static void t_tgt_closed(struct xp_chan *xp, const struct error *why)
{
	struct t_tgt_chan *ch = xp_chan_user(xp);

	ch->open = false;
	ch->xp = NULL;
	xp_chan_free(xp);
}

static const struct xp_handler t_tgt_handler = {
	.established = t_tgt_established,
	.received = t_tgt_received,
	.closed = t_tgt_closed,
};

/* True if an answer is still to come. It must not go to another channel. */
static bool t_tgt_owes(const struct t_tgt_chan *ch)
{
	for (unsigned int i = 0; i < ch->tgt->send_cnt; i++) {
		if (ch->tgt->sends[i].busy && ch->tgt->sends[i].ch == ch)
			return true;
	}
	return false;
}

struct t_tgt_chan *t_tgt_free_chan(struct t_tgt *tgt)
{
	for (unsigned int i = 0; i < T_TGT_CHANS; i++) {
		tgt->chans[i].tgt = tgt;
		if (!tgt->chans[i].xp && !t_tgt_owes(&tgt->chans[i]))
			return &tgt->chans[i];
	}
	return NULL;
}

/* ---- logins ---- */

static void t_tgt_requested(struct xp_conn_request *req)
{
	struct t_tgt *tgt = req->user;
	struct srp_login_req login;

	T_MUST(!srp_login_req_decode(req->pdata, req->pdata_len, &login));
	tgt->ops->login(tgt, req, &login);
}

struct t_tgt_chan *t_tgt_accept_with(struct t_tgt *tgt,
				     struct xp_conn_request *req,
				     const struct srp_login_req *login,
				     const void *pdata, size_t len)
{
	struct t_tgt_chan *ch = t_tgt_free_chan(tgt);
	const struct xp_chan_params params = {
		.handler = &t_tgt_handler,
		.user = ch,
		.recv_cnt = (unsigned int)tgt->rsp.req_lim + 8,
		.pdata = pdata,
		.pdata_len = len,
	};
	struct error e;

	T_MUST(ch);
	*ch = (struct t_tgt_chan){
		.tgt = tgt,
		.rules = { .formats = tgt->rsp.formats,
			   .imm_offset = tgt->rsp.imm_data && login->imm_data
						 ? login->imm_offset
						 : 0 },
	};
	T_MUST(!xp_accept(tgt->xp, req, &params, &ch->xp, &e));
	return ch;
}

struct t_tgt_chan *t_tgt_accept(struct t_tgt *tgt, struct xp_conn_request *req,
				const struct srp_login_req *login)
{
	struct srp_login_rsp rsp = tgt->rsp;
	uint8_t pdata[SRP_LOGIN_RSP_SIZE];

	rsp.tag = login->tag;
	rsp.imm_data &= login->imm_data;
	srp_login_rsp_encode(pdata, sizeof(pdata), &rsp);
	return t_tgt_accept_with(tgt, req, login, pdata, sizeof(pdata));
}

void t_tgt_reject(struct xp_conn_request *req, uint64_t tag, uint32_t reason)
{
	const struct srp_login_rej rej = { .tag = tag, .reason = reason };
	uint8_t pdata[SRP_LOGIN_REJ_SIZE];

	srp_login_rej_encode(pdata, sizeof(pdata), &rej);
	xp_reject(req, pdata, sizeof(pdata));
}

/* ---- life cycle ---- */

void t_tgt_start(struct t_tgt *tgt, struct xp *xp)
{
	size_t stride = (tgt->data_len + T_TGT_IU_LEN + 4095) & ~(size_t)4095;
	struct error e;

	tgt->xp = xp;
	tgt->sends = calloc(tgt->send_cnt, sizeof(*tgt->sends));
	tgt->mem = aligned_alloc(4096, tgt->send_cnt * stride);
	T_MUST(tgt->sends && tgt->mem);
	memset(tgt->mem, 0, tgt->send_cnt * stride);
	T_MUST(!xp_mr_register(xp, tgt->mem, tgt->send_cnt * stride, XP_LOCAL,
			       &tgt->mr, &e));
	for (unsigned int i = 0; i < tgt->send_cnt; i++) {
		tgt->sends[i].data = tgt->mem + i * stride;
		tgt->sends[i].iu = tgt->sends[i].data + tgt->data_len;
	}
}

void t_tgt_listen(struct t_tgt *tgt, const struct sockaddr_in *addr)
{
	unsigned int i = 0;
	struct error e;

	while (i < T_TGT_LISTENERS && tgt->listeners[i])
		i++;
	T_MUST(i < T_TGT_LISTENERS);
	T_MUST(!xp_listen(tgt->xp, (const struct sockaddr *)addr, sizeof(*addr),
			  t_tgt_requested, tgt, &tgt->listeners[i], &e));
}

void t_tgt_unlisten(struct t_tgt *tgt)
{
	for (unsigned int i = 0; i < T_TGT_LISTENERS; i++) {
		xp_unlisten(tgt->listeners[i]);
		tgt->listeners[i] = NULL;
	}
}

void t_tgt_close(struct t_tgt *tgt)
{
	for (unsigned int i = 0; i < T_TGT_CHANS; i++) {
		if (tgt->chans[i].xp)
			xp_close(tgt->chans[i].xp);
	}
}

unsigned int t_tgt_chan_cnt(const struct t_tgt *tgt)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < T_TGT_CHANS; i++)
		cnt += tgt->chans[i].xp != NULL;
	return cnt;
}

void t_tgt_stop(struct t_tgt *tgt)
{
	T_MUST(t_tgt_chan_cnt(tgt) == 0);
	t_tgt_unlisten(tgt);
	xp_mr_free(tgt->mr);
	free(tgt->mem);
	free(tgt->sends);
}

/* ---- a disk ---- */

static int t_tgt_disk_vpd(const struct t_tgt_disk *d, uint8_t page, uint8_t *b,
			  size_t cap)
{
	struct scsi_sense sense;
	size_t len;

	if (page == SCSI_VPD_SUPPORTED_PAGES && d->pages) {
		memset(b, 0, 4);
		b[3] = d->page_cnt;
		memcpy(b + 4, d->pages, d->page_cnt);
		return 4 + d->page_cnt;
	}
	if (d->pages && !memchr(d->pages, page, d->page_cnt))
		return -1;
	return scsi_vpd_encode(d->info, page, b, cap, &len, &sense) ? -1
								    : (int)len;
}

static int t_tgt_disk_modes(const struct t_tgt_disk *d,
			    const struct scsi_cmd *cmd, uint8_t *b, size_t cap)
{
	struct scsi_sense sense;
	size_t len;

	return scsi_mode_sense_encode(d->info, cmd, b, cap, &len, &sense)
		       ? -1
		       : (int)len;
}

static int t_tgt_disk_status(const struct t_tgt_disk *d,
			     const struct scsi_cmd *cmd, uint8_t *b, size_t cap)
{
	const struct scsi_lba_range range = {
		.lba = cmd->lba,
		.blocks = (uint32_t)(d->info->blocks - cmd->lba),
		.state = SCSI_LBA_MAPPED,
	};

	return (int)scsi_lba_status_encode(&range, 1, b, cap);
}

int t_tgt_disk_data(const struct t_tgt_disk *d, const struct scsi_cmd *cmd,
		    uint8_t *b, size_t cap)
{
	const struct scsi_disk_info *info = d->info;

	switch (cmd->op) {
	case SCSI_OP_REPORT_LUNS:
		return (int)scsi_report_luns_encode(d->luns, d->lun_cnt, b,
						    cap);
	case SCSI_OP_INQUIRY:
		return cmd->evpd ? t_tgt_disk_vpd(d, cmd->page_code, b, cap)
				 : (int)scsi_inquiry_encode(info, b, cap);
	case SCSI_OP_READ_CAPACITY_10:
		return (int)scsi_read_capacity_10_encode(info, b, cap);
	case SCSI_OP_READ_CAPACITY_16:
		return (int)scsi_read_capacity_16_encode(info, b, cap);
	case SCSI_OP_MODE_SENSE_6:
		return t_tgt_disk_modes(d, cmd, b, cap);
	case SCSI_OP_GET_LBA_STATUS:
		return t_tgt_disk_status(d, cmd, b, cap);
	case SCSI_OP_REPORT_PORT_GROUPS:
		return info->groups.cnt ? (int)scsi_report_port_groups_encode(
						  info, cmd->ext_header, b, cap)
					: -1;
	default:
		return -1;
	}
}
