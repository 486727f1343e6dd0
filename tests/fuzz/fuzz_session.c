/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A whole target against hostile initiators. The input is a script: good and
 * broken logins; commands from the table of CDBs, which are then broken; raw
 * bytes; task management; connections that end, break and fall silent;
 * completions, answers of the disk and clock steps in any order.
 *
 * These claims must hold for any script: fuzz_peer.h records every request,
 * credit and byte of memory; a well-behaved initiator reads what it wrote; at
 * the end nothing is left.
 */
#include <errno.h>

#include "protocol/scsi_pages.h"
#include "protocol/scsi_pr.h"
#include "tests/fuzz/fuzz_peer.h"
#include "tests/lib/t_store.h"
#include "base/log.h"

#define BYSTANDER  9 /* initiator number */
#define OPS_MAX	   200
#define BLK	   512u
#define IU_ROOM	   (CHANNEL_IT_IU_LEN + 64)
#define LUN_AT	   20 /* of the LUN in SRP_CMD and SRP_TSK_MGMT */
#define CDB_AT	   32
#define TABLE_AT   48 /* of the table's descriptor in SRP_CMD */
#define DATA_LEN   (256u << 10)
#define TABLES_AT  (FUZZ_MEM_LEN - (64u << 10))
#define NEVER_SETS ((uint8_t)0x80) /* in an operation: do not settle after it */

static struct fuzz_chan chans[FUZZ_CHANS];
static struct fuzz_chan bystander;
static struct fuzz_target *const t = &fuzz_target;
static bool all_exempt; /* the fabric itself has a fault somewhere */
static bool some_cut;	/* waiting for a cut channel's buffers takes long */
static bool fabric_held;

/* ---- the well-behaved initiator ---- */

static struct {
	enum {
		ASKING, /* TEST UNIT READY, to clear unit attentions */
		IDLE,
		WRITING,
		READING
	} state;
	unsigned int attentions;
	uint32_t lba;
	uint8_t stamp;
	unsigned int rounds;
} good;

static void good_send(uint8_t opcode, uint8_t *at, bool is_out)
{
	uint8_t cdb[16] = { opcode };
	struct srp_desc desc = { .len = BLK };
	struct srp_cmd_args args = {
		.tag = bystander.last_tag + 1,
		.cdb = cdb,
		.cdb_len = sizeof(cdb),
	};
	struct srp_data_args *data = is_out ? &args.out : &args.in;
	uint8_t iu[128];
	int len;

	wire_put32(cdb + 2, opcode ? good.lba : 0);
	cdb[8] = opcode ? 1 : 0;
	if (at) {
		xp_mr_remote(t->own_mr, bystander.ini.xp, at, &desc.addr,
			     &desc.key);
		data->format = SRP_DATA_DIRECT;
		data->descs = &desc;
		data->desc_cnt = 1;
	}
	srp_lun_encode(FUZZ_LUN_BYSTANDER, &args.lun);
	len = srp_cmd_encode(iu, sizeof(iu), &args);
	FUZZ_CLAIM(len > 0);
	fuzz_peer_send(&bystander, iu, (size_t)len);
}

static void good_ask(void)
{
	good.state = ASKING;
	good_send(0x00, NULL, false);
}

static void good_answered(struct fuzz_chan *ch, const struct srp_rsp *rsp)
{
	if (good.state == ASKING && rsp->status != SCSI_STATUS_GOOD) {
		FUZZ_CLAIM(rsp->status == SCSI_STATUS_CHECK_CONDITION);
		FUZZ_CLAIM(good.attentions++ < 4);
		good_ask();
		return;
	}
	FUZZ_CLAIM(rsp->status == SCSI_STATUS_GOOD);
	switch (good.state) {
	case ASKING:
		good.state = IDLE;
		break;
	case WRITING:
		memset(t->own_mem + 2048, 0, BLK);
		good.state = READING;
		good_send(0x28, t->own_mem + 2048, false);
		break;
	case READING:
		FUZZ_CLAIM(!memcmp(t->own_mem, t->own_mem + 2048, BLK));
		good.state = IDLE;
		good.rounds++;
		break;
	case IDLE:
		FUZZ_CLAIM(!"an answer that nobody waits for");
	}
}

static void good_begin(void)
{
	struct srp_login_req req = fuzz_peer_login(BYSTANDER, false);
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];

	memset(&good, 0, sizeof(good));
	srp_login_req_encode(pdata, sizeof(pdata), &req);
	fuzz_peer_connect(&bystander, BYSTANDER, pdata, sizeof(pdata));
	fuzz_settle();
	FUZZ_CLAIM(bystander.ini.established && !bystander.ini.closed);
	bystander.answered = good_answered;
	good_ask();
	fuzz_settle();
	FUZZ_CLAIM(good.state == IDLE);
}

/* Writes a block, reads it back and compares, whenever that is possible. */
static void good_round(void)
{
	if (good.state != IDLE || bystander.ini.closed)
		return;
	good.lba = (good.lba + 1) % 8;
	good.stamp += 37;
	for (unsigned int i = 0; i < BLK; i++)
		t->own_mem[i] = (uint8_t)(good.stamp + i * 3 + good.lba);
	good.state = WRITING;
	good_send(0x2a, t->own_mem, true);
}

/* ---- logins ---- */

static struct fuzz_chan *pick(struct fuzz_input *in)
{
	return &chans[fuzz_u8(in) % FUZZ_CHANS];
}

/* No initiator may log in as the bystander. */
static void keep_apart(uint8_t *pdata)
{
	const struct srp_port_id id = srp_port_id_make(0, BYSTANDER);
	struct srp_wire_login_req *wire = (void *)pdata;

	if (srp_port_id_equal(&wire->initiator, &id))
		wire->initiator.b[0] ^= 0xff;
}

static void mutate(struct fuzz_input *in, uint8_t *b, size_t len)
{
	unsigned int cnt = 1 + (fuzz_u8(in) & 3);

	while (len && cnt--) {
		uint16_t at = fuzz_u16(in);

		b[at % len] = fuzz_u8(in);
	}
}

static void log_in(struct fuzz_input *in, bool broken)
{
	struct fuzz_chan *ch = pick(in);
	uint8_t how = fuzz_u8(in);
	struct srp_login_req req = fuzz_peer_login(1 + how % 3, how & 4);
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];
	size_t len = sizeof(pdata);

	if (ch->ini.xp && !ch->ini.closed)
		return;
	fuzz_peer_free(ch);
	req.aer = how & 8;
	req.imm_data = !(how & 16);
	if (how & 32)
		memset(&req.target, 0, sizeof(req.target));
	srp_login_req_encode(pdata, sizeof(pdata), &req);
	if (broken) {
		mutate(in, pdata, sizeof(pdata));
		if (how & 64)
			len = fuzz_u8(in) % (sizeof(pdata) + 1);
	}
	keep_apart(pdata);
	fuzz_peer_connect(ch, req.initiator.b[15], pdata, len);
	ch->exempt = all_exempt;
}

/* ---- commands ---- */

static void send_iu(struct fuzz_chan *ch, uint8_t *iu, size_t len)
{
	uint32_t lun;

	if (len >= SRP_BARE_SIZE &&
	    (iu[0] == SRP_CRED_RSP || iu[0] == SRP_AER_RSP))
		ch->asked = false;
	if (len >= LUN_AT + 8 && (iu[0] == SRP_CMD || iu[0] == SRP_TSK_MGMT) &&
	    !srp_lun_decode(wire_get64(iu + LUN_AT), &lun) &&
	    lun == FUZZ_LUN_BYSTANDER)
		wire_put64(iu + LUN_AT, 0);
	/* FORMAT UNIT, SANITIZE, EXTENDED COPY */
	if (len >= SRP_CMD_SIZE && iu[0] == SRP_CMD)
		fuzz_peer_goes_on |= iu[CDB_AT] == 0x04 || iu[CDB_AT] == 0x48 ||
				     iu[CDB_AT] == 0x83;
	/* Other channels are not told that a function ended their commands. */
	if (len >= SRP_TSK_MGMT_SIZE && iu[0] == SRP_TSK_MGMT) {
		for (unsigned int i = 0; i < FUZZ_CHANS; i++)
			chans[i].ended_set |= iu[30] != SRP_TSK_ABORT_TASK;
	}
	fuzz_peer_send(ch, iu, len);
}

static uint64_t pick_lun(struct fuzz_input *in)
{
	static const uint64_t odd[] = {
		0x0005000000000000, SRP_LUN_REPORT_LUNS, 0x4001000000000000,
		0xffffffffffffffff, 0x0001000000000001,
	};
	uint8_t n = fuzz_u8(in) % 16;

	if (n >= 11)
		return odd[n - 11];
	return (uint64_t)(n % FUZZ_LUN_BYSTANDER) << 48;
}

static void put_field(uint8_t *cdb, struct scsi_cdb_field f, uint64_t v)
{
	for (unsigned int i = f.len; i-- > 0; v >>= 8)
		cdb[f.byte + i] = (uint8_t)v;
}

/* A CDB with bits that its row uses, mostly within the size of the volume. */
static const struct scsi_cdb_info *make_cdb(struct fuzz_input *in, uint8_t *cdb)
{
	const struct scsi_cdb_info *row =
		&scsi_cdb_table[fuzz_u8(in) % scsi_cdb_table_cnt];
	uint8_t how = fuzz_u8(in);

	memset(cdb, 0, SCSI_CDB_LEN);
	if (how & 1)
		fuzz_take(in, cdb, row->cdb_len);
	for (uint8_t i = 0; i < row->cdb_len; i++)
		cdb[i] &= row->usage[i];
	cdb[0] = row->opcode;
	if (row->service_action != SCSI_SERVICE_ACTION_NONE)
		cdb[1] = (uint8_t)((cdb[1] & 0xe0) | row->service_action);
	if (how & 2)
		return row;
	put_field(cdb, row->lba, fuzz_u8(in));
	put_field(cdb, row->blocks, fuzz_u8(in) % 32);
	if (row->alloc_len.len)
		put_field(cdb, row->alloc_len, fuzz_u8(in));
	if (row->param_len.len)
		put_field(cdb, row->param_len, how >> 2);
	return row;
}

/* ---- parameter lists ---- */

static void put_copy_target(uint8_t *d, unsigned int lun)
{
	d[0] = 0xe4;
	d[4] = 1;
	d[5] = 3;
	d[7] = SCSI_NAA_LEN;
	memcpy(d + 8, t->target.luns.vol[lun]->info.naa, SCSI_NAA_LEN);
	wire_put24(d + 29, BLK);
}

/* A copy from one volume to another. */
static size_t put_copy(struct fuzz_input *in, uint8_t *b)
{
	uint8_t *s = b + 16 + 2 * 32;

	memset(b, 0, 16 + 2 * 32 + 28);
	b[0] = fuzz_u8(in) & 3; /* list identifier */
	wire_put16(b + 2, 2 * 32);
	wire_put32(b + 8, 28);
	put_copy_target(b + 16, fuzz_u8(in) % FUZZ_LUN_BYSTANDER);
	put_copy_target(b + 48, fuzz_u8(in) % FUZZ_LUN_BYSTANDER);
	s[0] = 0x02;
	s[3] = 24;
	s[5] = fuzz_u8(in) & 1;
	s[7] = fuzz_u8(in) & 1;
	wire_put16(s + 10, fuzz_u8(in));
	s[19] = fuzz_u8(in);
	s[27] = fuzz_u8(in);
	return 16 + 2 * 32 + 28;
}

static size_t put_unmap(struct fuzz_input *in, uint8_t *b)
{
	struct scsi_extent e[3];

	for (unsigned int i = 0; i < 3; i++)
		e[i] = (struct scsi_extent){ fuzz_u8(in), fuzz_u8(in) };
	return scsi_unmap_encode(e, fuzz_u8(in) & 3, b, 64);
}

static size_t put_reserve(struct fuzz_input *in, uint8_t *b)
{
	memset(b, 0, SCSI_PR_OUT_LEN);
	b[7] = fuzz_u8(in) & 3;
	b[15] = fuzz_u8(in) & 3;
	b[20] = fuzz_u8(in) & 0x05;
	return SCSI_PR_OUT_LEN;
}

static size_t put_modes(struct fuzz_input *in, uint8_t *b, uint8_t opcode)
{
	size_t head = opcode == 0x15 ? 4 : 8;
	uint8_t how = fuzz_u8(in);
	uint8_t *page = b + head;

	memset(b, 0, head + 20);
	page[0] = how & 1 ? 0x08 : 0x0a;
	page[1] = how & 1 ? 18 : 10;
	if (how & 1) {
		page[2] = how & 2 ? 0x04 : 0;
		return head + 20;
	}
	page[2] = 0x22 | (how & 2 ? 0x04 : 0);
	page[3] = 0x10;
	page[4] = how & 4 ? 0x08 : 0;
	page[5] = 0x40;
	return head + 12;
}

static size_t put_pattern(struct fuzz_input *in, uint8_t *b)
{
	memset(b, 0, 8);
	b[0] = fuzz_u8(in) & 0x83; /* INVERT, OVERWRITE COUNT */
	b[3] = 4;
	return 8;
}

/* Makes a parameter list for @row at @b, at most 256 bytes. 0: no such list. */
static size_t put_list(struct fuzz_input *in, const struct scsi_cdb_info *row,
		       uint8_t *b)
{
	switch ((enum scsi_op)row->op) {
	case SCSI_OP_EXTENDED_COPY:
		return put_copy(in, b);
	case SCSI_OP_UNMAP:
		return put_unmap(in, b);
	case SCSI_OP_PERSISTENT_OUT:
		return put_reserve(in, b);
	case SCSI_OP_MODE_SELECT_6:
	case SCSI_OP_MODE_SELECT_10:
		return put_modes(in, b, row->opcode);
	case SCSI_OP_SANITIZE_OVERWRITE:
		return put_pattern(in, b);
	default:
		return 0;
	}
}

/* ---- data ---- */

/* Returns the lengths that the CDB itself needs. */
static void wanted(const uint8_t *cdb, uint64_t *ret_out, uint64_t *ret_in)
{
	struct scsi_sense sense;
	struct scsi_cmd cmd;

	*ret_out = *ret_in = 0;
	if (scsi_cdb_decode(cdb, SCSI_CDB_LEN, &cmd, &sense))
		return;
	*ret_out = scsi_cmd_data_out_len(&cmd, BLK);
	*ret_in = scsi_cmd_data_in_len(&cmd, BLK);
}

/* Makes @cnt descriptors of @len bytes in total, at any place in the memory. */
static void cut(struct fuzz_input *in, struct fuzz_chan *ch, uint32_t at,
		uint32_t len, uint32_t cnt, struct srp_desc *descs)
{
	uint8_t how = fuzz_u8(in);

	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t part = i + 1 == cnt ? len : len / cnt;

		xp_mr_remote(t->mem_mr, ch->ini.xp, t->mem + at, &descs[i].addr,
			     &descs[i].key);
		descs[i].len = part;
		at += part;
		len -= part;
	}
	if (cnt && (how & 0xf0) == 0xf0) /* not the initiator's memory */
		descs[how % cnt].key ^= how;
	if (cnt && (how & 0xf0) == 0xe0)
		descs[how % cnt].addr += (uint64_t)fuzz_u8(in) << 16;
}

/* Makes a partial list. The full list is at the place of the table. */
static void make_partial(struct fuzz_input *in, struct fuzz_chan *ch,
			 uint8_t *iu, uint32_t at, uint32_t len)
{
	static struct srp_desc descs[2100];
	uint32_t cnt = fuzz_u8(in);

	if (cnt > 250)
		cnt = 2040 + (cnt & 7) * 2;
	cut(in, ch, at, len, cnt, descs);
	srp_desc_pack(descs, cnt, t->mem + TABLES_AT);
	wire_put32(iu + TABLE_AT + 12, cnt * SRP_DESC_SIZE);
}

static void command(struct fuzz_input *in, bool broken)
{
	static uint8_t iu[IU_ROOM + 8192];
	static struct srp_desc descs[SRP_INLINE_MAX];
	struct fuzz_chan *ch = pick(in);
	uint8_t cdb[SCSI_CDB_LEN];
	const struct scsi_cdb_info *row = make_cdb(in, cdb);
	uint8_t how = fuzz_u8(in);
	uint8_t where = fuzz_u8(in);
	uint32_t at = where * BLK;
	struct srp_cmd_args args = {
		.tag = ch->last_tag + (how & 0x80 ? 0 : 1),
		.lun = pick_lun(in),
		.task_attr = where % 8 < 5 ? SRP_TASK_SIMPLE : where & 3,
		.cdb = cdb,
		.cdb_len = sizeof(cdb),
	};
	struct srp_data_args *data;
	uint64_t out_len, in_len, data_len;
	size_t list;
	int len;

	if (!ch->ini.xp || ch->ini.closed || !ch->ini.established)
		return;
	list = put_list(in, row, t->mem + at);
	if (list && row->param_len.len && !(how & 0x40))
		put_field(cdb, row->param_len, list);
	wanted(cdb, &out_len, &in_len);
	data = out_len ? &args.out : &args.in;
	data_len = out_len ? out_len : in_len;
	if (row->op == SCSI_OP_FORMAT_UNIT && cdb[1] & 0x10) {
		data = &args.out;
		data_len = fuzz_u8(in);
	}
	if ((how & 0x30) == 0x30)
		data_len += fuzz_u8(in) * 16u;
	if ((how & 0x30) == 0x20)
		data_len /= 2;
	if (data_len > DATA_LEN)
		data_len = DATA_LEN;
	switch (data_len ? how & 7 : 7) {
	case 0:
	case 1:
		data->format = SRP_DATA_DIRECT;
		data->desc_cnt = 1;
		cut(in, ch, at, (uint32_t)data_len, 1, descs);
		break;
	case 2:
	case 3:
		data->format = SRP_DATA_INDIRECT;
		data->desc_cnt = 1 + fuzz_u8(in) % 40;
		cut(in, ch, at, (uint32_t)data_len, data->desc_cnt, descs);
		break;
	case 4:
		data->format = SRP_DATA_INDIRECT;
		data->desc_cnt = 1;
		cut(in, ch, at, (uint32_t)data_len, 1, descs);
		break;
	case 5:
	case 6:
		if (data == &args.in || data_len > 8192)
			break;
		data->format = SRP_DATA_IMMEDIATE;
		data->imm_len = (uint32_t)data_len;
		data->imm_offset = SRP_IMM_OFFSET;
		break;
	default:
		break;
	}
	data->descs = descs;
	xp_mr_remote(t->mem_mr, ch->ini.xp, t->mem + TABLES_AT,
		     &data->table_addr, &data->table_key);
	len = srp_cmd_encode(iu, sizeof(iu), &args);
	if (len < 0)
		return;
	if (data->format == SRP_DATA_IMMEDIATE) {
		memcpy(iu + len, t->mem + at, data_len);
		len += (int)data_len;
	}
	if (data->format == SRP_DATA_INDIRECT && (how & 7) == 4) {
		/* No descriptor inline. */
		iu[6] = iu[7] = 0;
		make_partial(in, ch, iu, at, (uint32_t)data_len);
	}
	if (broken)
		mutate(in, iu, (size_t)len < 160 ? (size_t)len : 160);
	send_iu(ch, iu, (size_t)len);
}

static void raw(struct fuzz_input *in)
{
	static const uint8_t opcodes[] = { SRP_CMD,	 SRP_TSK_MGMT,
					   SRP_I_LOGOUT, SRP_CRED_RSP,
					   SRP_AER_RSP,	 SRP_RSP };
	uint8_t iu[256];
	struct fuzz_chan *ch = pick(in);
	uint8_t how = fuzz_u8(in);
	size_t len = fuzz_u8(in);

	fuzz_take(in, iu, sizeof(iu) < in->left ? len % 64 : len);
	if (how < 0xe0)
		iu[0] = opcodes[how % sizeof(opcodes)];
	send_iu(ch, iu, len);
}

static void bare(struct fuzz_input *in)
{
	static const uint8_t opcodes[] = { SRP_CRED_RSP, SRP_AER_RSP,
					   SRP_I_LOGOUT };
	struct fuzz_chan *ch = pick(in);
	uint8_t how = fuzz_u8(in);
	uint8_t iu[SRP_BARE_SIZE];

	if (how & 4) {
		ch->silent = !ch->silent;
		return;
	}
	srp_bare_encode(iu, sizeof(iu), opcodes[how % 3], fuzz_u8(in));
	send_iu(ch, iu, sizeof(iu));
}

static void manage(struct fuzz_input *in)
{
	static const uint8_t functions[] = { SRP_TSK_ABORT_TASK,
					     SRP_TSK_ABORT_TASK,
					     SRP_TSK_ABORT_TASK_SET,
					     SRP_TSK_CLEAR_TASK_SET,
					     SRP_TSK_LUN_RESET,
					     SRP_TSK_CLEAR_ACA,
					     0x00,
					     0x20 };
	struct fuzz_chan *ch = pick(in);
	uint64_t lun = pick_lun(in);
	struct srp_tsk_mgmt tmf = {
		.function = functions[fuzz_u8(in) % 8],
		.tag = ch->last_tag + 1,
		.lun = lun,
		.task_tag = ch->last_tag,
	};
	uint8_t back = fuzz_u8(in);
	uint8_t iu[SRP_TSK_MGMT_SIZE];

	if (ch->sent_cnt)
		tmf.task_tag = ch->sent[back % ch->sent_cnt].tag;
	srp_tsk_mgmt_encode(iu, sizeof(iu), &tmf);
	send_iu(ch, iu, back == 0xff ? fuzz_u8(in) % sizeof(iu) : sizeof(iu));
}

/* ---- faults of connections ---- */

static void exempt_all(void)
{
	all_exempt = true;
	bystander.exempt = true;
	for (unsigned int i = 0; i < FUZZ_CHANS; i++)
		chans[i].exempt = true;
}

/* The target's end of some connection no longer receives anything. */
static void stop_somebody(uint8_t n)
{
	struct worker *w = &t->target.workers[n % t->target.port.worker_cnt];
	struct list *it;

	list_for_each(it, &w->channels) {
		struct channel *ch =
			container_of(it, struct channel, worker_node);

		if (!ch->xp || n-- >= 8)
			continue;
		exempt_all();
		t_fabric_stop(ch->xp);
		return;
	}
}

static void end(struct fuzz_input *in)
{
	struct fuzz_chan *ch = pick(in);
	uint8_t how = fuzz_u8(in);

	if (how % 8 == 7) {
		stop_somebody(how / 8);
		return;
	}
	if (!ch->ini.xp || ch->ini.closed)
		return;
	ch->exempt = true;
	if (how % 8 == 0)
		t_fabric_break(ch->ini.xp);
	else if (how % 8 == 1)
		t_fabric_cut(ch->ini.xp);
	else
		xp_close(ch->ini.xp);
	some_cut |= how % 8 == 1;
}

static void fail_fabric(struct fuzz_input *in)
{
	uint8_t how = fuzz_u8(in);

	exempt_all();
	if (how & 1)
		t_fabric_fail_post(t->hub, 1 + how / 2 % 16);
	else
		t_fabric_break_at(t->hub, 1 + how / 2 % 16);
}

/* Completions come in order: held completions come before those that are not
 * held. */
static void let_go_fabric(void)
{
	fabric_held = false;
	t_fabric_hold_completions(t->hub, false);
	t_fabric_let_go(t->hub, UINT32_MAX);
}

static void hold_fabric(struct fuzz_input *in)
{
	uint8_t how = fuzz_u8(in);

	if (how % 4 == 0) {
		let_go_fabric();
	} else if (how % 4 == 1) {
		fabric_held = true;
		t_fabric_hold_completions(t->hub, true);
	} else {
		t_fabric_let_go(t->hub, 1 + how / 4 % 16);
	}
}

/* An initiator that is held for long counts as dead. The fabric does its
 * pending work first. */
static void skip(struct fuzz_input *in)
{
	if (fabric_held)
		exempt_all();
	else
		fuzz_settle();
	fuzz_skip(fuzz_u8(in) * 100u);
}

static void fail_next(unsigned int cnt, int res)
{
	t_store.fail_next = cnt;
	t_store.fail_with = res;
}

static void disk(struct fuzz_input *in)
{
	static const int errs[] = { 0, -EIO, -ENOSPC, -ENOMEM, -EROFS };
	uint8_t how = fuzz_u8(in);
	unsigned int held = t_store.held_cnt;

	if (how % 4 == 0)
		t_store.hold = how & 4;
	else if (how % 4 == 1)
		fail_next(1 + how / 32, errs[1 + how / 4 % 4]);
	else if (held)
		t_store_answer_nth(how / 4 % held, errs[fuzz_u8(in) % 5]);
}

static void grow(struct fuzz_input *in)
{
	struct volume *vol = t->target.luns.vol[FUZZ_LUN_STORE];

	t_store.measures = FUZZ_STORE_SIZE / 2 + fuzz_u8(in) * BLK;
	if (volume_measure(vol) > 0)
		port_capacity_changed(&t->target.port, vol);
}

static void write_memory(struct fuzz_input *in)
{
	uint32_t at = fuzz_u8(in) * BLK;
	uint8_t len = fuzz_u8(in) % 65;

	fuzz_take(in, t->mem + at, len);
}

/* ---- the script ---- */

static void operate(struct fuzz_input *in, uint8_t op)
{
	switch (op % 24) {
	case 0:
	case 1:
		log_in(in, /* broken= */ false);
		break;
	case 2:
		log_in(in, /* broken= */ true);
		break;
	case 3:
	case 4:
	case 5:
	case 6:
	case 7:
		command(in, /* broken= */ false);
		break;
	case 8:
	case 9:
		command(in, /* broken= */ true);
		break;
	case 10:
		raw(in);
		break;
	case 11:
	case 12:
		manage(in);
		break;
	case 13:
		end(in);
		break;
	case 14:
		hold_fabric(in);
		break;
	case 15:
		disk(in);
		break;
	case 16:
		skip(in);
		break;
	case 17:
		for (unsigned int n = fuzz_u8(in) & 7; n; n--)
			fuzz_turn();
		break;
	case 18:
		fuzz_settle();
		break;
	case 19:
		fail_fabric(in);
		break;
	case 20:
		grow(in);
		break;
	case 21:
		bare(in);
		break;
	case 22:
		good_round();
		break;
	case 23:
		write_memory(in);
		break;
	}
}

/* Releases everything that is held. */
static void let_go(void)
{
	let_go_fabric();
	t_fabric_fail_post(t->hub, 0);
	t_fabric_break_at(t->hub, 0);
	t_store.hold = false;
	while (t_store.held_cnt)
		t_store_answer_nth(0, 0);
	fuzz_settle();
}

static void check_all(void)
{
	unsigned int rounds;

	if (all_exempt || some_cut) {
		/* The target notices connections that have fallen silent. */
		fuzz_skip(60000);
		fuzz_settle();
	}
	for (unsigned int i = 0; i < FUZZ_CHANS; i++)
		fuzz_peer_check(&chans[i]);
	fuzz_peer_check(&bystander);
	if (bystander.exempt)
		return;
	FUZZ_CLAIM(!bystander.ini.closed);
	rounds = good.rounds;
	good_round();
	fuzz_settle();
	FUZZ_CLAIM(good.rounds == rounds + 1);
}

static void finish(void)
{
	fuzz_target_stop();
	for (unsigned int i = 0; i < FUZZ_CHANS; i++) {
		if (chans[i].ini.xp)
			xp_close(chans[i].ini.xp);
	}
	xp_close(bystander.ini.xp);
	fuzz_settle();
	for (unsigned int i = 0; i < FUZZ_CHANS; i++)
		fuzz_peer_free(&chans[i]);
	fuzz_peer_free(&bystander);
	fuzz_target_end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);
	uint8_t how = fuzz_u8(&in);

	all_exempt = false;
	some_cut = false;
	fuzz_peer_goes_on = false;
	fuzz_peer_overruns = false;
	log_level = how & 8 ? LOG_DEBUG : LOG_ERROR;
	fuzz_target_begin(1 + (how & 1), how >> 1 & 3);
	good_begin();
	for (unsigned int n = 0; n < OPS_MAX && in.left; n++) {
		uint8_t op = fuzz_u8(&in);

		operate(&in, op & 0x7f);
		if (!(op & NEVER_SETS))
			fuzz_settle();
	}
	let_go();
	check_all();
	finish();
	return 0;
}
