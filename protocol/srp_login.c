/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/srp_login.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "protocol/hex.h"

int srp_login_req_decode(const void *data, size_t len,
			 struct srp_login_req *ret)
{
	const struct srp_wire_login_req *wire = data;

	if (len < sizeof(*wire) || wire->opcode != SRP_LOGIN_REQ)
		return -EBADMSG;
	*ret = (struct srp_login_req){
		.tag = srp_tag_get(wire->tag),
		.it_iu_len = be32_get(wire->it_iu_len),
		.formats = be16_get(wire->formats),
		.multichan = wire->flags & SRP_LOGIN_MULTICHAN,
		.imm_data = wire->flags & SRP_LOGIN_IMM_DATA,
		.aer = wire->flags & SRP_LOGIN_AESOLNT,
		.imm_offset = be16_get(wire->imm_offset),
		.initiator = wire->initiator,
		.target = wire->target,
	};
	return 0;
}

int srp_login_req_encode(void *data, size_t cap,
			 const struct srp_login_req *req)
{
	struct srp_wire_login_req wire = {
		.tag = srp_tag_wire(req->tag),
		.formats = be16(req->formats),
		.flags = req->multichan & SRP_LOGIN_MULTICHAN,
		.opcode = SRP_LOGIN_REQ,
		.it_iu_len = be32(req->it_iu_len),
		.initiator = req->initiator,
		.target = req->target,
		.imm_offset = be16(req->imm_offset),
	};

	if (cap < sizeof(wire))
		return -ENOSPC;
	if (req->imm_data)
		wire.flags |= SRP_LOGIN_IMM_DATA;
	if (req->aer)
		wire.flags |= SRP_LOGIN_AESOLNT;
	memcpy(data, &wire, sizeof(wire));
	return sizeof(wire);
}

int srp_login_rsp_decode(const void *data, size_t len,
			 struct srp_login_rsp *ret)
{
	const struct srp_wire_login_rsp *wire = data;

	if (len < sizeof(*wire) || wire->opcode != SRP_LOGIN_RSP)
		return -EBADMSG;
	*ret = (struct srp_login_rsp){
		.tag = srp_tag_get(wire->tag),
		.req_lim = (int32_t)be32_get(wire->req_lim),
		.it_iu_len = be32_get(wire->it_iu_len),
		.ti_iu_len = be32_get(wire->ti_iu_len),
		.formats = be16_get(wire->formats),
		.multichan = wire->flags & SRP_LOGIN_MULTICHAN,
		.imm_data = wire->flags & SRP_LOGIN_IMM_DATA,
	};
	return 0;
}

int srp_login_rsp_encode(void *data, size_t cap,
			 const struct srp_login_rsp *rsp)
{
	struct srp_wire_login_rsp wire = {
		.opcode = SRP_LOGIN_RSP,
		.req_lim = be32((uint32_t)rsp->req_lim),
		.tag = srp_tag_wire(rsp->tag),
		.it_iu_len = be32(rsp->it_iu_len),
		.ti_iu_len = be32(rsp->ti_iu_len),
		.formats = be16(rsp->formats),
		.flags = rsp->multichan & SRP_LOGIN_MULTICHAN,
	};

	if (cap < sizeof(wire))
		return -ENOSPC;
	if (rsp->imm_data)
		wire.flags |= SRP_LOGIN_IMM_DATA;
	memcpy(data, &wire, sizeof(wire));
	return sizeof(wire);
}

int srp_login_rej_decode(const void *data, size_t len,
			 struct srp_login_rej *ret)
{
	const struct srp_wire_login_rej *wire = data;

	if (len < sizeof(*wire) || wire->opcode != SRP_LOGIN_REJ)
		return -EBADMSG;
	*ret = (struct srp_login_rej){
		.tag = srp_tag_get(wire->tag),
		.reason = be32_get(wire->reason),
		.formats = be16_get(wire->formats),
	};
	return 0;
}

int srp_login_rej_encode(void *data, size_t cap,
			 const struct srp_login_rej *rej)
{
	struct srp_wire_login_rej wire = {
		.opcode = SRP_LOGIN_REJ,
		.reason = be32(rej->reason),
		.tag = srp_tag_wire(rej->tag),
		.formats = be16(rej->formats),
	};

	if (cap < sizeof(wire))
		return -ENOSPC;
	memcpy(data, &wire, sizeof(wire));
	return sizeof(wire);
}

static bool target_matches(const struct srp_login_req *req,
			   const struct srp_login_policy *policy)
{
	if (srp_port_id_equal(&req->target, &policy->target))
		return true;
	return policy->accept_unnamed_target &&
	       srp_port_id_is_zero(&req->target);
}

static bool multichan_ok(const struct srp_login_req *req,
			 const struct srp_login_policy *policy)
{
	return req->multichan == SRP_MULTICHAN_SINGLE ||
	       (req->multichan == SRP_MULTICHAN_MULTI && policy->multichan);
}

/* Returns 0, or the reason to reject; checked in the same order as in
 * ib_srpt. */
static uint32_t refuse_reason(const struct srp_login_req *req,
			      const struct srp_login_policy *policy)
{
	if (req->it_iu_len < SRP_IU_LEN_MIN ||
	    req->it_iu_len > policy->max_it_iu_len)
		return SRP_REJ_IT_IU_LEN;
	if (!target_matches(req, policy))
		return SRP_REJ_NO_TARGET;
	if (!req->formats || req->formats & ~policy->formats)
		return SRP_REJ_FORMATS;
	if (!multichan_ok(req, policy))
		return SRP_REJ_MULTICHAN;
	return 0;
}

void srp_login_check(const struct srp_login_req *req,
		     const struct srp_login_policy *policy,
		     struct srp_login_answer *ret)
{
	bool imm_data = policy->imm_data && req->imm_data &&
			req->imm_offset >= SRP_CMD_SIZE;

	*ret = (struct srp_login_answer){
		.reason = refuse_reason(req, policy),
	};
	ret->rej = (struct srp_login_rej){
		.tag = req->tag,
		.reason = ret->reason,
		.formats = policy->formats,
	};
	ret->rsp = (struct srp_login_rsp){
		.tag = req->tag,
		.req_lim = policy->req_lim,
		.it_iu_len = policy->max_it_iu_len,
		.ti_iu_len = policy->ti_iu_len,
		.formats = policy->formats,
		.multichan = req->multichan == SRP_MULTICHAN_MULTI
				     ? SRP_MULTICHAN_MAINTAINED
				     : SRP_MULTICHAN_NO_CHAN,
		.imm_data = imm_data,
	};
	ret->rules = (struct srp_cmd_rules){
		.formats = policy->formats,
		.imm_offset = imm_data ? req->imm_offset : 0,
	};
}

const char *srp_login_rsp_problem(const struct srp_login_rsp *rsp,
				  const struct srp_login_req *req)
{
	/* The last credit is reserved for task management. */
	if (rsp->req_lim < 2)
		return "the target's request limit leaves no room for a command";
	if (rsp->it_iu_len < SRP_IU_LEN_MIN)
		return "the target receives no IU as long as 64 bytes";
	if (rsp->ti_iu_len < SRP_RSP_TMF_SIZE)
		return "the target sends no IU long enough for a response";
	if (!(rsp->formats & req->formats))
		return "the target supports none of our data formats";
	if (rsp->imm_data && !req->imm_data)
		return "the target grants immediate data that was not requested";
	/* What it does would not be part of our nexus. */
	if (req->multichan == SRP_MULTICHAN_MULTI &&
	    rsp->multichan != SRP_MULTICHAN_MAINTAINED)
		return "another target may have answered: it knows no other "
		       "channel of ours";
	return NULL;
}

static const struct {
	uint32_t reason;
	const char *name;
	const char *hint;
} rej_reasons[] = {
	{ SRP_REJ_UNSPECIFIED, "unable to establish a channel",
	  "the log of the target may say why" },
	{ SRP_REJ_NO_RESOURCES, "insufficient resources",
	  "the target port is disabled, accepts no more logins, or is out of "
	  "memory or queue pairs" },
	{ SRP_REJ_IT_IU_LEN, "requested IU length not possible",
	  "lower the IU length of the initiator (ib_srp: max_it_iu_size= or "
	  "use_imm_data=N) or raise that of the target (ib_srpt: "
	  "srp_max_req_size=)" },
	{ SRP_REJ_NO_TARGET, "no such target port",
	  "check id_ext and ioc_guid; ib_srpt requires its service GUID as both" },
	{ SRP_REJ_FORMATS, "unsupported data format",
	  "the target lacks direct or indirect data buffers" },
	{ SRP_REJ_MULTICHAN, "multiple channels not supported",
	  "use one channel (ib_srp: ch_count=1)" },
	{ SRP_REJ_CHANNEL_LIMIT, "no more channels, or no access",
	  "the target's access rules (rdma-target: --allow, ib_srpt: its ACL) "
	  "allow this initiator no volume, or it has too many channels; the "
	  "log of the target may say which" },
};

#define REJ_REASON_CNT (sizeof(rej_reasons) / sizeof(rej_reasons[0]))

const char *srp_rej_reason_name(uint32_t reason)
{
	for (size_t i = 0; i < REJ_REASON_CNT; i++)
		if (rej_reasons[i].reason == reason)
			return rej_reasons[i].name;
	return "unknown reject reason";
}

const char *srp_rej_reason_hint(uint32_t reason)
{
	for (size_t i = 0; i < REJ_REASON_CNT; i++)
		if (rej_reasons[i].reason == reason)
			return rej_reasons[i].hint;
	return "";
}

struct srp_port_id srp_port_id_make(uint64_t ext, uint64_t guid)
{
	struct srp_port_id id;

	wire_put64(id.b, ext);
	wire_put64(id.b + 8, guid);
	return id;
}

uint64_t srp_port_id_ext(const struct srp_port_id *id)
{
	return wire_get64(id->b);
}

uint64_t srp_port_id_guid(const struct srp_port_id *id)
{
	return wire_get64(id->b + 8);
}

bool srp_port_id_equal(const struct srp_port_id *a, const struct srp_port_id *b)
{
	uint64_t x[2], y[2];

	static_assert(sizeof(x) == sizeof(a->b), "16 bytes");
	memcpy(x, a->b, sizeof(x));
	memcpy(y, b->b, sizeof(y));
	return x[0] == y[0] && x[1] == y[1];
}

bool srp_port_id_is_zero(const struct srp_port_id *id)
{
	static const struct srp_port_id zero;

	return srp_port_id_equal(id, &zero);
}

int srp_port_id_parse(const char *text, struct srp_port_id *ret)
{
	struct srp_port_id id = { { 0 } };

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		text += 2;
	for (size_t i = 0; i < 2 * sizeof(id.b); i++) {
		int digit = hex_digit(text[i]); /* stops at the NUL */

		if (digit < 0)
			return -EINVAL;
		id.b[i / 2] = (uint8_t)(id.b[i / 2] << 4 | digit);
	}
	if (text[2 * sizeof(id.b)])
		return -EINVAL;
	*ret = id;
	return 0;
}

char *srp_port_id_format(const struct srp_port_id *id, char *buf)
{
	static const char digits[] = "0123456789abcdef";
	char *p = buf;

	*p++ = '0';
	*p++ = 'x';
	for (size_t i = 0; i < sizeof(id->b); i++) {
		*p++ = digits[id->b[i] >> 4];
		*p++ = digits[id->b[i] & 15];
	}
	*p = '\0';
	return buf;
}
