/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The golden bytes marked "seen" were captured from Linux 6.1's ib_srp and
 * ib_srpt over rdma_rxe; the others follow SRP r16a.
 */
#include <errno.h>
#include <limits.h>

#include "protocol/srp_iu.h"
#include "tests/lib/t_hex.h"
#include "tests/lib/t_table.h"

#define ZERO4  "00 00 00 00 "
#define ZERO8  ZERO4 ZERO4
#define ZERO16 ZERO8 ZERO8

/* The start of an SRP_CMD: formats, data-out count, data-in count; tag 19. */
#define CMD(formats, out, in) \
	"02 00 00 00 00 " formats " " out " " in " 19 " ZERO4 "00 00 00 "
/* Bytes 16 to 31: LUN, attribute, additional CDB length. */
#define CMD_LUN(lun, attr, add) ZERO4 lun " 00 " attr " 00 " add " "

#define CDB_READ  "28 00 00 00 00 00 00 00 08 00 " ZERO4 "00 00 "
#define CDB_WRITE "2a 00 00 00 00 00 00 40 00 00 " ZERO4 "00 00 "
#define CDB_UNMAP "42 00 00 00 00 00 00 00 18 00 " ZERO4 "00 00 "
#define CDB_TUR	  ZERO16

#define DESC_4K "ff 24 d0 ad 7f 95 f0 00 00 00 03 02 00 00 10 00 "

/* Seen: TEST UNIT READY has no data. */
#define IU_TUR CMD("00", "00", "00") CMD_LUN(ZERO8, "00", "00") CDB_TUR

/* Seen: READ(10) of 8 blocks into one direct buffer. */
#define IU_READ \
	CMD("01", "00", "00") CMD_LUN(ZERO8, "00", "00") CDB_READ DESC_4K

/* Seen: the same formats for a write of 8 MiB, five descriptors, 148 bytes. */
#define DESC_MR	  "00 00 00 01 00 00 00 00 00 00 03 0a 00 1f f0 00 "
#define DESC_LAST "00 00 00 01 00 80 00 00 00 00 03 0b 00 00 40 00 "
#define TABLE_5	  "ff ff 88 80 01 23 45 40 00 00 04 01 00 00 00 50 "
#define IU_WRITE                   \
	CMD("20", "05", "00")      \
	CMD_LUN(ZERO8, "00", "00") \
	CDB_WRITE TABLE_5          \
		"00 80 00 00 " DESC_MR DESC_MR DESC_MR DESC_MR DESC_LAST

/* Only two of the five inline (ib_srp with allow_ext_sg=1). */
#define IU_PARTIAL                 \
	CMD("20", "02", "00")      \
	CMD_LUN(ZERO8, "00", "00") \
	CDB_WRITE TABLE_5 "00 80 00 00 " DESC_MR DESC_MR

/* Seen: UNMAP with immediate data at 68, stale bytes before it. */
#define STALE16 "de ad be ef de ad be ef de ad be ef de ad be ef "
#define UNMAP_LIST                                                     \
	"00 16 00 10 00 00 00 00 00 00 00 00 00 00 08 00 00 00 00 80 " \
	"00 00 00 00 "
#define IU_UNMAP              \
	CMD("30", "00", "00") \
	CMD_LUN(ZERO8, "00", "00") CDB_UNMAP "00 00 00 18 " STALE16 UNMAP_LIST

/* Data-out indirect (one of one inline), data-in direct, 20-byte CDB. */
#define TABLE_1 "00 00 00 00 00 00 20 00 00 00 00 07 00 00 00 10 "
#define IU_BIDI                                        \
	CMD("21", "01", "00")                          \
	CMD_LUN("00 01 00 00 00 00 00 00", "02", "07") \
	CDB_READ "aa bb cc dd " TABLE_1 "00 00 10 00 " DESC_4K DESC_4K

/* Immediate data out at 96 and a direct buffer in. */
#define IU_BIDI_IMM                \
	CMD("31", "00", "00")      \
	CMD_LUN(ZERO8, "00", "00") \
	CDB_TUR "00 00 00 04 " DESC_4K ZERO16 ZERO8 ZERO4 "01 02 03 04 "

/* The limits that the login agreed on. */
#define ALL                                              \
	{                                                \
		.formats = SRP_FORMATS, .imm_offset = 68 \
	}
#define NO_IMM                         \
	{                              \
		.formats = SRP_FORMATS \
	}
#define DIRECT_ONLY                                            \
	{                                                      \
		.formats = SRP_FORMAT_DIRECT, .imm_offset = 68 \
	}
#define IMM_AT(off)                                       \
	{                                                 \
		.formats = SRP_FORMATS, .imm_offset = off \
	}

/* A change to the golden bytes: @size bytes at @off become @value. */
struct patch {
	uint16_t off;
	uint8_t size;
	uint64_t value;
};

static void patch_apply(uint8_t *iu, size_t len, const struct patch *p)
{
	for (; p->size; p++) {
		assert_true(p->off + p->size <= len);
		for (unsigned int i = 0; i < p->size; i++)
			iu[p->off + i] =
				(uint8_t)(p->value >> 8 * (p->size - 1 - i));
	}
}

struct want_data {
	enum srp_data_format format;
	uint32_t len;
	uint32_t inline_cnt;
	uint32_t desc_cnt;
	bool partial;
};

static const struct cmd_row {
	const char *name;
	const char *hex;
	struct srp_cmd_rules rules;
	struct patch patches[4];
	int err;
	struct want_data out;
	struct want_data in;
	size_t need; /* bytes without which it must be refused; 0: all */
} cmd_rows[] = {
	{ "no data", IU_TUR, ALL },
	{ "no data, counts without meaning", IU_TUR, ALL, { { 6, 2, 0xffff } } },
	{ "data-in, one direct descriptor", IU_READ, ALL,
	  .in = { SRP_DATA_DIRECT, 4096, 1, 1 } },
	{ "data-out, one direct descriptor",
	  IU_READ,
	  ALL,
	  { { 5, 1, 0x10 } },
	  .out = { SRP_DATA_DIRECT, 4096, 1, 1 } },
	{ "direct descriptor, counts without meaning",
	  IU_READ,
	  ALL,
	  { { 6, 2, 0x0909 } },
	  .in = { SRP_DATA_DIRECT, 4096, 1, 1 } },
	{ "direct descriptor of zero bytes",
	  IU_READ,
	  ALL,
	  { { 60, 4, 0 } },
	  .in = { SRP_DATA_DIRECT, 0, 1, 1 } },
	{ "direct descriptor of 4 GiB less one",
	  IU_READ,
	  ALL,
	  { { 48, 8, 0 }, { 60, 4, UINT32_MAX } },
	  .in = { SRP_DATA_DIRECT, UINT32_MAX, 1, 1 } },
	{ "direct descriptor up to the last byte but one",
	  IU_READ,
	  ALL,
	  { { 48, 8, UINT64_MAX - 4096 } },
	  .in = { SRP_DATA_DIRECT, 4096, 1, 1 } },
	{ "direct descriptor ends at 2^64",
	  IU_READ,
	  ALL,
	  { { 48, 8, UINT64_MAX - 4095 } },
	  -EBADMSG },
	{ "direct descriptor wraps round",
	  IU_READ,
	  ALL,
	  { { 48, 8, UINT64_MAX }, { 60, 4, UINT32_MAX } },
	  -EBADMSG },
	{ "data-out, indirect, all inline", IU_WRITE, ALL,
	  .out = { SRP_DATA_INDIRECT, 8 << 20, 5, 5 } },
	{ "data-in, indirect, all inline",
	  IU_WRITE,
	  ALL,
	  { { 5, 3, 0x020005 } },
	  .in = { SRP_DATA_INDIRECT, 8 << 20, 5, 5 } },
	{ "indirect, first two of five inline", IU_PARTIAL, ALL,
	  .out = { SRP_DATA_INDIRECT, 8 << 20, 2, 5, true } },
	{ "indirect, none of five inline",
	  IU_PARTIAL,
	  ALL,
	  { { 6, 1, 0 } },
	  .out = { SRP_DATA_INDIRECT, 8 << 20, 0, 5, true },
	  .need = 68 },
	{ "partial table as long as a length can say",
	  IU_PARTIAL,
	  ALL,
	  { { 48, 8, 0 }, { 60, 4, 0xfffffff0 } },
	  .out = { SRP_DATA_INDIRECT, 8 << 20, 2, 0x0fffffff, true } },
	{ "indirect, empty list of no bytes",
	  IU_PARTIAL,
	  ALL,
	  { { 6, 1, 0 }, { 60, 4, 0 }, { 64, 4, 0 } },
	  .out = { SRP_DATA_INDIRECT },
	  .need = 68 },
	{ "indirect, empty list of some bytes",
	  IU_PARTIAL,
	  ALL,
	  { { 6, 1, 0 }, { 60, 4, 0 } },
	  -EBADMSG },
	{ "indirect, more inline than in the table",
	  IU_WRITE,
	  ALL,
	  { { 60, 4, 0x40 } },
	  -EBADMSG },
	{ "indirect, more inline than in the table, which adds up",
	  IU_WRITE,
	  ALL,
	  { { 60, 4, 0x40 }, { 64, 4, 4 * 0x1ff000 } },
	  -EBADMSG },
	{ "indirect, table length no multiple of 16",
	  IU_WRITE,
	  ALL,
	  { { 60, 4, 0x58 } },
	  -EBADMSG },
	{ "indirect, table wraps round",
	  IU_PARTIAL,
	  ALL,
	  { { 48, 8, UINT64_MAX - 15 } },
	  -EBADMSG },
	{ "indirect, more inline than the IU holds",
	  IU_WRITE,
	  ALL,
	  { { 6, 1, 0x06 }, { 60, 4, 0x60 } },
	  -EBADMSG },
	{ "indirect, 255 inline in a short IU",
	  IU_WRITE,
	  ALL,
	  { { 6, 1, 0xff }, { 60, 4, 0xff0 } },
	  -EBADMSG },
	{ "indirect, total one byte too small",
	  IU_WRITE,
	  ALL,
	  { { 64, 4, 0x7fffff } },
	  -EBADMSG },
	{ "indirect, total one byte too large",
	  IU_WRITE,
	  ALL,
	  { { 64, 4, 0x800001 } },
	  -EBADMSG },
	{ "indirect, lengths add up only modulo 2^32",
	  IU_WRITE,
	  ALL,
	  /* 4 * 0x1ff000 + 0x4000, and 2^32 more in two of them */
	  { { 80, 4, 0x801ff000 }, { 96, 4, 0x801ff000 } },
	  -EBADMSG },
	{ "indirect, a descriptor wraps round",
	  IU_WRITE,
	  ALL,
	  { { 84, 8, 0xfffffffffffff000 } },
	  -EBADMSG },
	{ "indirect, a zero descriptor in between",
	  IU_WRITE,
	  ALL,
	  { { 80, 4, 0 }, { 64, 4, 0x800000 - 0x1ff000 } },
	  .out = { SRP_DATA_INDIRECT, 0x800000 - 0x1ff000, 5, 5 } },
	{ "partial list whose beginning is longer than the total",
	  IU_PARTIAL,
	  ALL,
	  { { 64, 4, 0x3fdfff } },
	  -EBADMSG },
	{ "partial list, an inline descriptor wraps round",
	  IU_PARTIAL,
	  ALL,
	  { { 68, 8, UINT64_MAX } },
	  -EBADMSG },
	{ "immediate data", IU_UNMAP, ALL, .out = { SRP_DATA_IMMEDIATE, 24 } },
	{ "immediate data of no bytes",
	  IU_UNMAP,
	  ALL,
	  { { 48, 4, 0 } },
	  .out = { SRP_DATA_IMMEDIATE, 0 },
	  .need = 68 },
	{ "immediate data, one byte more than received",
	  IU_UNMAP,
	  ALL,
	  { { 48, 4, 25 } },
	  -EBADMSG },
	{ "immediate data, as long as a length can say",
	  IU_UNMAP,
	  ALL,
	  { { 48, 4, UINT32_MAX } },
	  -EBADMSG },
	{ "immediate data, offset + length is 0 modulo 2^32",
	  IU_UNMAP,
	  ALL,
	  { { 48, 4, UINT32_MAX - 67 } },
	  -EBADMSG },
	{ "immediate data right behind its length", IU_UNMAP, IMM_AT(52),
	  .out = { SRP_DATA_IMMEDIATE, 24 }, .need = 76 },
	{ "immediate data would overlap its length", IU_UNMAP, IMM_AT(51),
	  .err = -EBADMSG },
	{ "additional CDB up to the immediate data",
	  IU_UNMAP,
	  ALL,
	  { { 31, 1, 16 }, { 64, 4, 24 } },
	  .out = { SRP_DATA_IMMEDIATE, 24 } },
	{ "additional CDB pushes the length into the immediate data",
	  IU_UNMAP,
	  ALL,
	  { { 31, 1, 20 }, { 68, 4, 0 } },
	  -EBADMSG },
	{ "immediate data offset behind the IU",
	  IU_UNMAP,
	  IMM_AT(93),
	  { { 48, 4, 0 } },
	  .err = -EBADMSG },
	{ "immediate data offset at the end, no data",
	  IU_UNMAP,
	  IMM_AT(92),
	  { { 48, 4, 0 } },
	  .out = { SRP_DATA_IMMEDIATE, 0 } },
	{ "immediate data was not agreed", IU_UNMAP, NO_IMM, .err = -ENOTSUP },
	{ "immediate data-in", IU_UNMAP, ALL, { { 5, 1, 0x03 } }, -ENOTSUP },
	{ "direct was not offered",
	  IU_READ,
	  { .formats = SRP_FORMAT_INDIRECT },
	  .err = -ENOTSUP },
	{ "indirect was not offered", IU_WRITE, DIRECT_ONLY, .err = -ENOTSUP },
	{ "unknown data-out format",
	  IU_READ,
	  ALL,
	  { { 5, 1, 0x40 } },
	  -ENOTSUP },
	{ "unknown data-in format", IU_READ, ALL, { { 5, 1, 0x0f } }, -ENOTSUP },
	{ "both directions", IU_BIDI, ALL,
	  .out = { SRP_DATA_INDIRECT, 4096, 1, 1 },
	  .in = { SRP_DATA_DIRECT, 4096, 1, 1 } },
	{ "immediate data out and a buffer in", IU_BIDI_IMM, IMM_AT(96),
	  .out = { SRP_DATA_IMMEDIATE, 4 },
	  .in = { SRP_DATA_DIRECT, 4096, 1, 1 } },
	{ "data-in descriptor overlaps the immediate data", IU_BIDI_IMM,
	  IMM_AT(67), .err = -EBADMSG },
	{ "additional CDB past the end",
	  IU_TUR,
	  ALL,
	  { { 31, 1, 0xfc } },
	  -EBADMSG },
	{ "reserved bits of the additional CDB length",
	  IU_TUR,
	  ALL,
	  { { 31, 1, 0x03 } } },
	{ "another opcode", IU_TUR, ALL, { { 0, 1, 0x01 } }, -EBADMSG },
};

static void data_inside(const struct srp_data *d, const uint8_t *iu,
			size_t iu_len)
{
	const uint8_t *descs = d->descs;
	const uint8_t *imm = d->imm;

	if (d->inline_cnt) {
		assert_true(descs >= iu + SRP_CMD_SIZE);
		assert_true(descs + 16 * d->inline_cnt <= iu + iu_len);
	}
	if (d->format == SRP_DATA_IMMEDIATE) {
		assert_true(imm >= iu + SRP_CMD_SIZE);
		assert_true(d->len <= iu_len);
		assert_true(imm + d->len <= iu + iu_len);
	}
	assert_int_equal(d->partial, d->inline_cnt < d->desc_cnt);
}

static void data_is(const struct srp_data *d, const struct want_data *want)
{
	assert_int_equal(d->format, want->format);
	assert_int_equal(d->len, want->len);
	assert_int_equal(d->inline_cnt, want->inline_cnt);
	assert_int_equal(d->desc_cnt, want->desc_cnt);
	assert_int_equal(d->partial, want->partial);
}

T_ROWS(cmd_decode, cmd_rows)
{
	const struct cmd_row *r = *state;
	struct srp_cmd_view v;
	size_t len;
	uint8_t *iu = t_hex(r->hex, &len);

	/* The decoder sets each member that has a meaning. */
	memset(&v, 0xee, sizeof(v));
	patch_apply(iu, len, r->patches);
	assert_int_equal(srp_cmd_decode(iu, len, &r->rules, &v), r->err);
	if (!r->err) {
		data_is(&v.out, &r->out);
		data_is(&v.in, &r->in);
		data_inside(&v.out, iu, len);
		data_inside(&v.in, iu, len);
		assert_ptr_equal(v.cdb, iu + 32);
		assert_memory_equal(&v.tag, iu + 8, 8);
	}
	free(iu);
}

/* Every prefix that is shorter than the command is refused. */
T_ROWS(cmd_truncated, cmd_rows)
{
	const struct cmd_row *r = *state;
	size_t len, need;
	uint8_t *iu = t_hex(r->hex, &len);

	patch_apply(iu, len, r->patches);
	need = r->need ? r->need : len;
	for (size_t n = 0; n <= len; n++) {
		struct srp_cmd_view v;
		uint8_t *cut = t_copy(iu, n);
		int err = srp_cmd_decode(cut, n, &r->rules, &v);

		if (r->err)
			assert_true(err == -EBADMSG || err == r->err);
		else
			assert_int_equal(err, n < need ? -EBADMSG : 0);
		free(cut);
	}
	free(iu);
}

/* Whatever value one byte has, all parts that the view points to lie in the
 * IU. */
T_ROWS(cmd_corrupted, cmd_rows)
{
	const struct cmd_row *r = *state;
	size_t len;
	uint8_t *iu = t_hex(r->hex, &len);

	for (size_t i = 0; i < 8 * 256; i++) {
		/* The bytes that control decoding: formats, counts, lengths. */
		static const uint8_t where[] = { 5, 6, 7, 31, 48, 51, 60, 63 };
		uint8_t *bad = t_copy(iu, len);
		struct srp_cmd_view v;

		if (where[i / 256] < len)
			bad[where[i / 256]] = (uint8_t)i;
		if (!srp_cmd_decode(bad, len, &r->rules, &v)) {
			data_inside(&v.out, bad, len);
			data_inside(&v.in, bad, len);
			assert_true(32 + v.cdb_len <= len);
		}
		free(bad);
	}
	free(iu);
}

T_TEST(cmd_of_random_bytes_stays_inside)
{
	const struct srp_cmd_rules rules = ALL;
	uint32_t rnd = 1;
	size_t good = 0;

	for (int i = 0; i < 50000; i++) {
		size_t len = (size_t)i % 200;
		uint8_t *iu = calloc(1, len ? len : 1);
		struct srp_cmd_view v;

		assert_non_null(iu);
		for (size_t j = 1; j < len; j++) {
			rnd = rnd * 1664525 + 1013904223;
			/* Mostly zeroes: a decoder gets further with them. */
			iu[j] = rnd >> 30 ? 0 : (uint8_t)(rnd >> 16);
		}
		iu[0] = SRP_CMD;
		if (len && !srp_cmd_decode(iu, len, &rules, &v)) {
			data_inside(&v.out, iu, len);
			data_inside(&v.in, iu, len);
			good++;
		}
		free(iu);
	}
	assert_true(good > 100); /* fewer would test little */
}

T_TEST(cmd_fields_arrive)
{
	const struct srp_cmd_rules rules = ALL;
	struct srp_desc d;
	struct srp_cmd_view v;
	uint64_t tag = 0;
	uint32_t lun;
	size_t len;
	uint8_t *iu = t_hex(IU_BIDI, &len);

	assert_int_equal(srp_cmd_decode(iu, len, &rules, &v), 0);
	memcpy(&tag, iu + 8, 8);
	assert_int_equal(v.tag, tag);
	assert_int_equal(v.lun, 0x0001000000000000);
	assert_int_equal(srp_lun_decode(v.lun, &lun), 0);
	assert_int_equal(lun, 1);
	assert_int_equal(v.task_attr, SRP_TASK_ORDERED);
	assert_int_equal(v.cdb_len, 20);
	assert_memory_equal(v.cdb + 16, "\xaa\xbb\xcc\xdd", 4);
	assert_int_equal(v.out.desc.addr, 0x2000);
	assert_int_equal(v.out.desc.key, 7);
	assert_int_equal(v.out.desc.len, 16);
	assert_ptr_equal(v.out.descs, iu + 48 + 4 + 20);
	assert_ptr_equal(v.in.descs, iu + 48 + 4 + 20 + 16);
	srp_desc_unpack(v.in.descs, v.in.inline_cnt, &d);
	assert_int_equal(d.addr, 0xff24d0ad7f95f000);
	assert_int_equal(d.key, 0x302);
	assert_int_equal(d.len, 4096);
	assert_memory_equal(&v.in.desc, &d, sizeof(d));
	free(iu);
}

T_TEST(immediate_data_is_found_behind_the_gap)
{
	const struct srp_cmd_rules rules = ALL;
	struct srp_cmd_view v;
	size_t len, list_len;
	uint8_t *iu = t_hex(IU_UNMAP, &len);
	uint8_t *list = t_hex(UNMAP_LIST, &list_len);

	assert_int_equal(len, 92);
	assert_int_equal(srp_cmd_decode(iu, len, &rules, &v), 0);
	assert_int_equal(v.out.len, list_len);
	assert_memory_equal(v.out.imm, list, list_len);
	free(list);
	free(iu);
}

/* Receive buffers are longer than IUs: only received bytes count. */
T_TEST(bytes_behind_the_last_part_are_ignored)
{
	const struct srp_cmd_rules rules = ALL;
	struct srp_cmd_view v;
	size_t len;
	uint8_t *iu = t_hex(IU_READ ZERO16, &len);

	assert_int_equal(srp_cmd_decode(iu, len, &rules, &v), 0);
	assert_int_equal(v.in.len, 4096);
	free(iu);
}

T_TEST(decoding_needs_no_alignment)
{
	const struct srp_cmd_rules rules = ALL;
	struct srp_cmd_view v;
	struct srp_desc d[5];
	size_t len;
	uint8_t *iu = t_hex(IU_WRITE, &len);

	for (size_t shift = 0; shift < 8; shift++) {
		uint8_t *moved = malloc(len + shift);

		assert_non_null(moved);
		memcpy(moved + shift, iu, len);
		assert_int_equal(srp_cmd_decode(moved + shift, len, &rules, &v),
				 0);
		srp_desc_unpack(v.out.descs, 5, d);
		assert_int_equal(d[4].addr, 0x100800000);
		assert_int_equal(d[4].key, 0x30b);
		assert_int_equal(d[4].len, 0x4000);
		free(moved);
	}
	free(iu);
}

T_TEST(all_255_inline_descriptors_are_taken)
{
	const struct srp_cmd_rules rules = ALL;
	struct srp_desc d[256];
	struct srp_cmd_args args = {
		.cdb = "\x28",
		.cdb_len = 1,
		.in = { SRP_DATA_INDIRECT, d, 255, .table_addr = 1 },
	};
	struct srp_cmd_view v;
	uint8_t *iu = malloc(68 + 255 * 16);

	assert_non_null(iu);
	for (uint32_t i = 0; i < 256; i++)
		d[i] = (struct srp_desc){ i * 4096ULL, i, 4096 };
	assert_int_equal(srp_cmd_encode(iu, 68 + 255 * 16, &args),
			 68 + 255 * 16);
	assert_int_equal(srp_cmd_decode(iu, 68 + 255 * 16, &rules, &v), 0);
	assert_int_equal(v.in.desc_cnt, 255);
	assert_int_equal(v.in.len, 255 * 4096);
	assert_int_equal(srp_cmd_decode(iu, 68 + 255 * 16 - 1, &rules, &v),
			 -EBADMSG);
	args.in.desc_cnt = 256;
	assert_int_equal(srp_cmd_encode(iu, 68 + 255 * 16, &args), -EINVAL);
	free(iu);
}

static const struct table_row {
	const char *name;
	const char *hex;
	uint32_t total;
	int err;
} table_rows[] = {
	{ "fetched table adds up", DESC_MR DESC_LAST, 0x203000, 0 },
	{ "fetched table is empty", "", 0, 0 },
	{ "fetched table is empty, data is not", "", 1, -EBADMSG },
	{ "fetched table too short", DESC_MR DESC_LAST, 0x203001, -EBADMSG },
	{ "fetched table too long", DESC_MR DESC_LAST, 0x202fff, -EBADMSG },
	{ "fetched table with a descriptor that wraps",
	  DESC_MR "ff ff ff ff ff ff f0 00 00 00 00 01 00 00 10 00", 0x200000,
	  -EBADMSG },
	{ "fetched table adds up only modulo 2^32",
	  "00 00 00 00 00 00 00 00 00 00 00 01 80 00 00 00"
	  "00 00 00 00 00 00 00 00 00 00 00 01 80 00 10 00",
	  0x1000, -EBADMSG },
};

T_ROWS(table_check, table_rows)
{
	const struct table_row *r = *state;
	size_t len;
	uint8_t *raw = t_hex(r->hex, &len);

	assert_int_equal(
		srp_desc_table_check(raw, (uint32_t)len / 16, r->total),
		r->err);
	free(raw);
}

/* Encoding */

static const struct srp_desc desc_4k = { 0xff24d0ad7f95f000, 0x302, 4096 };
static const struct srp_desc desc_8m[5] = {
	{ 0x100000000, 0x30a, 0x1ff000 }, { 0x100000000, 0x30a, 0x1ff000 },
	{ 0x100000000, 0x30a, 0x1ff000 }, { 0x100000000, 0x30a, 0x1ff000 },
	{ 0x100800000, 0x30b, 0x4000 },
};
static const struct srp_desc desc_huge[2] = {
	{ 0, 0, 0x80000000 },
	{ 0, 0, 0x80000000 },
};

#define READ10	"\x28\0\0\0\0\0\0\0\x08"
#define WRITE10 "\x2a\0\0\0\0\0\0\x40\0"
#define UNMAP	"\x42\0\0\0\0\0\0\0\x18"
#define READ20	"\x28\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\xaa\xbb\xcc\xdd"

static const struct encode_row {
	const char *name;
	struct srp_cmd_args args;
	const char *hex; /* NULL: -EINVAL */
} encode_rows[] = {
	{ "encode no data", { .cdb = "\0\0\0\0\0", .cdb_len = 6 }, IU_TUR },
	{ "encode a direct read",
	  { .cdb = READ10,
	    .cdb_len = 10,
	    .in = { SRP_DATA_DIRECT, &desc_4k, 1 } },
	  IU_READ },
	{ "encode an indirect write",
	  { .cdb = WRITE10,
	    .cdb_len = 10,
	    .out = { SRP_DATA_INDIRECT, desc_8m, 5, 0xffff888001234540,
		     0x401 } },
	  IU_WRITE },
	{ "encode the header of immediate data, gap zeroed",
	  { .cdb = UNMAP,
	    .cdb_len = 10,
	    .out = { SRP_DATA_IMMEDIATE, .imm_len = 24, .imm_offset = 68 } },
	  CMD("30", "00", "00") CMD_LUN(ZERO8, "00", "00") CDB_UNMAP
	  "00 00 00 18 " ZERO16 },
	{ "encode both directions and a long CDB",
	  { .lun = 0x0001000000000000,
	    .task_attr = SRP_TASK_ORDERED,
	    .cdb = READ20,
	    .cdb_len = 20,
	    .out = { SRP_DATA_INDIRECT, &desc_4k, 1, 0x2000, 7 },
	    .in = { SRP_DATA_DIRECT, &desc_4k, 1 } },
	  CMD("21", "01", "00") CMD_LUN("00 01 00 00 00 00 00 00", "02", "04")
		  CDB_READ "aa bb cc dd " TABLE_1
			   "00 00 10 00 " DESC_4K DESC_4K },
	{ "encode a CDB of 17 bytes, padded",
	  { .cdb = READ20, .cdb_len = 17 },
	  CMD("00", "00", "00") CMD_LUN(ZERO8, "00", "04") CDB_READ
	  "aa 00 00 00 " },
	{ "encode an empty CDB", { .cdb = "" } },
	{ "encode a CDB of 269 bytes", { .cdb = "", .cdb_len = 269 } },
	{ "encode direct without a descriptor",
	  { .cdb = READ10, .cdb_len = 10, .in = { SRP_DATA_DIRECT } } },
	{ "encode direct with two descriptors",
	  { .cdb = READ10,
	    .cdb_len = 10,
	    .in = { SRP_DATA_DIRECT, desc_8m, 2 } } },
	{ "encode indirect without a descriptor",
	  { .cdb = READ10, .cdb_len = 10, .in = { SRP_DATA_INDIRECT } } },
	{ "encode 4 GiB of data",
	  { .cdb = READ10,
	    .cdb_len = 10,
	    .in = { SRP_DATA_INDIRECT, desc_huge, 2 } } },
	{ "encode immediate data-in",
	  { .cdb = READ10,
	    .cdb_len = 10,
	    .in = { SRP_DATA_IMMEDIATE, .imm_offset = 68 } } },
	{ "encode immediate data inside the header",
	  { .cdb = UNMAP,
	    .cdb_len = 10,
	    .out = { SRP_DATA_IMMEDIATE, .imm_len = 24, .imm_offset = 51 } } },
	{ "encode an unknown format",
	  { .cdb = UNMAP, .cdb_len = 10, .out = { (enum srp_data_format)4 } } },
};

T_ROWS(cmd_encode, encode_rows)
{
	const struct encode_row *r = *state;
	struct srp_cmd_args args = r->args;
	uint8_t *iu, *want;
	size_t len;

	memcpy(&args.tag, "\x19\0\0\0\0\0\0\0", 8);
	if (!r->hex) {
		uint8_t buf[1024];

		assert_int_equal(srp_cmd_encode(buf, sizeof(buf), &args),
				 -EINVAL);
		return;
	}
	want = t_hex(r->hex, &len);
	for (size_t cap = 0; cap < len; cap++) {
		iu = t_copy(want, cap);
		assert_int_equal(srp_cmd_encode(iu, cap, &args), -ENOSPC);
		free(iu);
	}
	iu = malloc(len);
	assert_non_null(iu);
	memset(iu, 0xee, len);
	assert_int_equal(srp_cmd_encode(iu, len, &args), len);
	assert_memory_equal(iu, want, len);
	free(iu);
	free(want);
}

/* LUNs */

static const struct lun_row {
	const char *name;
	uint64_t field;
	int err;
	uint32_t lun;
	bool canonical; /* encoding gives the same field */
} lun_rows[] = {
	{ "LUN 0", 0, 0, 0, true },
	{ "LUN 1", 0x0001000000000000, 0, 1, true },
	{ "LUN 255, peripheral", 0x00ff000000000000, 0, 255, true },
	{ "LUN 256, flat", 0x4100000000000000, 0, 256, true },
	{ "LUN 16383, flat", 0x7fff000000000000, 0, 16383, true },
	{ "LUN 3 in flat form", 0x4003000000000000, 0, 3, false },
	{ "peripheral on another bus", 0x0101000000000000, -EINVAL },
	{ "logical unit addressing", 0x8001000000000000, -EINVAL },
	{ "extended addressing", 0xd200010000000000, -EINVAL },
	{ "REPORT LUNS well-known", SRP_LUN_REPORT_LUNS, -EINVAL },
	{ "second level", 0x0000000100000000, -EINVAL },
	{ "last byte set", 0x0000000000000001, -EINVAL },
};

T_ROWS(lun, lun_rows)
{
	const struct lun_row *r = *state;
	uint32_t n = 99999;
	uint64_t field;

	assert_int_equal(srp_lun_decode(r->field, &n), r->err);
	assert_int_equal(n, r->err ? 99999 : r->lun);
	if (r->canonical) {
		assert_int_equal(srp_lun_encode(r->lun, &field), 0);
		assert_int_equal(field, r->field);
	}
}

T_TEST(lun_16384_has_no_flat_form)
{
	uint64_t field = 5;

	assert_int_equal(srp_lun_encode(16384, &field), -EINVAL);
	assert_int_equal(srp_lun_encode(UINT32_MAX, &field), -EINVAL);
	assert_int_equal(field, 5);
}

/* SRP_RSP */

#define TAG	 "01 00 00 80 00 00 00 00 "
#define RSP_GOOD "c1 00 00 00 00 00 00 01 " TAG ZERO16 ZERO4
#define RSP_TMF                                                   \
	"c1 00 00 00 00 00 00 01 " TAG "00 00 01 00 " ZERO8 ZERO4 \
	"00 00 00 04 00 00 00 00 "
#define SENSE8 "70 00 05 00 00 00 00 0a "
#define RSP_SENSE                                                 \
	"c1 00 00 00 00 00 00 02 " TAG "00 00 22 02 00 00 00 00 " \
	"00 00 01 00 00 00 00 08 00 00 00 00 " SENSE8
#define RSP_BOTH                                                  \
	"c1 00 00 00 ff ff ff fe " TAG "00 00 0f 02 00 00 00 11 " \
	"00 00 00 00 00 00 00 08 00 00 00 04 00 00 00 05 " SENSE8

static const struct rsp_row {
	const char *name;
	const char *hex;
	struct patch patches[4];
	struct srp_rsp want; /* sense: any non-NULL when there is some */
	uint32_t sense_at;
	bool decode_only;
} rsp_rows[] = {
	{ "good response", RSP_GOOD, .want = { .req_lim_delta = 1 } },
	{ "task management response", RSP_TMF,
	  .want = { .req_lim_delta = 1, .rsp_valid = true } },
	{ "task management failed",
	  RSP_TMF,
	  { { 39, 1, 5 } },
	  .want = { .req_lim_delta = 1,
		    .rsp_valid = true,
		    .rsp_code = SRP_RSP_TMF_FAILED } },
	{ "check condition with sense and underflow", RSP_SENSE,
	  .want = { .req_lim_delta = 2,
		    .status = 2,
		    .resid_flags = SRP_RSP_IN_UNDERFLOW,
		    .in_resid = 256,
		    .sense = "",
		    .sense_len = 8 },
	  .sense_at = 36 },
	{ "response data and sense, negative delta", RSP_BOTH,
	  .want = { .req_lim_delta = -2,
		    .status = 2,
		    .resid_flags = SRP_RSP_OUT_UNDERFLOW | SRP_RSP_OUT_OVERFLOW,
		    .out_resid = 17,
		    .rsp_valid = true,
		    .rsp_code = SRP_RSP_TMF_FAILED,
		    .sense = "",
		    .sense_len = 8 },
	  .sense_at = 40 },
	{ "sense one byte longer than received",
	  RSP_SENSE,
	  { { 28, 4, 9 } },
	  .want = { .req_lim_delta = 2,
		    .status = 2,
		    .resid_flags = SRP_RSP_IN_UNDERFLOW,
		    .in_resid = 256,
		    .data_dropped = true },
	  .decode_only = true },
	{ "sense as long as a length can say",
	  RSP_SENSE,
	  { { 28, 4, UINT32_MAX } },
	  .want = { .req_lim_delta = 2,
		    .status = 2,
		    .resid_flags = SRP_RSP_IN_UNDERFLOW,
		    .in_resid = 256,
		    .data_dropped = true },
	  .decode_only = true },
	{ "response data as long as a length can say",
	  RSP_BOTH,
	  { { 32, 4, UINT32_MAX } },
	  .want = { .req_lim_delta = -2,
		    .status = 2,
		    .resid_flags = SRP_RSP_OUT_UNDERFLOW | SRP_RSP_OUT_OVERFLOW,
		    .out_resid = 17,
		    .data_dropped = true },
	  .decode_only = true },
	{ "36 + R + S is small modulo 2^32",
	  RSP_BOTH,
	  { { 28, 4, 0x80000000 }, { 32, 4, 0x80000000 } },
	  .want = { .req_lim_delta = -2,
		    .status = 2,
		    .resid_flags = SRP_RSP_OUT_UNDERFLOW | SRP_RSP_OUT_OVERFLOW,
		    .out_resid = 17,
		    .data_dropped = true },
	  .decode_only = true },
	{ "sense length without SNSVALID",
	  RSP_SENSE,
	  { { 18, 1, 0x20 }, { 28, 4, UINT32_MAX } },
	  .want = { .req_lim_delta = 2,
		    .status = 2,
		    .resid_flags = SRP_RSP_IN_UNDERFLOW,
		    .in_resid = 256 },
	  .decode_only = true },
	{ "SNSVALID without sense",
	  RSP_GOOD,
	  { { 18, 1, 0x02 } },
	  .want = { .req_lim_delta = 1 },
	  .decode_only = true },
	{ "response code without RSPVALID",
	  RSP_TMF,
	  { { 18, 1, 0x00 } },
	  .want = { .req_lim_delta = 1 },
	  .decode_only = true },
	{ "response data of three bytes",
	  RSP_TMF,
	  { { 32, 4, 3 } },
	  .want = { .req_lim_delta = 1 },
	  .decode_only = true },
	{ "the smallest delta",
	  RSP_GOOD,
	  { { 4, 4, 0x80000000 } },
	  .want = { .req_lim_delta = INT32_MIN } },
};

static void rsp_is(const struct srp_rsp *got, const struct rsp_row *r,
		   const uint8_t *iu)
{
	const struct srp_rsp *want = &r->want;

	assert_memory_equal(&got->tag, iu + 8, 8);
	assert_int_equal(got->req_lim_delta, want->req_lim_delta);
	assert_int_equal(got->status, want->status);
	assert_int_equal(got->resid_flags, want->resid_flags);
	assert_int_equal(got->out_resid, want->out_resid);
	assert_int_equal(got->in_resid, want->in_resid);
	assert_int_equal(got->rsp_valid, want->rsp_valid);
	assert_int_equal(got->rsp_code, want->rsp_code);
	assert_int_equal(got->sense_len, want->sense_len);
	assert_int_equal(got->data_dropped, want->data_dropped);
	if (want->sense)
		assert_ptr_equal(got->sense, iu + r->sense_at);
	else
		assert_null(got->sense);
}

T_ROWS(rsp_decode, rsp_rows)
{
	const struct rsp_row *r = *state;
	struct srp_rsp rsp;
	size_t len;
	uint8_t *iu = t_hex(r->hex, &len);

	patch_apply(iu, len, r->patches);
	assert_int_equal(srp_rsp_decode(iu, len, &rsp), 0);
	rsp_is(&rsp, r, iu);
	free(iu);
}

/* A decoded response encodes to the same bytes. A buffer that is too small is
 * refused. */
T_ROWS(rsp_encode, rsp_rows)
{
	const struct rsp_row *r = *state;
	struct srp_rsp rsp;
	size_t len;
	uint8_t *iu;
	uint8_t *copy;

	if (r->decode_only)
		return;
	iu = t_hex(r->hex, &len);
	patch_apply(iu, len, r->patches);
	assert_int_equal(srp_rsp_decode(iu, len, &rsp), 0);
	for (size_t cap = 0; cap <= len; cap++) {
		size_t fixed = 36 + (rsp.rsp_valid ? 4 : 0);

		copy = t_copy(iu, cap);
		if (cap)
			memset(copy, 0xee, cap);
		assert_int_equal(srp_rsp_encode(copy, cap, &rsp),
				 cap < fixed ? -ENOSPC : (int)cap);
		if (cap == len)
			assert_memory_equal(copy, iu, len);
		free(copy);
	}
	free(iu);
}

T_ROWS(rsp_truncated, rsp_rows)
{
	const struct rsp_row *r = *state;
	size_t len;
	uint8_t *iu = t_hex(r->hex, &len);

	patch_apply(iu, len, r->patches);
	for (size_t n = 0; n < len; n++) {
		uint8_t *cut = t_copy(iu, n);
		struct srp_rsp rsp = { .status = 99 };

		if (n < 36) {
			assert_int_equal(srp_rsp_decode(cut, n, &rsp),
					 -EBADMSG);
			assert_int_equal(rsp.status, 99);
		} else {
			assert_int_equal(srp_rsp_decode(cut, n, &rsp), 0);
			assert_null(rsp.sense);
			assert_int_equal(rsp.status, r->want.status);
			if (n < 40)
				assert_false(rsp.rsp_valid);
		}
		free(cut);
	}
	free(iu);
}

T_TEST(sense_is_cut_to_the_space_there_is)
{
	uint8_t sense[300];
	uint8_t iu[1024];
	struct srp_rsp rsp = { .sense = sense, .sense_len = sizeof(sense) };
	struct srp_rsp back;

	memset(sense, 0x70, sizeof(sense));
	assert_int_equal(srp_rsp_encode(iu, 64, &rsp), 64);
	assert_int_equal(srp_rsp_decode(iu, 64, &back), 0);
	assert_int_equal(back.sense_len, 28);
	/* Never longer than sense data can be (SPC-4). */
	assert_int_equal(srp_rsp_encode(iu, sizeof(iu), &rsp), 36 + 252);
	/* Without room for sense data: encoded without SNSVALID. */
	assert_int_equal(srp_rsp_encode(iu, 36, &rsp), 36);
	assert_int_equal(iu[18], 0);
	rsp.sense_len = UINT32_MAX;
	assert_int_equal(srp_rsp_encode(iu, sizeof(iu), &rsp), 36 + 252);
}

/* The IUs of fixed length: decoded, encoded to the same bytes, and cut
 * short. */

static const struct fixed_row {
	const char *name;
	const char *hex;
} tsk_mgmt_rows[] = {
	/* seen: ib_srp's LUN RESET */
	{ "SRP_TSK_MGMT, LUN RESET",
	  "01 " ZERO4 "00 00 00 " TAG ZERO4 "00 01 00 00 00 00 00 00 "
	  "00 00 08 00 ff ff ff ff 00 00 00 00 " ZERO8 },
}, cred_req_rows[] = {
	{ "SRP_CRED_REQ", "81 00 00 00 00 00 00 05 " TAG },
	{ "SRP_CRED_REQ, negative delta", "81 00 00 00 ff ff ff ff " TAG },
}, aer_req_rows[] = {
	{ "SRP_AER_REQ without sense",
	  "82 00 00 00 00 00 00 01 " TAG ZERO4 "00 01 00 00 00 00 00 00 "
	  "00 00 00 00 " ZERO4 },
	{ "SRP_AER_REQ with sense",
	  "82 00 00 00 00 00 00 01 " TAG ZERO4 "00 01 00 00 00 00 00 00 "
	  "00 00 00 08 " ZERO4 SENSE8 },
}, t_logout_rows[] = {
	{ "SRP_T_LOGOUT", "80 00 00 00 00 00 00 04 " TAG },
};

static int tsk_mgmt_cycle(const void *iu, size_t len, void *copy, size_t cap)
{
	struct srp_tsk_mgmt t;
	int err = srp_tsk_mgmt_decode(iu, len, &t);

	if (err)
		return err;
	assert_int_equal(t.function, SRP_TSK_LUN_RESET);
	assert_int_equal(t.lun, 0x0001000000000000);
	assert_memory_equal(&t.tag, "\x01\0\0\x80\0\0\0\0", 8);
	assert_memory_equal(&t.task_tag, "\xff\xff\xff\xff\0\0\0\0", 8);
	return srp_tsk_mgmt_encode(copy, cap, &t);
}

static int cred_req_cycle(const void *iu, size_t len, void *copy, size_t cap)
{
	struct srp_cred_req c;
	int err = srp_cred_req_decode(iu, len, &c);

	if (err)
		return err;
	assert_true(c.req_lim_delta == 5 || c.req_lim_delta == -1);
	return srp_cred_req_encode(copy, cap, &c);
}

static int aer_req_cycle(const void *iu, size_t len, void *copy, size_t cap)
{
	struct srp_aer_req a;
	int err = srp_aer_req_decode(iu, len, &a);

	if (err)
		return err;
	assert_int_equal(a.req_lim_delta, 1);
	assert_int_equal(a.lun, 0x0001000000000000);
	assert_int_equal(a.sense != NULL, len > 36);
	return srp_aer_req_encode(copy, cap, &a);
}

static int t_logout_cycle(const void *iu, size_t len, void *copy, size_t cap)
{
	struct srp_t_logout t;
	int err = srp_t_logout_decode(iu, len, &t);

	if (err)
		return err;
	assert_int_equal(t.reason, SRP_LOGOUT_MULTICHAN);
	return srp_t_logout_encode(copy, cap, &t);
}

static void fixed_iu(const struct fixed_row *r,
		     int (*cycle)(const void *iu, size_t len, void *copy,
				  size_t cap),
		     size_t min)
{
	size_t len;
	uint8_t *iu = t_hex(r->hex, &len);
	uint8_t *copy = malloc(len);

	assert_non_null(copy);
	memset(copy, 0xee, len);
	assert_int_equal(cycle(iu, len, copy, len), len);
	assert_memory_equal(copy, iu, len);
	for (size_t n = 0; n < len; n++) {
		uint8_t *cut = t_copy(iu, n);

		assert_int_equal(cycle(cut, n, copy, len), -EBADMSG);
		free(cut);
	}
	for (size_t cap = 0; cap < min; cap++) {
		uint8_t *room = malloc(cap);

		assert_int_equal(cycle(iu, len, room, cap), -ENOSPC);
		free(room);
	}
	iu[0] ^= 0x40;
	assert_int_equal(cycle(iu, len, copy, len), -EBADMSG);
	free(copy);
	free(iu);
}

T_ROWS(tsk_mgmt, tsk_mgmt_rows)
{
	fixed_iu(*state, tsk_mgmt_cycle, 48);
}

T_ROWS(cred_req, cred_req_rows)
{
	fixed_iu(*state, cred_req_cycle, 16);
}

T_ROWS(aer_req, aer_req_rows)
{
	fixed_iu(*state, aer_req_cycle, 36);
}

T_ROWS(t_logout, t_logout_rows)
{
	fixed_iu(*state, t_logout_cycle, 16);
}

T_TEST(aer_sense_longer_than_the_iu_is_refused)
{
	struct srp_aer_req a;
	size_t len;
	uint8_t *iu = t_hex(aer_req_rows[1].hex, &len);

	wire_put32(iu + 28, 9);
	assert_int_equal(srp_aer_req_decode(iu, len, &a), -EBADMSG);
	wire_put32(iu + 28, UINT32_MAX);
	assert_int_equal(srp_aer_req_decode(iu, len, &a), -EBADMSG);
	free(iu);
}

static const struct bare_row {
	const char *name;
	enum srp_opcode opcode;
	const char *hex;
} bare_rows[] = {
	{ "SRP_CRED_RSP", SRP_CRED_RSP, "41 " ZERO4 "00 00 00 " TAG },
	{ "SRP_AER_RSP", SRP_AER_RSP, "42 " ZERO4 "00 00 00 " TAG },
	{ "SRP_I_LOGOUT", SRP_I_LOGOUT, "03 " ZERO4 "00 00 00 " TAG },
};

T_ROWS(bare, bare_rows)
{
	const struct bare_row *r = *state;
	struct srp_head head;
	uint8_t copy[16];
	size_t len;
	uint8_t *iu = t_hex(r->hex, &len);

	assert_int_equal(len, 16);
	assert_int_equal(srp_head_decode(iu, len, &head), 0);
	assert_int_equal(head.opcode, r->opcode);
	assert_memory_equal(&head.tag, iu + 8, 8);
	assert_int_equal(srp_bare_encode(copy, 16, r->opcode, head.tag), 16);
	assert_memory_equal(copy, iu, 16);
	assert_int_equal(srp_bare_encode(copy, 15, r->opcode, head.tag),
			 -ENOSPC);
	for (size_t n = 0; n < 16; n++) {
		uint8_t *cut = t_copy(iu, n);

		assert_int_equal(srp_head_decode(cut, n, &head), -EBADMSG);
		free(cut);
	}
	free(iu);
}

T_TEST(all_eight_bytes_of_a_tag_are_kept)
{
	static const uint8_t bytes[8] = { 1, 2, 3, 4, 5, 6, 7, 0xff };
	const struct srp_cmd_rules rules = ALL;
	struct srp_cmd_args args = { .cdb = "", .cdb_len = 1 };
	struct srp_tsk_mgmt tmf;
	struct srp_rsp rsp = { 0 };
	struct srp_cmd_view v;
	uint8_t iu[64];

	memcpy(&args.tag, bytes, 8);
	assert_int_equal(srp_cmd_encode(iu, sizeof(iu), &args), 48);
	assert_memory_equal(iu + 8, bytes, 8);
	assert_int_equal(srp_cmd_decode(iu, 48, &rules, &v), 0);
	rsp.tag = v.tag;
	assert_int_equal(srp_rsp_encode(iu, sizeof(iu), &rsp), 36);
	assert_memory_equal(iu + 8, bytes, 8);
	tmf = (struct srp_tsk_mgmt){ .task_tag = v.tag };
	assert_int_equal(srp_tsk_mgmt_encode(iu, sizeof(iu), &tmf), 48);
	assert_memory_equal(iu + 32, bytes, 8);
	assert_int_equal(srp_tsk_mgmt_decode(iu, 48, &tmf), 0);
	assert_int_equal(tmf.task_tag, args.tag);
}

T_TEST(every_value_has_a_name)
{
	for (unsigned int i = 0; i < 256; i++) {
		assert_non_null(srp_opcode_name((uint8_t)i));
		assert_non_null(srp_tsk_mgmt_name((uint8_t)i));
		assert_non_null(srp_logout_reason_name(i));
	}
	assert_string_equal(srp_opcode_name(2), "SRP_CMD");
	assert_string_equal(srp_opcode_name(0xc2), "SRP_LOGIN_REJ");
	assert_string_equal(srp_opcode_name(0x77), "unknown IU");
	assert_string_equal(srp_tsk_mgmt_name(8), "LOGICAL UNIT RESET");
	assert_string_equal(srp_logout_reason_name(8), "invalid IU length");
	assert_string_equal(srp_logout_reason_name(UINT32_MAX),
			    "unknown logout reason");
}
