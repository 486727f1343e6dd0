/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes that travel over TCP: libfabric's protocol. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/t_table.h"
#include "base/list.h"
#include "transport/tcp/wire.h"

/* Copies to memory of the exact size: a sanitizer reports any read beyond
 * it. */
static void *exact(const void *p, size_t len)
{
	void *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, p, len);
	return copy;
}

/* ---- connection management ---- */

T_TEST(a_request_is_what_libfabric_sends)
{
	static const uint8_t want[TCP_CM_LEN + 3] = {
		3, 0, 0, 3, [24] = 1, [32] = 'a', 'b', 'c',
	};
	uint8_t buf[TCP_CM_LEN + 3];

	if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
		skip();
	assert_int_equal(tcp_cm_encode(buf, TCP_CM_CONNECT, "abc", 3),
			 sizeof(buf));
	assert_memory_equal(buf, want, sizeof(want));
}

static const struct cm_case {
	const char *name;
	uint8_t buf[TCP_CM_LEN];
	int err;
	enum tcp_cm_type type;
	enum tcp_order order;
	size_t len;
} cm_cases[] = {
	{ "a request",
	  { 3, 0, 0, 56, [24] = 1 },
	  0,
	  TCP_CM_CONNECT,
	  TCP_LITTLE,
	  56 },
	{ "an answer of a host of the other order",
	  { 3, 1, 1, 0, [31] = 1 },
	  0,
	  TCP_CM_ACCEPT,
	  TCP_BIG,
	  256 },
	{ "a reject does not tell the order",
	  { 3, 6, 0, 32 },
	  0,
	  TCP_CM_REJECT,
	  TCP_BIG,
	  32 },
	{ "a request that does not either", { 3, 0 }, -EBADMSG, 0, 0, 0 },
	{ "an order that there is not", { 3, 0, [27] = 1 }, -EBADMSG, 0, 0, 0 },
	{ "more data than there may be",
	  { 3, 0, 1, 1, [24] = 1 },
	  -EBADMSG,
	  0,
	  0,
	  0 },
	{ "another type", { 3, 2, [24] = 1 }, -EBADMSG, 0, 0, 0 },
	{ "another version", { 2, 0, [24] = 1 }, -ENOPROTOOPT, 0, 0, 0 },
	{ "HTTP", "GET / HTTP/1.1\r\nHost: somewhere", -ENOPROTOOPT, 0, 0, 0 },
	{ "zeros", { 0 }, -ENOPROTOOPT, 0, 0, 0 },
};

T_ROWS(cm_is_decoded, cm_cases)
{
	const struct cm_case *cc = *state;
	struct tcp_cm cm = { 0 };
	void *buf = exact(cc->buf, TCP_CM_LEN);

	if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
		skip();
	assert_int_equal(tcp_cm_decode(buf, &cm), cc->err);
	free(buf);
	if (cc->err)
		return;
	assert_int_equal(cm.type, cc->type);
	assert_int_equal(cm.order, cc->order);
	assert_int_equal(cm.data_len, cc->len);
}

/* ---- headers ---- */

struct hdr_case {
	const char *name;
	uint8_t buf[TCP_HDR_LEN_MAX + TCP_REGION_LEN];
	size_t len;
	int ret;
	const char *why; /* part of the reason */
	struct tcp_hdr hdr;
};

/* Bytes of header and regions, and total bytes, little endian. */
#define SIZES(hdr, all) [6] = (hdr), [8] = (all)&0xff, [9] = (all) >> 8

static const struct hdr_case hdr_cases[] = {
	{ "a SEND",
	  { 3, 0, SIZES(16, 16 + 300) },
	  16,
	  16,
	  NULL,
	  { .op = TCP_MSG, .data_len = 300 } },
	{ "a SEND of nothing",
	  { 3, 0, SIZES(16, 16) },
	  16,
	  16,
	  NULL,
	  { .op = TCP_MSG } },
	{ "more than a header is there",
	  { 3, 0, SIZES(16, 17) },
	  40,
	  16,
	  NULL,
	  { .op = TCP_MSG, .data_len = 1 } },
	{ "half a header", { 3, 0, SIZES(16, 16) }, 15, 0, NULL, { 0 } },
	{ "nothing", { 0 }, 0, 0, NULL, { 0 } },
	{ "a header, and half its region",
	  { 3, 2, [5] = 1, SIZES(40, 40) },
	  39,
	  0,
	  NULL,
	  { 0 } },
	{ "a READ",
	  { 3, 2, [5] = 1, SIZES(40, 40), [16] = 9, [24] = 7, [32] = 5 },
	  40,
	  40,
	  NULL,
	  { .op = TCP_READ_REQ, .region_cnt = 1, .region = { { 9, 7, 5 } } } },
	{ "the answer repeats the number of regions",
	  { 3, 3, [5] = 1, SIZES(16, 23) },
	  16,
	  16,
	  NULL,
	  { .op = TCP_READ_RSP, .data_len = 7 } },
	{ "a WRITE",
	  { 3, 4, [5] = 1, SIZES(40, 42), [16] = 9, [24] = 2, [32] = 5 },
	  40,
	  40,
	  NULL,
	  { .op = TCP_WRITE,
	    .region_cnt = 1,
	    .region = { { 9, 2, 5 } },
	    .data_len = 2 } },
	{ "a WRITE to two places",
	  { 3, 4, [5] = 2, SIZES(64, 67), [24] = 1, [48] = 2 },
	  64,
	  64,
	  NULL,
	  { .op = TCP_WRITE,
	    .region_cnt = 2,
	    .region = { { 0, 1 }, { 0, 2 } },
	    .data_len = 3 } },
	{ "another version",
	  { 2, 0, SIZES(16, 16) },
	  16,
	  -EBADMSG,
	  "version",
	  { 0 } },
	{ "a tagged message",
	  { 3, 1, SIZES(16, 16) },
	  16,
	  -EBADMSG,
	  "operation",
	  { 0 } },
	{ "an atomic operation",
	  { 3, 6, SIZES(16, 16) },
	  16,
	  -EBADMSG,
	  "operation",
	  { 0 } },
	{ "wants an acknowledgement",
	  { 3, 0, 4, SIZES(16, 16) },
	  16,
	  -EBADMSG,
	  "flags",
	  { 0 } },
	{ "flags in the other byte",
	  { 3, 0, 0, 1, SIZES(16, 16) },
	  16,
	  -EBADMSG,
	  "flags",
	  { 0 } },
	{ "is an acknowledgement",
	  { 3, 0, [4] = 2, SIZES(16, 16) },
	  16,
	  -EBADMSG,
	  "flags",
	  { 0 } },
	{ "a WRITE to nowhere",
	  { 3, 4, SIZES(16, 16) },
	  16,
	  -EBADMSG,
	  "regions",
	  { 0 } },
	{ "five regions",
	  { 3, 4, [5] = 5, SIZES(136, 136) },
	  136,
	  -EBADMSG,
	  "regions",
	  { 0 } },
	{ "a SEND with a long header",
	  { 3, 0, SIZES(24, 24) },
	  24,
	  -EBADMSG,
	  "header",
	  { 0 } },
	{ "a header of nothing",
	  { 3, 0, SIZES(0, 16) },
	  16,
	  -EBADMSG,
	  "header",
	  { 0 } },
	{ "shorter than its header",
	  { 3, 0, SIZES(16, 15) },
	  16,
	  -EBADMSG,
	  "impossible",
	  { 0 } },
	{ "as long as can be",
	  { 3, 0, [6] = 16, [8] = 255, 255, 255, 255, 255, 255, 255, 255 },
	  16,
	  -EBADMSG,
	  "impossible",
	  { 0 } },
	{ "a READ that brings data",
	  { 3, 2, [5] = 1, SIZES(40, 41) },
	  40,
	  -EBADMSG,
	  "brings data",
	  { 0 } },
	{ "a WRITE of more than its region",
	  { 3, 4, [5] = 1, SIZES(40, 42), [24] = 1 },
	  40,
	  -EBADMSG,
	  "not fit",
	  { 0 } },
	{ "a WRITE of less",
	  { 3, 4, [5] = 1, SIZES(40, 41), [24] = 2 },
	  40,
	  -EBADMSG,
	  "not fit",
	  { 0 } },
	{ "regions whose sum is small again",
	  { 3, 4, [5] = 2, SIZES(64, 64), [31] = 0x80, [55] = 0x80 },
	  64,
	  -EBADMSG,
	  "impossible",
	  { 0 } },
};

static void assert_same(const struct tcp_hdr *a, const struct tcp_hdr *b)
{
	assert_int_equal(a->op, b->op);
	assert_int_equal(a->data_len, b->data_len);
	assert_int_equal(a->region_cnt, b->region_cnt);
	assert_memory_equal(a->region, b->region,
			    a->region_cnt * sizeof(a->region[0]));
}

T_ROWS(headers_are_decoded, hdr_cases)
{
	const struct hdr_case *hc = *state;
	void *buf = exact(hc->buf, hc->len);
	const char *why = NULL;
	struct tcp_hdr hdr;
	int ret;

	ret = tcp_hdr_decode(buf, hc->len, TCP_LITTLE, &hdr, &why);
	free(buf);
	assert_int_equal(ret, hc->ret);
	if (hc->why)
		assert_non_null(strstr(why, hc->why));
	if (ret > 0)
		assert_same(&hdr, &hc->hdr);
}

static const enum tcp_order orders[] = { TCP_LITTLE, TCP_BIG };

T_TEST(what_is_encoded_is_decoded)
{
	const struct tcp_hdr in[] = {
		{ .op = TCP_MSG, .data_len = 1 << 20 },
		{ .op = TCP_READ_RSP, .data_len = 1 },
		{ .op = TCP_READ_REQ,
		  .region_cnt = 1,
		  .region = { { 1ull << 40, 4096, 0xdeadbeef } } },
		{ .op = TCP_WRITE,
		  .region_cnt = 4,
		  .region = { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, { 1 } },
		  .data_len = 15 },
	};
	uint8_t buf[TCP_HDR_LEN_MAX];
	struct tcp_hdr out;
	const char *why;
	size_t len;

	for (size_t i = 0; i < ARRAY_SIZE(in); i++) {
		for (size_t o = 0; o < ARRAY_SIZE(orders); o++) {
			len = tcp_hdr_encode(buf, orders[o], 7, &in[i]);
			assert_int_equal(buf[7], 7);
			assert_int_equal(
				tcp_hdr_decode(buf, len, orders[o], &out, &why),
				len);
			assert_same(&in[i], &out);
		}
	}
}
