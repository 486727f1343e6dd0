/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libsrpi against a hostile target. The input says how each login and each
 * command is answered, and what the caller of the library does meanwhile. At
 * the end of the input, the target becomes an honest one with two small disks.
 *
 * These claims must hold: the client never sends more than its credits allow,
 * and only valid CDBs; every operation is answered once; nothing is left when
 * the session is closed. As long as the target is honest, the session connects,
 * and reads return the written data.
 */
#include <errno.h>

#include "initiator/ctx.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/t_addr.h"
#include "tests/lib/t_fabric.h"
#include "tests/lib/t_tgt.h"
#include "tests/sim/clock.h"

#define BLK	  512u
#define DISK_LEN  (64u << 10)
#define IOS	  24u
#define IO_LEN	  (16u << 10)
#define REQ_LIM	  8
#define TURNS_MAX 1000000u
#define OPS_MAX	  100u

/* ---- the world, made once ---- */

static struct t_fabric *hub;
static struct srpi_ctx ctx;
static struct ini_xp transport = { .kind = XP_VERBS };
static struct reactor *target_reactor;
static struct xp *target_xp;
static struct t_tgt target;

/* ---- an input ---- */

static struct fuzz_input script;
static bool honest; /* until now */
static bool over;   /* from now on, whatever the input says */
static uint8_t disk[DISK_LEN];

/* For each channel of the target: the maximum of the client's credits. */
static int64_t limits[T_TGT_CHANS];

static int64_t *client_limit(const struct t_tgt_chan *ch)
{
	return &limits[ch - target.chans];
}

/* How to answer the next request: 0 is honest. */
static uint8_t next_how(void)
{
	uint8_t how = over || !script.left ? 0 : fuzz_u8(&script);

	if (how < 0x80)
		return 0;
	honest = false;
	return how;
}

/* ---- an honest disk ---- */

static const struct scsi_disk_info *disk_info(void)
{
	static struct scsi_disk_info info = {
		.name = "disk",
		.serial = "0123",
		.naa = { 0x60 },
		.target_port = 1,
		.blocks = DISK_LEN / BLK,
		.block_size = BLK,
		.write_cache = true,
		.unmap = true,
		.lbprz = true,
		.max_transfer_blocks = IO_LEN / BLK,
		.max_unmap_blocks = 64,
		.max_unmap_descs = 1,
		.max_write_same_blocks = 64,
	};

	return &info;
}

/* Returns the length of data-in; -1: the command is refused. */
static int client_disk_data(const struct scsi_cmd *cmd, uint8_t *b)
{
	static const uint64_t luns[] = { 0, 1ull << 48 };
	const struct t_tgt_disk d = { .info = disk_info(),
				      .luns = luns,
				      .lun_cnt = 2 };

	switch (cmd->op) {
	case SCSI_OP_READ:
		memcpy(b, disk + cmd->lba * BLK, cmd->blocks * BLK);
		return (int)(cmd->blocks * BLK);
	case SCSI_OP_WRITE:
	case SCSI_OP_WRITE_SAME:
	case SCSI_OP_UNMAP:
	case SCSI_OP_SYNC_CACHE:
	case SCSI_OP_TEST_UNIT_READY:
		return 0;
	default:
		return t_tgt_disk_data(&d, cmd, b, IO_LEN);
	}
}

/* True if the command's blocks are on the disk. */
static bool is_on_disk(const struct scsi_cmd *cmd)
{
	if (!(cmd->info->flags & SCSI_CDB_BLOCKS))
		return true;
	return cmd->lba < DISK_LEN / BLK &&
	       cmd->blocks <= DISK_LEN / BLK - cmd->lba &&
	       (cmd->op != SCSI_OP_READ || cmd->blocks <= IO_LEN / BLK);
}

/* Posts the response after @len bytes of data-in. If it takes credits away,
 * this does not affect requests in flight. */
static void client_respond(struct t_tgt_send *s, uint32_t len)
{
	if (s->rsp.req_lim_delta > 0)
		*client_limit(s->ch) += s->rsp.req_lim_delta;
	t_tgt_respond_as_is(s, len);
}

static void client_refuse(struct t_tgt_send *s)
{
	struct scsi_sense sense =
		scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE);

	s->rsp.status = SCSI_STATUS_CHECK_CONDITION;
	s->rsp.sense = s->sense;
	s->rsp.sense_len = SCSI_SENSE_FIXED_LEN;
	scsi_sense_encode(&sense, SCSI_SENSE_FIXED, s->sense, sizeof(s->sense));
}

/* The data of a WRITE has arrived. */
static void client_fetched(struct xp_chain *chain, int status)
{
	struct t_tgt_send *s = container_of(chain, struct t_tgt_send, chain);

	if (status) {
		t_tgt_drop(s);
		return;
	}
	memcpy(disk + s->cmd.lba * BLK, s->data, s->chain.len);
	s->chain = (struct xp_chain){ .done = t_tgt_send_done };
	client_respond(s, 0);
}

/* Fetches the data of a WRITE to the disk. True: the fetch is in progress. */
static bool client_take_data(struct t_tgt_send *s, const struct srp_cmd_view *v)
{
	const struct scsi_cmd *cmd = &s->cmd;
	uint32_t len = (uint32_t)(cmd->blocks * BLK);

	if (cmd->op == SCSI_OP_WRITE_SAME)
		memset(disk + cmd->lba * BLK, 0, len);
	if (cmd->op != SCSI_OP_WRITE || !len || len > IO_LEN ||
	    v->out.len < len)
		return false;
	if (v->out.format == SRP_DATA_IMMEDIATE) {
		memcpy(disk + cmd->lba * BLK, v->out.imm, len);
		return false;
	}
	srp_desc_unpack(v->out.descs, 1, &s->desc);
	s->chain.dir = XP_RDMA_READ;
	s->chain.remote = &s->desc;
	s->chain.len = len;
	s->chain.local = s->data;
	s->chain.local_mr = target.mr;
	s->chain.done = client_fetched;
	t_tgt_post(s);
	return true;
}

/* ---- a hostile one ---- */

static void send_raw(struct t_tgt_chan *ch)
{
	static const uint8_t opcodes[] = { SRP_RSP, SRP_CRED_REQ, SRP_AER_REQ,
					   SRP_T_LOGOUT };
	uint8_t iu[96];
	uint8_t len = 1 + fuzz_u8(&script) % sizeof(iu);
	uint8_t how = fuzz_u8(&script);

	fuzz_take(&script, iu, len);
	if (how < 0xc0)
		iu[0] = opcodes[how % sizeof(opcodes)];
	/* Its credits count. */
	if (len >= SRP_BARE_SIZE && iu[0] != SRP_T_LOGOUT)
		*client_limit(ch) += UINT32_MAX;
	t_tgt_send(ch, iu, len);
}

static void ask(struct t_tgt_chan *ch, uint8_t how)
{
	struct srp_cred_req cred = { .tag = how, .req_lim_delta = how & 3 };
	struct srp_aer_req aer = { .tag = how };
	uint8_t iu[64];
	int len;

	for (unsigned int n = how >> 5; n; n--) {
		*client_limit(ch) += cred.req_lim_delta;
		len = how & 16 ? srp_cred_req_encode(iu, sizeof(iu), &cred)
			       : srp_aer_req_encode(iu, sizeof(iu), &aer);
		t_tgt_send(ch, iu, (size_t)len);
		if (!(how & 16))
			*client_limit(ch) -= cred.req_lim_delta;
	}
}

static void log_out(struct t_tgt_chan *ch)
{
	struct srp_t_logout out = { .reason = fuzz_u8(&script) % 10 };
	uint8_t iu[SRP_BARE_SIZE];

	t_tgt_send(ch, iu, (size_t)srp_t_logout_encode(iu, sizeof(iu), &out));
}

static void mutate(uint8_t *b, uint32_t len)
{
	unsigned int cnt = 1 + (fuzz_u8(&script) & 7);

	while (len && cnt--) {
		uint16_t at = fuzz_u16(&script);

		b[at % len] = fuzz_u8(&script);
	}
}

/* Changes the response to something else. False: there is no response. */
static bool spoil(struct t_tgt_send *s, uint8_t how, uint32_t *len)
{
	struct srp_rsp *rsp = &s->rsp;
	struct t_tgt_send *twice;

	switch (how & 15) {
	case 0:
	case 1:
		mutate(s->data, *len);
		return true;
	case 2:
		*len = *len ? fuzz_u16(&script) % *len : 0;
		return true;
	case 3:
		rsp->resid_flags = fuzz_u8(&script) & SRP_RSP_RESIDUALS;
		rsp->in_resid = fuzz_u32(&script);
		rsp->out_resid = fuzz_u16(&script);
		return true;
	case 4:
		rsp->status = fuzz_u8(&script);
		return true;
	case 5:
		rsp->status = SCSI_STATUS_CHECK_CONDITION;
		fuzz_take(&script, s->sense, 20);
		rsp->sense = s->sense;
		rsp->sense_len = fuzz_u8(&script) % 64;
		return true;
	case 6:
		return false;
	case 7:
		rsp->tag ^= fuzz_u8(&script);
		return true;
	case 8:
		twice = t_tgt_take(s->ch);
		if (!twice)
			return true;
		twice->rsp = *rsp;
		client_respond(twice, 0);
		return true;
	case 9:
		rsp->req_lim_delta = (int8_t)fuzz_u8(&script);
		if (rsp->req_lim_delta == 127)
			rsp->req_lim_delta = INT32_MAX;
		return true;
	case 10:
		send_raw(s->ch);
		return true;
	case 11:
		rsp->rsp_valid = true;
		rsp->rsp_code = fuzz_u8(&script);
		return true;
	case 12:
		log_out(s->ch);
		return true;
	case 13:
		if (xp_chan_is_open(s->ch->xp))
			xp_close(s->ch->xp);
		return false;
	case 14:
		ask(s->ch, fuzz_u8(&script));
		return true;
	default:
		fuzz_take(&script, s->data, *len < 64 ? *len : 64);
		return true;
	}
}

static void client_command(struct t_tgt_send *s, const struct srp_cmd_view *v)
{
	uint8_t how = next_how();
	uint32_t len;
	int full;

	full = is_on_disk(&s->cmd) ? client_disk_data(&s->cmd, s->data) : -1;
	if (full < 0)
		client_refuse(s);
	len = full < 0 ? 0 : (uint32_t)full;
	if (len > s->in_len)
		len = s->in_len;
	if (len < s->in_len) {
		s->rsp.resid_flags = SRP_RSP_IN_UNDERFLOW;
		s->rsp.in_resid = s->in_len - len;
	}
	if (how && !spoil(s, how, &len))
		t_tgt_drop(s);
	else if (how || full < 0 || !client_take_data(s, v))
		client_respond(s, len);
}

/* ---- the target's connections ---- */

static void client_received(struct t_tgt_chan *ch, const struct xp_iu *iu)
{
	if (*(const uint8_t *)iu->data == SRP_CMD)
		FUZZ_CLAIM((*client_limit(ch))-- > 0);
	t_tgt_receive(ch, iu);
}

static void client_other(struct t_tgt_chan *ch, enum srp_opcode opcode)
{
	FUZZ_CLAIM(opcode == SRP_CRED_RSP || opcode == SRP_AER_RSP ||
		   opcode == SRP_I_LOGOUT);
}

static void spoil_login(struct srp_login_rsp *rsp, uint8_t *pdata, uint8_t how)
{
	if (how & 1)
		rsp->req_lim = (int32_t)fuzz_u32(&script);
	if (how & 2)
		rsp->it_iu_len = fuzz_u16(&script);
	if (how & 4)
		rsp->ti_iu_len = fuzz_u16(&script);
	if (how & 8)
		rsp->formats = fuzz_u8(&script);
	srp_login_rsp_encode(pdata, SRP_LOGIN_RSP_SIZE, rsp);
	if (how & 16)
		mutate(pdata, SRP_LOGIN_RSP_SIZE);
}

static void reject(struct xp_conn_request *req, uint64_t tag)
{
	struct srp_login_rej rej = {
		.tag = tag,
		.reason = 0x10000 + fuzz_u8(&script) % 9,
	};
	uint8_t pdata[SRP_LOGIN_REJ_SIZE];
	uint8_t how = fuzz_u8(&script);

	srp_login_rej_encode(pdata, sizeof(pdata), &rej);
	if (how & 1)
		mutate(pdata, sizeof(pdata));
	xp_reject(req, pdata, how & 2 ? how % sizeof(pdata) : sizeof(pdata));
}

static void client_login(struct t_tgt *tgt, struct xp_conn_request *req,
			 const struct srp_login_req *asked)
{
	uint8_t how = next_how();
	struct srp_login_rsp rsp = tgt->rsp;
	uint8_t pdata[SRP_LOGIN_RSP_SIZE];
	struct t_tgt_chan *ch;

	if (!t_tgt_free_chan(tgt) || (how & 0xe0) == 0xe0) {
		reject(req, asked->tag);
		return;
	}
	rsp.tag = asked->tag;
	rsp.imm_data = asked->imm_data;
	spoil_login(&rsp, pdata, how);
	FUZZ_CLAIM(!srp_login_rsp_decode(pdata, sizeof(pdata), &rsp) || how);
	ch = t_tgt_accept_with(tgt, req, asked, pdata, sizeof(pdata));
	*client_limit(ch) = rsp.req_lim;
	ch->rules.imm_offset = rsp.imm_data ? asked->imm_offset : 0;
}

static const struct t_tgt_ops target_ops = {
	.login = client_login,
	.received = client_received,
	.command = client_command,
	.other = client_other,
};

/* ---- both ---- */

static void open_once(void)
{
	struct reactor_options ropt = { 0 };
	struct xp_config ini = { .recv_len = INI_RECV_LEN };
	struct xp_config tgt = { .recv_len = T_TGT_RECV_LEN,
				 .recv_aligned_at = SRP_IMM_OFFSET };
	struct sockaddr_in sin = t_addr("10.0.0.1", 5555);

	hub = t_fabric_create();
	FUZZ_CLAIM(!reactor_create(&ropt, &ctx.reactor));
	FUZZ_CLAIM(!reactor_create(&ropt, &target_reactor));
	ini.reactor = ctx.reactor;
	tgt.reactor = target_reactor;
	FUZZ_CLAIM(!t_xp_create(hub, &ini, &transport.xp));
	ctx.xps = &transport;
	FUZZ_CLAIM(!t_xp_create(hub, &tgt, &target_xp));
	target = (struct t_tgt){ .ops = &target_ops,
				 .rsp = { .req_lim = REQ_LIM,
					  .it_iu_len = T_TGT_RECV_LEN,
					  .ti_iu_len = 512,
					  .formats = SRP_FORMATS,
					  .multichan = SRP_MULTICHAN_MAINTAINED,
					  .imm_data = true },
				 .send_cnt = 192,
				 .data_len = IO_LEN,
				 .loses_commands = true };
	t_tgt_start(&target, target_xp);
	t_tgt_listen(&target, &sin);
}

static void settle(void)
{
	unsigned int turns = 0;
	bool busy;

	do {
		busy = reactor_run_once(ctx.reactor, 0) > 0;
		busy |= reactor_run_once(target_reactor, 0) > 0;
		FUZZ_CLAIM(turns++ < TURNS_MAX);
	} while (busy);
}

/* ---- the library's caller ---- */

static struct srpi_session *session;
static bool connect_done, session_closed;
static int connect_err;
static struct srpi_mem *mem;
static uint8_t *io_mem;

static struct {
	struct srpi_io io;
	bool busy;
	bool fits; /* aligned and on the disk: an honest target executes it */
} ios[IOS];

static void connected(struct srpi_session *s, const struct srpi_error *e,
		      void *arg)
{
	FUZZ_CLAIM(!connect_done);
	connect_done = true;
	connect_err = e->err;
	FUZZ_CLAIM(e->err <= 0 && (!e->err || *e->text));
}

static void on_closed(void *arg)
{
	FUZZ_CLAIM(!session_closed);
	session_closed = true;
}

static void changed(struct srpi_session *s, enum srpi_state state,
		    const struct srpi_error *why, void *arg)
{
	FUZZ_CLAIM(*srpi_state_name(state));
}

static void io_done(struct srpi_io *io, int res)
{
	unsigned int i = (unsigned int)(uintptr_t)io->arg;

	FUZZ_CLAIM(ios[i].busy && res <= 0);
	ios[i].busy = false;
	if (honest && ios[i].fits)
		FUZZ_CLAIM(!res);
	if (io->op == SRPI_EXTENT && !res)
		FUZZ_CLAIM(io->extent_len <= io->len &&
			   !io->extent_len == !io->len);
}

static void check_volumes(void)
{
	for (unsigned int i = 0; i < srpi_volume_cnt(session); i++) {
		const struct srpi_volume_info *v = srpi_volume_info(session, i);
		unsigned int found;

		FUZZ_CLAIM(memchr(v->name, 0, sizeof(v->name)) && *v->name);
		FUZZ_CLAIM(!strchr(v->name, '/') && v->name[0] != '.');
		FUZZ_CLAIM(memchr(v->serial, 0, sizeof(v->serial)));
		FUZZ_CLAIM(v->block_size && v->size % v->block_size == 0);
		FUZZ_CLAIM(v->max_transfer >= v->block_size);
		/* Another volume may have the name of one that is lost. */
		if (srpi_volume_state(session, i) == SRPI_LOST)
			continue;
		FUZZ_CLAIM(!srpi_volume_find(session, v->name, &found));
		FUZZ_CLAIM(found == i);
	}
}

static void submit(void)
{
	uint8_t how = fuzz_u8(&script);
	unsigned int i = how % IOS;
	unsigned int cnt = srpi_volume_cnt(session);
	struct srpi_io *io = &ios[i].io;
	struct srpi_error e;

	if (!connect_done || connect_err || !cnt || ios[i].busy)
		return;
	if (!mem && srpi_mem_register(session, io_mem, IOS * IO_LEN, &mem, &e))
		return;
	memset(io, 0, sizeof(*io));
	io->op = fuzz_u8(&script) % 6;
	io->volume = fuzz_u8(&script) % cnt;
	io->offset = (uint64_t)(fuzz_u8(&script) % 140) * BLK;
	io->len = (uint64_t)(fuzz_u8(&script) % 33) * BLK;
	if (how >= 0xf0) {
		io->offset = fuzz_u64(&script);
		io->len = fuzz_u16(&script) % IO_LEN;
	}
	if (io->op == SRPI_FLUSH)
		io->offset = io->len = 0;
	io->buf = io_mem + (size_t)i * IO_LEN;
	io->mem = mem;
	io->fua = how & 32;
	io->discard = how & 64;
	io->done = io_done;
	io->arg = (void *)(uintptr_t)i;
	ios[i].busy = true;
	ios[i].fits =
		io->op == SRPI_FLUSH ||
		(how < 0xf0 && io->len && io->offset + io->len <= DISK_LEN);
	srpi_submit(session, io);
}

static void break_one(uint8_t how)
{
	struct t_tgt_chan *ch = &target.chans[how % T_TGT_CHANS];

	/* The first open channel, from this one on. */
	for (unsigned int i = 1; !ch->open && i < T_TGT_CHANS; i++)
		ch = &target.chans[(how + i) % T_TGT_CHANS];
	if (!ch->open)
		return;
	honest = false;
	if (how & 0x80)
		t_fabric_break(ch->xp);
	else
		t_fabric_cut(ch->xp);
}

static void operate(void)
{
	uint8_t op = fuzz_u8(&script);

	switch (op % 8) {
	case 0:
	case 1:
	case 2:
		submit();
		break;
	case 3:
		break_one(fuzz_u8(&script));
		break;
	case 4:
		/* Answers may be overdue after the skip. */
		settle();
		clock_skip(fuzz_u8(&script) * 100u);
		break;
	case 5:
		if (connect_done && !connect_err)
			check_volumes();
		break;
	default:
		settle();
	}
	if (op & 0x80)
		settle();
}

static void begin(uint8_t how)
{
	struct srpi_options opt = {
		.struct_size = sizeof(opt),
		.channels = 1 + (how & 1),
		.queue_depth = 1 + (how >> 1 & 7),
		.no_immediate_data = how & 16,
		.io_timeout_ms = how & 32 ? 1000 : 0,
		.fast_io_fail_ms = how & 64 ? 500 : 0,
		.dev_loss_ms = 5000,
		.state_changed = changed,
	};
	struct srpi_error e;

	if (!opt.fast_io_fail_ms)
		opt.dev_loss_ms = 0;
	memset(disk, 0, sizeof(disk));
	memset(ios, 0, sizeof(ios));
	connect_done = session_closed = false;
	honest = true;
	over = false;
	mem = NULL;
	io_mem = calloc(1, IOS * IO_LEN);
	FUZZ_CLAIM(io_mem);
	FUZZ_CLAIM(!srpi_connect(&ctx,
				 "srp+rdma://10.0.0.1?initiator="
				 "00000000000000000000000000000001",
				 &opt, connected, NULL, &session, &e));
}

static void finish(void)
{
	over = true;
	srpi_close(session, on_closed, NULL);
	settle();
	for (unsigned int n = 0; n < 4 && !session_closed; n++) {
		clock_skip(60000);
		settle();
	}
	FUZZ_CLAIM(session_closed && ctx.sessions == 0);
	for (unsigned int i = 0; i < IOS; i++)
		FUZZ_CLAIM(!ios[i].busy);
	srpi_mem_free(mem);
	free(io_mem);
	t_tgt_close(&target);
	settle();
	FUZZ_CLAIM(t_tgt_chan_cnt(&target) == 0);
	for (unsigned int i = 0; i < target.send_cnt; i++)
		FUZZ_CLAIM(!target.sends[i].busy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t how;

	script = fuzz_input(data, size);
	how = fuzz_u8(&script);
	if (!hub)
		open_once();
	begin(how);
	settle();
	for (unsigned int n = 0; n < OPS_MAX && script.left; n++)
		operate();
	settle();
	if (honest) {
		FUZZ_CLAIM(connect_done && !connect_err);
		FUZZ_CLAIM(srpi_volume_cnt(session) == 2);
		check_volumes();
	}
	finish();
	return 0;
}
