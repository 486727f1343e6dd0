/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/t_addr.h"
#include "tests/lib/t_must.h"
#include "tests/lib/t_table.h"

#define RECV_LEN 1024u
#define DATA_LEN 512u

/* ---- answers of the target ---- */

/* An old target, which has few VPD pages, or none. */
static void t_session_inquiry(struct t_session *t, struct t_tgt_send *s)
{
	memset(s->data, 0, 36);
	s->data[4] = 31;
	s->data[5] = t->o.groups ? 0x30 : 0;
	memcpy(s->data + 8, "ACME    OLD DISK        1.0 ", 28);
	t_tgt_respond(s, 36);
}

static void t_session_modes(struct t_session *t, struct t_tgt_send *s)
{
	uint8_t *b = s->data;

	if (t->o.mode == MODE_REFUSED) {
		t_tgt_refuse(s);
		return;
	}
	memset(b, 0, 24);
	b[0] = t->o.mode == MODE_NO_PAGE ? 3 : 23;
	b[2] = t->o.dpofua ? 0x10 : 0;
	b[4] = 0x08;
	b[5] = 18;
	b[6] = t->o.mode == MODE_CACHE ? 0x04 : 0;
	t_tgt_respond(s, b[0] + 1u);
}

static void t_session_describe(struct t_session *t, struct t_tgt_send *s)
{
	struct scsi_disk_info info = {
		.name = "disk",
		.serial = "0123",
		.naa = { 0x60, [15] = t->lun ? t->second_naa : t->naa },
		.store = { .generation = { t->generation },
			   .is_memory = t->o.is_memory },
		.groups = { .cnt = t->o.groups,
			    .own = t->o.own,
			    .active = t->o.active },
		.blocks = t->blocks,
		.block_size = t->block_size,
		.unmap = t->o.is_thin,
		.lbprz = t->o.is_thin && !t->o.no_lbprz,
		.max_unmap_blocks = t->o.is_thin ? BLOCKS : 0,
		.max_unmap_descs = t->o.is_thin,
		.unmap_granularity_blocks = t->o.granularity,
		.unmap_alignment_blocks = t->o.alignment,
		.max_write_same_blocks = t->o.max_write_same,
	};
	uint64_t luns[2];
	uint8_t pages[5];
	struct t_tgt_disk disk = { .info = &info,
				   .luns = luns,
				   .pages = pages };
	int len;

	if (!t->lun_is_gone)
		srp_lun_encode(0, &luns[disk.lun_cnt++]);
	if (t->has_second)
		srp_lun_encode(1, &luns[disk.lun_cnt++]);
	if (t->o.has_ids) {
		pages[disk.page_cnt++] = SCSI_VPD_UNIT_SERIAL_NUMBER;
		pages[disk.page_cnt++] = SCSI_VPD_DEVICE_IDENTIFICATION;
	}
	if (t->o.is_thin) {
		pages[disk.page_cnt++] = SCSI_VPD_BLOCK_LIMITS;
		pages[disk.page_cnt++] = SCSI_VPD_PROVISIONING;
	}
	if (t->o.has_store)
		pages[disk.page_cnt++] = SCSI_VPD_STORE;
	len = s->cmd.evpd && !disk.page_cnt
		      ? -1
		      : t_tgt_disk_data(&disk, &s->cmd, s->data, DATA_LEN);
	if (t->o.no_lbpws && s->cmd.evpd &&
	    s->cmd.page_code == SCSI_VPD_PROVISIONING)
		s->data[5] &= (uint8_t)~0x60;
	if (len < 0)
		t_tgt_refuse(s);
	else
		t_tgt_respond(s, (uint32_t)len);
}

static void t_session_note_clear(struct t_session *t,
				 const struct scsi_cmd *cmd)
{
	size_t len = strlen(t->clears);
	char sign = cmd->op == SCSI_OP_WRITE ? 'w' : cmd->unmap ? 'd' : 'z';

	if (cmd->op == SCSI_OP_UNMAP)
		snprintf(t->clears + len, sizeof(t->clears) - len, "u ");
	else
		snprintf(t->clears + len, sizeof(t->clears) - len, "%c%u+%u ",
			 sign, (unsigned int)cmd->lba,
			 (unsigned int)cmd->blocks);
}

static void t_session_clear(struct t_session *t, struct t_tgt_send *s)
{
	t_session_note_clear(t, &s->cmd);
	t_tgt_respond(s, 0);
}

static void t_session_write(struct t_session *t, struct t_tgt_send *s)
{
	t->writes++;
	t->write_lun = t->lun;
	if (t->o.is_thin)
		t_session_note_clear(t, &s->cmd);
	t->lbas[t->lba_cnt] = (uint32_t)s->cmd.lba;
	t->came_by[t->lba_cnt++] = s->ch == t->chans[0] ? '0' : '1';
	T_MUST(t->lba_cnt < ARRAY_SIZE(t->lbas));
	if (t->ignores_writes || t->never_writes)
		t_tgt_drop(s);
	else
		t_tgt_respond(s, 0);
}

static void t_session_refuse(struct t_tgt_send *s, enum scsi_key key,
			     enum scsi_asc code)
{
	struct scsi_sense sense = scsi_sense(key, code);

	t_tgt_respond_sense(s, &sense, SCSI_SENSE_FIXED);
}

static void t_session_sync(struct t_session *t, struct t_tgt_send *s)
{
	t->syncs++;
	if (t->leaves_at_sync) {
		t->leaves_at_sync = false;
		t->generation++;
		t_tgt_drop(s);
		t_session_drop(t, 0);
	} else if (t->bad_syncs) {
		t->bad_syncs--;
		t_session_refuse(s, SCSI_KEY_HARDWARE_ERROR,
				 SCSI_ASC_WRITE_ERROR);
	} else if (t->o.no_sync) {
		t_tgt_refuse(s);
	} else {
		t_tgt_respond(s, 0);
	}
}

static void t_session_answer(struct t_session *t, struct t_tgt_send *s)
{
	switch (s->cmd.op) {
	case SCSI_OP_TEST_UNIT_READY:
		t->turs++;
		t_tgt_respond(s, 0);
		return;
	case SCSI_OP_INQUIRY:
		if (t->lun && t->second_is_mute)
			t_session_refuse(s, SCSI_KEY_HARDWARE_ERROR,
					 SCSI_ASC_WRITE_ERROR);
		else if (s->cmd.evpd)
			t_session_describe(t, s);
		else
			t_session_inquiry(t, s);
		return;
	case SCSI_OP_MODE_SENSE_6:
		t_session_modes(t, s);
		return;
	case SCSI_OP_WRITE:
		t_session_write(t, s);
		return;
	case SCSI_OP_WRITE_SAME:
	case SCSI_OP_UNMAP:
		t_session_clear(t, s);
		return;
	case SCSI_OP_SYNC_CACHE:
		t_session_sync(t, s);
		return;
	default:
		t_session_describe(t, s);
	}
}

/* ---- other answers ---- */

static bool t_session_overrides(struct t_override *o, const uint8_t *cdb)
{
	if (o->cnt == 0)
		return false;
	if (o->opcode ? o->opcode != cdb[0] : cdb[0] == 0xa0 || cdb[0] == 0x12)
		return false;
	if (o->page && (!(cdb[1] & 1) || o->page != cdb[2]))
		return false;
	o->cnt--;
	return true;
}

static void t_session_override(struct t_session *t, struct t_tgt_send *s)
{
	const struct t_override *o = &t->override;

	if (o->naa)
		t->naa = o->naa;
	if (o->status == SCSI_STATUS_CHECK_CONDITION)
		t_tgt_respond_sense(s, &o->sense, o->format);
	else
		t_tgt_respond_status(s, o->status);
}

static bool t_session_is_standby(const struct t_session *t)
{
	return t->o.groups && t->o.active != t->o.own;
}

static void t_session_command(struct t_tgt_send *s,
			      const struct srp_cmd_view *cmd)
{
	struct t_session *t = s->ch->tgt->user;
	enum scsi_op op = s->cmd.op;

	T_MUST(!srp_lun_decode(cmd->lun, &t->lun));
	if (t->keeps_credits)
		s->rsp.req_lim_delta = 0;
	if (t->holds) {
		T_MUST(t->held_cnt < ARRAY_SIZE(t->held));
		t->held[t->held_cnt++] = s;
		return;
	}
	if (t->attention && op != SCSI_OP_REPORT_LUNS &&
	    op != SCSI_OP_INQUIRY) {
		t_session_refuse(s, SCSI_KEY_UNIT_ATTENTION, t->attention);
		t->attention = 0;
	} else if (t_session_overrides(&t->override, cmd->cdb)) {
		t_session_override(t, s);
	} else if ((t->lun ? !t->has_second : t->lun_is_gone) &&
		   op != SCSI_OP_REPORT_LUNS) {
		t_session_refuse(s, SCSI_KEY_ILLEGAL_REQUEST,
				 SCSI_ASC_LUN_NOT_SUPPORTED);
	} else if (t->unready[t->lun].key && op != SCSI_OP_REPORT_LUNS &&
		   op != SCSI_OP_INQUIRY) {
		t_tgt_respond_sense(s, &t->unready[t->lun], SCSI_SENSE_FIXED);
	} else if (t_session_is_standby(t) &&
		   (op == SCSI_OP_WRITE || op == SCSI_OP_READ ||
		    op == SCSI_OP_SYNC_CACHE)) {
		t->refused++;
		t_session_refuse(s, SCSI_KEY_NOT_READY,
				 SCSI_ASC_TARGET_PORT_STANDBY);
	} else {
		t_session_answer(t, s);
	}
}

/* ---- channels of the target ---- */

static void t_session_received(struct t_tgt_chan *ch, const struct xp_iu *iu)
{
	struct t_session *t = ch->tgt->user;
	bool leaves = t->leaves_at && --t->leaves_at == 0;
	bool silent = t->silent_at && --t->silent_at == 0;

	if (leaves)
		xp_close(ch->xp);
	else if (!silent)
		t_tgt_receive(ch, iu);
}

static void t_session_other(struct t_tgt_chan *ch, enum srp_opcode opcode)
{
	struct t_session *t = ch->tgt->user;

	T_MUST(opcode == SRP_CRED_RSP);
	t->cred_rsps++;
}

static void t_session_login(struct t_tgt *tgt, struct xp_conn_request *req,
			    const struct srp_login_req *login)
{
	struct t_session *t = tgt->user;
	bool first = login->multichan == SRP_MULTICHAN_SINGLE;

	if (t->delays_login) {
		t->delays_login = false;
		t->kept_login = req;
		return;
	}
	if (t->rejects || (t->o.only_one && !first)) {
		t->rejects = false;
		t_tgt_reject(req, login->tag, SRP_REJ_NO_RESOURCES);
		return;
	}
	tgt->rsp.multichan = t->replaces ? SRP_MULTICHAN_TERMINATED
			     : first || t->o.other_nexus
				     ? SRP_MULTICHAN_NO_CHAN
				     : SRP_MULTICHAN_MAINTAINED;
	if (first) {
		t->replaces -= t->replaces > 0;
		t->ignores_writes = false;
		t->keeps_credits = false;
		t->lba_cnt = 0;
		memset(t->came_by, 0, sizeof(t->came_by));
	}
	t->chans[!first] = t_tgt_accept(tgt, req, login);
}

static const struct t_tgt_ops t_session_ops = {
	.login = t_session_login,
	.received = t_session_received,
	.command = t_session_command,
	.other = t_session_other,
};

void t_session_drop(struct t_session *t, unsigned int channel)
{
	xp_close(t->chans[channel]->xp);
}

/* ---- the session ---- */

void t_session_turn(struct t_session *t)
{
	assert_true(srpi_ctx_run(t->ctx, 10000) == 1);
}

static void t_session_closed(void *arg)
{
	((struct t_session *)arg)->closed = true;
}

void t_session_close_from(struct t_session *t, enum close_from where)
{
	if (t->closes_from != where || t->closing)
		return;
	t->closing = true;
	srpi_close(t->session, t_session_closed, t);
}

static void t_session_changed(struct srpi_session *s, enum srpi_state state,
			      const struct srpi_error *why, void *arg)
{
	static const enum close_from from[] = {
		[SRPI_RUNNING] = BACK,
		[SRPI_BLOCKED] = BLOCKED,
		[SRPI_FAIL_FAST] = FAIL_FAST,
		[SRPI_LOST] = LOST,
	};
	struct t_session *t = arg;

	t->why = *why;
	/* The timers expire before the channels drain. */
	if (state == SRPI_BLOCKED && t->skips_a_second)
		reactor_skip(t->ctx->reactor, 1000);
	t_session_close_from(t, from[state]);
}

static void t_session_resized(struct srpi_session *s, unsigned int volume,
			      void *arg)
{
	t_session_close_from(arg, RESIZED);
}

static void t_session_volume_event(struct srpi_session *s, unsigned int volume,
				   enum srpi_volume_event event,
				   const char *why, void *arg)
{
	static const char signs[] = {
		[SRPI_VOLUME_ADDED] = '+',   [SRPI_VOLUME_GONE] = '-',
		[SRPI_VOLUME_RESIZED] = '=', [SRPI_VOLUME_CHANGED] = '*',
		[SRPI_VOLUME_STATE] = '~',
	};
	struct t_session *t = arg;
	size_t len = strlen(t->events);

	assert_int_equal(*why != '\0', event == SRPI_VOLUME_GONE ||
					       event == SRPI_VOLUME_STATE);
	assert_int_equal(srpi_volume_is_present(s, volume),
			 event != SRPI_VOLUME_GONE);
	snprintf(t->events + len, sizeof(t->events) - len, "%s%c%u",
		 len ? " " : "", signs[event], volume);
	if (event == SRPI_VOLUME_STATE)
		snprintf(t->state_why, sizeof(t->state_why), "%s", why);
	if (event != SRPI_VOLUME_GONE)
		return;
	snprintf(t->gone_why, sizeof(t->gone_why), "%s", why);
	t_session_close_from(t, GONE);
}

static void t_session_listen(struct t_session *t,
			     const struct t_session_options *o)
{
	struct sockaddr_in sin;

	t->o = *o;
	t->naa = o->naa;
	t->has_second = o->has_second;
	t->second_naa = 0x20;
	memcpy(t->unready, o->unready, sizeof(t->unready));
	t->blocks = BLOCKS;
	t->block_size = BLK;
	t->generation = o->generation;
	t->tgt = (struct t_tgt){
		.ops = &t_session_ops,
		.rsp = { .req_lim = REQ_LIM,
			 .it_iu_len = RECV_LEN,
			 .ti_iu_len = 512,
			 .formats = SRP_FORMATS },
		.send_cnt = 64,
		.data_len = DATA_LEN,
		.user = t,
	};
	t_addr_next(t->addr, sizeof(t->addr));
	sin = t_addr_parse(t->addr);
	t_tgt_start(&t->tgt, t->xp);
	t_tgt_listen(&t->tgt, &sin);
}

static void t_session_uri(struct t_session *t, char *uri, size_t len)
{
	int n;

	t_session_listen(t, &t->o);
	n = snprintf(uri, len, "srp+tcp://%s", t->addr);
	if (t->o.other) {
		t->other = calloc(1, sizeof(*t->other));
		T_MUST(t->other);
		t->other->ctx = t->ctx;
		t->other->xp = t->xp;
		t_session_listen(t->other, t->o.other);
		n += snprintf(uri + n, len - (size_t)n, ",%s", t->other->addr);
	}
	if (t->o.volume)
		snprintf(uri + n, len - (size_t)n, "/%s", t->o.volume);
}

struct t_session *t_session_new(const struct t_session_options *o)
{
	struct t_session *t = calloc(1, sizeof(*t));
	struct xp_config cfg = { .recv_len = RECV_LEN };
	struct srpi_error e = { 0 };
	struct srpi_options so = {
		.struct_size = sizeof(so),
		.fast_io_fail_ms = !o->comes_back	? 1
				   : o->fast_io_fail_ms ? o->fast_io_fail_ms
							: SRPI_OFF,
		.dev_loss_ms = o->comes_back ? SRPI_OFF : 2,
		.reconnect_delay_ms = o->comes_back ? 1 : SRPI_OFF,
		.io_timeout_ms = o->io_timeout_ms,
		.timeout_ms = o->timeout_ms,
		.channels = o->channels,
		.state_changed = t_session_changed,
		.volume_resized = t_session_resized,
		.state_arg = t,
		.follow_volumes = o->follows,
		.volume_event = t_session_volume_event,
		.keep_alive_ms = o->keep_alive_ms,
		.purpose = o->purpose,
	};
	struct error xe;
	char uri[128];

	assert_non_null(t);
	t->o = *o;
	assert_int_equal(srpi_ctx_create(NULL, &t->ctx, &e), 0);
	cfg.reactor = t->ctx->reactor;
	assert_int_equal(xp_create(XP_TCP, &cfg, &t->xp, &xe), 0);
	t_session_uri(t, uri, sizeof(uri));
	if (srpi_connect_wait(t->ctx, uri, &so, &t->session, &e) && !o->fails)
		fail_msg("%s", e.text);
	t->why = e;
	return t;
}

static void t_session_stop(struct t_session *t)
{
	while (t_tgt_chan_cnt(&t->tgt))
		t_session_turn(t);
	t_tgt_stop(&t->tgt);
}

void t_session_free(struct t_session *t)
{
	if (!t->closing && t->session)
		srpi_close_wait(t->ctx, t->session);
	while (t->closing && !t->closed)
		t_session_turn(t);
	t_session_stop(t);
	if (t->other)
		t_session_stop(t->other);
	free(t->other);
	xp_destroy(t->xp);
	srpi_ctx_destroy(t->ctx);
	free(t);
}

/* ---- helpers for tests ---- */

int t_session_io_of(struct t_session *t, unsigned int volume, enum srpi_op op,
		    bool fua)
{
	static uint8_t block[BLK];
	struct srpi_io io = {
		.op = op, .volume = volume, .buf = block, .fua = fua
	};
	struct srpi_error e;
	int res;

	io.len = op == SRPI_FLUSH ? 0 : BLK;
	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	res = srpi_io_wait(t->ctx, t->session, &io);
	srpi_mem_free(io.mem);
	return res;
}

int t_session_io(struct t_session *t, enum srpi_op op, bool fua)
{
	return t_session_io_of(t, 0, op, fua);
}

void t_session_lose(struct t_session *t, uint8_t generation,
		    enum scsi_asc attention)
{
	t->generation = generation;
	t->attention = attention;
	t_session_drop(t, 0);
	while (srpi_session_state(t->session) == SRPI_RUNNING)
		t_session_turn(t);
	assert_int_equal(srpi_session_state(t->session), SRPI_BLOCKED);
	while (srpi_session_state(t->session) == SRPI_BLOCKED)
		t_session_turn(t);
}

void t_session_count_done(struct srpi_io *io, int res)
{
	assert_int_equal(res, 0);
	++*(unsigned int *)io->arg;
}

void t_session_store_result(struct srpi_io *io, int res)
{
	*(int *)io->arg = res;
}

struct t_override t_override_attention(uint8_t opcode, enum scsi_asc code)
{
	return (struct t_override){
		.opcode = opcode,
		.status = SCSI_STATUS_CHECK_CONDITION,
		.sense = scsi_sense(SCSI_KEY_UNIT_ATTENTION, code),
		.cnt = 1,
	};
}

struct t_session *t_session_new_returning(enum mode_answer mode)
{
	return t_session_new(&(struct t_session_options){ .mode = mode,
							  .has_store = true,
							  .comes_back = true,
							  .generation = 1 });
}

struct t_session *t_session_new_with_ids(void)
{
	return t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							  .dpofua = true,
							  .has_store = true,
							  .has_ids = true,
							  .comes_back = true,
							  .generation = 1 });
}

struct t_session *t_session_new_two(const struct t_session_options *b)
{
	return t_session_new(&(struct t_session_options){
		.mode = MODE_CACHE,
		.has_ids = true,
		.has_store = true,
		.comes_back = true,
		.generation = 1,
		.groups = b->groups ? 2 : 0,
		.own = 1,
		.active = 1,
		.other = b,
	});
}

void t_session_ask_credit(struct t_session *t)
{
	const struct srp_cred_req req = { .req_lim_delta = 0 };
	uint8_t iu[SRP_BARE_SIZE];
	int len = srp_cred_req_encode(iu, sizeof(iu), &req);

	T_MUST(t_tgt_send(t->chans[0], iu, (size_t)len));
}
