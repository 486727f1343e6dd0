/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libsrpi against a target that is played by the test, over TCP on loopback:
 * what old, odd or hostile targets answer. Both run on the context's reactor.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "initiator/session.h"
#include "protocol/scsi_pages.h"
#include "protocol/scsi_vpd.h"
#include "protocol/srp_iu.h"
#include "protocol/srp_login.h"
#include "protocol/wire.h"
#include "tests/lib/t_table.h"

#define BLK	  512u
#define BLOCKS	  2048u
#define REQ_LIM	  8
#define SENDS_MAX 1024
#define CHANNELS  2

/* What the target says to MODE SENSE. */
enum mode_answer {
	MODE_REFUSED,
	MODE_NO_PAGE, /* only the header */
	MODE_NO_CACHE,
	MODE_CACHE,
};

struct t_session_options {
	enum mode_answer mode;
	bool no_sync;	/* SYNCHRONIZE CACHE is unknown */
	bool dpofua;	/* MODE SENSE tells of FUA */
	bool has_ids;	/* VPD pages 80h and 83h */
	bool has_store; /* VPD page C0h */
	bool is_memory;
	uint8_t generation;
	bool comes_back;     /* the session may log in again */
	int fast_io_fail_ms; /* when it comes back; 0: off */
	int io_timeout_ms;
	unsigned int timeout_ms;
	unsigned int channels; /* that we ask for */
	bool only_one;	       /* channel is let in */
	/* Target port groups: how many, that of this target, the active one. */
	uint16_t groups;
	uint16_t own;
	uint16_t active;
	uint8_t naa;
	/* The second address of the URI, in front of another target. */
	const struct t_session_options *other;
	const char *volume; /* of the URI; NULL: none */
	bool fails;	    /* the first login does; session is NULL then */
};

struct t_session_send {
	struct xp_chain chain;
	struct t_session *t;
	struct srp_desc desc;
	uint8_t data[512];
	uint8_t iu[128];
};

/* Commands that the target answers otherwise than it should. */
struct t_override {
	uint8_t opcode; /* 0: all but REPORT LUNS and INQUIRY */
	uint8_t page;	/* of INQUIRY; 0: any, standard data included */
	enum scsi_status status;
	struct scsi_sense sense; /* of CHECK CONDITION */
	enum scsi_sense_format format;
	unsigned int cnt; /* so many of them */
	uint8_t naa;	  /* from then on; 0: as before */
};

struct t_session {
	struct t_session_options o;
	struct t_override override;
	uint8_t naa;	  /* the last byte */
	bool lun_is_gone; /* its only LUN */
	uint32_t block_size;
	struct srpi_ctx *ctx;
	struct xp *xp;
	struct xp_listener *listener;
	struct xp_chan *chans[CHANNELS];
	unsigned int open; /* channels, closing ones too */
	unsigned int now;  /* the channel that is being answered */
	struct xp_mr *mr;  /* of sends */
	struct t_session_send sends[SENDS_MAX];
	unsigned int send_cnt;
	uint64_t blocks;
	uint8_t generation;
	enum scsi_asc attention; /* pending; 0: none */
	unsigned int writes;	 /* seen */
	bool ignores_writes;	 /* WRITE is not answered, until a login */
	bool leaves_at_sync;	 /* with what was not flushed */
	unsigned int bad_syncs;	 /* so many fail */
	unsigned int leaves_at;	 /* this many IUs after a login; 0: never */
	unsigned int silent_at;	 /* likewise: not answered */
	bool rejects;		 /* the next login */
	bool delays_login;	 /* with the answer to the next login */
	struct xp_conn_request *kept_login;
	uint32_t lbas[32]; /* of the writes since the last login */
	char came_by[32];  /* which channel, as a digit; a string */
	unsigned int lba_cnt;
	unsigned int syncs;	 /* SYNCHRONIZE CACHE seen */
	unsigned int refused;	 /* in standby */
	unsigned int cred_rsps;	 /* SRP_CRED_RSP seen */
	struct t_session *other; /* target alone; NULL: none */
	struct srpi_session *session;
	struct srpi_error why; /* with the last change of state */
	/* What the session is closed from within; see t_session_close_from(). */
	enum close_from {
		NOWHERE,
		DONE,	 /* the first I/O that ends */
		LAST,	 /* the last I/O that ends */
		BLOCKED, /* a change of state, to that */
		FAIL_FAST,
		LOST,
		BACK,
		RESIZED, /* volume_resized() */
	} closes_from;
	bool skips_a_second; /* when the connection is lost */
	bool closing;
	bool closed;
};

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

static void t_session_turn(struct t_session *t)
{
	assert_true(srpi_ctx_run(t->ctx, 10000) == 1);
}

static void session_closed(void *arg)
{
	((struct t_session *)arg)->closed = true;
}

/* Closes the session if this is the callback that is to do it. */
static void t_session_close_from(struct t_session *t, enum close_from where)
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
static struct t_session *t_session_new(const struct t_session_options *o)
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

static void t_session_free(struct t_session *t)
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

/* ---- is a flush a flush? ---- */

static const struct flush_row {
	const char *name;
	enum mode_answer mode;
	bool no_sync;
	unsigned int syncs; /* the target is to see */
	int res;
} flush_rows[] = {
	{ "cache", MODE_CACHE, false, 1, 0 },
	{ "no cache", MODE_NO_CACHE, false, 0, 0 },
	{ "mode page not told", MODE_NO_PAGE, false, 1, 0 },
	{ "MODE SENSE unknown", MODE_REFUSED, false, 1, 0 },
	{ "cache that cannot be flushed", MODE_CACHE, true, 1, -EOPNOTSUPP },
	{ "neither MODE SENSE nor SYNCHRONIZE CACHE", MODE_REFUSED, true, 1,
	  0 },
};

static void flush(void **state)
{
	const struct flush_row *row = *state;
	struct t_session *t = t_session_new(&(struct t_session_options){
		.mode = row->mode, .no_sync = row->no_sync });
	struct srpi_io io = { .op = SRPI_FLUSH };

	assert_int_equal(srpi_volume_cnt(t->session), 1);
	assert_int_equal(srpi_io_wait(t->ctx, t->session, &io), row->res);
	assert_int_equal(t->syncs, row->syncs);
	t_session_free(t);
}

/* ---- what a lost connection means for a flush ---- */

static const struct loss_row {
	const char *name;
	bool has_store;
	bool is_memory;
	uint8_t generation; /* it was 1 */
	enum scsi_asc attention;
	bool write;
	bool flush; /* before the loss */
	int res;    /* of the first flush after it */
	enum srpi_state state;
} loss_rows[] = {
	{ "the same generation", true, false, 1, SCSI_ASC_POWER_ON, true, false,
	  0, SRPI_RUNNING },
	{ "another generation", true, false, 2, SCSI_ASC_NEXUS_LOSS, true,
	  false, -EIO, SRPI_RUNNING },
	{ "another generation, flushed before", true, false, 2,
	  SCSI_ASC_NEXUS_LOSS, true, true, 0, SRPI_RUNNING },
	{ "another generation, nothing written", true, false, 2,
	  SCSI_ASC_NEXUS_LOSS, false, false, 0, SRPI_RUNNING },
	{ "memory, the same generation", true, true, 1, SCSI_ASC_NEXUS_LOSS,
	  true, false, 0, SRPI_RUNNING },
	{ "memory, another generation", true, true, 2, SCSI_ASC_NEXUS_LOSS,
	  false, false, -EIO, SRPI_LOST },
	{ "not told, a nexus was lost", false, false, 0, SCSI_ASC_NEXUS_LOSS,
	  true, false, 0, SRPI_RUNNING },
	{ "not told, power on", false, false, 0, SCSI_ASC_POWER_ON, true, false,
	  -EIO, SRPI_RUNNING },
	{ "not told, reset", false, false, 0, SCSI_ASC_POWER_ON_OR_RESET, true,
	  false, -EIO, SRPI_RUNNING },
	{ "not told, power on, flushed before", false, false, 0,
	  SCSI_ASC_POWER_ON, true, true, 0, SRPI_RUNNING },
	{ "not told at all", false, false, 0, 0, true, false, -EIO,
	  SRPI_RUNNING },
};

static int t_session_io(struct t_session *t, enum srpi_op op, bool fua)
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
static void t_session_lose(struct t_session *t, uint8_t generation,
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

static void flush_after_loss(void **state)
{
	const struct loss_row *row = *state;
	struct t_session *t = t_session_new(&(struct t_session_options){
		.mode = MODE_CACHE,
		.has_store = row->has_store,
		.is_memory = row->is_memory,
		.comes_back = true,
		.generation = row->generation ? 1 : 0 });

	if (row->write)
		assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	if (row->flush)
		assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_lose(t, row->generation, row->attention);
	assert_int_equal(srpi_session_state(t->session), row->state);
	if (row->state == SRPI_RUNNING)
		assert_int_equal(t->why.err, row->res);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), row->res);
	if (row->state == SRPI_RUNNING)
		assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* The target tells of the loss by a flush that fails, and by the generation: the
 * caller hears of it once. */
static void loss_is_told_once(void **state)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1 });

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_lose(t, 2, SCSI_ASC_POWER_ON);
	t->bad_syncs = 1;
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), -EIO);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* A write that is to be stable is a write and a flush here, and the connection
 * goes in between, with the write. */
static void stable_write_whose_write_was_lost_fails(void **state)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1 });

	t->leaves_at_sync = true;
	assert_int_equal(t_session_io(t, SRPI_WRITE, true), -EIO);
	assert_int_equal(t->writes, 1);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	t_session_free(t);
}

static void count_done(struct srpi_io *io, int res)
{
	assert_int_equal(res, 0);
	++*(unsigned int *)io->arg;
}

/* What had no answer is sent again, in the old order. */
static void unanswered_writes_are_sent_again(void **state)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1 });
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };
	static uint8_t block[4 * BLK];
	struct srpi_io io[4];
	struct srpi_error e;
	struct srpi_mem *mem;
	unsigned int over = 0;

	assert_int_equal(
		srpi_mem_register(t->session, block, sizeof(block), &mem, &e),
		0);
	t->ignores_writes = true;
	for (unsigned int i = 0; i < 4; i++) {
		io[i] = (struct srpi_io){ .op = SRPI_WRITE,
					  .offset = i * BLK,
					  .len = BLK,
					  .buf = block + i * BLK,
					  .mem = mem,
					  .done = count_done,
					  .arg = &over };
		srpi_submit(t->session, &io[i]);
	}
	while (t->writes < 4)
		t_session_turn(t);
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	while (over < 4)
		t_session_turn(t);
	assert_int_equal(t->lba_cnt, 4);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(t->lbas[i], i);
	srpi_session_stats(t->session, &stats);
	assert_int_equal(stats.replayed, 4);
	assert_int_equal(stats.reconnects, 1);
	srpi_mem_free(mem);
	t_session_free(t);
}

/* ---- several addresses ---- */

static void one_done(struct srpi_io *io, int res)
{
	*(int *)io->arg = res;
}

static enum srpi_path_state path_state(const struct t_session *t,
				       unsigned int path)
{
	struct srpi_path_info info = { .struct_size = sizeof(info) };

	srpi_path_info(t->session, path, &info);
	return info.state;
}

/* Two targets; the first, as a rule, is used. */
static struct t_session *t_session_new_two(const struct t_session_options *b)
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

static const struct path_row {
	const char *name;
	struct t_session_options b; /* the second address */
	uint16_t active;	    /* group, as B has it when A is lost */
	enum srpi_path_state state; /* of the second one afterwards */
	int flush;		    /* the next one */
} path_rows[] = {
	{ "another address of the same target",
	  { .has_ids = true, .has_store = true, .generation = 1 },
	  0,
	  SRPI_PATH_IN_USE,
	  0 },
	{ "another target, of which nothing is known",
	  { .has_ids = true, .has_store = true, .generation = 2 },
	  0,
	  SRPI_PATH_UNSAFE,
	  0 },
	{ "another volume",
	  { .has_ids = true, .has_store = true, .generation = 1, .naa = 7 },
	  0,
	  SRPI_PATH_OTHER,
	  0 },
	{ "a gateway that is active now",
	  { .has_ids = true,
	    .has_store = true,
	    .generation = 2,
	    .groups = 2,
	    .own = 2 },
	  2,
	  SRPI_PATH_IN_USE,
	  -EIO },
	{ "a gateway in standby",
	  { .has_ids = true,
	    .has_store = true,
	    .generation = 2,
	    .groups = 2,
	    .own = 2 },
	  1,
	  SRPI_PATH_STANDBY,
	  0 },
	{ "a gateway in standby with another volume",
	  { .has_ids = true,
	    .has_store = true,
	    .generation = 2,
	    .naa = 7,
	    .groups = 2,
	    .own = 2 },
	  1,
	  SRPI_PATH_OTHER,
	  0 },
	{ "an active target that knows no other gateway",
	  { .has_ids = true,
	    .has_store = true,
	    .generation = 2,
	    .groups = 1,
	    .own = 1 },
	  1,
	  SRPI_PATH_UNSAFE,
	  0 },
};

/* The connection to the first address goes, which still listens, with a write that
 * was acknowledged and one that was not. */
static void address_after_a_loss(void **state)
{
	const struct path_row *row = *state;
	struct t_session_options b = row->b;
	struct t_session *t;
	struct t_session *used;
	static uint8_t block[BLK];
	struct srpi_error e;
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .offset = 5 * BLK,
			      .len = BLK,
			      .buf = block,
			      .done = one_done,
			      .arg = &res };

	b.mode = MODE_CACHE;
	b.active = row->active;
	t = t_session_new_two(&b);
	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	assert_int_equal(path_state(t, 0), SRPI_PATH_IN_USE);
	assert_int_equal(path_state(t, 1), SRPI_PATH_UNTRIED);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->ignores_writes = true;
	srpi_submit(t->session, &io);
	while (t->writes < 2)
		t_session_turn(t);
	if (row->state == SRPI_PATH_IN_USE) {
		xp_unlisten(t->listener);
		t->listener = NULL;
	}
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	while (res == 1)
		t_session_turn(t);
	assert_int_equal(res, 0);
	used = row->state == SRPI_PATH_IN_USE ? t->other : t;
	assert_int_equal(used->lbas[0], 5);
	assert_int_equal(t->other->writes, used == t->other);
	assert_int_equal(path_state(t, 1), row->state);
	assert_int_equal(path_state(t, 0),
			 used == t ? SRPI_PATH_IN_USE : SRPI_PATH_DOWN);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), row->flush);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	srpi_mem_free(io.mem);
	t_session_free(t);
}

/* The gateway that is in standby is left alone. */
static void standby_is_passed_over(void **state)
{
	const struct t_session_options b = { .mode = MODE_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .groups = 2,
					     .own = 2,
					     .active = 2 };
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_ids = true,
							   .has_store = true,
							   .comes_back = true,
							   .groups = 2,
							   .own = 1,
							   .active = 2,
							   .other = &b });

	assert_int_equal(path_state(t, 0), SRPI_PATH_STANDBY);
	assert_int_equal(path_state(t, 1), SRPI_PATH_IN_USE);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->refused, 0);
	assert_int_equal(t->other->writes, 1);
	t_session_free(t);
}

static void without_an_active_address_no_login(void **state)
{
	const struct t_session_options b = { .mode = MODE_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .groups = 2,
					     .own = 2 };
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_ids = true,
							   .has_store = true,
							   .groups = 2,
							   .own = 1,
							   .fails = true,
							   .other = &b });

	assert_int_equal(t->why.err, -ESHUTDOWN);
	assert_non_null(strstr(t->why.text,
			       "none of the 2 addresses can be used: (1) "
			       "volume 'disk' (LUN 0) of 127.0.0.1"));
	assert_non_null(strstr(t->why.text, ", (2) volume"));
	assert_null(t->session);
	t_session_free(t);
}

/* What counts is the volume that the URI names. */
static void standby_of_another_volume_does_not_count(void **state)
{
	const struct t_session_options b = { .mode = MODE_CACHE };
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_ids = true,
							   .groups = 2,
							   .own = 1,
							   .volume = "tape",
							   .other = &b });

	assert_int_equal(path_state(t, 0), SRPI_PATH_IN_USE);
	t_session_free(t);
}

static const struct turn_row {
	const char *name;
	bool attention; /* tells; else the answer to the write does */
	bool moved;	/* the other one is active */
} turn_rows[] = {
	{ "a write is refused", false, true },
	{ "an attention tells", true, true },
	{ "an attention tells, and nothing has changed", true, false },
};

/* The active gateway becomes standby while the connection stands. */
static void address_that_turns_standby_is_left(void **state)
{
	const struct turn_row *row = *state;
	const struct t_session_options b = { .mode = MODE_NO_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .generation = 2,
					     .groups = 2,
					     .own = 2,
					     .active = 1 };
	struct t_session *t = t_session_new_two(&b);

	if (row->attention)
		t->attention = SCSI_ASC_ACCESS_STATE_CHANGED;
	if (row->moved)
		t->o.active = t->other->o.active = 2;
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->writes, !row->moved);
	assert_int_equal(t->other->writes, row->moved);
	assert_int_equal(t->refused, row->moved && !row->attention);
	assert_int_equal(path_state(t, 0),
			 row->moved ? SRPI_PATH_STANDBY : SRPI_PATH_IN_USE);
	t_session_free(t);
}

/* I/O waits while no gateway is active, and goes on by the one that is first. */
static void io_waits_for_an_active_address(void **state)
{
	const struct t_session_options b = { .mode = MODE_NO_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .groups = 2,
					     .own = 2,
					     .active = 1 };
	struct t_session *t = t_session_new_two(&b);
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };
	static uint8_t block[BLK];
	struct srpi_error e;
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .len = BLK,
			      .buf = block,
			      .done = one_done,
			      .arg = &res };

	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	t->o.active = t->other->o.active = 0;
	srpi_submit(t->session, &io);
	while (stats.attempts < 5) {
		t_session_turn(t);
		t->send_cnt = t->other->send_cnt = 0;
		srpi_session_stats(t->session, &stats);
	}
	assert_int_equal(res, 1);
	assert_int_equal(srpi_session_state(t->session), SRPI_BLOCKED);
	t->o.active = t->other->o.active = 2;
	while (res == 1)
		t_session_turn(t);
	assert_int_equal(res, 0);
	assert_int_equal(t->other->writes, 1);
	assert_int_equal(stats.replayed, 0);
	srpi_mem_free(io.mem);
	t_session_free(t);
}

static void session_without_the_volume_is_lost(void **state)
{
	const struct t_session_options b = {
		.mode = MODE_CACHE, .has_ids = true, .has_store = true, .naa = 7
	};
	struct t_session *t = t_session_new_two(&b);

	t->naa = 8;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_LOST);
	assert_int_equal(path_state(t, 0), SRPI_PATH_OTHER);
	assert_int_equal(path_state(t, 1), SRPI_PATH_OTHER);
	t_session_free(t);
}

static const struct fenced_row {
	const char *name;
	struct ini_volume was;
	struct ini_volume now;
	bool fenced;
} fenced_rows[] = {
	{ "the same generation",
	  { .has_store = true, .store.generation = { 1 } },
	  { .has_store = true, .store.generation = { 1 } },
	  true },
	{ "another generation",
	  { .has_store = true, .store.generation = { 1 } },
	  { .has_store = true, .store.generation = { 2 } },
	  false },
	{ "nothing is told",
	  { .has_store = false },
	  { .has_store = false },
	  false },
	{ "one tells no generation",
	  { .has_store = true },
	  { .has_store = false },
	  false },
	{ "the same port",
	  { .access = { .port_len = 2, .port = { 8, 'x' } } },
	  { .access = { .port_len = 2, .port = { 8, 'x' } } },
	  true },
	{ "another port",
	  { .access = { .port_len = 2, .port = { 8, 'x' } } },
	  { .access = { .port_len = 2, .port = { 8, 'y' } } },
	  false },
	{ "a port with a longer name",
	  { .access = { .port_len = 2, .port = { 8, 'x' } } },
	  { .access = { .port_len = 3, .port = { 8, 'x', 'x' } } },
	  false },
	{ "the only active group",
	  { .access = { .group_cnt = 2 } },
	  { .access = { .group_cnt = 2,
			.own_is_active = true,
			.active_cnt = 1 } },
	  true },
	{ "one of two active groups",
	  { .access = { .group_cnt = 2 } },
	  { .access = { .group_cnt = 2,
			.own_is_active = true,
			.active_cnt = 2 } },
	  false },
	{ "another group is active",
	  { .access = { .group_cnt = 2 } },
	  { .access = { .group_cnt = 2, .active_cnt = 1 } },
	  false },
	{ "the target before was no gateway",
	  { .access = { .group_cnt = 1 } },
	  { .access = { .group_cnt = 2,
			.own_is_active = true,
			.active_cnt = 1 } },
	  false },
};

static void another_address_is_fenced(void **state)
{
	const struct fenced_row *row = *state;

	assert_int_equal(ini_path_is_fenced(&row->was, &row->now), row->fenced);
}

/* ---- what other initiators and the target change meanwhile ---- */

static struct t_override t_session_attention(uint8_t opcode, enum scsi_asc code)
{
	return (struct t_override){
		.opcode = opcode,
		.status = SCSI_STATUS_CHECK_CONDITION,
		.sense = scsi_sense(SCSI_KEY_UNIT_ATTENTION, code),
		.cnt = 1,
	};
}

static struct t_session *t_session_new_returning(enum mode_answer mode)
{
	return t_session_new(&(struct t_session_options){ .mode = mode,
							  .has_store = true,
							  .comes_back = true,
							  .generation = 1 });
}

/* Another initiator switches the cache on; a write is told. */
static void cache_that_is_switched_on_is_flushed(void **state)
{
	struct t_session *t = t_session_new_returning(MODE_NO_CACHE);

	t->o.mode = MODE_CACHE;
	t->override =
		t_session_attention(0x2a, SCSI_ASC_MODE_PARAMETERS_CHANGED);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	assert_int_equal(t->syncs, 1);
	while (!srpi_volume_info(t->session, 0)->write_cache)
		t_session_turn(t);
	/* With nothing written as well: it may hold what others wrote. */
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	assert_int_equal(t->syncs, 2);
	t_session_free(t);
}

/* What was under way may have been executed with the cache on, and have been
 * acknowledged before any command is told. */
static void write_under_way_when_the_cache_changes_is_flushed(void **state)
{
	struct t_session *t = t_session_new_returning(MODE_NO_CACHE);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->o.mode = MODE_CACHE;
	t->override =
		t_session_attention(0x35, SCSI_ASC_MODE_PARAMETERS_CHANGED);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	assert_int_equal(t->syncs, 1);
	t_session_free(t);
}

/* So it was acknowledged while the cache may have been on, and is lost. */
static void loss_after_the_cache_was_switched_on_is_told(void **state)
{
	struct t_session *t = t_session_new_returning(MODE_NO_CACHE);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->o.mode = MODE_CACHE;
	t->override =
		t_session_attention(0x28, SCSI_ASC_MODE_PARAMETERS_CHANGED);
	t_session_io(t, SRPI_READ, false);
	t_session_lose(t, 2, SCSI_ASC_POWER_ON);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), -EIO);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* A volume without a cache loses nothing, whatever else its target loses. */
static void write_through_loses_nothing(void **state)
{
	struct t_session *t = t_session_new_returning(MODE_NO_CACHE);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_lose(t, 2, SCSI_ASC_POWER_ON);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

static void known_loss_is_told_without_a_cache(void **state)
{
	struct t_session *t = t_session_new_returning(MODE_CACHE);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->o.mode = MODE_NO_CACHE;
	t_session_lose(t, 2, SCSI_ASC_POWER_ON);
	assert_int_equal(t->why.err, -EIO);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), -EIO);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* Its CDB was made without FUA, and stays so when it is sent again. */
static void stable_write_made_without_fua_is_flushed(void **state)
{
	static uint8_t block[BLK];
	struct t_session *t = t_session_new_returning(MODE_CACHE);
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .len = BLK,
			      .buf = block,
			      .fua = true,
			      .done = one_done,
			      .arg = &res };
	struct srpi_error e;

	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	t->ignores_writes = true;
	srpi_submit(t->session, &io);
	while (t->writes == 0)
		t_session_turn(t);
	t->o.dpofua = true;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	while (res == 1)
		t_session_turn(t);
	assert_int_equal(res, 0);
	assert_int_equal(t->syncs, 1);
	srpi_mem_free(io.mem);
	t_session_free(t);
}

/* ---- deferred errors: of an earlier command; this one was not executed ---- */

static const struct deferred_row {
	const char *name;
	uint8_t opcode; /* that is answered so */
	enum scsi_key key;
	enum scsi_sense_format format;
	int res; /* of the next flush */
} deferred_rows[] = {
	{ "71h, a write", 0x2a, SCSI_KEY_MEDIUM_ERROR, SCSI_SENSE_FIXED, -EIO },
	{ "73h, a write", 0x2a, SCSI_KEY_MEDIUM_ERROR, SCSI_SENSE_DESCRIPTOR,
	  -EIO },
	{ "71h, hardware error", 0x2a, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_SENSE_FIXED, -EIO },
	{ "71h, aborted", 0x2a, SCSI_KEY_ABORTED_COMMAND, SCSI_SENSE_FIXED,
	  -EIO },
	{ "71h, recovered", 0x2a, SCSI_KEY_RECOVERED_ERROR, SCSI_SENSE_FIXED,
	  0 },
	{ "71h, the flush", 0x35, SCSI_KEY_MEDIUM_ERROR, SCSI_SENSE_FIXED,
	  -EIO },
	{ "73h, the flush", 0x35, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_SENSE_DESCRIPTOR, -EIO },
};

static void deferred_error_is_not_the_commands_own(void **state)
{
	const struct deferred_row *row = *state;
	struct t_session *t = t_session_new_returning(MODE_CACHE);

	t->override = (struct t_override){
		.opcode = row->opcode,
		.status = SCSI_STATUS_CHECK_CONDITION,
		.sense = scsi_sense(row->key, SCSI_ASC_WRITE_ERROR),
		.format = row->format,
		.cnt = 1,
	};
	t->override.sense.deferred = true;
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->writes, 1);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), row->res);
	assert_int_equal(t->syncs, 1);
	if (row->res)
		assert_non_null(strstr(t->why.text, "the next flush fails"));
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* ---- retries ---- */

static const struct retry_row {
	const char *name;
	struct t_override override;
	bool then_attention;
} retry_rows[] = {
	{ "12 times not ready, then an attention",
	  { .opcode = 0x2a,
	    .status = SCSI_STATUS_CHECK_CONDITION,
	    .sense = { .key = SCSI_KEY_NOT_READY,
		       .code = SCSI_ASC_BECOMING_READY },
	    .cnt = 12 },
	  true },
	{ "12 times busy, then an attention",
	  { .opcode = 0x2a, .status = SCSI_STATUS_BUSY, .cnt = 12 },
	  true },
	{ "a dozen of attentions",
	  { .opcode = 0x2a,
	    .status = SCSI_STATUS_CHECK_CONDITION,
	    .sense = { .key = SCSI_KEY_UNIT_ATTENTION,
		       .code = SCSI_ASC_RESERVATIONS_RELEASED },
	    .cnt = 12 },
	  false },
};

static void each_reason_to_try_again_counts_for_itself(void **state)
{
	const struct retry_row *row = *state;
	struct t_session *t = t_session_new_returning(MODE_CACHE);
	static uint8_t block[BLK];
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .len = BLK,
			      .buf = block,
			      .done = one_done,
			      .arg = &res };
	struct srpi_error e;

	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	t->override = row->override;
	srpi_submit(t->session, &io);
	while (t->override.cnt > 0)
		t_session_turn(t);
	if (row->then_attention)
		t->override = t_session_attention(
			0x2a, SCSI_ASC_RESERVATIONS_RELEASED);
	while (res == 1)
		t_session_turn(t);
	assert_int_equal(res, 0);
	assert_int_equal(t->override.cnt, 0);
	srpi_mem_free(io.mem);
	t_session_free(t);
}

/* ---- what discovery is answered when it comes back ---- */

static const struct phase_row {
	const char *name;
	enum scsi_status status;
	enum scsi_asc code;
} phase_rows[] = {
	{ "not ready", SCSI_STATUS_CHECK_CONDITION, SCSI_ASC_BECOMING_READY },
	{ "busy", SCSI_STATUS_BUSY, 0 },
	{ "task set full", SCSI_STATUS_TASK_SET_FULL, 0 },
};

/* It becomes ready when I/O has begun to fail. */
static void unit_that_is_ready_late_comes_back(void **state)
{
	const struct phase_row *row = *state;
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_store = true,
					     .comes_back = true,
					     .generation = 1,
					     .fast_io_fail_ms = 50 });

	t->override = (struct t_override){
		.status = row->status,
		.sense = scsi_sense(SCSI_KEY_NOT_READY, row->code),
		.cnt = UINT32_MAX,
	};
	xp_close(t->chans[0]);
	while (srpi_session_state(t->session) != SRPI_FAIL_FAST) {
		t->send_cnt = 0;
		t_session_turn(t);
	}
	t->override.cnt = 0;
	while (srpi_session_state(t->session) != SRPI_RUNNING)
		t_session_turn(t);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_free(t);
}

static const struct optional_row {
	const char *name;
	uint8_t opcode;
	uint8_t page;
	enum scsi_key key;
	enum scsi_asc code;
} optional_rows[] = {
	{ "page 80h", 0x12, 0x80, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_ASC_INTERNAL_TARGET_FAILURE },
	{ "page 83h", 0x12, 0x83, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_ASC_INTERNAL_TARGET_FAILURE },
	{ "page 83h, refused", 0x12, 0x83, SCSI_KEY_ILLEGAL_REQUEST,
	  SCSI_ASC_INVALID_FIELD_IN_CDB },
	{ "page C0h", 0x12, 0xc0, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_ASC_INTERNAL_TARGET_FAILURE },
	{ "READ CAPACITY (16)", 0x9e, 0, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_ASC_INTERNAL_TARGET_FAILURE },
	{ "MODE SENSE", 0x1a, 0, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_ASC_INTERNAL_TARGET_FAILURE },
};

static struct t_session *t_session_new_with_ids(void)
{
	return t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							  .dpofua = true,
							  .has_store = true,
							  .has_ids = true,
							  .comes_back = true,
							  .generation = 1 });
}

/* It is no other volume, and nothing is known to be lost. */
static void question_that_fails_fails_the_attempt(void **state)
{
	const struct optional_row *row = *state;
	struct t_session *t = t_session_new_with_ids();
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->override = (struct t_override){
		.opcode = row->opcode,
		.page = row->page,
		.status = SCSI_STATUS_CHECK_CONDITION,
		.sense = scsi_sense(row->key, row->code),
		.cnt = 1,
	};
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	assert_int_equal(t->override.cnt, 0);
	srpi_session_stats(t->session, &stats);
	assert_int_equal(stats.attempts, 2);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	assert_true(srpi_volume_info(t->session, 0)->fua);
	t_session_free(t);
}

static void another_identifier_is_another_volume(void **state)
{
	struct t_session *t = t_session_new_with_ids();

	t->naa = 1;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_LOST);
	assert_non_null(strstr(t->why.text, "another volume"));
	t_session_free(t);
}

/* ---- attentions that say that it may be another one ---- */

static const struct identity_row {
	const char *name;
	enum scsi_asc code;
} identity_rows[] = {
	{ "reported LUNs data has changed", SCSI_ASC_REPORTED_LUNS_CHANGED },
	{ "inquiry data has changed", SCSI_ASC_INQUIRY_DATA_CHANGED },
	{ "device identifier changed", 0x3f05 },
	{ "medium may have changed", SCSI_ASC_MEDIUM_MAY_HAVE_CHANGED },
	{ "power on", SCSI_ASC_POWER_ON },
	{ "parameters changed", SCSI_ASC_PARAMETERS_CHANGED },
};

static void other_volume_gets_no_write(void **state)
{
	const struct identity_row *row = *state;
	struct t_session *t = t_session_new_with_ids();

	t->naa = 1;
	t->override = t_session_attention(0x2a, row->code);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), -EIO);
	assert_int_equal(t->writes, 0);
	assert_int_equal(srpi_session_state(t->session), SRPI_LOST);
	assert_non_null(strstr(t->why.text, "another volume"));
	t_session_free(t);
}

static void same_volume_gets_its_write(void **state)
{
	const struct identity_row *row = *state;
	struct t_session *t = t_session_new_with_ids();
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->blocks = 2 * BLOCKS;
	t->override = t_session_attention(0x2a, row->code);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->writes, 2);
	assert_int_equal(srpi_volume_info(t->session, 0)->size,
			 2ull * BLOCKS * BLK);
	srpi_session_stats(t->session, &stats);
	assert_int_equal(stats.reconnects, 0);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

static struct t_session *lose_volume(const struct t_session_options *o)
{
	struct t_session *t = t_session_new(o);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->lun_is_gone = true;
	t->override = t_session_attention(0x2a, SCSI_ASC_REPORTED_LUNS_CHANGED);
	assert_int_not_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	return t;
}

static void find_volume(struct t_session *t)
{
	t->lun_is_gone = false;
	t->override = t_session_attention(0x2a, SCSI_ASC_REPORTED_LUNS_CHANGED);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
}

/* The target may show others, which are to be there again. */
static void volume_that_was_taken_away_holds_up_nobody(void **state)
{
	struct t_session *t =
		lose_volume(&(struct t_session_options){ .mode = MODE_CACHE,
							 .has_store = true,
							 .has_ids = true,
							 .comes_back = true,
							 .generation = 1 });

	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	assert_int_not_equal(t_session_io(t, SRPI_WRITE, false), 0);
	find_volume(t);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	/* It is one that has to be there again. */
	t->lun_is_gone = true;
	xp_close(t->chans[0]);
	while (!strstr(t->why.text, "does not show it"))
		t_session_turn(t);
	assert_int_equal(srpi_session_state(t->session), SRPI_BLOCKED);
	t_session_free(t);
}

/* Where it was meanwhile, and what became of its cache, nobody knows. */
static const struct away_row {
	const char *name;
	uint8_t then; /* generation; 0: not told, and so was it before */
	int res;
} away_rows[] = {
	{ "not told", 0, -EIO },
	{ "the same generation", 1, 0 },
	{ "another generation", 2, -EIO },
};

static void volume_that_was_away_tells_of_its_cache(void **state)
{
	const struct away_row *row = *state;
	struct t_session *t = lose_volume(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_store = row->then,
					     .has_ids = true,
					     .comes_back = true,
					     .generation = row->then ? 1 : 0 });

	t->generation = row->then;
	find_volume(t);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), row->res);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* While a channel stands; the target tells no generation. */
static void power_on_takes_the_cache_along(void **state)
{
	struct t_session *t = t_session_new(&(struct t_session_options){
		.mode = MODE_CACHE, .comes_back = true });

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->override = t_session_attention(0x35, SCSI_ASC_POWER_ON);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), -EIO);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* What was learned of it before belongs to nothing any more. */
static void volume_that_changes_while_asked_is_asked_again(void **state)
{
	struct t_session *t = t_session_new_with_ids();

	t->override = t_session_attention(0x1a, SCSI_ASC_INQUIRY_DATA_CHANGED);
	t->override.naa = 1;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_LOST);
	assert_int_equal(t->override.cnt, 0);
	t_session_free(t);
}

/* Offsets would be of other blocks. */
static void other_block_size_is_another_volume(void **state)
{
	struct t_session *t = t_session_new_with_ids();

	t->block_size = 4096;
	t->override = t_session_attention(0x2a, SCSI_ASC_CAPACITY_CHANGED);
	t_session_io(t, SRPI_WRITE, false);
	while (srpi_session_state(t->session) != SRPI_LOST)
		t_session_turn(t);
	assert_non_null(strstr(t->why.text, "4096 bytes"));
	t_session_free(t);
}

/* ---- several channels ---- */

#define KIB    1024u
#define WRITES 20

static uint8_t burst_memory[512 * KIB];

/* Writes of a caller that waits for none of them. */
struct burst {
	struct t_session *t;
	struct srpi_io io[WRITES];
	struct srpi_mem *mem;
	unsigned int cnt;  /* submitted */
	unsigned int over; /* done */
};

static void burst_begin(struct burst *b, struct t_session *t)
{
	struct srpi_error e;

	*b = (struct burst){ .t = t };
	assert_int_equal(srpi_mem_register(t->session, burst_memory,
					   sizeof(burst_memory), &b->mem, &e),
			 0);
}

/* The one with number n is of block n on. */
static void burst_write(struct burst *b, unsigned int len_kib)
{
	struct srpi_io *io = &b->io[b->cnt];

	assert_true(b->cnt < WRITES);
	*io = (struct srpi_io){ .op = SRPI_WRITE,
				.offset = b->cnt++ * BLK,
				.len = len_kib * KIB,
				.buf = burst_memory,
				.mem = b->mem,
				.done = count_done,
				.arg = &b->over };
	srpi_submit(b->t->session, io);
}

static void burst_end(struct burst *b)
{
	while (b->over < b->cnt)
		t_session_turn(b->t);
	srpi_mem_free(b->mem);
}

/* What is not answered stays in flight. */
static struct t_session *t_session_new_silent(void)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1,
							   .channels = 2 });

	t->ignores_writes = true;
	return t;
}

static unsigned int count_came_by(const struct t_session *t, char channel)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < t->lba_cnt; i++)
		cnt += t->came_by[i] == channel;
	return cnt;
}

static const struct spread_row {
	const char *name;
	unsigned int kib[WRITES]; /* of each write; until 0 */
	const char *by;		  /* the channel of each */
} spread_rows[] = {
	{ "small ones stay together", { 4, 4, 4, 4, 4, 4 }, "000000" },
	{ "until there is no credit", { 4, 4, 4, 4, 4, 4, 4, 4 }, "00000001" },
	{ "large ones spread", { 512, 512, 512, 512 }, "0101" },
	{ "middling ones, two by two", { 128, 128, 128, 128, 128 }, "00110" },
	{ "small beside large", { 512, 4, 4, 512, 4 }, "01110" },
	{ "large beside small", { 4, 4, 512, 512, 512 }, "00011" },
	{ "large ones until there is no credit",
	  { 512, 4, 4, 4, 4, 4, 4, 4, 4 },
	  "011111110" },
};

static void commands_spread_by_their_bytes(void **state)
{
	const struct spread_row *row = *state;
	struct t_session *t = t_session_new_silent();
	struct burst b;

	burst_begin(&b, t);
	/* One after the other, as the target does not see two channels'
	 * commands in the order in which they left. */
	for (unsigned int i = 0; i < WRITES && row->kib[i]; i++) {
		burst_write(&b, row->kib[i]);
		while (t->lba_cnt < b.cnt)
			t_session_turn(t);
	}
	assert_string_equal(t->came_by, row->by);
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	burst_end(&b);
	t_session_free(t);
}

/* Answered ones do not count any more. */
static void commands_come_together_again(void **state)
{
	struct t_session *t = t_session_new_silent();
	struct burst b;

	t->ignores_writes = false;
	burst_begin(&b, t);
	for (unsigned int i = 0; i < 6; i++) {
		burst_write(&b, 512);
		while (b.over < b.cnt)
			t_session_turn(t);
	}
	assert_string_equal(t->came_by, "000000");
	burst_end(&b);
	t_session_free(t);
}

/* Those of either channel are sent again when one is lost, in their order. */
static void lost_channel_has_all_sent_again(void **state)
{
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };
	struct t_session *t = t_session_new_silent();
	struct burst b;
	int last[CHANNELS] = { -1, -1 };

	burst_begin(&b, t);
	for (unsigned int i = 0; i < 10; i++)
		burst_write(&b, 256);
	while (t->lba_cnt < 10)
		t_session_turn(t);
	assert_int_equal(count_came_by(t, '0'), 5);
	xp_close(t->chans[1]);
	while (b.over < b.cnt)
		t_session_turn(t);
	assert_int_equal(t->lba_cnt, 10);
	assert_true(count_came_by(t, '1') > 0);
	for (unsigned int i = 0; i < t->lba_cnt; i++) {
		int *before = &last[t->came_by[i] - '0'];

		assert_true((int)t->lbas[i] > *before);
		*before = (int)t->lbas[i];
	}
	srpi_session_stats(t->session, &stats);
	assert_int_equal(stats.replayed, 10);
	assert_int_equal(stats.reconnects, 1);
	burst_end(&b);
	t_session_free(t);
}

/* As ib_srpt may, when it has not enough memory for another one. */
static void target_of_one_channel_gets_one(void **state)
{
	struct t_session *t = t_session_new(&(struct t_session_options){
		.mode = MODE_CACHE, .channels = 2, .only_one = true });
	struct srpi_session_info info = { .struct_size = sizeof(info) };
	struct burst b;

	srpi_session_info(t->session, &info);
	assert_int_equal(info.channels, 1);
	assert_non_null(strstr(info.fewer, "reason 0x00010001"));
	burst_begin(&b, t);
	for (unsigned int i = 0; i < 10; i++)
		burst_write(&b, 256);
	burst_end(&b);
	assert_int_equal(count_came_by(t, '0'), 10);
	t_session_free(t);
}

/* ---- attempts that fail ---- */

enum {
	STEPS_MAX = 20
};

/* A write is held while the target rejects the login, or goes at any step of
 * the first one; it is done all the same. */
static void write_waits_for_the_attempt_that_succeeds(void **state)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1 });
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	for (unsigned int step = 0; step < STEPS_MAX; step++) {
		t->rejects = step == 0;
		t->leaves_at = step;
		t->send_cnt = 0;
		xp_close(t->chans[0]);
		while (srpi_session_state(t->session) == SRPI_RUNNING)
			t_session_turn(t);
		assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
		t->leaves_at = 0;
	}
	srpi_session_stats(t->session, &stats);
	assert_true(stats.attempts > stats.reconnects);
	assert_true(stats.reconnects >= STEPS_MAX);
	t_session_free(t);
}

/* No answer to a command, or to a question of discovery when it comes back. */
static void silence_ends_the_connection(void **state)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1,
							   .io_timeout_ms = 20,
							   .timeout_ms = 200 });
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	t->silent_at = 1;
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->writes, 1);
	srpi_session_stats(t->session, &stats);
	assert_true(stats.timeouts >= 1);
	assert_true(stats.replayed >= 1);
	xp_close(t->chans[0]);
	while (srpi_session_state(t->session) == SRPI_RUNNING)
		t_session_turn(t);
	t->send_cnt = 0;
	t->silent_at = 3;
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_free(t);
}

/* As when the disk is stuck in what the old connection sent. */
static void login_without_an_answer_is_told_and_tried_again(void **state)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1,
							   .timeout_ms = 200 });

	t->delays_login = true;
	xp_close(t->chans[0]);
	while (!strstr(t->why.text,
		       "no answer; the network is down, or the target "
		       "hangs, or its disk is still busy"))
		t_session_turn(t);
	xp_reject(t->kept_login, NULL, 0);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_free(t);
}

/* What asked for it may be lost, and repeated late. */
static void first_login_to_come_back_is_given_up_early(void **state)
{
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_store = true,
					     .comes_back = true,
					     .generation = 1,
					     .timeout_ms = 90000 });
	uint64_t asked_us;

	t->delays_login = true;
	xp_close(t->chans[0]);
	while (!t->kept_login)
		t_session_turn(t);
	asked_us = reactor_now_us(t->ctx->reactor);
	reactor_skip(t->ctx->reactor, 1000);
	while (!strstr(t->why.text, "no answer"))
		t_session_turn(t);
	assert_true(reactor_now_us(t->ctx->reactor) - asked_us < 90000000);
	xp_reject(t->kept_login, NULL, 0);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_free(t);
}

/* ---- requests of the target ---- */

static void ask_credit(struct t_session *t)
{
	const struct srp_cred_req req = { .req_lim_delta = 0 };
	struct t_session_send *s = new_send(t);

	send_iu(t, s, srp_cred_req_encode(s->iu, sizeof(s->iu), &req));
}

/* The SEND of the first answer may be seen to complete after the target, which
 * has it, has asked again. */
static void target_asks_again_before_our_send_completes(void **state)
{
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE });
	struct srpi_io io = { .op = SRPI_FLUSH };

	ask_credit(t);
	ask_credit(t);
	while (t->cred_rsps < 2 &&
	       srpi_session_state(t->session) == SRPI_RUNNING)
		t_session_turn(t);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	assert_int_equal(srpi_io_wait(t->ctx, t->session, &io), 0);
	t_session_free(t);
}

/* Answers take memory that there is a limit for. */
static void target_that_asks_without_end_is_left(void **state)
{
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE });

	for (int i = 0; i < 20; i++)
		ask_credit(t);
	while (srpi_session_state(t->session) != SRPI_LOST)
		t_session_turn(t);
	t_session_free(t);
}

/* ---- closing from within callbacks ---- */

static const struct close_row {
	const char *name;
	enum close_from from;
	unsigned int channels;
	bool comes_back;
	bool grows;    /* the volume, while the connection is lost */
	bool attended; /* the volume grows, and an attention tells */
	bool at_once;  /* times are up while channels drain */
	bool answered; /* what is in flight, in the end */
} close_rows[] = {
	{ "an answer, one channel", DONE, 1, true, .answered = true },
	{ "an answer, two channels", DONE, 2, true, .answered = true },
	{ "the last answer", LAST, 2, true, .answered = true },
	{ "the first I/O lost, one channel", DONE, 1, false },
	{ "the first I/O lost, two channels", DONE, 2, false },
	{ "the last I/O lost, one channel", LAST, 1, false },
	{ "the last I/O lost, two channels", LAST, 2, false },
	{ "the first I/O of a channel that drains, of one", DONE, 1, false,
	  .at_once = true },
	{ "the first I/O of a channel that drains, of two", DONE, 2, false,
	  .at_once = true },
	{ "the last I/O of a channel that drains, of one", LAST, 1, false,
	  .at_once = true },
	{ "the last I/O of a channel that drains, of two", LAST, 2, false,
	  .at_once = true },
	{ "the loss, one channel", BLOCKED, 1, true },
	{ "the loss, two channels", BLOCKED, 2, true },
	{ "the loss, with times running", BLOCKED, 2, false },
	{ "I/O fails from now on, one channel", FAIL_FAST, 1, false },
	{ "I/O fails from now on, two channels", FAIL_FAST, 2, false },
	{ "given up", LOST, 2, false },
	{ "back again, one channel", BACK, 1, true },
	{ "back again, two channels", BACK, 2, true },
	{ "back, and it has grown", RESIZED, 2, true, .grows = true },
	{ "it has grown", RESIZED, 2, true, .grows = true, .attended = true,
	  .answered = true },
};

struct closing {
	struct t_session *t;
	struct srpi_io io[WRITES];
	unsigned int cnt;
	unsigned int over;
};

static void close_done(struct srpi_io *io, int res)
{
	struct closing *c = io->arg;

	assert_true(res == 0 || res == -EIO || res == -ECANCELED);
	if (++c->over == c->cnt)
		t_session_close_from(c->t, LAST);
	t_session_close_from(c->t, DONE);
}

static void close_begin(struct closing *c, struct t_session *t)
{
	struct srpi_error e;
	struct srpi_mem *mem;

	c->t = t;
	assert_int_equal(srpi_mem_register(t->session, burst_memory,
					   sizeof(burst_memory), &mem, &e),
			 0);
	for (c->cnt = 0; c->cnt < 12; c->cnt++) {
		c->io[c->cnt] = (struct srpi_io){ .op = SRPI_WRITE,
						  .offset = c->cnt * BLK,
						  .len = 128 * KIB,
						  .buf = burst_memory,
						  .mem = mem,
						  .done = close_done,
						  .arg = c };
		srpi_submit(t->session, &c->io[c->cnt]);
	}
}

/* Whatever callback it is called from, every I/O is answered once, and the
 * end is told. */
static void session_is_closed_from_a_callback(void **state)
{
	const struct close_row *row = *state;
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_store = true,
					     .comes_back = row->comes_back,
					     .generation = 1,
					     .channels = row->channels });
	struct closing c = { 0 };

	t->ignores_writes = !row->answered;
	t->closes_from = row->from;
	t->skips_a_second = row->at_once;
	if (row->grows)
		t->blocks *= 2;
	if (row->attended)
		t->attention = SCSI_ASC_CAPACITY_CHANGED;
	close_begin(&c, t);
	while (!row->answered && t->lba_cnt < c.cnt &&
	       t->lba_cnt < row->channels * (REQ_LIM - 1))
		t_session_turn(t);
	if (!row->answered) {
		t->send_cnt = 0;
		xp_close(t->chans[0]);
	}
	while (!t->closed)
		t_session_turn(t);
	assert_int_equal(c.over, c.cnt);
	srpi_mem_free(c.io[0].mem);
	t_session_free(t);
}

int main(void)
{
	static struct t_table table;

	T_ADD_ROWS(&table, flush_rows, flush);
	T_ADD_ROWS(&table, loss_rows, flush_after_loss);
	T_ADD_ROWS(&table, path_rows, address_after_a_loss);
	T_ADD_ROWS(&table, turn_rows, address_that_turns_standby_is_left);
	T_ADD_ROWS(&table, fenced_rows, another_address_is_fenced);
	T_ADD(&table, standby_is_passed_over);
	T_ADD(&table, without_an_active_address_no_login);
	T_ADD(&table, standby_of_another_volume_does_not_count);
	T_ADD(&table, io_waits_for_an_active_address);
	T_ADD(&table, session_without_the_volume_is_lost);
	T_ADD(&table, loss_is_told_once);
	T_ADD(&table, stable_write_whose_write_was_lost_fails);
	T_ADD(&table, unanswered_writes_are_sent_again);
	T_ADD(&table, cache_that_is_switched_on_is_flushed);
	T_ADD(&table, write_under_way_when_the_cache_changes_is_flushed);
	T_ADD(&table, loss_after_the_cache_was_switched_on_is_told);
	T_ADD(&table, write_through_loses_nothing);
	T_ADD(&table, known_loss_is_told_without_a_cache);
	T_ADD(&table, stable_write_made_without_fua_is_flushed);
	T_ADD_ROWS(&table, deferred_rows,
		   deferred_error_is_not_the_commands_own);
	T_ADD_ROWS(&table, retry_rows,
		   each_reason_to_try_again_counts_for_itself);
	T_ADD_ROWS(&table, phase_rows, unit_that_is_ready_late_comes_back);
	T_ADD_ROWS(&table, optional_rows,
		   question_that_fails_fails_the_attempt);
	T_ADD(&table, another_identifier_is_another_volume);
	T_ADD_ROWS(&table, identity_rows, other_volume_gets_no_write);
	T_ADD_ROWS(&table, identity_rows, same_volume_gets_its_write);
	T_ADD(&table, volume_that_was_taken_away_holds_up_nobody);
	T_ADD_ROWS(&table, away_rows, volume_that_was_away_tells_of_its_cache);
	T_ADD(&table, power_on_takes_the_cache_along);
	T_ADD(&table, volume_that_changes_while_asked_is_asked_again);
	T_ADD(&table, other_block_size_is_another_volume);
	T_ADD_ROWS(&table, spread_rows, commands_spread_by_their_bytes);
	T_ADD(&table, commands_come_together_again);
	T_ADD(&table, lost_channel_has_all_sent_again);
	T_ADD(&table, target_of_one_channel_gets_one);
	T_ADD(&table, write_waits_for_the_attempt_that_succeeds);
	T_ADD(&table, silence_ends_the_connection);
	T_ADD(&table, login_without_an_answer_is_told_and_tried_again);
	T_ADD(&table, first_login_to_come_back_is_given_up_early);
	T_ADD(&table, target_asks_again_before_our_send_completes);
	T_ADD(&table, target_that_asks_without_end_is_left);
	T_ADD_ROWS(&table, close_rows, session_is_closed_from_a_callback);
	return t_run(&table);
}
