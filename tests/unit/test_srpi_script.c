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

struct play_options {
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
	const struct play_options *other;
	const char *volume; /* of the URI; NULL: none */
	bool fails;	    /* the first login does; session is NULL then */
};

struct play_send {
	struct xp_chain chain;
	struct play *play;
	struct srp_desc desc;
	uint8_t data[512];
	uint8_t iu[128];
};

/* Commands that the target answers otherwise than it should. */
struct meet {
	uint8_t opcode; /* 0: all but REPORT LUNS and INQUIRY */
	uint8_t page;	/* of INQUIRY; 0: any, standard data included */
	enum scsi_status status;
	struct scsi_sense sense; /* of CHECK CONDITION */
	enum scsi_sense_format format;
	unsigned int cnt; /* so many of them */
	uint8_t naa;	  /* from then on; 0: as before */
};

struct play {
	struct play_options o;
	struct meet meet;
	uint8_t naa;  /* the last byte */
	bool is_gone; /* its only LUN */
	uint32_t block_size;
	struct srpi_ctx *ctx;
	struct xp *xp;
	struct xp_listener *listener;
	struct xp_chan *chans[CHANNELS];
	unsigned int open; /* channels, closing ones too */
	unsigned int now;  /* the channel that is being answered */
	struct xp_mr *mr;  /* of sends */
	struct play_send sends[SENDS_MAX];
	unsigned int send_cnt;
	uint64_t blocks;
	uint8_t generation;
	enum scsi_asc attention; /* pending; 0: none */
	unsigned int writes;	 /* seen */
	bool deaf;		 /* WRITE is not answered, until a login */
	bool goes_at_sync;	 /* with what was not flushed */
	unsigned int bad_syncs;	 /* so many fail */
	unsigned int goes_at;	 /* this many IUs after a login; 0: never */
	unsigned int silent_at;	 /* likewise: not answered */
	bool rejects;		 /* the next login */
	bool waits;		 /* with the answer to the next login */
	struct xp_conn_request *kept;
	uint32_t lbas[32]; /* of the writes since the last login */
	char came_by[32];  /* which channel, as a digit; a string */
	unsigned int lba_cnt;
	unsigned int syncs;	/* SYNCHRONIZE CACHE seen */
	unsigned int refused;	/* in standby */
	unsigned int cred_rsps; /* SRP_CRED_RSP seen */
	struct play *other;	/* target alone; NULL: none */
	struct srpi_session *session;
	struct srpi_error told; /* with the last change of state */
	/* What the session is closed from within; see close_from(). */
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
	bool fails_at_once; /* when the connection is lost */
	bool closing;
	bool closed;
};

/* ---- the target ---- */

static void sent(struct xp_chain *chain, int status)
{
}

static struct play_send *new_send(struct play *p)
{
	struct play_send *s = &p->sends[p->send_cnt++];

	assert_true(p->send_cnt < SENDS_MAX);
	s->chain = (struct xp_chain){ .done = sent };
	return s;
}

static void send_iu(struct play *p, struct play_send *s, int len)
{
	assert_true(len > 0);
	s->chain.send[0] = (struct xp_sge){ .addr = s->iu,
					    .len = (uint32_t)len,
					    .mr = p->mr };
	s->chain.send_cnt = 1;
	xp_post(p->chans[p->now], &s->chain);
}

static void answer(struct play *p, const struct srp_cmd_view *cmd,
		   const void *data, size_t len)
{
	struct play_send *s = new_send(p);
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
		s->chain.local_mr = p->mr;
	}
	send_iu(p, s, srp_rsp_encode(s->iu, sizeof(s->iu), &rsp));
}

static void answer_status(struct play *p, const struct srp_cmd_view *cmd,
			  enum scsi_status status,
			  const struct scsi_sense *sense,
			  enum scsi_sense_format format)
{
	struct play_send *s = new_send(p);
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
	send_iu(p, s, srp_rsp_encode(s->iu, sizeof(s->iu), &rsp));
}

static void answer_sense(struct play *p, const struct srp_cmd_view *cmd,
			 enum scsi_key key, enum scsi_asc code)
{
	struct scsi_sense sense = scsi_sense(key, code);

	answer_status(p, cmd, SCSI_STATUS_CHECK_CONDITION, &sense,
		      SCSI_SENSE_FIXED);
}

/* INVALID COMMAND OPERATION CODE */
static void refuse(struct play *p, const struct srp_cmd_view *cmd)
{
	answer_sense(p, cmd, SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE);
}

static void answer_vpd(struct play *p, const struct srp_cmd_view *cmd)
{
	struct scsi_disk_info info = {
		.name = "disk",
		.serial = "0123",
		.naa = { 0x60, [15] = p->naa },
		.store.is_memory = p->o.is_memory,
	};
	uint8_t list[8] = { 0 };
	uint8_t b[256];
	struct scsi_sense sense;
	size_t len;

	info.store.generation[0] = p->generation;
	info.groups.cnt = p->o.groups;
	info.groups.own = p->o.own;
	if (p->o.has_ids) {
		list[4 + list[3]++] = SCSI_VPD_UNIT_SERIAL_NUMBER;
		list[4 + list[3]++] = SCSI_VPD_DEVICE_IDENTIFICATION;
	}
	if (p->o.has_store)
		list[4 + list[3]++] = SCSI_VPD_STORE;
	if (list[3] == 0) {
		refuse(p, cmd);
	} else if (cmd->cdb[2] == SCSI_VPD_SUPPORTED_PAGES) {
		answer(p, cmd, list, 4u + list[3]);
	} else {
		assert_int_equal(scsi_vpd_encode(&info, cmd->cdb[2], b,
						 sizeof(b), &len, &sense),
				 0);
		answer(p, cmd, b, len);
	}
}

static void answer_inquiry(struct play *p, const struct srp_cmd_view *cmd)
{
	uint8_t b[36] = { [4] = 31 };

	if (cmd->cdb[1] & 1) {
		answer_vpd(p, cmd);
		return;
	}
	memcpy(b + 8, "ACME    OLD DISK        1.0 ", 28);
	b[5] = p->o.groups ? 0x30 : 0;
	answer(p, cmd, b, sizeof(b));
}

static void answer_mode(struct play *p, const struct srp_cmd_view *cmd)
{
	uint8_t b[24] = { [0] = 23, [4] = 0x08, [5] = 18 };

	if (p->o.mode == MODE_REFUSED) {
		refuse(p, cmd);
		return;
	}
	if (p->o.mode == MODE_CACHE)
		b[6] = 0x04;
	if (p->o.dpofua)
		b[2] = 0x10;
	if (p->o.mode == MODE_NO_PAGE)
		b[0] = 3;
	answer(p, cmd, b, b[0] + 1u);
}

static bool is_standby(const struct play *p)
{
	return p->o.groups && p->o.active != p->o.own;
}

static void answer_groups(struct play *p, const struct srp_cmd_view *cmd)
{
	struct scsi_disk_info info = { .groups.cnt = p->o.groups,
				       .groups.own = p->o.own,
				       .groups.active = p->o.active };
	uint8_t b[64];

	answer(p, cmd, b,
	       scsi_report_port_groups_encode(&info, false, b, sizeof(b)));
}

static bool meets(struct meet *m, const uint8_t *cdb)
{
	if (m->cnt == 0)
		return false;
	if (m->opcode ? m->opcode != cdb[0] : cdb[0] == 0xa0 || cdb[0] == 0x12)
		return false;
	if (m->page && (!(cdb[1] & 1) || m->page != cdb[2]))
		return false;
	m->cnt--;
	return true;
}

static void answer_cmd(struct play *p, const struct srp_cmd_view *cmd)
{
	const struct scsi_disk_info info = { .blocks = p->blocks,
					     .block_size = p->block_size };
	const uint64_t lun = 0;
	uint8_t b[32];

	if (p->attention && cmd->cdb[0] != 0xa0 && cmd->cdb[0] != 0x12) {
		answer_sense(p, cmd, SCSI_KEY_UNIT_ATTENTION, p->attention);
		p->attention = 0;
		return;
	}
	if (meets(&p->meet, cmd->cdb)) {
		if (p->meet.naa)
			p->naa = p->meet.naa;
		answer_status(p, cmd, p->meet.status, &p->meet.sense,
			      p->meet.format);
		return;
	}
	if (p->is_gone && cmd->cdb[0] != 0xa0) {
		answer_sense(p, cmd, SCSI_KEY_ILLEGAL_REQUEST,
			     SCSI_ASC_LUN_NOT_SUPPORTED);
		return;
	}
	if (is_standby(p) && (cmd->cdb[0] == 0x2a || cmd->cdb[0] == 0x28 ||
			      cmd->cdb[0] == 0x35)) {
		p->refused++;
		answer_sense(p, cmd, SCSI_KEY_NOT_READY,
			     SCSI_ASC_TARGET_PORT_STANDBY);
		return;
	}
	switch (cmd->cdb[0]) {
	case 0xa3:
		answer_groups(p, cmd);
		return;
	case 0xa0:
		answer(p, cmd, b,
		       scsi_report_luns_encode(&lun, p->is_gone ? 0 : 1, b,
					       sizeof(b)));
		return;
	case 0x12:
		answer_inquiry(p, cmd);
		return;
	case 0x9e:
		answer(p, cmd, b,
		       scsi_read_capacity_16_encode(&info, b, sizeof(b)));
		return;
	case 0x25:
		answer(p, cmd, b,
		       scsi_read_capacity_10_encode(&info, b, sizeof(b)));
		return;
	case 0x1a:
		answer_mode(p, cmd);
		return;
	case 0x2a:
		p->writes++;
		p->lbas[p->lba_cnt] = wire_get32(cmd->cdb + 2);
		p->came_by[p->lba_cnt++] = (char)('0' + p->now);
		assert_true(p->lba_cnt < ARRAY_SIZE(p->lbas));
		if (!p->deaf)
			answer(p, cmd, NULL, 0);
		return;
	case 0x35:
		p->syncs++;
		if (p->goes_at_sync) {
			p->goes_at_sync = false;
			p->generation++;
			xp_close(p->chans[0]);
			return;
		}
		if (p->bad_syncs) {
			p->bad_syncs--;
			answer_sense(p, cmd, SCSI_KEY_HARDWARE_ERROR,
				     SCSI_ASC_WRITE_ERROR);
		} else if (p->o.no_sync)
			refuse(p, cmd);
		else
			answer(p, cmd, NULL, 0);
		return;
	default:
		refuse(p, cmd);
	}
}

static void received(struct xp_chan *ch, struct xp_iu *iu)
{
	const struct srp_cmd_rules rules = { .formats = SRP_FORMATS };
	struct play *p = xp_chan_user(ch);
	const uint8_t *opcode = iu->data;
	struct srp_cmd_view cmd;
	bool goes = p->goes_at && --p->goes_at == 0;
	bool silent = p->silent_at && --p->silent_at == 0;

	p->now = p->chans[0] == ch ? 0 : 1;
	if (goes) {
		xp_close(ch);
	} else if (silent) {
		p->silent_at = 0;
	} else if (*opcode == SRP_CRED_RSP) {
		p->cred_rsps++;
	} else {
		assert_int_equal(
			srp_cmd_decode(iu->data, iu->len, &rules, &cmd), 0);
		answer_cmd(p, &cmd);
	}
	xp_iu_release(iu);
}

static void established(struct xp_chan *ch, const void *pdata, size_t len)
{
}

static void closed(struct xp_chan *ch, const struct error *why)
{
	struct play *p = xp_chan_user(ch);

	for (unsigned int i = 0; i < CHANNELS; i++) {
		if (p->chans[i] == ch)
			p->chans[i] = NULL;
	}
	p->open--;
	xp_chan_free(ch);
}

static const struct xp_handler handler = {
	.established = established,
	.received = received,
	.closed = closed,
};

static void requested(struct xp_conn_request *req)
{
	struct play *p = req->user;
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
		.user = p,
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
	if (p->waits) {
		p->waits = false;
		p->kept = req;
		return;
	}
	if (p->rejects || (p->o.only_one && !first)) {
		p->rejects = false;
		srp_login_rej_encode(pdata, sizeof(pdata), &rej);
		xp_reject(req, pdata, SRP_LOGIN_REJ_SIZE);
		return;
	}
	if (first) {
		p->deaf = false;
		p->lba_cnt = 0;
		memset(p->came_by, 0, sizeof(p->came_by));
	}
	srp_login_rsp_encode(pdata, sizeof(pdata), &rsp);
	assert_int_equal(xp_accept(p->xp, req, &params, &p->chans[!first], &e),
			 0);
	p->open++;
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

static void turn(struct play *p)
{
	assert_true(srpi_ctx_run(p->ctx, 10000) == 1);
}

static void session_closed(void *arg)
{
	((struct play *)arg)->closed = true;
}

/* Closes the session if this is the callback that is to do it. */
static void close_from(struct play *p, enum close_from where)
{
	if (p->closes_from != where || p->closing)
		return;
	p->closing = true;
	srpi_close(p->session, session_closed, p);
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
	struct play *p = arg;

	p->told = *why;
	/* Its times are up before its channels are. */
	if (state == SRPI_BLOCKED && p->fails_at_once)
		reactor_skip(p->ctx->reactor, 1000);
	close_from(p, from[state]);
}

static void resized(struct srpi_session *s, unsigned int volume, void *arg)
{
	close_from(arg, RESIZED);
}

/* Starts a target; returns its port. */
static uint16_t play_listen(struct play *p, const struct play_options *o)
{
	struct sockaddr_in addr = free_addr();
	struct error e;

	p->o = *o;
	p->naa = o->naa;
	p->blocks = BLOCKS;
	p->block_size = BLK;
	p->generation = o->generation;
	assert_int_equal(xp_mr_register(p->xp, p->sends, sizeof(p->sends),
					XP_LOCAL, &p->mr, &e),
			 0);
	assert_int_equal(xp_listen(p->xp, (struct sockaddr *)&addr,
				   sizeof(addr), requested, p, &p->listener,
				   &e),
			 0);
	return ntohs(addr.sin_port);
}

static void play_uri(struct play *p, char *uri, size_t len)
{
	int n = snprintf(uri, len, "srp+tcp://127.0.0.1:%u",
			 play_listen(p, &p->o));

	if (p->o.other) {
		p->other = calloc(1, sizeof(*p->other));
		assert_non_null(p->other);
		p->other->ctx = p->ctx;
		p->other->xp = p->xp;
		n += snprintf(uri + n, len - (size_t)n, ",127.0.0.1:%u",
			      play_listen(p->other, p->o.other));
	}
	if (p->o.volume)
		snprintf(uri + n, len - (size_t)n, "/%s", p->o.volume);
}

/* Starts the target and logs in to it. */
static struct play *play_new(const struct play_options *o)
{
	struct play *p = calloc(1, sizeof(*p));
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
		.state_arg = p,
	};
	struct error xe;
	char uri[128];

	assert_non_null(p);
	p->o = *o;
	assert_int_equal(srpi_ctx_create(NULL, &p->ctx, &e), 0);
	cfg.reactor = p->ctx->reactor;
	assert_int_equal(xp_create(XP_TCP, &cfg, &p->xp, &xe), 0);
	play_uri(p, uri, sizeof(uri));
	if (srpi_connect_wait(p->ctx, uri, &so, &p->session, &e) && !o->fails)
		fail_msg("%s", e.text);
	p->told = e;
	return p;
}

static void play_stop(struct play *p)
{
	while (p->open)
		turn(p);
	xp_unlisten(p->listener);
	xp_mr_free(p->mr);
}

static void play_free(struct play *p)
{
	if (!p->closing && p->session)
		srpi_close_wait(p->ctx, p->session);
	while (p->closing && !p->closed)
		turn(p);
	play_stop(p);
	if (p->other)
		play_stop(p->other);
	free(p->other);
	xp_destroy(p->xp);
	srpi_ctx_destroy(p->ctx);
	free(p);
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
	struct play *p = play_new(&(struct play_options){
		.mode = row->mode, .no_sync = row->no_sync });
	struct srpi_io io = { .op = SRPI_FLUSH };

	assert_int_equal(srpi_volume_cnt(p->session), 1);
	assert_int_equal(srpi_io_wait(p->ctx, p->session, &io), row->res);
	assert_int_equal(p->syncs, row->syncs);
	play_free(p);
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

static int do_io(struct play *p, enum srpi_op op, bool fua)
{
	static uint8_t block[BLK];
	struct srpi_io io = { .op = op, .buf = block, .fua = fua };
	struct srpi_error e;
	int res;

	io.len = op == SRPI_FLUSH ? 0 : BLK;
	assert_int_equal(srpi_mem_register(p->session, block, BLK, &io.mem, &e),
			 0);
	res = srpi_io_wait(p->ctx, p->session, &io);
	srpi_mem_free(io.mem);
	return res;
}

/* The connection goes; what is there then is another generation. */
static void lose(struct play *p, uint8_t generation, enum scsi_asc attention)
{
	p->generation = generation;
	p->attention = attention;
	p->send_cnt = 0;
	xp_close(p->chans[0]);
	while (srpi_session_state(p->session) == SRPI_RUNNING)
		turn(p);
	assert_int_equal(srpi_session_state(p->session), SRPI_BLOCKED);
	while (srpi_session_state(p->session) == SRPI_BLOCKED)
		turn(p);
}

static void flush_after_loss(void **state)
{
	const struct loss_row *row = *state;
	struct play *p = play_new(&(struct play_options){
		.mode = MODE_CACHE,
		.has_store = row->has_store,
		.is_memory = row->is_memory,
		.comes_back = true,
		.generation = row->generation ? 1 : 0 });

	if (row->write)
		assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	if (row->flush)
		assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	lose(p, row->generation, row->attention);
	assert_int_equal(srpi_session_state(p->session), row->state);
	if (row->state == SRPI_RUNNING)
		assert_int_equal(p->told.err, row->res);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), row->res);
	if (row->state == SRPI_RUNNING)
		assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	play_free(p);
}

/* The target tells of the loss by a flush that fails, and by the generation: the
 * caller hears of it once. */
static void loss_is_told_once(void **state)
{
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE,
							  .has_store = true,
							  .comes_back = true,
							  .generation = 1 });

	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	lose(p, 2, SCSI_ASC_POWER_ON);
	p->bad_syncs = 1;
	assert_int_equal(do_io(p, SRPI_FLUSH, false), -EIO);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	play_free(p);
}

/* A write that is to be stable is a write and a flush here, and the connection
 * goes in between, with the write. */
static void stable_write_whose_write_was_lost_fails(void **state)
{
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE,
							  .has_store = true,
							  .comes_back = true,
							  .generation = 1 });

	p->goes_at_sync = true;
	assert_int_equal(do_io(p, SRPI_WRITE, true), -EIO);
	assert_int_equal(p->writes, 1);
	assert_int_equal(srpi_session_state(p->session), SRPI_RUNNING);
	play_free(p);
}

static void count_done(struct srpi_io *io, int res)
{
	assert_int_equal(res, 0);
	++*(unsigned int *)io->arg;
}

/* What had no answer is sent again, in the old order. */
static void unanswered_writes_are_sent_again(void **state)
{
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE,
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
		srpi_mem_register(p->session, block, sizeof(block), &mem, &e),
		0);
	p->deaf = true;
	for (unsigned int i = 0; i < 4; i++) {
		io[i] = (struct srpi_io){ .op = SRPI_WRITE,
					  .offset = i * BLK,
					  .len = BLK,
					  .buf = block + i * BLK,
					  .mem = mem,
					  .done = count_done,
					  .arg = &over };
		srpi_submit(p->session, &io[i]);
	}
	while (p->writes < 4)
		turn(p);
	lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	while (over < 4)
		turn(p);
	assert_int_equal(p->lba_cnt, 4);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(p->lbas[i], i);
	srpi_session_stats(p->session, &stats);
	assert_int_equal(stats.replayed, 4);
	assert_int_equal(stats.reconnects, 1);
	srpi_mem_free(mem);
	play_free(p);
}

/* ---- several addresses ---- */

static void one_done(struct srpi_io *io, int res)
{
	*(int *)io->arg = res;
}

static enum srpi_path_state path_state(const struct play *p, unsigned int path)
{
	struct srpi_path_info info = { .struct_size = sizeof(info) };

	srpi_path_info(p->session, path, &info);
	return info.state;
}

/* Two targets; the first, as a rule, is used. */
static struct play *play_two(const struct play_options *b)
{
	return play_new(&(struct play_options){
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
	struct play_options b;	    /* the second address */
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
	struct play_options b = row->b;
	struct play *p;
	struct play *used;
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
	p = play_two(&b);
	assert_int_equal(srpi_mem_register(p->session, block, BLK, &io.mem, &e),
			 0);
	assert_int_equal(path_state(p, 0), SRPI_PATH_IN_USE);
	assert_int_equal(path_state(p, 1), SRPI_PATH_UNTRIED);
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	p->deaf = true;
	srpi_submit(p->session, &io);
	while (p->writes < 2)
		turn(p);
	if (row->state == SRPI_PATH_IN_USE) {
		xp_unlisten(p->listener);
		p->listener = NULL;
	}
	lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	while (res == 1)
		turn(p);
	assert_int_equal(res, 0);
	used = row->state == SRPI_PATH_IN_USE ? p->other : p;
	assert_int_equal(used->lbas[0], 5);
	assert_int_equal(p->other->writes, used == p->other);
	assert_int_equal(path_state(p, 1), row->state);
	assert_int_equal(path_state(p, 0),
			 used == p ? SRPI_PATH_IN_USE : SRPI_PATH_DOWN);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), row->flush);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	srpi_mem_free(io.mem);
	play_free(p);
}

/* The gateway that is in standby is left alone. */
static void standby_is_passed_over(void **state)
{
	const struct play_options b = { .mode = MODE_CACHE,
					.has_ids = true,
					.has_store = true,
					.groups = 2,
					.own = 2,
					.active = 2 };
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE,
							  .has_ids = true,
							  .has_store = true,
							  .comes_back = true,
							  .groups = 2,
							  .own = 1,
							  .active = 2,
							  .other = &b });

	assert_int_equal(path_state(p, 0), SRPI_PATH_STANDBY);
	assert_int_equal(path_state(p, 1), SRPI_PATH_IN_USE);
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	assert_int_equal(p->refused, 0);
	assert_int_equal(p->other->writes, 1);
	play_free(p);
}

static void without_an_active_address_no_login(void **state)
{
	const struct play_options b = { .mode = MODE_CACHE,
					.has_ids = true,
					.has_store = true,
					.groups = 2,
					.own = 2 };
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE,
							  .has_ids = true,
							  .has_store = true,
							  .groups = 2,
							  .own = 1,
							  .fails = true,
							  .other = &b });

	assert_int_equal(p->told.err, -ESHUTDOWN);
	assert_non_null(strstr(p->told.text,
			       "none of the 2 addresses can be used: (1) "
			       "volume 'disk' (LUN 0) of 127.0.0.1"));
	assert_non_null(strstr(p->told.text, ", (2) volume"));
	assert_null(p->session);
	play_free(p);
}

/* What counts is the volume that the URI names. */
static void standby_of_another_volume_does_not_count(void **state)
{
	const struct play_options b = { .mode = MODE_CACHE };
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE,
							  .has_ids = true,
							  .groups = 2,
							  .own = 1,
							  .volume = "tape",
							  .other = &b });

	assert_int_equal(path_state(p, 0), SRPI_PATH_IN_USE);
	play_free(p);
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
	const struct play_options b = { .mode = MODE_NO_CACHE,
					.has_ids = true,
					.has_store = true,
					.generation = 2,
					.groups = 2,
					.own = 2,
					.active = 1 };
	struct play *p = play_two(&b);

	if (row->attention)
		p->attention = SCSI_ASC_ACCESS_STATE_CHANGED;
	if (row->moved)
		p->o.active = p->other->o.active = 2;
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	assert_int_equal(p->writes, !row->moved);
	assert_int_equal(p->other->writes, row->moved);
	assert_int_equal(p->refused, row->moved && !row->attention);
	assert_int_equal(path_state(p, 0),
			 row->moved ? SRPI_PATH_STANDBY : SRPI_PATH_IN_USE);
	play_free(p);
}

/* I/O waits while no gateway is active, and goes on by the one that is first. */
static void io_waits_for_an_active_address(void **state)
{
	const struct play_options b = { .mode = MODE_NO_CACHE,
					.has_ids = true,
					.has_store = true,
					.groups = 2,
					.own = 2,
					.active = 1 };
	struct play *p = play_two(&b);
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };
	static uint8_t block[BLK];
	struct srpi_error e;
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .len = BLK,
			      .buf = block,
			      .done = one_done,
			      .arg = &res };

	assert_int_equal(srpi_mem_register(p->session, block, BLK, &io.mem, &e),
			 0);
	p->o.active = p->other->o.active = 0;
	srpi_submit(p->session, &io);
	while (stats.attempts < 5) {
		turn(p);
		p->send_cnt = p->other->send_cnt = 0;
		srpi_session_stats(p->session, &stats);
	}
	assert_int_equal(res, 1);
	assert_int_equal(srpi_session_state(p->session), SRPI_BLOCKED);
	p->o.active = p->other->o.active = 2;
	while (res == 1)
		turn(p);
	assert_int_equal(res, 0);
	assert_int_equal(p->other->writes, 1);
	assert_int_equal(stats.replayed, 0);
	srpi_mem_free(io.mem);
	play_free(p);
}

static void session_without_the_volume_is_lost(void **state)
{
	const struct play_options b = {
		.mode = MODE_CACHE, .has_ids = true, .has_store = true, .naa = 7
	};
	struct play *p = play_two(&b);

	p->naa = 8;
	lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(p->session), SRPI_LOST);
	assert_int_equal(path_state(p, 0), SRPI_PATH_OTHER);
	assert_int_equal(path_state(p, 1), SRPI_PATH_OTHER);
	play_free(p);
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

static struct meet meet_attention(uint8_t opcode, enum scsi_asc code)
{
	return (struct meet){
		.opcode = opcode,
		.status = SCSI_STATUS_CHECK_CONDITION,
		.sense = scsi_sense(SCSI_KEY_UNIT_ATTENTION, code),
		.cnt = 1,
	};
}

static struct play *play_new_comes_back(enum mode_answer mode)
{
	return play_new(&(struct play_options){ .mode = mode,
						.has_store = true,
						.comes_back = true,
						.generation = 1 });
}

/* Another initiator switches the cache on; a write is told. */
static void cache_that_is_switched_on_is_flushed(void **state)
{
	struct play *p = play_new_comes_back(MODE_NO_CACHE);

	p->o.mode = MODE_CACHE;
	p->meet = meet_attention(0x2a, SCSI_ASC_MODE_PARAMETERS_CHANGED);
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	assert_int_equal(p->syncs, 1);
	while (!srpi_volume_info(p->session, 0)->write_cache)
		turn(p);
	/* With nothing written as well: it may hold what others wrote. */
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	assert_int_equal(p->syncs, 2);
	play_free(p);
}

/* What was under way may have been executed with the cache on, and have been
 * acknowledged before any command is told. */
static void write_under_way_when_the_cache_changes_is_flushed(void **state)
{
	struct play *p = play_new_comes_back(MODE_NO_CACHE);

	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	p->o.mode = MODE_CACHE;
	p->meet = meet_attention(0x35, SCSI_ASC_MODE_PARAMETERS_CHANGED);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	assert_int_equal(p->syncs, 1);
	play_free(p);
}

/* So it was acknowledged while the cache may have been on, and is lost. */
static void loss_after_the_cache_was_switched_on_is_told(void **state)
{
	struct play *p = play_new_comes_back(MODE_NO_CACHE);

	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	p->o.mode = MODE_CACHE;
	p->meet = meet_attention(0x28, SCSI_ASC_MODE_PARAMETERS_CHANGED);
	do_io(p, SRPI_READ, false);
	lose(p, 2, SCSI_ASC_POWER_ON);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), -EIO);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	play_free(p);
}

/* A volume without a cache loses nothing, whatever else its target loses. */
static void write_through_loses_nothing(void **state)
{
	struct play *p = play_new_comes_back(MODE_NO_CACHE);

	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	lose(p, 2, SCSI_ASC_POWER_ON);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	play_free(p);
}

static void known_loss_is_told_without_a_cache(void **state)
{
	struct play *p = play_new_comes_back(MODE_CACHE);

	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	p->o.mode = MODE_NO_CACHE;
	lose(p, 2, SCSI_ASC_POWER_ON);
	assert_int_equal(p->told.err, -EIO);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), -EIO);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	play_free(p);
}

/* Its CDB was made without FUA, and stays so when it is sent again. */
static void stable_write_made_without_fua_is_flushed(void **state)
{
	static uint8_t block[BLK];
	struct play *p = play_new_comes_back(MODE_CACHE);
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .len = BLK,
			      .buf = block,
			      .fua = true,
			      .done = one_done,
			      .arg = &res };
	struct srpi_error e;

	assert_int_equal(srpi_mem_register(p->session, block, BLK, &io.mem, &e),
			 0);
	p->deaf = true;
	srpi_submit(p->session, &io);
	while (p->writes == 0)
		turn(p);
	p->o.dpofua = true;
	lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	while (res == 1)
		turn(p);
	assert_int_equal(res, 0);
	assert_int_equal(p->syncs, 1);
	srpi_mem_free(io.mem);
	play_free(p);
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
	struct play *p = play_new_comes_back(MODE_CACHE);

	p->meet = (struct meet){
		.opcode = row->opcode,
		.status = SCSI_STATUS_CHECK_CONDITION,
		.sense = scsi_sense(row->key, SCSI_ASC_WRITE_ERROR),
		.format = row->format,
		.cnt = 1,
	};
	p->meet.sense.deferred = true;
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	assert_int_equal(p->writes, 1);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), row->res);
	assert_int_equal(p->syncs, 1);
	if (row->res)
		assert_non_null(strstr(p->told.text, "the next flush fails"));
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	play_free(p);
}

/* ---- retries ---- */

static const struct retry_row {
	const char *name;
	struct meet meet;
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
	struct play *p = play_new_comes_back(MODE_CACHE);
	static uint8_t block[BLK];
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .len = BLK,
			      .buf = block,
			      .done = one_done,
			      .arg = &res };
	struct srpi_error e;

	assert_int_equal(srpi_mem_register(p->session, block, BLK, &io.mem, &e),
			 0);
	p->meet = row->meet;
	srpi_submit(p->session, &io);
	while (p->meet.cnt > 0)
		turn(p);
	if (row->then_attention)
		p->meet = meet_attention(0x2a, SCSI_ASC_RESERVATIONS_RELEASED);
	while (res == 1)
		turn(p);
	assert_int_equal(res, 0);
	assert_int_equal(p->meet.cnt, 0);
	srpi_mem_free(io.mem);
	play_free(p);
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
	struct play *p =
		play_new(&(struct play_options){ .mode = MODE_CACHE,
						 .has_store = true,
						 .comes_back = true,
						 .generation = 1,
						 .fast_io_fail_ms = 50 });

	p->meet = (struct meet){
		.status = row->status,
		.sense = scsi_sense(SCSI_KEY_NOT_READY, row->code),
		.cnt = UINT32_MAX,
	};
	xp_close(p->chans[0]);
	while (srpi_session_state(p->session) != SRPI_FAIL_FAST) {
		p->send_cnt = 0;
		turn(p);
	}
	p->meet.cnt = 0;
	while (srpi_session_state(p->session) != SRPI_RUNNING)
		turn(p);
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	play_free(p);
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

static struct play *play_new_with_ids(void)
{
	return play_new(&(struct play_options){ .mode = MODE_CACHE,
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
	struct play *p = play_new_with_ids();
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	p->meet = (struct meet){
		.opcode = row->opcode,
		.page = row->page,
		.status = SCSI_STATUS_CHECK_CONDITION,
		.sense = scsi_sense(row->key, row->code),
		.cnt = 1,
	};
	lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(p->session), SRPI_RUNNING);
	assert_int_equal(p->meet.cnt, 0);
	srpi_session_stats(p->session, &stats);
	assert_int_equal(stats.attempts, 2);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	assert_true(srpi_volume_info(p->session, 0)->fua);
	play_free(p);
}

static void another_identifier_is_another_volume(void **state)
{
	struct play *p = play_new_with_ids();

	p->naa = 1;
	lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(p->session), SRPI_LOST);
	assert_non_null(strstr(p->told.text, "another volume"));
	play_free(p);
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
	struct play *p = play_new_with_ids();

	p->naa = 1;
	p->meet = meet_attention(0x2a, row->code);
	assert_int_equal(do_io(p, SRPI_WRITE, false), -EIO);
	assert_int_equal(p->writes, 0);
	assert_int_equal(srpi_session_state(p->session), SRPI_LOST);
	assert_non_null(strstr(p->told.text, "another volume"));
	play_free(p);
}

static void same_volume_gets_its_write(void **state)
{
	const struct identity_row *row = *state;
	struct play *p = play_new_with_ids();
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	p->blocks = 2 * BLOCKS;
	p->meet = meet_attention(0x2a, row->code);
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	assert_int_equal(p->writes, 2);
	assert_int_equal(srpi_volume_info(p->session, 0)->size,
			 2ull * BLOCKS * BLK);
	srpi_session_stats(p->session, &stats);
	assert_int_equal(stats.reconnects, 0);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	play_free(p);
}

static struct play *lose_volume(const struct play_options *o)
{
	struct play *p = play_new(o);

	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	p->is_gone = true;
	p->meet = meet_attention(0x2a, SCSI_ASC_REPORTED_LUNS_CHANGED);
	assert_int_not_equal(do_io(p, SRPI_WRITE, false), 0);
	assert_int_equal(srpi_session_state(p->session), SRPI_RUNNING);
	return p;
}

static void find_volume(struct play *p)
{
	p->is_gone = false;
	p->meet = meet_attention(0x2a, SCSI_ASC_REPORTED_LUNS_CHANGED);
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
}

/* The target may show others, which are to be there again. */
static void volume_that_was_taken_away_holds_up_nobody(void **state)
{
	struct play *p = lose_volume(&(struct play_options){ .mode = MODE_CACHE,
							     .has_store = true,
							     .has_ids = true,
							     .comes_back = true,
							     .generation = 1 });

	lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(p->session), SRPI_RUNNING);
	assert_int_not_equal(do_io(p, SRPI_WRITE, false), 0);
	find_volume(p);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	/* It is one that has to be there again. */
	p->is_gone = true;
	xp_close(p->chans[0]);
	while (!strstr(p->told.text, "does not show it"))
		turn(p);
	assert_int_equal(srpi_session_state(p->session), SRPI_BLOCKED);
	play_free(p);
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
	struct play *p = lose_volume(
		&(struct play_options){ .mode = MODE_CACHE,
					.has_store = row->then,
					.has_ids = true,
					.comes_back = true,
					.generation = row->then ? 1 : 0 });

	p->generation = row->then;
	find_volume(p);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), row->res);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	play_free(p);
}

/* While a channel stands; the target tells no generation. */
static void power_on_takes_the_cache_along(void **state)
{
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE,
							  .comes_back = true });

	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	p->meet = meet_attention(0x35, SCSI_ASC_POWER_ON);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), -EIO);
	assert_int_equal(do_io(p, SRPI_FLUSH, false), 0);
	play_free(p);
}

/* What was learned of it before belongs to nothing any more. */
static void volume_that_changes_while_asked_is_asked_again(void **state)
{
	struct play *p = play_new_with_ids();

	p->meet = meet_attention(0x1a, SCSI_ASC_INQUIRY_DATA_CHANGED);
	p->meet.naa = 1;
	lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(p->session), SRPI_LOST);
	assert_int_equal(p->meet.cnt, 0);
	play_free(p);
}

/* Offsets would be of other blocks. */
static void other_block_size_is_another_volume(void **state)
{
	struct play *p = play_new_with_ids();

	p->block_size = 4096;
	p->meet = meet_attention(0x2a, SCSI_ASC_CAPACITY_CHANGED);
	do_io(p, SRPI_WRITE, false);
	while (srpi_session_state(p->session) != SRPI_LOST)
		turn(p);
	assert_non_null(strstr(p->told.text, "4096 bytes"));
	play_free(p);
}

/* ---- several channels ---- */

#define KIB    1024u
#define WRITES 20

static uint8_t storm_memory[512 * KIB];

/* Writes of a caller that waits for none of them. */
struct storm {
	struct play *play;
	struct srpi_io io[WRITES];
	struct srpi_mem *mem;
	unsigned int cnt;  /* submitted */
	unsigned int over; /* done */
};

static void storm_begin(struct storm *st, struct play *p)
{
	struct srpi_error e;

	*st = (struct storm){ .play = p };
	assert_int_equal(srpi_mem_register(p->session, storm_memory,
					   sizeof(storm_memory), &st->mem, &e),
			 0);
}

/* The one with number n is of block n on. */
static void storm_write(struct storm *st, unsigned int len_kib)
{
	struct srpi_io *io = &st->io[st->cnt];

	assert_true(st->cnt < WRITES);
	*io = (struct srpi_io){ .op = SRPI_WRITE,
				.offset = st->cnt++ * BLK,
				.len = len_kib * KIB,
				.buf = storm_memory,
				.mem = st->mem,
				.done = count_done,
				.arg = &st->over };
	srpi_submit(st->play->session, io);
}

static void storm_end(struct storm *st)
{
	while (st->over < st->cnt)
		turn(st->play);
	srpi_mem_free(st->mem);
}

/* What is not answered stays in flight. */
static struct play *play_new_deaf(void)
{
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE,
							  .has_store = true,
							  .comes_back = true,
							  .generation = 1,
							  .channels = 2 });

	p->deaf = true;
	return p;
}

static unsigned int count_came_by(const struct play *p, char channel)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < p->lba_cnt; i++)
		cnt += p->came_by[i] == channel;
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
	struct play *p = play_new_deaf();
	struct storm st;

	storm_begin(&st, p);
	/* One after the other, as the target does not see two channels'
	 * commands in the order in which they left. */
	for (unsigned int i = 0; i < WRITES && row->kib[i]; i++) {
		storm_write(&st, row->kib[i]);
		while (p->lba_cnt < st.cnt)
			turn(p);
	}
	assert_string_equal(p->came_by, row->by);
	lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	storm_end(&st);
	play_free(p);
}

/* Answered ones do not count any more. */
static void commands_come_together_again(void **state)
{
	struct play *p = play_new_deaf();
	struct storm st;

	p->deaf = false;
	storm_begin(&st, p);
	for (unsigned int i = 0; i < 6; i++) {
		storm_write(&st, 512);
		while (st.over < st.cnt)
			turn(p);
	}
	assert_string_equal(p->came_by, "000000");
	storm_end(&st);
	play_free(p);
}

/* Those of either channel are sent again when one is lost, in their order. */
static void lost_channel_has_all_sent_again(void **state)
{
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };
	struct play *p = play_new_deaf();
	struct storm st;
	int last[CHANNELS] = { -1, -1 };

	storm_begin(&st, p);
	for (unsigned int i = 0; i < 10; i++)
		storm_write(&st, 256);
	while (p->lba_cnt < 10)
		turn(p);
	assert_int_equal(count_came_by(p, '0'), 5);
	xp_close(p->chans[1]);
	while (st.over < st.cnt)
		turn(p);
	assert_int_equal(p->lba_cnt, 10);
	assert_true(count_came_by(p, '1') > 0);
	for (unsigned int i = 0; i < p->lba_cnt; i++) {
		int *before = &last[p->came_by[i] - '0'];

		assert_true((int)p->lbas[i] > *before);
		*before = (int)p->lbas[i];
	}
	srpi_session_stats(p->session, &stats);
	assert_int_equal(stats.replayed, 10);
	assert_int_equal(stats.reconnects, 1);
	storm_end(&st);
	play_free(p);
}

/* As ib_srpt may, when it has not enough memory for another one. */
static void target_of_one_channel_gets_one(void **state)
{
	struct play *p = play_new(&(struct play_options){
		.mode = MODE_CACHE, .channels = 2, .only_one = true });
	struct srpi_session_info info = { .struct_size = sizeof(info) };
	struct storm st;

	srpi_session_info(p->session, &info);
	assert_int_equal(info.channels, 1);
	assert_non_null(strstr(info.fewer, "reason 0x00010001"));
	storm_begin(&st, p);
	for (unsigned int i = 0; i < 10; i++)
		storm_write(&st, 256);
	storm_end(&st);
	assert_int_equal(count_came_by(p, '0'), 10);
	play_free(p);
}

/* ---- attempts that fail ---- */

enum {
	STEPS_MAX = 20
};

/* A write is held while the target rejects the login, or goes at any step of
 * the first one; it is done all the same. */
static void write_waits_for_the_attempt_that_succeeds(void **state)
{
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE,
							  .has_store = true,
							  .comes_back = true,
							  .generation = 1 });
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	for (unsigned int step = 0; step < STEPS_MAX; step++) {
		p->rejects = step == 0;
		p->goes_at = step;
		p->send_cnt = 0;
		xp_close(p->chans[0]);
		while (srpi_session_state(p->session) == SRPI_RUNNING)
			turn(p);
		assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
		p->goes_at = 0;
	}
	srpi_session_stats(p->session, &stats);
	assert_true(stats.attempts > stats.reconnects);
	assert_true(stats.reconnects >= STEPS_MAX);
	play_free(p);
}

/* No answer to a command, or to a question of discovery when it comes back. */
static void silence_ends_the_connection(void **state)
{
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE,
							  .has_store = true,
							  .comes_back = true,
							  .generation = 1,
							  .io_timeout_ms = 20,
							  .timeout_ms = 200 });
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	p->silent_at = 1;
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	assert_int_equal(p->writes, 1);
	srpi_session_stats(p->session, &stats);
	assert_true(stats.timeouts >= 1);
	assert_true(stats.replayed >= 1);
	xp_close(p->chans[0]);
	while (srpi_session_state(p->session) == SRPI_RUNNING)
		turn(p);
	p->send_cnt = 0;
	p->silent_at = 3;
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	play_free(p);
}

/* As when the disk is stuck in what the old connection sent. */
static void login_without_an_answer_is_told_and_tried_again(void **state)
{
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE,
							  .has_store = true,
							  .comes_back = true,
							  .generation = 1,
							  .timeout_ms = 200 });

	p->waits = true;
	xp_close(p->chans[0]);
	while (!strstr(p->told.text,
		       "no answer; the network is down, or the target "
		       "hangs, or its disk is still busy"))
		turn(p);
	xp_reject(p->kept, NULL, 0);
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	play_free(p);
}

/* What asked for it may be lost, and repeated late. */
static void first_login_to_come_back_is_given_up_early(void **state)
{
	struct play *p =
		play_new(&(struct play_options){ .mode = MODE_CACHE,
						 .has_store = true,
						 .comes_back = true,
						 .generation = 1,
						 .timeout_ms = 90000 });
	uint64_t asked_us;

	p->waits = true;
	xp_close(p->chans[0]);
	while (!p->kept)
		turn(p);
	asked_us = reactor_now_us(p->ctx->reactor);
	reactor_skip(p->ctx->reactor, 1000);
	while (!strstr(p->told.text, "no answer"))
		turn(p);
	assert_true(reactor_now_us(p->ctx->reactor) - asked_us < 90000000);
	xp_reject(p->kept, NULL, 0);
	assert_int_equal(do_io(p, SRPI_WRITE, false), 0);
	play_free(p);
}

/* ---- requests of the target ---- */

static void ask_credit(struct play *p)
{
	const struct srp_cred_req req = { .req_lim_delta = 0 };
	struct play_send *s = new_send(p);

	send_iu(p, s, srp_cred_req_encode(s->iu, sizeof(s->iu), &req));
}

/* The SEND of the first answer may be seen to complete after the target, which
 * has it, has asked again. */
static void target_asks_again_before_our_send_completes(void **state)
{
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE });
	struct srpi_io io = { .op = SRPI_FLUSH };

	ask_credit(p);
	ask_credit(p);
	while (p->cred_rsps < 2 &&
	       srpi_session_state(p->session) == SRPI_RUNNING)
		turn(p);
	assert_int_equal(srpi_session_state(p->session), SRPI_RUNNING);
	assert_int_equal(srpi_io_wait(p->ctx, p->session, &io), 0);
	play_free(p);
}

/* Answers take memory that there is a limit for. */
static void target_that_asks_without_end_is_left(void **state)
{
	struct play *p = play_new(&(struct play_options){ .mode = MODE_CACHE });

	for (int i = 0; i < 20; i++)
		ask_credit(p);
	while (srpi_session_state(p->session) != SRPI_LOST)
		turn(p);
	play_free(p);
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

struct close_play {
	struct play *p;
	struct srpi_io io[WRITES];
	unsigned int cnt;
	unsigned int over;
};

static void close_done(struct srpi_io *io, int res)
{
	struct close_play *c = io->arg;

	assert_true(res == 0 || res == -EIO || res == -ECANCELED);
	if (++c->over == c->cnt)
		close_from(c->p, LAST);
	close_from(c->p, DONE);
}

static void close_begin(struct close_play *c, struct play *p)
{
	struct srpi_error e;
	struct srpi_mem *mem;

	c->p = p;
	assert_int_equal(srpi_mem_register(p->session, storm_memory,
					   sizeof(storm_memory), &mem, &e),
			 0);
	for (c->cnt = 0; c->cnt < 12; c->cnt++) {
		c->io[c->cnt] = (struct srpi_io){ .op = SRPI_WRITE,
						  .offset = c->cnt * BLK,
						  .len = 128 * KIB,
						  .buf = storm_memory,
						  .mem = mem,
						  .done = close_done,
						  .arg = c };
		srpi_submit(p->session, &c->io[c->cnt]);
	}
}

/* Whatever callback it is called from, every I/O is answered once, and the
 * end is told. */
static void session_is_closed_from_a_callback(void **state)
{
	const struct close_row *row = *state;
	struct play *p =
		play_new(&(struct play_options){ .mode = MODE_CACHE,
						 .has_store = true,
						 .comes_back = row->comes_back,
						 .generation = 1,
						 .channels = row->channels });
	struct close_play c = { 0 };

	p->deaf = !row->answered;
	p->closes_from = row->from;
	p->fails_at_once = row->at_once;
	if (row->grows)
		p->blocks *= 2;
	if (row->attended)
		p->attention = SCSI_ASC_CAPACITY_CHANGED;
	close_begin(&c, p);
	while (!row->answered && p->lba_cnt < c.cnt &&
	       p->lba_cnt < row->channels * (REQ_LIM - 1))
		turn(p);
	if (!row->answered) {
		p->send_cnt = 0;
		xp_close(p->chans[0]);
	}
	while (!p->closed)
		turn(p);
	assert_int_equal(c.over, c.cnt);
	srpi_mem_free(c.io[0].mem);
	play_free(p);
}

int main(void)
{
	static struct t_table t;

	T_ADD_ROWS(&t, flush_rows, flush);
	T_ADD_ROWS(&t, loss_rows, flush_after_loss);
	T_ADD_ROWS(&t, path_rows, address_after_a_loss);
	T_ADD_ROWS(&t, turn_rows, address_that_turns_standby_is_left);
	T_ADD_ROWS(&t, fenced_rows, another_address_is_fenced);
	T_ADD(&t, standby_is_passed_over);
	T_ADD(&t, without_an_active_address_no_login);
	T_ADD(&t, standby_of_another_volume_does_not_count);
	T_ADD(&t, io_waits_for_an_active_address);
	T_ADD(&t, session_without_the_volume_is_lost);
	T_ADD(&t, loss_is_told_once);
	T_ADD(&t, stable_write_whose_write_was_lost_fails);
	T_ADD(&t, unanswered_writes_are_sent_again);
	T_ADD(&t, cache_that_is_switched_on_is_flushed);
	T_ADD(&t, write_under_way_when_the_cache_changes_is_flushed);
	T_ADD(&t, loss_after_the_cache_was_switched_on_is_told);
	T_ADD(&t, write_through_loses_nothing);
	T_ADD(&t, known_loss_is_told_without_a_cache);
	T_ADD(&t, stable_write_made_without_fua_is_flushed);
	T_ADD_ROWS(&t, deferred_rows, deferred_error_is_not_the_commands_own);
	T_ADD_ROWS(&t, retry_rows, each_reason_to_try_again_counts_for_itself);
	T_ADD_ROWS(&t, phase_rows, unit_that_is_ready_late_comes_back);
	T_ADD_ROWS(&t, optional_rows, question_that_fails_fails_the_attempt);
	T_ADD(&t, another_identifier_is_another_volume);
	T_ADD_ROWS(&t, identity_rows, other_volume_gets_no_write);
	T_ADD_ROWS(&t, identity_rows, same_volume_gets_its_write);
	T_ADD(&t, volume_that_was_taken_away_holds_up_nobody);
	T_ADD_ROWS(&t, away_rows, volume_that_was_away_tells_of_its_cache);
	T_ADD(&t, power_on_takes_the_cache_along);
	T_ADD(&t, volume_that_changes_while_asked_is_asked_again);
	T_ADD(&t, other_block_size_is_another_volume);
	T_ADD_ROWS(&t, spread_rows, commands_spread_by_their_bytes);
	T_ADD(&t, commands_come_together_again);
	T_ADD(&t, lost_channel_has_all_sent_again);
	T_ADD(&t, target_of_one_channel_gets_one);
	T_ADD(&t, write_waits_for_the_attempt_that_succeeds);
	T_ADD(&t, silence_ends_the_connection);
	T_ADD(&t, login_without_an_answer_is_told_and_tried_again);
	T_ADD(&t, first_login_to_come_back_is_given_up_early);
	T_ADD(&t, target_asks_again_before_our_send_completes);
	T_ADD(&t, target_that_asks_without_end_is_left);
	T_ADD_ROWS(&t, close_rows, session_is_closed_from_a_callback);
	return t_run(&t);
}
