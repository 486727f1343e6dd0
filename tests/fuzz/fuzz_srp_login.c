/* SPDX-License-Identifier: BSD-2-Clause */
/* Private data of a login, its rules, and port identifiers as text. */
#include <errno.h>

#include "protocol/srp_login.h"
#include "tests/fuzz/fuzz.h"

static void check_answer(const struct srp_login_req *req,
			 const struct srp_login_policy *policy)
{
	struct srp_login_answer a;

	srp_login_check(req, policy, &a);
	FUZZ_CLAIM(a.rsp.tag == req->tag && a.rej.tag == req->tag);
	FUZZ_CLAIM(a.rej.reason == a.reason);
	if (a.reason) {
		FUZZ_CLAIM(strcmp(srp_rej_reason_name(a.reason),
				  srp_rej_reason_name(0)));
		FUZZ_CLAIM(*srp_rej_reason_hint(a.reason));
		return;
	}
	FUZZ_CLAIM(req->it_iu_len >= SRP_IU_LEN_MIN);
	FUZZ_CLAIM(req->it_iu_len <= policy->max_it_iu_len);
	FUZZ_CLAIM(req->multichan <= SRP_MULTICHAN_MULTI);
	FUZZ_CLAIM(a.rsp.imm_data == (a.rules.imm_offset != 0));
	FUZZ_CLAIM(!a.rsp.imm_data || (req->imm_data && policy->imm_data));
	FUZZ_CLAIM(!a.rules.imm_offset || a.rules.imm_offset >= SRP_CMD_SIZE);
	/* Our initiator accepts every answer of our target. */
	FUZZ_CLAIM(!srp_login_rsp_problem(&a.rsp, req));
}

static void request(struct fuzz_input *in)
{
	uint8_t how = fuzz_u8(in);
	struct srp_login_policy policy = {
		.max_it_iu_len = 8276,
		.ti_iu_len = 512,
		.req_lim = 64,
		.formats = SRP_FORMATS,
		.imm_data = how & 1,
		.multichan = how & 2,
		.accept_unnamed_target = how & 4,
	};
	struct srp_login_req req, again;
	uint8_t buf[SRP_LOGIN_REQ_SIZE];

	FUZZ_FILL(req);
	if (srp_login_req_decode(in->p, in->left, &req)) {
		FUZZ_UNTOUCHED(req);
		return;
	}
	FUZZ_CLAIM(srp_login_req_encode(buf, how % sizeof(buf), &req) ==
		   -ENOSPC);
	FUZZ_CLAIM(srp_login_req_encode(buf, sizeof(buf), &req) == sizeof(buf));
	FUZZ_CLAIM(srp_login_req_decode(buf, sizeof(buf), &again) == 0);
	FUZZ_CLAIM(again.tag == req.tag && again.formats == req.formats &&
		   again.it_iu_len == req.it_iu_len &&
		   again.multichan == req.multichan &&
		   again.imm_data == req.imm_data &&
		   again.imm_offset == req.imm_offset && again.aer == req.aer);
	FUZZ_CLAIM(srp_port_id_equal(&again.initiator, &req.initiator) &&
		   srp_port_id_equal(&again.target, &req.target));
	check_answer(&req, &policy);
	policy.target = req.target;
	check_answer(&req, &policy);
}

static void response(struct fuzz_input *in)
{
	struct srp_login_req req = {
		.formats = fuzz_u8(in) & SRP_FORMATS,
		.imm_data = fuzz_bool(in),
	};
	struct srp_login_rsp rsp, again;
	uint8_t buf[SRP_LOGIN_RSP_SIZE];
	const char *fault;

	FUZZ_FILL(rsp);
	if (srp_login_rsp_decode(in->p, in->left, &rsp)) {
		FUZZ_UNTOUCHED(rsp);
		return;
	}
	FUZZ_CLAIM(srp_login_rsp_encode(buf, sizeof(buf) - 1, &rsp) == -ENOSPC);
	FUZZ_CLAIM(srp_login_rsp_encode(buf, sizeof(buf), &rsp) == sizeof(buf));
	FUZZ_CLAIM(srp_login_rsp_decode(buf, sizeof(buf), &again) == 0);
	FUZZ_CLAIM(again.tag == rsp.tag && again.req_lim == rsp.req_lim &&
		   again.it_iu_len == rsp.it_iu_len &&
		   again.ti_iu_len == rsp.ti_iu_len &&
		   again.formats == rsp.formats &&
		   again.multichan == rsp.multichan &&
		   again.imm_data == rsp.imm_data);
	fault = srp_login_rsp_problem(&rsp, &req);
	if (!fault)
		FUZZ_CLAIM(rsp.req_lim >= 2 && rsp.it_iu_len >= SRP_IU_LEN_MIN);
}

static void reject(struct fuzz_input *in)
{
	struct srp_login_rej rej, again;
	uint8_t buf[SRP_LOGIN_REJ_SIZE];

	FUZZ_FILL(rej);
	if (srp_login_rej_decode(in->p, in->left, &rej)) {
		FUZZ_UNTOUCHED(rej);
		return;
	}
	FUZZ_CLAIM(*srp_rej_reason_name(rej.reason));
	FUZZ_CLAIM(srp_rej_reason_hint(rej.reason));
	FUZZ_CLAIM(srp_login_rej_encode(buf, sizeof(buf) - 1, &rej) == -ENOSPC);
	FUZZ_CLAIM(srp_login_rej_encode(buf, sizeof(buf), &rej) == sizeof(buf));
	FUZZ_CLAIM(srp_login_rej_decode(buf, sizeof(buf), &again) == 0);
	FUZZ_CLAIM(again.tag == rej.tag && again.reason == rej.reason &&
		   again.formats == rej.formats);
}

static void port_id(struct fuzz_input *in)
{
	char *text = fuzz_text(in);
	char buf[SRP_PORT_ID_TEXT_SIZE];
	struct srp_port_id id, again;

	FUZZ_FILL(id);
	if (srp_port_id_parse(text, &id)) {
		FUZZ_UNTOUCHED(id);
	} else {
		FUZZ_CLAIM(!srp_port_id_parse(srp_port_id_format(&id, buf),
					      &again));
		FUZZ_CLAIM(srp_port_id_equal(&id, &again));
		again = srp_port_id_make(srp_port_id_ext(&id),
					 srp_port_id_guid(&id));
		FUZZ_CLAIM(srp_port_id_equal(&id, &again));
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);

	switch (fuzz_u8(&in) & 3) {
	case 0:
		request(&in);
		break;
	case 1:
		response(&in);
		break;
	case 2:
		reject(&in);
		break;
	default:
		port_id(&in);
	}
	return 0;
}
