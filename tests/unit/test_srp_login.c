/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The golden bytes were captured from Linux 6.1's ib_srp and ib_srpt over
 * rdma_rxe, except where a row says otherwise.
 */
#include <errno.h>

#include "protocol/srp_login.h"
#include "tests/lib/t_hex.h"
#include "tests/lib/t_table.h"

#define ZERO8	  "00 00 00 00 00 00 00 00 "
#define TAG_5A	  "5a 5a 5a 5a 5a 5a 5a 5a "
#define INITIATOR ZERO8 "50 54 00 ff fe 12 34 56 "
#define TARGET	  "11 22 33 44 55 66 77 88 99 aa bb cc dd ee ff 00 "

#define REQ(flags, len, offset)                                         \
	ZERO8 "00 06 " flags " 00 " len " " INITIATOR TARGET offset " " \
	      "00 00 00 00 00 00 "
#define REQ_SINGLE REQ("80", "00 00 20 44", "00 44")
#define REQ_MULTI  REQ("81", "00 00 20 44", "00 44")
#define REQ_NO_IMM REQ("00", "00 00 01 14", "00 00")

#define RSP(flags)                                                   \
	"c0 00 00 00 00 00 00 80 " TAG_5A "00 00 20 54 00 00 20 44 " \
	"00 06 " flags " 00 00 00 00 00 " ZERO8 ZERO8 "00 00 00 00 "
#define REJ "c2 00 00 00 00 01 00 03 " TAG_5A ZERO8 "00 06 00 00 00 00 00 00 "

/* Decodes some bytes as one kind of private data, and encodes them again. */
typedef int (*cycle_fn)(const void *data, size_t len, void *copy, size_t cap);

static int req_cycle(const void *data, size_t len, void *copy, size_t cap)
{
	struct srp_login_req req;
	int err = srp_login_req_decode(data, len, &req);

	return err ? err : srp_login_req_encode(copy, cap, &req);
}

static int rsp_cycle(const void *data, size_t len, void *copy, size_t cap)
{
	struct srp_login_rsp rsp;
	int err = srp_login_rsp_decode(data, len, &rsp);

	return err ? err : srp_login_rsp_encode(copy, cap, &rsp);
}

static int rej_cycle(const void *data, size_t len, void *copy, size_t cap)
{
	struct srp_login_rej rej;
	int err = srp_login_rej_decode(data, len, &rej);

	return err ? err : srp_login_rej_encode(copy, cap, &rej);
}

static const struct cycle_row {
	const char *name;
	const char *hex;
	cycle_fn cycle;
	size_t size;
	size_t opcode_at;
} cycle_rows[] = {
	{ "request, first channel", REQ_SINGLE, req_cycle, 56, 11 },
	{ "request, further channel", REQ_MULTI, req_cycle, 56, 11 },
	{ "request, reserved multi-channel action (not seen)",
	  REQ("83", "00 00 20 44", "00 44"), req_cycle, 56, 11 },
	{ "request, another tag (not seen)",
	  "01 02 03 04 05 06 07 ff 00 06 80 00 00 00 20 44 " INITIATOR TARGET
	  "00 44 00 00 00 00 00 00",
	  req_cycle, 56, 11 },
	{ "request, no immediate data", REQ_NO_IMM, req_cycle, 56, 11 },
	{ "response, single", RSP("80"), rsp_cycle, 52, 0 },
	{ "response, older channels terminated", RSP("81"), rsp_cycle, 52, 0 },
	{ "response, multi", RSP("82"), rsp_cycle, 52, 0 },
	{ "response, no immediate data", RSP("00"), rsp_cycle, 52, 0 },
	{ "reject, wrong target port", REJ, rej_cycle, 32, 0 },
};

/* Private data that is decoded and encoded again has the same bytes. */
T_ROWS(cycle, cycle_rows)
{
	const struct cycle_row *r = *state;
	size_t len;
	uint8_t *data = t_hex(r->hex, &len);
	uint8_t *copy = malloc(len);

	assert_int_equal(len, r->size);
	assert_non_null(copy);
	memset(copy, 0xee, len);
	assert_int_equal(r->cycle(data, len, copy, len), len);
	assert_memory_equal(copy, data, len);
	data[r->opcode_at] ^= 0x40;
	assert_int_equal(r->cycle(data, len, copy, len), -EBADMSG);
	free(copy);
	free(data);
}

T_ROWS(cut_short, cycle_rows)
{
	const struct cycle_row *r = *state;
	size_t len;
	uint8_t *data = t_hex(r->hex, &len);

	for (size_t n = 0; n < len; n++) {
		uint8_t *cut = t_copy(data, n);
		uint8_t copy[64];

		assert_int_equal(r->cycle(cut, n, copy, sizeof(copy)),
				 -EBADMSG);
		assert_int_equal(r->cycle(data, len, cut, n), -ENOSPC);
		free(cut);
	}
	free(data);
}

/* A CM event reports the capacity of the private data, 56, 196 or 148 bytes,
 * with padding. */
T_ROWS(padding_is_ignored, cycle_rows)
{
	const struct cycle_row *r = *state;
	uint8_t padded[200] = { 0 };
	uint8_t copy[64];
	size_t len;
	uint8_t *data = t_hex(r->hex, &len);

	memcpy(padded, data, len);
	assert_int_equal(r->cycle(padded, sizeof(padded), copy, sizeof(copy)),
			 len);
	assert_memory_equal(copy, data, len);
	free(data);
}

T_TEST(request_fields_arrive)
{
	struct srp_login_req req;
	size_t len;
	uint8_t *data = t_hex(REQ_MULTI, &len);

	assert_int_equal(srp_login_req_decode(data, len, &req), 0);
	assert_int_equal(req.it_iu_len, 8260);
	assert_int_equal(req.formats, SRP_FORMATS);
	assert_int_equal(req.multichan, SRP_MULTICHAN_MULTI);
	assert_true(req.imm_data);
	assert_int_equal(req.imm_offset, SRP_IMM_OFFSET);
	assert_int_equal(srp_port_id_ext(&req.initiator), 0);
	assert_int_equal(srp_port_id_guid(&req.initiator), 0x505400fffe123456);
	assert_int_equal(srp_port_id_ext(&req.target), 0x1122334455667788);
	assert_int_equal(srp_port_id_guid(&req.target), 0x99aabbccddeeff00);
	free(data);
}

T_TEST(response_fields_arrive)
{
	struct srp_login_rsp rsp;
	size_t len;
	uint8_t *data = t_hex(RSP("82"), &len);

	assert_int_equal(srp_login_rsp_decode(data, len, &rsp), 0);
	assert_int_equal(rsp.tag, 0x5a5a5a5a5a5a5a5a);
	assert_int_equal(rsp.req_lim, 128);
	assert_int_equal(rsp.it_iu_len, 8276);
	assert_int_equal(rsp.ti_iu_len, 8260);
	assert_int_equal(rsp.formats, SRP_FORMATS);
	assert_int_equal(rsp.multichan, SRP_MULTICHAN_MAINTAINED);
	assert_true(rsp.imm_data);
	free(data);
}

T_TEST(reject_fields_arrive)
{
	struct srp_login_rej rej;
	size_t len;
	uint8_t *data = t_hex(REJ, &len);

	assert_int_equal(srp_login_rej_decode(data, len, &rej), 0);
	assert_int_equal(rej.tag, 0x5a5a5a5a5a5a5a5a);
	assert_int_equal(rej.reason, SRP_REJ_NO_TARGET);
	assert_int_equal(rej.formats, SRP_FORMATS);
	free(data);
}

/* The rules */

#define TARGET_ID                                                             \
	{                                                                     \
		{                                                             \
			0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, \
				0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00      \
		}                                                             \
	}
#define OTHER_ID                 \
	{                        \
		{                \
			[15] = 1 \
		}                \
	}
#define ZERO_ID           \
	{                 \
		{         \
			0 \
		}         \
	}

/* ib_srp's defaults. Each row changes one thing. */
#define GOOD                                                    \
	.tag = 0x5a, .it_iu_len = 8260, .formats = SRP_FORMATS, \
	.imm_data = true, .imm_offset = 68, .target = TARGET_ID
#define POLICY                                                       \
	.max_it_iu_len = 8276, .ti_iu_len = 512, .req_lim = 64,      \
	.formats = SRP_FORMATS, .imm_data = true, .multichan = true, \
	.target = TARGET_ID

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#endif
static const struct check_row {
	const char *name;
	struct srp_login_req req;
	struct srp_login_policy policy;
	uint32_t reason;
	bool imm_data;
	uint8_t multichan;
} check_rows[] = {
	{ "ib_srp's defaults", { GOOD }, { POLICY }, 0, true },
	{ "further channel",
	  { GOOD, .multichan = 1 },
	  { POLICY },
	  0,
	  true,
	  SRP_MULTICHAN_MAINTAINED },
	{ "further channel where one is all",
	  { GOOD, .multichan = 1 },
	  { POLICY, .multichan = false },
	  SRP_REJ_MULTICHAN },
	{ "first channel where one is all",
	  { GOOD },
	  { POLICY, .multichan = false },
	  0,
	  true },
	{ "reserved multi-channel action 2",
	  { GOOD, .multichan = 2 },
	  { POLICY },
	  SRP_REJ_MULTICHAN },
	{ "reserved multi-channel action 3",
	  { GOOD, .multichan = 3 },
	  { POLICY },
	  SRP_REJ_MULTICHAN },
	{ "shortest IU length", { GOOD, .it_iu_len = 64 }, { POLICY }, 0, true },
	{ "IU length too short",
	  { GOOD, .it_iu_len = 63 },
	  { POLICY },
	  SRP_REJ_IT_IU_LEN },
	{ "IU length zero",
	  { GOOD, .it_iu_len = 0 },
	  { POLICY },
	  SRP_REJ_IT_IU_LEN },
	{ "longest IU length",
	  { GOOD, .it_iu_len = 8276 },
	  { POLICY },
	  0,
	  true },
	{ "IU length too long",
	  { GOOD, .it_iu_len = 8277 },
	  { POLICY },
	  SRP_REJ_IT_IU_LEN },
	{ "IU length of 4 GiB",
	  { GOOD, .it_iu_len = UINT32_MAX },
	  { POLICY },
	  SRP_REJ_IT_IU_LEN },
	{ "another target port",
	  { GOOD, .target = OTHER_ID },
	  { POLICY },
	  SRP_REJ_NO_TARGET },
	{ "another target port where unnamed is accepted",
	  { GOOD, .target = OTHER_ID },
	  { POLICY, .accept_unnamed_target = true },
	  SRP_REJ_NO_TARGET },
	{ "no target port named",
	  { GOOD, .target = ZERO_ID },
	  { POLICY },
	  SRP_REJ_NO_TARGET },
	{ "no target port named where that is accepted",
	  { GOOD, .target = ZERO_ID },
	  { POLICY, .accept_unnamed_target = true },
	  0,
	  true },
	{ "only direct buffers",
	  { GOOD, .formats = SRP_FORMAT_DIRECT },
	  { POLICY },
	  0,
	  true },
	{ "no data format",
	  { GOOD, .formats = 0 },
	  { POLICY },
	  SRP_REJ_FORMATS },
	{ "unknown data format",
	  { GOOD, .formats = 0x000e },
	  { POLICY },
	  SRP_REJ_FORMATS },
	{ "highest format bit",
	  { GOOD, .formats = 0x8006 },
	  { POLICY },
	  SRP_REJ_FORMATS },
	{ "format the target lacks",
	  { GOOD },
	  { POLICY, .formats = SRP_FORMAT_DIRECT },
	  SRP_REJ_FORMATS },
	{ "no immediate data asked for",
	  { GOOD, .imm_data = false },
	  { POLICY },
	  0,
	  false },
	{ "immediate data the target does not grant",
	  { GOOD },
	  { POLICY, .imm_data = false },
	  0,
	  false },
	{ "immediate data at the shortest offset",
	  { GOOD, .imm_offset = 48 },
	  { POLICY },
	  0,
	  true },
	{ "immediate data inside SRP_CMD",
	  { GOOD, .imm_offset = 47 },
	  { POLICY },
	  0,
	  false },
};
#pragma GCC diagnostic pop

T_ROWS(check, check_rows)
{
	const struct check_row *r = *state;
	struct srp_login_answer a;

	srp_login_check(&r->req, &r->policy, &a);
	assert_int_equal(a.reason, r->reason);
	if (r->reason) {
		assert_int_equal(a.rej.reason, r->reason);
		assert_int_equal(a.rej.tag, 0x5a);
		assert_int_equal(a.rej.formats, r->policy.formats);
		return;
	}
	assert_int_equal(a.rsp.tag, 0x5a);
	assert_int_equal(a.rsp.req_lim, 64);
	assert_int_equal(a.rsp.it_iu_len, 8276);
	assert_int_equal(a.rsp.ti_iu_len, 512);
	assert_int_equal(a.rsp.formats, SRP_FORMATS);
	assert_int_equal(a.rsp.multichan, r->multichan);
	assert_int_equal(a.rsp.imm_data, r->imm_data);
	assert_int_equal(a.rules.formats, SRP_FORMATS);
	assert_int_equal(a.rules.imm_offset,
			 r->imm_data ? r->req.imm_offset : 0);
}

#define RSP_OK \
	.req_lim = 2, .it_iu_len = 64, .ti_iu_len = 64, .formats = SRP_FORMATS

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#endif
static const struct fault_row {
	const char *name;
	struct srp_login_rsp rsp;
	const char *word; /* part of the message; NULL: no fault */
} fault_rows[] = {
	{ "smallest usable response", { RSP_OK }, NULL },
	{ "one credit", { RSP_OK, .req_lim = 1 }, "request limit" },
	{ "no credit", { RSP_OK, .req_lim = 0 }, "request limit" },
	{ "negative limit", { RSP_OK, .req_lim = -1 }, "request limit" },
	{ "receives only 63 bytes", { RSP_OK, .it_iu_len = 63 }, "receives" },
	{ "sends only 39 bytes", { RSP_OK, .ti_iu_len = 39 }, "sends" },
	{ "no common format", { RSP_OK, .formats = 8 }, "formats" },
	{ "immediate data unasked", { RSP_OK, .imm_data = true }, "immediate" },
};
#pragma GCC diagnostic pop

T_ROWS(rsp_fault, fault_rows)
{
	const struct fault_row *r = *state;
	const struct srp_login_req req = { .formats = SRP_FORMATS };
	const char *fault = srp_login_rsp_problem(&r->rsp, &req);

	if (!r->word) {
		assert_null(fault);
		return;
	}
	assert_non_null(fault);
	assert_non_null(strstr(fault, r->word));
}

T_TEST(every_reason_has_a_name_and_a_hint)
{
	for (uint32_t i = SRP_REJ_UNSPECIFIED; i <= SRP_REJ_CHANNEL_LIMIT;
	     i++) {
		assert_string_not_equal(srp_rej_reason_name(i),
					"unknown reject reason");
		assert_string_not_equal(srp_rej_reason_hint(i), "");
	}
	assert_string_equal(srp_rej_reason_name(SRP_REJ_NO_TARGET),
			    "no such target port");
	assert_string_equal(srp_rej_reason_name(0x00010007),
			    "unknown reject reason");
	assert_string_equal(srp_rej_reason_hint(0), "");
}

/* Port identifiers */

#define ID32               \
	"1122334455667788" \
	"99aabbccddeeff00"

static const struct id_row {
	const char *name;
	const char *text;
	int err;
} id_rows[] = {
	{ "plain", ID32, 0 },
	{ "with 0x", "0x" ID32, 0 },
	{ "with 0X and capitals", "0X112233445566778899AABBCCDDEEFF00", 0 },
	{ "31 digits", "112233445566778899aabbccddeeff0", -EINVAL },
	{ "33 digits", ID32 "0", -EINVAL },
	{ "empty", "", -EINVAL },
	{ "only 0x", "0x", -EINVAL },
	{ "only 0", "0", -EINVAL },
	{ "0x twice", "0x0x" ID32, -EINVAL },
	{ "a letter that is no digit", "112233445566778899aabbccddeeff0g",
	  -EINVAL },
	{ "a space behind", ID32 " ", -EINVAL },
	{ "colons", "1122:334455667788:99aabbccddeeff", -EINVAL },
};

T_ROWS(port_id_parse, id_rows)
{
	const struct id_row *r = *state;
	const struct srp_port_id want = TARGET_ID;
	struct srp_port_id id = OTHER_ID;
	char text[SRP_PORT_ID_TEXT_SIZE];
	/* exactly as long as the text, for the address sanitizer */
	uint8_t *copy = t_copy(r->text, strlen(r->text) + 1);

	assert_int_equal(srp_port_id_parse((const char *)copy, &id), r->err);
	free(copy);
	assert_int_equal(srp_port_id_equal(&id, &want), !r->err);
	if (!r->err)
		assert_string_equal(srp_port_id_format(&id, text), "0x" ID32);
}

T_TEST(port_ids_are_made_of_halves)
{
	const struct srp_port_id want = TARGET_ID;
	struct srp_port_id id =
		srp_port_id_make(0x1122334455667788, 0x99aabbccddeeff00);

	assert_true(srp_port_id_equal(&id, &want));
	assert_false(srp_port_id_is_zero(&id));
	id = srp_port_id_make(0, 0);
	assert_true(srp_port_id_is_zero(&id));
	id = srp_port_id_make(0, 1);
	assert_false(srp_port_id_is_zero(&id));
}
