/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of discovery. The golden bytes were written by hand from the header
 * file. */
#include <errno.h>
#include <string.h>

#include "config.h"
#include "base/hmac.h"
#include "protocol/discovery.h"
#include "tests/lib/t_hex.h"
#include "tests/lib/t_table.h"

#define ID "11 22 33 44 55 66 77 88 99 aa bb cc dd ee ff 00 "
#define HEAD(kind, flags, uris) \
	"53 52 50 64 01 " kind " " flags " " uris " 01 02 03 04 05 06 07 08 " ID
#define HOST "03 62 6f 78 "
#define URI  "00 07 73 72 70 3a 2f 2f 61 " /* srp://a */

static struct discovery_msg announce(void)
{
	struct discovery_msg msg = {
		.kind = DISCOVERY_ANNOUNCE,
		.nonce = 0x0102030405060708,
		.id = srp_port_id_make(0x1122334455667788, 0x99aabbccddeeff00)
	};

	discovery_set_instance(&msg, "box");
	assert_true(discovery_add_uri(&msg, "srp://a"));
	return msg;
}

T_TEST(golden_bytes)
{
	const char *hex = HEAD("02", "00", "01") HOST URI;
	struct discovery_msg msg = announce();
	uint8_t buf[DISCOVERY_MSG_MAX];
	size_t len;
	uint8_t *want = t_hex(hex, &len);

	assert_int_equal(
		discovery_encode(buf, 0, sizeof(buf), &msg, NULL, NULL), len);
	assert_memory_equal(buf, want, len);
	free(want);
}

T_TEST(what_is_written_is_read)
{
	struct discovery_msg msg = announce(), again;
	uint8_t buf[DISCOVERY_MSG_MAX];
	size_t signed_len = 1;
	int len;

	for (unsigned int i = 1; i < DISCOVERY_URIS_MAX; i++)
		assert_true(discovery_add_uri(&msg, "srp+tcp://[::1]:5555"));
	assert_false(discovery_add_uri(&msg, "srp://one.more"));
	len = discovery_encode(buf, 0, sizeof(buf), &msg, NULL, NULL);
	assert_true(len > 0);
	assert_int_equal(
		discovery_decode(buf, (size_t)len, &again, &signed_len), 0);
	assert_int_equal(signed_len, 0);
	assert_int_equal(again.kind, msg.kind);
	assert_int_equal(again.nonce, msg.nonce);
	assert_true(srp_port_id_equal(&again.id, &msg.id));
	assert_string_equal(again.instance, msg.instance);
	assert_int_equal(again.uri_cnt, DISCOVERY_URIS_MAX);
	assert_memory_equal(again.uris, msg.uris, sizeof(msg.uris));
}

T_TEST(an_answer_is_no_longer_than_it_may_be)
{
	struct discovery_msg msg = announce(), again;
	uint8_t buf[DISCOVERY_MSG_MAX];
	size_t signed_len;

	while (discovery_add_uri(&msg, "srp+tcp://192.0.2.200:5555"))
		;
	for (size_t max = 0; max < 500; max++) {
		int len = discovery_encode(buf, 0, max, &msg, NULL, NULL);

		if (max < sizeof(struct discovery_wire) + 3) {
			assert_int_equal(len, -ENOSPC);
			continue;
		}
		assert_in_range(len, 1, max);
		assert_int_equal(
			discovery_decode(buf, (size_t)len, &again, &signed_len),
			0);
		assert_true(again.uri_cnt <= msg.uri_cnt);
	}
}

T_TEST(a_query_is_padded)
{
	const struct discovery_msg msg = { .kind = DISCOVERY_QUERY };
	uint8_t buf[DISCOVERY_MSG_MAX];

	assert_int_equal(discovery_encode(buf, DISCOVERY_QUERY_LEN, sizeof(buf),
					  &msg, NULL, NULL),
			 DISCOVERY_QUERY_LEN);
	assert_true(DISCOVERY_QUERY_LEN * DISCOVERY_GAIN >= DISCOVERY_MSG_MAX);
}

T_TEST(names_have_no_spaces_or_controls)
{
	struct discovery_msg msg = { .kind = DISCOVERY_ANNOUNCE };

	discovery_set_instance(&msg, "a b\n\x1b[c\xc3\xa4");
	assert_string_equal(msg.instance, "ab[c");
	assert_false(discovery_add_uri(&msg, "srp://a b"));
	assert_false(discovery_add_uri(&msg, ""));
}

/* ---- what is refused ---- */

static const struct bad_row {
	const char *name;
	const char *hex;
} bad_rows[] = {
	{ "nothing", "" },
	{ "a header that is cut", "53 52 50 64 01 02 00 00" },
	{ "another magic number",
	  "53 52 50 65 01 02 00 00 " ID ID "00 00 00 00 00 00 00 00" },
	{ "another version",
	  "53 52 50 64 02 02 00 00 01 02 03 04 05 06 07 08 " ID "00" },
	{ "kind 0", HEAD("00", "00", "00") "00" },
	{ "kind 4", HEAD("04", "00", "00") "00" },
	{ "an instance that is cut", HEAD("02", "00", "00") "04 62 6f 78" },
	{ "an instance with a line end", HEAD("02", "00", "00") "02 62 0a" },
	{ "a URI that is missing", HEAD("02", "00", "01") HOST },
	{ "a length that is cut", HEAD("02", "00", "01") HOST "00" },
	{ "a URI that is cut", HEAD("02", "00", "01") HOST "00 07 73 72" },
	{ "a URI of no bytes", HEAD("02", "00", "01") HOST "00 00" },
	{ "a URI that is too long", HEAD("02", "00", "01") HOST "00 80 73 72" },
	{ "a URI with a space", HEAD("02", "00", "01") HOST "00 01 20" },
	{ "17 URIs", HEAD("02", "00", "11") HOST URI },
	{ "a code that is cut", HEAD("02", "01", "00") HOST },
};

T_ROWS(is_refused, bad_rows)
{
	const struct bad_row *row = *state;
	struct discovery_msg msg = { .nonce = 77 };
	size_t signed_len = 77;
	size_t len;
	uint8_t *buf = t_hex(row->hex, &len);

	assert_int_equal(discovery_decode(buf, len, &msg, &signed_len),
			 -EPROTO);
	assert_int_equal(msg.nonce, 77);
	assert_int_equal(signed_len, 77);
	free(buf);
}

/* ---- codes ---- */

#if HAVE_NETTLE

T_TEST(a_code_covers_all)
{
	struct hmac_key key = { .bytes = "0123456789abcdef", .len = 16 };
	struct hmac_key other = { .bytes = "0123456789abcdeg", .len = 16 };
	struct discovery_msg msg = announce();
	uint8_t buf[DISCOVERY_MSG_MAX];
	size_t signed_len;
	int len =
		discovery_encode(buf, 200, sizeof(buf), &msg, hmac_code, &key);

	assert_int_equal(len, 200);
	assert_int_equal(discovery_decode(buf, (size_t)len, &msg, &signed_len),
			 0);
	assert_int_equal(signed_len, 200 - DISCOVERY_CODE_LEN);
	assert_true(hmac_check(&key, buf, signed_len, buf + signed_len));
	assert_false(hmac_check(&other, buf, signed_len, buf + signed_len));
	for (int i = 0; i < len; i++) {
		buf[i] ^= 1;
		assert_false(
			hmac_check(&key, buf, signed_len, buf + signed_len));
		buf[i] ^= 1;
	}
}

/* RFC 4231, test case 2. */
T_TEST(the_code_is_hmac_sha256)
{
	struct hmac_key key = { .bytes = "Jefe", .len = 4 };
	const char *data = "what do ya want for nothing?";
	uint8_t code[HMAC_LEN];
	size_t len;
	uint8_t *want = t_hex("5b dc c1 46 bf 60 75 4e 6a 04 24 26 08 95 75 c7 "
			      "5a 00 3f 08 9d 27 39 83 9d ec 58 b9 64 ec 38 43",
			      &len);

	hmac_code(&key, data, strlen(data), code);
	assert_int_equal(len, HMAC_LEN);
	assert_memory_equal(code, want, len);
	free(want);
}

#endif
