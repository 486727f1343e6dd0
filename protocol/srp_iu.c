/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/srp_iu.h"

#include <errno.h>
#include <string.h>

/* SPC-4 limits sense data to this length; the target never sends more. */
#define SENSE_LEN_MAX 252

/* Takes the first @size bytes of an IU. NULL: too few, or not @opcode. */
static const void *take_fixed(struct wire_cursor *c, size_t size,
			      uint8_t opcode)
{
	if (c->left < size || c->p[0] != opcode)
		return NULL;
	return wire_take(c, size);
}

static int bare_encode(void *iu, size_t cap, uint8_t opcode, uint32_t value,
		       uint64_t tag)
{
	struct srp_wire_bare wire = {
		.opcode = opcode,
		.value = be32(value),
		.tag = srp_tag_wire(tag),
	};

	if (cap < sizeof(wire))
		return -ENOSPC;
	memcpy(iu, &wire, sizeof(wire));
	return sizeof(wire);
}

int srp_bare_encode(void *iu, size_t cap, enum srp_opcode opcode, uint64_t tag)
{
	return bare_encode(iu, cap, (uint8_t)opcode, 0, tag);
}

static struct srp_desc desc_get(const struct srp_wire_desc *wire)
{
	return (struct srp_desc){
		.addr = be64_get(wire->va),
		.key = be32_get(wire->key),
		.len = be32_get(wire->len),
	};
}

static struct srp_wire_desc desc_wire(const struct srp_desc *d)
{
	return (struct srp_wire_desc){
		.va = be64(d->addr),
		.key = be32(d->key),
		.len = be32(d->len),
	};
}

void srp_desc_unpack(const void *raw, uint32_t cnt, struct srp_desc *ret)
{
	const struct srp_wire_desc *wire = raw;

	for (uint32_t i = 0; i < cnt; i++)
		ret[i] = desc_get(&wire[i]);
}

void srp_desc_pack(const struct srp_desc *descs, uint32_t cnt, void *raw)
{
	struct srp_wire_desc *wire = raw;

	for (uint32_t i = 0; i < cnt; i++)
		wire[i] = desc_wire(&descs[i]);
}

/*
 * True if addr + len can be computed. An end of exactly 2^64 would be 0, so no
 * descriptor may include the last byte of the address space.
 */
static bool desc_in_space(const struct srp_desc *d)
{
	return d->len <= UINT64_MAX - d->addr;
}

/* Adds the lengths. 2^32 of them cannot overflow 64 bits. */
static int desc_list_sum(const void *raw, uint32_t cnt, uint64_t *ret_sum)
{
	const struct srp_wire_desc *wire = raw;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		struct srp_desc d = desc_get(&wire[i]);

		if (!desc_in_space(&d))
			return -EBADMSG;
		sum += d.len;
	}
	*ret_sum = sum;
	return 0;
}

int srp_desc_table_check(const void *raw, uint32_t cnt, uint32_t total_len)
{
	uint64_t sum;
	int err = desc_list_sum(raw, cnt, &sum);

	if (err)
		return err;
	return sum == total_len ? 0 : -EBADMSG;
}

static int direct_decode(struct wire_cursor *c, struct srp_data *ret)
{
	const struct srp_wire_desc *wire = wire_take(c, sizeof(*wire));

	if (!wire)
		return -EBADMSG;
	ret->desc = desc_get(wire);
	if (!desc_in_space(&ret->desc))
		return -EBADMSG;
	ret->len = ret->desc.len;
	ret->descs = wire;
	ret->inline_cnt = 1;
	ret->desc_cnt = 1;
	return 0;
}

/*
 * The inline part of a partial list is not used. It must still be a possible
 * beginning of a list of @len bytes.
 */
static int inline_list_check(const struct srp_data *d)
{
	uint64_t sum;
	int err;

	if (!d->partial)
		return srp_desc_table_check(d->descs, d->desc_cnt, d->len);
	err = desc_list_sum(d->descs, d->inline_cnt, &sum);
	if (err)
		return err;
	return sum <= d->len ? 0 : -EBADMSG;
}

static int indirect_decode(struct wire_cursor *c, uint8_t inline_cnt,
			   struct srp_data *ret)
{
	const struct srp_wire_indirect *wire = wire_take(c, sizeof(*wire));

	if (!wire)
		return -EBADMSG;
	ret->desc = desc_get(&wire->table);
	ret->len = be32_get(wire->len);
	ret->desc_cnt = ret->desc.len / SRP_DESC_SIZE;
	ret->inline_cnt = inline_cnt;
	if (ret->desc.len % SRP_DESC_SIZE || !desc_in_space(&ret->desc) ||
	    ret->inline_cnt > ret->desc_cnt)
		return -EBADMSG;
	ret->partial = ret->inline_cnt < ret->desc_cnt;
	ret->descs = wire_take(c, (size_t)inline_cnt * SRP_DESC_SIZE);
	if (!ret->descs)
		return -EBADMSG;
	return inline_list_check(ret);
}

static int immediate_decode(struct wire_cursor *c, struct srp_data *ret)
{
	const struct wire_be32 *len = wire_take(c, sizeof(*len));

	if (!len)
		return -EBADMSG;
	ret->len = be32_get(*len);
	return 0;
}

static int data_decode_some(struct wire_cursor *c, uint8_t format,
			    uint8_t desc_cnt, uint16_t formats,
			    uint16_t imm_offset, struct srp_data *ret)
{
	switch (format) {
	case SRP_DATA_DIRECT:
		if (!(formats & SRP_FORMAT_DIRECT))
			return -ENOTSUP;
		ret->format = SRP_DATA_DIRECT;
		return direct_decode(c, ret);
	case SRP_DATA_INDIRECT:
		if (!(formats & SRP_FORMAT_INDIRECT))
			return -ENOTSUP;
		ret->format = SRP_DATA_INDIRECT;
		return indirect_decode(c, desc_cnt, ret);
	case SRP_DATA_IMMEDIATE:
		if (!imm_offset)
			return -ENOTSUP;
		ret->format = SRP_DATA_IMMEDIATE;
		return immediate_decode(c, ret);
	default:
		return -ENOTSUP;
	}
}

/* @imm_offset: 0 if the direction or the login excludes immediate data */
static inline int data_decode(struct wire_cursor *c, uint8_t format,
			      uint8_t desc_cnt, uint16_t formats,
			      uint16_t imm_offset, struct srp_data *ret)
{
	*ret = (struct srp_data){ .format = SRP_DATA_NONE };
	if (format == SRP_DATA_NONE)
		return 0;
	return data_decode_some(c, format, desc_cnt, formats, imm_offset, ret);
}

/*
 * The data is at the offset agreed at login, after all that describes the
 * command (SRP2). The gap between them is stale and ignored.
 */
static int immediate_locate(const uint8_t *iu, size_t iu_len, size_t described,
			    uint16_t imm_offset, struct srp_data *d)
{
	if (described > imm_offset || imm_offset > iu_len ||
	    d->len > iu_len - imm_offset)
		return -EBADMSG;
	d->imm = iu + imm_offset;
	return 0;
}

int srp_cmd_lun(const void *iu, size_t iu_len, uint64_t *ret_lun)
{
	struct wire_cursor c = wire_cursor(iu, iu_len);
	const struct srp_wire_cmd *wire =
		take_fixed(&c, sizeof(*wire), SRP_CMD);

	if (!wire)
		return -EBADMSG;
	*ret_lun = be64_get(wire->lun);
	return 0;
}

int srp_cmd_decode(const void *iu, size_t iu_len,
		   const struct srp_cmd_rules *rules, struct srp_cmd_view *ret)
{
	struct wire_cursor c = wire_cursor(iu, iu_len);
	const struct srp_wire_cmd *wire;
	size_t add_cdb_len;
	int err;

	wire = take_fixed(&c, sizeof(*wire), SRP_CMD);
	if (!wire)
		return -EBADMSG;
	add_cdb_len = wire->add_cdb_len & ~3U;
	if (!wire_take(&c, add_cdb_len))
		return -EBADMSG;
	ret->tag = srp_tag_get(wire->tag);
	ret->lun = be64_get(wire->lun);
	ret->task_attr = wire->task_attr & 7;
	ret->cdb = wire->cdb;
	ret->cdb_len = (uint16_t)(SRP_CDB_LEN + add_cdb_len);
	err = data_decode(&c, wire->formats >> 4, wire->out_desc_cnt,
			  rules->formats, rules->imm_offset, &ret->out);
	if (err)
		return err;
	err = data_decode(&c, wire->formats & 15, wire->in_desc_cnt,
			  rules->formats, /* imm_offset= */ 0, &ret->in);
	if (err)
		return err;
	if (ret->out.format == SRP_DATA_IMMEDIATE)
		return immediate_locate(iu, iu_len, iu_len - c.left,
					rules->imm_offset, &ret->out);
	return 0;
}

static int desc_sum(const struct srp_data_args *a, uint32_t *ret)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < a->desc_cnt; i++)
		sum += a->descs[i].len;
	if (sum > UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)sum;
	return 0;
}

static __attribute__((noinline)) int
indirect_args_size(const struct srp_data_args *a)
{
	uint32_t len;

	if (a->desc_cnt < 1 || a->desc_cnt > SRP_INLINE_MAX ||
	    desc_sum(a, &len))
		return -EINVAL;
	return SRP_INDIRECT_HDR + SRP_DESC_SIZE * (int)a->desc_cnt;
}

/* The bytes that describe the data of one direction, or -EINVAL. */
static inline int data_args_size(const struct srp_data_args *a)
{
	if (a->format == SRP_DATA_NONE)
		return 0;
	if (a->format == SRP_DATA_DIRECT)
		return a->desc_cnt == 1 ? SRP_DESC_SIZE : -EINVAL;
	if (a->format == SRP_DATA_IMMEDIATE)
		return sizeof(struct wire_be32);
	if (a->format == SRP_DATA_INDIRECT)
		return indirect_args_size(a);
	return -EINVAL;
}

static __attribute__((noinline)) uint8_t *
indirect_write(uint8_t *p, const struct srp_data_args *a)
{
	const struct srp_desc table = {
		.addr = a->table_addr,
		.key = a->table_key,
		.len = SRP_DESC_SIZE * a->desc_cnt,
	};
	struct srp_wire_indirect wire = { .table = desc_wire(&table) };
	uint32_t len = 0;

	desc_sum(a, &len);
	wire.len = be32(len);
	memcpy(p, &wire, sizeof(wire));
	srp_desc_pack(a->descs, a->desc_cnt, p + sizeof(wire));
	return p + sizeof(wire) + table.len;
}

/* Writes data_args_size() bytes and returns the end. */
static inline uint8_t *data_write(uint8_t *p, const struct srp_data_args *a)
{
	if (a->format == SRP_DATA_NONE)
		return p;
	if (a->format == SRP_DATA_DIRECT) {
		srp_desc_pack(a->descs, 1, p);
		return p + SRP_DESC_SIZE;
	}
	if (a->format == SRP_DATA_INDIRECT)
		return indirect_write(p, a);
	wire_put32(p, a->imm_len);
	return p + sizeof(struct wire_be32);
}

/* The length of the IU (before immediate data), or -EINVAL. */
static int cmd_size(const struct srp_cmd_args *a, int add_cdb_len)
{
	int out = data_args_size(&a->out);
	int in = data_args_size(&a->in);
	int size;

	if (out < 0 || in < 0 || a->in.format == SRP_DATA_IMMEDIATE)
		return -EINVAL;
	size = SRP_CMD_SIZE + add_cdb_len + out + in;
	if (a->out.format != SRP_DATA_IMMEDIATE)
		return size;
	return size <= a->out.imm_offset ? a->out.imm_offset : -EINVAL;
}

static uint8_t inline_cnt(const struct srp_data_args *a)
{
	return a->format == SRP_DATA_INDIRECT ? (uint8_t)a->desc_cnt : 0;
}

/* Writes the CDB, zero padded to @padded_len bytes. */
static inline void cdb_write(uint8_t *p, const struct srp_cmd_args *args,
			     size_t padded_len)
{
	if (args->cdb_len == SRP_CDB_LEN) {
		memcpy(p, args->cdb, SRP_CDB_LEN);
		return;
	}
	memset(p, 0, padded_len);
	memcpy(p, args->cdb, args->cdb_len);
}

int srp_cmd_encode(void *iu, size_t cap, const struct srp_cmd_args *args)
{
	struct srp_wire_cmd *wire = iu;
	uint8_t add_cdb_len = 0;
	uint8_t *end;
	int size;

	if (args->cdb_len < 1 || args->cdb_len > SRP_CDB_LEN_MAX)
		return -EINVAL;
	if (args->cdb_len > SRP_CDB_LEN)
		add_cdb_len = (uint8_t)((args->cdb_len - SRP_CDB_LEN + 3) & ~3);
	size = cmd_size(args, add_cdb_len);
	if (size < 0)
		return size;
	if (cap < (size_t)size)
		return -ENOSPC;
	*wire = (struct srp_wire_cmd){
		.opcode = SRP_CMD,
		.formats = (uint8_t)(args->out.format << 4 | args->in.format),
		.out_desc_cnt = inline_cnt(&args->out),
		.in_desc_cnt = inline_cnt(&args->in),
		.tag = srp_tag_wire(args->tag),
		.lun = be64(args->lun),
		.task_attr = (uint8_t)args->task_attr,
		.add_cdb_len = add_cdb_len,
	};
	cdb_write(wire->cdb, args, SRP_CDB_LEN + (size_t)add_cdb_len);
	end = (uint8_t *)(wire + 1) + add_cdb_len;
	end = data_write(end, &args->out);
	end = data_write(end, &args->in);
	if (args->out.format == SRP_DATA_IMMEDIATE)
		memset(end, 0, (size_t)((uint8_t *)iu + size - end));
	return size;
}

int srp_lun_encode(uint32_t lun, uint64_t *ret_field)
{
	if (lun > SRP_LUN_FLAT_MAX)
		return -EINVAL;
	if (lun > 0xff)
		lun |= SRP_LUN_FLAT << 14;
	*ret_field = (uint64_t)lun << 48;
	return 0;
}

/* Finds response data and sense data, which few responses have. Sense data
 * follows the response data, with RSPVALID or without. */
static __attribute__((noinline)) void
rsp_take_data(struct wire_cursor c, const struct srp_wire_rsp *wire,
	      uint32_t data_len, uint32_t sense_len, struct srp_rsp *ret)
{
	const uint8_t *data = wire_take(&c, data_len);
	const void *sense = data ? wire_take(&c, sense_len) : NULL;

	ret->data_dropped = !sense;
	if (data && data_len >= 4 && wire->flags & SRP_RSP_RSPVALID) {
		ret->rsp_valid = true;
		ret->rsp_code = data[3];
	}
	if (sense && sense_len) {
		ret->sense = sense;
		ret->sense_len = sense_len;
	}
}

int srp_rsp_decode(const void *iu, size_t iu_len, struct srp_rsp *ret)
{
	struct wire_cursor c = wire_cursor(iu, iu_len);
	const struct srp_wire_rsp *wire;
	uint32_t data_len, sense_len;

	wire = take_fixed(&c, sizeof(*wire), SRP_RSP);
	if (!wire)
		return -EBADMSG;
	*ret = (struct srp_rsp){
		.tag = srp_tag_get(wire->tag),
		.req_lim_delta = (int32_t)be32_get(wire->req_lim_delta),
		.status = wire->status,
		.resid_flags = wire->flags & SRP_RSP_RESIDUALS,
		.out_resid = be32_get(wire->out_resid),
		.in_resid = be32_get(wire->in_resid),
	};
	data_len = be32_get(wire->rsp_data_len);
	sense_len =
		wire->flags & SRP_RSP_SNSVALID ? be32_get(wire->sense_len) : 0;
	if (data_len || sense_len)
		rsp_take_data(c, wire, data_len, sense_len, ret);
	return 0;
}

/* The bytes of sense data to send if @room bytes are left for them. */
static uint32_t sense_fit(const void *sense, uint32_t len, size_t room)
{
	if (!sense)
		return 0;
	if (len > SENSE_LEN_MAX)
		len = SENSE_LEN_MAX;
	return len < room ? len : (uint32_t)room;
}

/* Adds response data and sense data, which few responses have, and returns the
 * length of all. */
static __attribute__((noinline)) int
rsp_add_data(struct srp_wire_rsp *wire, size_t cap, const struct srp_rsp *rsp)
{
	const uint8_t data[4] = { 0, 0, 0, rsp->rsp_code };
	const uint32_t data_len = rsp->rsp_valid ? sizeof(data) : 0;
	const uint32_t fixed = sizeof(*wire) + data_len;
	uint8_t *p = (uint8_t *)wire;
	uint32_t sense_len;

	if (cap < fixed)
		return -ENOSPC;
	sense_len = sense_fit(rsp->sense, rsp->sense_len, cap - fixed);
	if (data_len) {
		wire->flags |= SRP_RSP_RSPVALID;
		wire->rsp_data_len = be32(data_len);
		memcpy(p + sizeof(*wire), data, data_len);
	}
	if (sense_len) {
		wire->flags |= SRP_RSP_SNSVALID;
		wire->sense_len = be32(sense_len);
		memcpy(p + fixed, rsp->sense, sense_len);
	}
	return (int)(fixed + sense_len);
}

int srp_rsp_encode(void *iu, size_t cap, const struct srp_rsp *rsp)
{
	struct srp_wire_rsp *wire = iu;

	if (cap < sizeof(*wire))
		return -ENOSPC;
	*wire = (struct srp_wire_rsp){
		.opcode = SRP_RSP,
		.req_lim_delta = be32((uint32_t)rsp->req_lim_delta),
		.tag = srp_tag_wire(rsp->tag),
		.flags = rsp->resid_flags & SRP_RSP_RESIDUALS,
		.status = rsp->status,
		.out_resid = be32(rsp->out_resid),
		.in_resid = be32(rsp->in_resid),
	};
	if (!rsp->rsp_valid && !rsp->sense)
		return sizeof(*wire);
	return rsp_add_data(wire, cap, rsp);
}

int srp_tsk_mgmt_decode(const void *iu, size_t iu_len, struct srp_tsk_mgmt *ret)
{
	struct wire_cursor c = wire_cursor(iu, iu_len);
	const struct srp_wire_tsk_mgmt *wire;

	wire = take_fixed(&c, sizeof(*wire), SRP_TSK_MGMT);
	if (!wire)
		return -EBADMSG;
	*ret = (struct srp_tsk_mgmt){
		.tag = srp_tag_get(wire->tag),
		.lun = be64_get(wire->lun),
		.function = wire->function,
		.task_tag = srp_tag_get(wire->task_tag),
	};
	return 0;
}

int srp_tsk_mgmt_encode(void *iu, size_t cap, const struct srp_tsk_mgmt *t)
{
	struct srp_wire_tsk_mgmt wire = {
		.opcode = SRP_TSK_MGMT,
		.tag = srp_tag_wire(t->tag),
		.lun = be64(t->lun),
		.function = t->function,
		.task_tag = srp_tag_wire(t->task_tag),
	};

	if (cap < sizeof(wire))
		return -ENOSPC;
	memcpy(iu, &wire, sizeof(wire));
	return sizeof(wire);
}

int srp_cred_req_decode(const void *iu, size_t iu_len, struct srp_cred_req *ret)
{
	struct wire_cursor c = wire_cursor(iu, iu_len);
	const struct srp_wire_bare *wire;

	wire = take_fixed(&c, sizeof(*wire), SRP_CRED_REQ);
	if (!wire)
		return -EBADMSG;
	*ret = (struct srp_cred_req){
		.tag = srp_tag_get(wire->tag),
		.req_lim_delta = (int32_t)be32_get(wire->value),
	};
	return 0;
}

int srp_cred_req_encode(void *iu, size_t cap, const struct srp_cred_req *c)
{
	return bare_encode(iu, cap, SRP_CRED_REQ, (uint32_t)c->req_lim_delta,
			   c->tag);
}

int srp_aer_req_decode(const void *iu, size_t iu_len, struct srp_aer_req *ret)
{
	struct wire_cursor c = wire_cursor(iu, iu_len);
	const struct srp_wire_aer_req *wire;
	const void *sense;
	uint32_t sense_len;

	wire = take_fixed(&c, sizeof(*wire), SRP_AER_REQ);
	if (!wire)
		return -EBADMSG;
	sense_len = be32_get(wire->sense_len);
	sense = wire_take(&c, sense_len);
	if (!sense)
		return -EBADMSG;
	*ret = (struct srp_aer_req){
		.tag = srp_tag_get(wire->tag),
		.req_lim_delta = (int32_t)be32_get(wire->req_lim_delta),
		.lun = be64_get(wire->lun),
		.sense = sense_len ? sense : NULL,
		.sense_len = sense_len,
	};
	return 0;
}

int srp_aer_req_encode(void *iu, size_t cap, const struct srp_aer_req *a)
{
	struct srp_wire_aer_req wire = {
		.opcode = SRP_AER_REQ,
		.req_lim_delta = be32((uint32_t)a->req_lim_delta),
		.tag = srp_tag_wire(a->tag),
		.lun = be64(a->lun),
	};
	uint8_t *p = iu;
	uint32_t sense_len;

	if (cap < sizeof(wire))
		return -ENOSPC;
	sense_len = sense_fit(a->sense, a->sense_len, cap - sizeof(wire));
	wire.sense_len = be32(sense_len);
	memcpy(p, &wire, sizeof(wire));
	if (sense_len)
		memcpy(p + sizeof(wire), a->sense, sense_len);
	return (int)(sizeof(wire) + sense_len);
}

int srp_t_logout_decode(const void *iu, size_t iu_len, struct srp_t_logout *ret)
{
	struct wire_cursor c = wire_cursor(iu, iu_len);
	const struct srp_wire_bare *wire;

	wire = take_fixed(&c, sizeof(*wire), SRP_T_LOGOUT);
	if (!wire)
		return -EBADMSG;
	*ret = (struct srp_t_logout){
		.tag = srp_tag_get(wire->tag),
		.reason = be32_get(wire->value),
	};
	return 0;
}

int srp_t_logout_encode(void *iu, size_t cap, const struct srp_t_logout *t)
{
	return bare_encode(iu, cap, SRP_T_LOGOUT, t->reason, t->tag);
}

const char *srp_opcode_name(uint8_t opcode)
{
	switch (opcode) {
	case SRP_LOGIN_REQ:
		return "SRP_LOGIN_REQ";
	case SRP_TSK_MGMT:
		return "SRP_TSK_MGMT";
	case SRP_CMD:
		return "SRP_CMD";
	case SRP_I_LOGOUT:
		return "SRP_I_LOGOUT";
	case SRP_CRED_RSP:
		return "SRP_CRED_RSP";
	case SRP_AER_RSP:
		return "SRP_AER_RSP";
	case SRP_T_LOGOUT:
		return "SRP_T_LOGOUT";
	case SRP_CRED_REQ:
		return "SRP_CRED_REQ";
	case SRP_AER_REQ:
		return "SRP_AER_REQ";
	case SRP_LOGIN_RSP:
		return "SRP_LOGIN_RSP";
	case SRP_RSP:
		return "SRP_RSP";
	case SRP_LOGIN_REJ:
		return "SRP_LOGIN_REJ";
	default:
		return "unknown IU";
	}
}

const char *srp_tsk_mgmt_name(uint8_t function)
{
	switch (function) {
	case SRP_TSK_ABORT_TASK:
		return "ABORT TASK";
	case SRP_TSK_ABORT_TASK_SET:
		return "ABORT TASK SET";
	case SRP_TSK_CLEAR_TASK_SET:
		return "CLEAR TASK SET";
	case SRP_TSK_LUN_RESET:
		return "LOGICAL UNIT RESET";
	case SRP_TSK_CLEAR_ACA:
		return "CLEAR ACA";
	default:
		return "unknown task management function";
	}
}

const char *srp_logout_reason_name(uint32_t reason)
{
	switch (reason) {
	case SRP_LOGOUT_NONE:
		return "it gave no reason";
	case SRP_LOGOUT_INACTIVE:
		return "inactive channel";
	case SRP_LOGOUT_INVALID_IU:
		return "invalid IU type received";
	case SRP_LOGOUT_SPURIOUS_RSP:
		return "spurious response from the initiator";
	case SRP_LOGOUT_MULTICHAN:
		return "replaced by a new login";
	case SRP_LOGOUT_OUT_FORMAT:
		return "unsupported data-out format";
	case SRP_LOGOUT_IN_FORMAT:
		return "unsupported data-in format";
	case SRP_LOGOUT_INVALID_LEN:
		return "invalid IU length";
	default:
		return "unknown logout reason";
	}
}
