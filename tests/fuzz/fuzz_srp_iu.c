/* SPDX-License-Identifier: BSD-2-Clause */
/* Every SRP information unit after login, in both directions, and credits. */
#include <errno.h>

#include "protocol/srp_credit.h"
#include "protocol/srp_iu.h"
#include "tests/fuzz/fuzz.h"

#define IU_MAX	  8192
#define SENSE_MAX 252

/* ---- SRP_CMD ---- */

static void check_data(const struct srp_data *d, const void *iu, size_t len)
{
	uint64_t sum = 0;

	FUZZ_CLAIM(d->format <= SRP_DATA_IMMEDIATE);
	if (d->format == SRP_DATA_NONE)
		FUZZ_CLAIM(!d->len && !d->desc_cnt);
	if (d->format == SRP_DATA_IMMEDIATE)
		FUZZ_CLAIM(fuzz_lies_in(d->imm, d->len, iu, len));
	if (!d->descs)
		return;
	FUZZ_CLAIM(d->inline_cnt <= d->desc_cnt);
	FUZZ_CLAIM(d->partial == (d->inline_cnt < d->desc_cnt));
	FUZZ_CLAIM(
		fuzz_lies_in(d->descs, d->inline_cnt * SRP_DESC_SIZE, iu, len));
	for (uint32_t i = 0; i < d->inline_cnt; i++) {
		struct srp_desc desc;

		srp_desc_unpack((const uint8_t *)d->descs + i * SRP_DESC_SIZE,
				1, &desc);
		FUZZ_CLAIM(desc.addr + desc.len >= desc.addr);
		sum += desc.len;
	}
	FUZZ_CLAIM(d->partial ? sum <= d->len : sum == d->len);
	FUZZ_CLAIM(srp_desc_table_check(d->descs, d->inline_cnt, d->len) ==
		   (sum == d->len ? 0 : -EBADMSG));
}

/* Converts to arguments of srp_cmd_encode(). False: they cannot express it. */
static bool args_of(const struct srp_data *d, uint16_t imm_offset,
		    struct srp_desc *descs, struct srp_data_args *a)
{
	a->format = d->format;
	a->desc_cnt = d->inline_cnt;
	a->descs = descs;
	a->table_addr = d->desc.addr;
	a->table_key = d->desc.key;
	if (d->format == SRP_DATA_IMMEDIATE) {
		a->imm_len = d->len;
		a->imm_offset = imm_offset;
	}
	if (d->descs)
		srp_desc_unpack(d->descs, d->inline_cnt, descs);
	return !d->partial &&
	       (d->format != SRP_DATA_INDIRECT || d->inline_cnt > 0);
}

static void check_same_data(const struct srp_data *a, const struct srp_data *b)
{
	FUZZ_CLAIM(a->format == b->format && a->len == b->len);
	FUZZ_CLAIM(a->partial == b->partial && a->desc_cnt == b->desc_cnt);
	FUZZ_CLAIM(a->inline_cnt == b->inline_cnt);
	FUZZ_CLAIM(a->desc.addr == b->desc.addr && a->desc.key == b->desc.key &&
		   a->desc.len == b->desc.len);
	if (a->inline_cnt)
		FUZZ_CLAIM(!memcmp(a->descs, b->descs,
				   a->inline_cnt * SRP_DESC_SIZE));
}

static void cmd_again(const struct srp_cmd_view *v,
		      const struct srp_cmd_rules *rules)
{
	static struct srp_desc out[SRP_INLINE_MAX], in[SRP_INLINE_MAX];
	static uint8_t iu[2 * IU_MAX];
	struct srp_cmd_args args = {
		.tag = v->tag,
		.lun = v->lun,
		.task_attr = (enum srp_task_attr)v->task_attr,
		.cdb = v->cdb,
		.cdb_len = v->cdb_len,
	};
	struct srp_cmd_view again;
	int len;

	if (!args_of(&v->out, rules->imm_offset, out, &args.out) ||
	    !args_of(&v->in, 0, in, &args.in))
		return;
	len = srp_cmd_encode(iu, sizeof(iu), &args);
	FUZZ_CLAIM(len > 0);
	if (v->out.format == SRP_DATA_IMMEDIATE) {
		if (v->out.len > sizeof(iu) - (size_t)len)
			return;
		memcpy(iu + len, v->out.imm, v->out.len);
		len += (int)v->out.len;
	}
	FUZZ_CLAIM(srp_cmd_decode(iu, (size_t)len, rules, &again) == 0);
	FUZZ_CLAIM(again.tag == v->tag && again.lun == v->lun);
	FUZZ_CLAIM(again.task_attr == v->task_attr);
	FUZZ_CLAIM(again.cdb_len == v->cdb_len &&
		   !memcmp(again.cdb, v->cdb, v->cdb_len));
	check_same_data(&v->out, &again.out);
	check_same_data(&v->in, &again.in);
}

static void cmd(const void *iu, size_t len, const struct srp_cmd_rules *rules)
{
	struct srp_cmd_view v;
	uint32_t lun;
	uint64_t field;
	int err;

	FUZZ_FILL(v);
	err = srp_cmd_decode(iu, len, rules, &v);
	FUZZ_CLAIM(!err || err == -EBADMSG || err == -ENOTSUP);
	if (err)
		return;
	FUZZ_CLAIM(fuzz_lies_in(v.cdb, v.cdb_len, iu, len));
	FUZZ_CLAIM(v.cdb_len >= SRP_CDB_LEN && v.cdb_len <= SRP_CDB_LEN_MAX);
	FUZZ_CLAIM(v.task_attr <= 7);
	FUZZ_CLAIM(v.in.format != SRP_DATA_IMMEDIATE);
	check_data(&v.out, iu, len);
	check_data(&v.in, iu, len);
	cmd_again(&v, rules);
	if (srp_lun_decode(v.lun, &lun))
		return;
	FUZZ_CLAIM(srp_lun_encode(lun, &field) == 0);
	FUZZ_CLAIM(srp_lun_decode(field, &(uint32_t){ 0 }) == 0);
}

/* ---- other IUs ---- */

static void head(const void *iu, size_t len)
{
	struct srp_head h;
	uint8_t bare[SRP_BARE_SIZE];
	struct srp_head again;

	FUZZ_FILL(h);
	if (srp_head_decode(iu, len, &h)) {
		FUZZ_CLAIM(len < SRP_BARE_SIZE);
		FUZZ_UNTOUCHED(h);
		return;
	}
	FUZZ_CLAIM(*srp_opcode_name(h.opcode));
	FUZZ_CLAIM(srp_bare_encode(bare, len < 32 ? len - 16 : 15, h.opcode,
				   h.tag) == -ENOSPC);
	FUZZ_CLAIM(srp_bare_encode(bare, sizeof(bare), h.opcode, h.tag) ==
		   SRP_BARE_SIZE);
	FUZZ_CLAIM(srp_head_decode(bare, sizeof(bare), &again) == 0);
	FUZZ_CLAIM(again.opcode == h.opcode && again.tag == h.tag);
}

static void check_same_rsp(const struct srp_rsp *a, const struct srp_rsp *b)
{
	FUZZ_CLAIM(a->tag == b->tag && a->status == b->status);
	FUZZ_CLAIM(a->req_lim_delta == b->req_lim_delta);
	FUZZ_CLAIM(a->resid_flags == b->resid_flags);
	FUZZ_CLAIM(a->out_resid == b->out_resid && a->in_resid == b->in_resid);
	FUZZ_CLAIM(a->rsp_valid == b->rsp_valid && a->rsp_code == b->rsp_code);
	FUZZ_CLAIM(!b->data_dropped);
	if (b->sense)
		FUZZ_CLAIM(!memcmp(a->sense, b->sense, b->sense_len));
}

static void rsp(const void *iu, size_t len, size_t cap)
{
	static uint8_t buf[SRP_RSP_TMF_SIZE + SENSE_MAX];
	struct srp_rsp r, again;
	size_t fixed;
	int n;

	FUZZ_FILL(r);
	if (srp_rsp_decode(iu, len, &r)) {
		FUZZ_UNTOUCHED(r);
		return;
	}
	FUZZ_CLAIM(len >= SRP_RSP_SIZE);
	FUZZ_CLAIM(!r.sense == !r.sense_len);
	if (r.sense)
		FUZZ_CLAIM(fuzz_lies_in(r.sense, r.sense_len, iu, len));
	fixed = r.rsp_valid ? SRP_RSP_TMF_SIZE : SRP_RSP_SIZE;
	n = srp_rsp_encode(buf, cap % (sizeof(buf) + 1), &r);
	if (n < 0) {
		FUZZ_CLAIM(n == -ENOSPC && cap % (sizeof(buf) + 1) < fixed);
		return;
	}
	FUZZ_CLAIM(srp_rsp_decode(buf, (size_t)n, &again) == 0);
	FUZZ_CLAIM(again.sense_len <= r.sense_len);
	check_same_rsp(&r, &again);
}

static void tsk_mgmt(const void *iu, size_t len)
{
	struct srp_tsk_mgmt t, again;
	uint8_t buf[SRP_TSK_MGMT_SIZE];

	FUZZ_FILL(t);
	if (srp_tsk_mgmt_decode(iu, len, &t)) {
		FUZZ_UNTOUCHED(t);
		return;
	}
	FUZZ_CLAIM(*srp_tsk_mgmt_name(t.function));
	FUZZ_CLAIM(srp_tsk_mgmt_encode(buf, len % sizeof(buf), &t) == -ENOSPC);
	FUZZ_CLAIM(srp_tsk_mgmt_encode(buf, sizeof(buf), &t) == sizeof(buf));
	FUZZ_CLAIM(srp_tsk_mgmt_decode(buf, sizeof(buf), &again) == 0);
	FUZZ_CLAIM(again.tag == t.tag && again.lun == t.lun &&
		   again.function == t.function &&
		   again.task_tag == t.task_tag);
}

static void cred_req(const void *iu, size_t len)
{
	struct srp_cred_req c, again;
	uint8_t buf[SRP_BARE_SIZE];

	FUZZ_FILL(c);
	if (srp_cred_req_decode(iu, len, &c)) {
		FUZZ_UNTOUCHED(c);
		return;
	}
	FUZZ_CLAIM(srp_cred_req_encode(buf, sizeof(buf), &c) == sizeof(buf));
	FUZZ_CLAIM(srp_cred_req_decode(buf, sizeof(buf), &again) == 0);
	FUZZ_CLAIM(again.tag == c.tag &&
		   again.req_lim_delta == c.req_lim_delta);
}

static void aer_req(const void *iu, size_t len, size_t cap)
{
	static uint8_t buf[SRP_AER_REQ_SIZE + SENSE_MAX];
	struct srp_aer_req a, again;
	int n;

	FUZZ_FILL(a);
	if (srp_aer_req_decode(iu, len, &a)) {
		FUZZ_UNTOUCHED(a);
		return;
	}
	if (a.sense)
		FUZZ_CLAIM(fuzz_lies_in(a.sense, a.sense_len, iu, len));
	cap %= sizeof(buf) + 1;
	n = srp_aer_req_encode(buf, cap, &a);
	if (n < 0) {
		FUZZ_CLAIM(n == -ENOSPC && cap < SRP_AER_REQ_SIZE);
		return;
	}
	FUZZ_CLAIM(srp_aer_req_decode(buf, (size_t)n, &again) == 0);
	FUZZ_CLAIM(again.tag == a.tag && again.lun == a.lun);
	FUZZ_CLAIM(again.req_lim_delta == a.req_lim_delta);
	FUZZ_CLAIM(again.sense_len <= a.sense_len);
	if (again.sense_len)
		FUZZ_CLAIM(!memcmp(again.sense, a.sense, again.sense_len));
}

static void t_logout(const void *iu, size_t len)
{
	struct srp_t_logout t, again;
	uint8_t buf[SRP_BARE_SIZE];

	FUZZ_FILL(t);
	if (srp_t_logout_decode(iu, len, &t)) {
		FUZZ_UNTOUCHED(t);
		return;
	}
	FUZZ_CLAIM(*srp_logout_reason_name(t.reason));
	FUZZ_CLAIM(srp_t_logout_encode(buf, sizeof(buf), &t) == sizeof(buf));
	FUZZ_CLAIM(srp_t_logout_decode(buf, sizeof(buf), &again) == 0);
	FUZZ_CLAIM(again.tag == t.tag && again.reason == t.reason);
}

/* Bytes from a peer, decoded by either side. */
static void decode(struct fuzz_input *in)
{
	static const uint16_t offsets[] = { 0, 68, 48, 52, 100, 0xffff };
	uint8_t how = fuzz_u8(in);
	const struct srp_cmd_rules rules = {
		.formats = (uint16_t)(how & 6),
		.imm_offset = offsets[(how >> 4) % 6],
	};
	size_t cap = fuzz_u16(in);

	head(in->p, in->left);
	cmd(in->p, in->left, &rules);
	tsk_mgmt(in->p, in->left);
	rsp(in->p, in->left, cap);
	cred_req(in->p, in->left);
	aer_req(in->p, in->left, cap);
	t_logout(in->p, in->left);
}

/* ---- any SRP_CMD that can be encoded ---- */

static void any_data(struct fuzz_input *in, struct srp_desc *descs,
		     struct srp_data_args *a)
{
	a->format = fuzz_u8(in) % 6;
	a->desc_cnt = fuzz_u8(in) + (fuzz_u8(in) & 1);
	a->descs = descs;
	for (uint32_t i = 0; i < a->desc_cnt; i++)
		descs[i] = (struct srp_desc){ .addr = fuzz_u16(in),
					      .key = fuzz_u8(in),
					      .len = fuzz_u32(in) };
	a->table_addr = fuzz_u32(in);
	a->table_key = fuzz_u8(in);
	a->imm_len = fuzz_u16(in);
	a->imm_offset = fuzz_u8(in);
}

static void encode(struct fuzz_input *in)
{
	static const struct srp_cmd_rules none = { .formats = SRP_FORMATS };
	static uint8_t iu[IU_MAX * 2 + UINT16_MAX];
	static struct srp_desc descs[2][257];
	uint8_t cdb[300];
	struct srp_cmd_args args = {
		.tag = fuzz_u64(in),
		.lun = fuzz_u64(in),
		.task_attr = fuzz_u8(in) & 7,
		.cdb = cdb,
		.cdb_len = fuzz_u16(in) % (sizeof(cdb) + 1),
	};
	struct srp_cmd_rules rules = none;
	size_t cap = fuzz_bool(in) ? 2 * IU_MAX : fuzz_u16(in) % IU_MAX;
	struct srp_cmd_view v;
	int len;

	fuzz_take(in, cdb, sizeof(cdb));
	any_data(in, descs[0], &args.out);
	any_data(in, descs[1], &args.in);
	if (args.out.format == SRP_DATA_IMMEDIATE)
		rules.imm_offset = args.out.imm_offset;
	memset(iu, 0xa5, cap);
	len = srp_cmd_encode(iu, cap, &args);
	FUZZ_CLAIM(len > 0 || len == -EINVAL || len == -ENOSPC);
	if (len < 0) {
		FUZZ_CLAIM(fuzz_is_filled(iu, cap));
		return;
	}
	FUZZ_CLAIM((size_t)len <= cap);
	if (args.out.format == SRP_DATA_IMMEDIATE)
		len += (int)args.out.imm_len;
	if (srp_cmd_decode(iu, (size_t)len, &rules, &v))
		return; /* a descriptor that wraps around is not checked here */
	FUZZ_CLAIM(v.tag == args.tag && v.lun == args.lun);
	FUZZ_CLAIM(v.cdb_len >= args.cdb_len &&
		   !memcmp(v.cdb, cdb, args.cdb_len));
	FUZZ_CLAIM(v.out.format == args.out.format &&
		   v.in.format == args.in.format);
}

/* ---- credits ---- */

static void ledger_step(struct srp_ledger *l, uint8_t op)
{
	uint32_t owed = l->owed;
	bool room = l->busy + l->owed < l->granted;

	if (op % 4 == 0)
		FUZZ_CLAIM(srp_ledger_take(l) == room);
	else if (op % 4 == 1 && l->busy)
		srp_ledger_abandon(l);
	else if (op % 4 == 2 && l->busy)
		FUZZ_CLAIM(srp_ledger_answer(l) == (int32_t)owed + 1);
	else if (op % 4 == 3)
		FUZZ_CLAIM(srp_ledger_settle(l) == (int32_t)owed);
	FUZZ_CLAIM((uint64_t)l->busy + l->owed <= l->granted);
}

static void credits(struct fuzz_input *in)
{
	struct srp_ledger ledger;
	struct srp_credit credit;

	srp_ledger_init(&ledger, (int32_t)(fuzz_u32(in) & INT32_MAX) | 1);
	srp_credit_init(&credit, (int32_t)fuzz_u32(in));
	while (in->left) {
		int32_t delta = (int32_t)fuzz_u32(in);
		int64_t sum = (int64_t)credit.limit + delta;

		ledger_step(&ledger, fuzz_u8(in));
		srp_credit_add(&credit, delta);
		if (sum > INT32_MAX)
			sum = INT32_MAX;
		if (sum < INT32_MIN)
			sum = INT32_MIN;
		FUZZ_CLAIM(credit.limit == sum);
		FUZZ_CLAIM(!srp_credit_may_cmd(&credit) || credit.limit > 0);
		if (credit.limit > 0)
			srp_credit_spend(&credit);
	}
}

static void names(struct fuzz_input *in)
{
	uint32_t lun = fuzz_u32(in);
	uint64_t field;
	uint32_t again;

	/* Tables, which do not guide the fuzzer: checks all entries. */
	for (unsigned int v = 0; v < 256; v++)
		FUZZ_CLAIM(*srp_opcode_name((uint8_t)v) &&
			   *srp_tsk_mgmt_name((uint8_t)v) &&
			   *srp_logout_reason_name(v));
	if (!srp_lun_encode(lun, &field))
		FUZZ_CLAIM(!srp_lun_decode(field, &again) && again == lun);
	FUZZ_FILL(again);
	if (srp_lun_decode(fuzz_u64(in), &again))
		FUZZ_UNTOUCHED(again);
	else
		FUZZ_CLAIM(again <= 0x3fff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);

	switch (fuzz_u8(&in) & 7) {
	case 0:
		encode(&in);
		break;
	case 1:
		credits(&in);
		break;
	case 2:
		names(&in);
		break;
	default:
		decode(&in);
	}
	return 0;
}
