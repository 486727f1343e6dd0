/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_session.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/scsi_pages.h"
#include "protocol/scsi_vpd.h"
#include "protocol/srp_iu.h"
#include "protocol/srp_login.h"
#include "protocol/wire.h"
#include "tests/lib/t_table.h"

/* ---- the target ---- */

static void sent(struct xp_chain *chain, int status)
{
}

static struct t_session_send *new_send(struct t_session *t)
{
	struct t_session_send *s = &t->sends[t->send_cnt++];

	assert_true(t->send_cnt < SENDS_MAX);
	s->chain = (struct xp_chain){ .done = sent };
	return s;
}

static void send_iu(struct t_session *t, struct t_session_send *s, int len)
{
	assert_true(len > 0);
	s->chain.send[0] = (struct xp_sge){ .addr = s->iu,
					    .len = (uint32_t)len,
					    .mr = t->mr };
	s->chain.send_cnt = 1;
	xp_post(t->chans[t->now], &s->chain);
}

static void answer(struct t_session *t, const struct srp_cmd_view *cmd,
		   const void *data, size_t len)
{
	struct t_session_send *s = new_send(t);
	struct srp_rsp rsp = { .tag = cmd->tag, .req_lim_delta = 1 };

	if (len > cmd->in.len)
		len = cmd->in.len;
	if (len < cmd->in.len) {
		rsp.resid_flags = SRP_RSP_IN_UNDERFLOW;
		rsp.in_resid = cmd->in.len - (uint32_t)len;
	}
	if (len) {
		assert_true(len <= sizeof(s->data));
		memcpy(s->data, data, len);
		srp_desc_unpack(cmd->in.descs, 1, &s->desc);
		s->chain.dir = XP_RDMA_WRITE;
		s->chain.remote = &s->desc;
		s->chain.remote_cnt = 1;
		s->chain.len = (uint32_t)len;
		s->chain.local = s->data;
		s->chain.local_mr = t->mr;
	}
	send_iu(t, s, srp_rsp_encode(s->iu, sizeof(s->iu), &rsp));
}

static void answer_status(struct t_session *t, const struct srp_cmd_view *cmd,
			  enum scsi_status status,
			  const struct scsi_sense *sense,
			  enum scsi_sense_format format)
{
	struct t_session_send *s = new_send(t);
	uint8_t buf[SCSI_SENSE_MAX_LEN];
	struct srp_rsp rsp = {
		.tag = cmd->tag,
		.req_lim_delta = 1,
		.status = status,
	};

	if (status == SCSI_STATUS_CHECK_CONDITION) {
		rsp.sense = buf;
		rsp.sense_len = (uint32_t)scsi_sense_encode(sense, format, buf,
							    sizeof(buf));
	}
	send_iu(t, s, srp_rsp_encode(s->iu, sizeof(s->iu), &rsp));
}

static void answer_sense(struct t_session *t, const struct srp_cmd_view *cmd,
			 enum scsi_key key, enum scsi_asc code)
{
	struct scsi_sense sense = scsi_sense(key, code);

	answer_status(t, cmd, SCSI_STATUS_CHECK_CONDITION, &sense,
		      SCSI_SENSE_FIXED);
}

/* INVALID COMMAND OPERATION CODE */
static void refuse(struct t_session *t, const struct srp_cmd_view *cmd)
{
	answer_sense(t, cmd, SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE);
}

static void answer_vpd(struct t_session *t, const struct srp_cmd_view *cmd)
{
	struct scsi_disk_info info = {
		.name = "disk",
		.serial = "0123",
		.naa = { 0x60, [15] = t->naa },
		.store.is_memory = t->o.is_memory,
	};
	uint8_t list[8] = { 0 };
	uint8_t b[256];
	struct scsi_sense sense;
	size_t len;

	info.store.generation[0] = t->generation;
	info.groups.cnt = t->o.groups;
	info.groups.own = t->o.own;
	if (t->o.has_ids) {
		list[4 + list[3]++] = SCSI_VPD_UNIT_SERIAL_NUMBER;
		list[4 + list[3]++] = SCSI_VPD_DEVICE_IDENTIFICATION;
	}
	if (t->o.has_store)
		list[4 + list[3]++] = SCSI_VPD_STORE;
	if (list[3] == 0) {
		refuse(t, cmd);
	} else if (cmd->cdb[2] == SCSI_VPD_SUPPORTED_PAGES) {
		answer(t, cmd, list, 4u + list[3]);
	} else {
		assert_int_equal(scsi_vpd_encode(&info, cmd->cdb[2], b,
						 sizeof(b), &len, &sense),
				 0);
		answer(t, cmd, b, len);
	}
}

static void answer_inquiry(struct t_session *t, const struct srp_cmd_view *cmd)
{
	uint8_t b[36] = { [4] = 31 };

	if (cmd->cdb[1] & 1) {
		answer_vpd(t, cmd);
		return;
	}
	memcpy(b + 8, "ACME    OLD DISK        1.0 ", 28);
	b[5] = t->o.groups ? 0x30 : 0;
	answer(t, cmd, b, sizeof(b));
}

static void answer_mode(struct t_session *t, const struct srp_cmd_view *cmd)
{
	uint8_t b[24] = { [0] = 23, [4] = 0x08, [5] = 18 };

	if (t->o.mode == MODE_REFUSED) {
		refuse(t, cmd);
		return;
	}
	if (t->o.mode == MODE_CACHE)
		b[6] = 0x04;
	if (t->o.dpofua)
		b[2] = 0x10;
	if (t->o.mode == MODE_NO_PAGE)
		b[0] = 3;
	answer(t, cmd, b, b[0] + 1u);
}

static bool is_standby(const struct t_session *t)
{
	return t->o.groups && t->o.active != t->o.own;
}

static void answer_groups(struct t_session *t, const struct srp_cmd_view *cmd)
{
	struct scsi_disk_info info = { .groups.cnt = t->o.groups,
				       .groups.own = t->o.own,
				       .groups.active = t->o.active };
	uint8_t b[64];

	answer(t, cmd, b,
	       scsi_report_port_groups_encode(&info, false, b, sizeof(b)));
}

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

static void answer_cmd(struct t_session *t, const struct srp_cmd_view *cmd)
{
	const struct scsi_disk_info info = { .blocks = t->blocks,
					     .block_size = t->block_size };
	const uint64_t lun = 0;
	uint8_t b[32];

	if (t->attention && cmd->cdb[0] != 0xa0 && cmd->cdb[0] != 0x12) {
		answer_sense(t, cmd, SCSI_KEY_UNIT_ATTENTION, t->attention);
		t->attention = 0;
		return;
	}
	if (t_session_overrides(&t->override, cmd->cdb)) {
		if (t->override.naa)
			t->naa = t->override.naa;
		answer_status(t, cmd, t->override.status, &t->override.sense,
			      t->override.format);
		return;
	}
	if (t->lun_is_gone && cmd->cdb[0] != 0xa0) {
		answer_sense(t, cmd, SCSI_KEY_ILLEGAL_REQUEST,
			     SCSI_ASC_LUN_NOT_SUPPORTED);
		return;
	}
	if (is_standby(t) && (cmd->cdb[0] == 0x2a || cmd->cdb[0] == 0x28 ||
			      cmd->cdb[0] == 0x35)) {
		t->refused++;
		answer_sense(t, cmd, SCSI_KEY_NOT_READY,
			     SCSI_ASC_TARGET_PORT_STANDBY);
		return;
	}
	switch (cmd->cdb[0]) {
	case 0xa3:
		answer_groups(t, cmd);
		return;
	case 0xa0:
		answer(t, cmd, b,
		       scsi_report_luns_encode(&lun, t->lun_is_gone ? 0 : 1, b,
					       sizeof(b)));
		return;
	case 0x12:
		answer_inquiry(t, cmd);
		return;
	case 0x9e:
		answer(t, cmd, b,
		       scsi_read_capacity_16_encode(&info, b, sizeof(b)));
		return;
	case 0x25:
		answer(t, cmd, b,
		       scsi_read_capacity_10_encode(&info, b, sizeof(b)));
		return;
	case 0x1a:
		answer_mode(t, cmd);
		return;
	case 0x2a:
		t->writes++;
		t->lbas[t->lba_cnt] = wire_get32(cmd->cdb + 2);
		t->came_by[t->lba_cnt++] = (char)('0' + t->now);
		assert_true(t->lba_cnt < ARRAY_SIZE(t->lbas));
		if (!t->ignores_writes)
			answer(t, cmd, NULL, 0);
		return;
	case 0x35:
		t->syncs++;
		if (t->leaves_at_sync) {
			t->leaves_at_sync = false;
			t->generation++;
			xp_close(t->chans[0]);
			return;
		}
		if (t->bad_syncs) {
			t->bad_syncs--;
			answer_sense(t, cmd, SCSI_KEY_HARDWARE_ERROR,
				     SCSI_ASC_WRITE_ERROR);
		} else if (t->o.no_sync)
			refuse(t, cmd);
		else
			answer(t, cmd, NULL, 0);
		return;
	default:
		refuse(t, cmd);
	}
}

static void received(struct xp_chan *ch, struct xp_iu *iu)
{
	const struct srp_cmd_rules rules = { .formats = SRP_FORMATS };
	struct t_session *t = xp_chan_user(ch);
	const uint8_t *opcode = iu->data;
	struct srp_cmd_view cmd;
	bool leaves = t->leaves_at && --t->leaves_at == 0;
	bool silent = t->silent_at && --t->silent_at == 0;

	t->now = t->chans[0] == ch ? 0 : 1;
	if (leaves) {
		xp_close(ch);
	} else if (silent) {
		t->silent_at = 0;
	} else if (*opcode == SRP_CRED_RSP) {
		t->cred_rsps++;
	} else {
		assert_int_equal(
			srp_cmd_decode(iu->data, iu->len, &rules, &cmd), 0);
		answer_cmd(t, &cmd);
	}
	xp_iu_release(iu);
}

static void established(struct xp_chan *ch, const void *pdata, size_t len)
{
}

static void closed(struct xp_chan *ch, const struct error *why)
{
	struct t_session *t = xp_chan_user(ch);

	for (unsigned int i = 0; i < CHANNELS; i++) {
		if (t->chans[i] == ch)
			t->chans[i] = NULL;
	}
	t->open--;
	xp_chan_free(ch);
}

static const struct xp_handler handler = {
	.established = established,
	.received = received,
	.closed = closed,
};

static void requested(struct xp_conn_request *req)
{
	struct t_session *t = req->user;
	const struct srp_login_rsp rsp = {
		.req_lim = REQ_LIM,
		.it_iu_len = 1024,
		.ti_iu_len = 512,
		.formats = SRP_FORMATS,
	};
	const struct srp_login_rej rej = {
		.reason = SRP_REJ_NO_RESOURCES,
	};
	uint8_t pdata[SRP_LOGIN_RSP_SIZE];
	struct xp_chan_params params = {
		.handler = &handler,
		.user = t,
		.recv_cnt = REQ_LIM + 2,
		.pdata = pdata,
		.pdata_len = sizeof(pdata),
	};
	struct srp_login_req login;
	struct error e;
	bool first;

	assert_int_equal(
		srp_login_req_decode(req->pdata, req->pdata_len, &login), 0);
	first = login.multichan == SRP_MULTICHAN_SINGLE;
	if (t->delays_login) {
		t->delays_login = false;
		t->kept_login = req;
		return;
	}
	if (t->rejects || (t->o.only_one && !first)) {
		t->rejects = false;
		srp_login_rej_encode(pdata, sizeof(pdata), &rej);
		xp_reject(req, pdata, SRP_LOGIN_REJ_SIZE);
		return;
	}
	if (first) {
		t->ignores_writes = false;
		t->lba_cnt = 0;
		memset(t->came_by, 0, sizeof(t->came_by));
	}
	srp_login_rsp_encode(pdata, sizeof(pdata), &rsp);
	assert_int_equal(xp_accept(t->xp, req, &params, &t->chans[!first], &e),
			 0);
	t->open++;
}

/* ---- both ---- */

/* A port that nobody has now. */
static struct sockaddr_in free_addr(void)
{
	struct sockaddr_in sa = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	getsockname(fd, (struct sockaddr *)&sa, &len);
	close(fd);
	return sa;
}

void t_session_turn(struct t_session *t)
{
	assert_true(srpi_ctx_run(t->ctx, 10000) == 1);
}

static void session_closed(void *arg)
{
	((struct t_session *)arg)->closed = true;
}

/* Closes the session if this is the callback that is to do it. */
void t_session_close_from(struct t_session *t, enum close_from where)
{
	if (t->closes_from != where || t->closing)
		return;
	t->closing = true;
	srpi_close(t->session, session_closed, t);
}

static void told(struct srpi_session *s, enum srpi_state state,
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
	/* Its times are up before its channels are. */
	if (state == SRPI_BLOCKED && t->skips_a_second)
		reactor_skip(t->ctx->reactor, 1000);
	t_session_close_from(t, from[state]);
}

static void resized(struct srpi_session *s, unsigned int volume, void *arg)
{
	t_session_close_from(arg, RESIZED);
}

/* Starts a target; returns its port. */
static uint16_t t_session_listen(struct t_session *t,
				 const struct t_session_options *o)
{
	struct sockaddr_in addr = free_addr();
	struct error e;

	t->o = *o;
	t->naa = o->naa;
	t->blocks = BLOCKS;
	t->block_size = BLK;
	t->generation = o->generation;
	assert_int_equal(xp_mr_register(t->xp, t->sends, sizeof(t->sends),
					XP_LOCAL, &t->mr, &e),
			 0);
	assert_int_equal(xp_listen(t->xp, (struct sockaddr *)&addr,
				   sizeof(addr), requested, t, &t->listener,
				   &e),
			 0);
	return ntohs(addr.sin_port);
}

static void t_session_uri(struct t_session *t, char *uri, size_t len)
{
	int n = snprintf(uri, len, "srp+tcp://127.0.0.1:%u",
			 t_session_listen(t, &t->o));

	if (t->o.other) {
		t->other = calloc(1, sizeof(*t->other));
		assert_non_null(t->other);
		t->other->ctx = t->ctx;
		t->other->xp = t->xp;
		n += snprintf(uri + n, len - (size_t)n, ",127.0.0.1:%u",
			      t_session_listen(t->other, t->o.other));
	}
	if (t->o.volume)
		snprintf(uri + n, len - (size_t)n, "/%s", t->o.volume);
}

/* Starts the target and logs in to it. */
struct t_session *t_session_new(const struct t_session_options *o)
{
	struct t_session *t = calloc(1, sizeof(*t));
	struct xp_config cfg = { .recv_len = 1024 };
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
		.state_changed = told,
		.volume_resized = resized,
		.state_arg = t,
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
	while (t->open)
		t_session_turn(t);
	xp_unlisten(t->listener);
	xp_mr_free(t->mr);
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

/* ---- what tests do with both ---- */

int t_session_io(struct t_session *t, enum srpi_op op, bool fua)
{
	static uint8_t block[BLK];
	struct srpi_io io = { .op = op, .buf = block, .fua = fua };
	struct srpi_error e;
	int res;

	io.len = op == SRPI_FLUSH ? 0 : BLK;
	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	res = srpi_io_wait(t->ctx, t->session, &io);
	srpi_mem_free(io.mem);
	return res;
}

/* The connection goes; what is there then is another generation. */
void t_session_lose(struct t_session *t, uint8_t generation,
		    enum scsi_asc attention)
{
	t->generation = generation;
	t->attention = attention;
	t->send_cnt = 0;
	xp_close(t->chans[0]);
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

struct t_override t_session_attention(uint8_t opcode, enum scsi_asc code)
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

/* Two targets; the first, as a rule, is used. */
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
	struct t_session_send *s = new_send(t);

	send_iu(t, s, srp_cred_req_encode(s->iu, sizeof(s->iu), &req));
}
