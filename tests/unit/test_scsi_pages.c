/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_mode.h"
#include "protocol/scsi_pages.h"
#include "tests/lib/t_bytes.h"

/* A thin SSD of one gibibyte. The rows change what they test. */
static struct scsi_disk_info plain_disk(void)
{
	return (struct scsi_disk_info){
		.blocks = 0x200000,
		.block_size = 512,
		.physical_exp = 3,
		.write_cache = true,
		.unmap = true,
		.lbprz = true,
		.max_unmap_blocks = 1000,
		.max_unmap_descs = 4,
	};
}

/* Capacity */

static const struct capacity_row {
	const char *name;
	uint64_t blocks;
	uint32_t block_size;
	uint8_t physical_exp;
	bool thick;
	bool no_lbprz;
	const char *ten;
	const char *sixteen;
} capacity_rows[] = {
	{ "1 GiB", 0x200000, 512, 3, false, false, "00 1f ff ff 00 00 02 00",
	  "00 00 00 00 00 1f ff ff 00 00 02 00 00 03 c0 00*17" },
	{ "one block", 1, 4096, 0, true, false, "00 00 00 00 00 00 10 00",
	  "00*8 00 00 10 00 00 00 00 00*17" },
	{ "thin without zeroes", 2, 512, 0, false, true,
	  "00 00 00 01 00 00 02 00", "00*7 01 00 00 02 00 00 00 80 00*17" },
	{ "the most that (10) can tell", 0xffffffff, 512, 0, true, false,
	  "ff ff ff fe 00 00 02 00",
	  "00*4 ff ff ff fe 00 00 02 00 00 00 00 00*17" },
	{ "the first that (10) cannot tell", 0x100000000, 512, 0, true, false,
	  "ff ff ff ff 00 00 02 00",
	  "00*4 ff ff ff ff 00 00 02 00 00 00 00 00*17" },
	{ "16 TiB and a block", 0x800000001, 512, 0, true, false,
	  "ff ff ff ff 00 00 02 00",
	  "00 00 00 08 00 00 00 00 00 00 02 00 00 00 00 00*17" },
};

T_ROWS(capacity, capacity_rows)
{
	const struct capacity_row *r = *state;
	struct scsi_disk_info info = {
		.blocks = r->blocks,
		.block_size = r->block_size,
		.physical_exp = r->physical_exp,
		.unmap = !r->thick,
		.lbprz = !r->no_lbprz,
	};
	struct scsi_capacity cap;
	uint8_t b[32];
	size_t len;
	int err;

	len = scsi_read_capacity_10_encode(&info, b, sizeof(b));
	t_assert_bytes(b, len, r->ten);
	err = scsi_read_capacity_10_decode(b, len, &cap);
	assert_int_equal(err, r->blocks > 0xffffffff ? -EOVERFLOW : 0);
	if (!err)
		assert_int_equal(cap.blocks, r->blocks);

	len = scsi_read_capacity_16_encode(&info, b, sizeof(b));
	t_assert_bytes(b, len, r->sixteen);
	assert_int_equal(scsi_read_capacity_16_decode(b, len, &cap), 0);
	assert_int_equal(cap.blocks, r->blocks);
	assert_int_equal(cap.block_size, r->block_size);
	assert_int_equal(cap.physical_exp, r->physical_exp);
	assert_int_equal(cap.lbpme, !r->thick);
	assert_int_equal(cap.lbprz, !r->thick && !r->no_lbprz);
}

static const struct bad_capacity_row {
	const char *name;
	const char *bytes; /* 8: (10), else (16) */
	int err;
} bad_capacity_rows[] = {
	{ "block size 0", "00 00 00 01 00 00 00 00", -EBADMSG },
	{ "block size 256", "00 00 00 01 00 00 01 00", -EBADMSG },
	{ "block size 520", "00 00 00 01 00 00 02 08", -EBADMSG },
	{ "block size 128 KiB", "00 00 00 01 00 02 00 00", -EBADMSG },
	{ "block size 64 KiB", "00 00 00 01 00 01 00 00", 0 },
	{ "block size of all bits", "00 00 00 01 ff ff ff ff", -EBADMSG },
	{ "(16), no room for one more", "ff*8 00 00 02 00 00*20", -EBADMSG },
	{ "(16), more than 2^63 bytes", "00 3f ff*6 00 00 02 00 00*20",
	  -EBADMSG },
	{ "(16), just under 2^63 bytes",
	  "00 3f ff ff ff ff ff fe 00 00 02 00 00*20", 0 },
	{ "(16), 12 bytes", "00*7 01 00 00 02 00", 0 },
	{ "(16), block size 0", "00*7 01 00 00 00 00", -EBADMSG },
};

T_ROWS(bad_capacity, bad_capacity_rows)
{
	const struct bad_capacity_row *r = *state;
	struct t_bytes b = t_bytes(r->bytes);
	struct scsi_capacity cap;

	if (b.len == 8)
		assert_int_equal(scsi_read_capacity_10_decode(b.p, b.len, &cap),
				 r->err);
	else
		assert_int_equal(scsi_read_capacity_16_decode(b.p, b.len, &cap),
				 r->err);
	free(b.p);
}

/* Mode pages */

#define PAGE_01	   "01 0a 00*10 "
#define PAGE_08	   "08 12 04 00*17 "
#define PAGE_0A	   "0a 0a 22 10 00 40 00*6 "
#define PAGE_1C	   "1c 0a 08 00*9 "
#define SHORT_DESC "00 20 00 00 00 00 02 00 "

static const struct mode_row {
	const char *name;
	enum scsi_op op;
	const char *bytes; /* NULL: refused */
	uint16_t code;
	uint16_t byte_no;
	bool read_only;
	bool write_through;
	bool d_sense;
	uint64_t blocks; /* 0: those of plain_disk() */
	struct scsi_cmd cmd;
} mode_rows[] = {
	{ "(6), all pages", SCSI_OP_MODE_SENSE_6,
	  "43 00 10 08 " SHORT_DESC PAGE_01 PAGE_08 PAGE_0A PAGE_1C,
	  .cmd.page_code = 0x3f },
	{ "(10), all pages", SCSI_OP_MODE_SENSE_10,
	  "00 46 00 10 00 00 00 08 " SHORT_DESC PAGE_01 PAGE_08 PAGE_0A PAGE_1C,
	  .cmd.page_code = 0x3f },
	{ "(6), all pages and subpages", SCSI_OP_MODE_SENSE_6,
	  "3b 00 10 00 " PAGE_01 PAGE_08 PAGE_0A PAGE_1C, .cmd.page_code = 0x3f,
	  .cmd.subpage_code = 0xff, .cmd.dbd = true },
	{ "(6), caching", SCSI_OP_MODE_SENSE_6, "17 00 10 00 " PAGE_08,
	  .cmd.page_code = 0x08, .cmd.dbd = true },
	{ "(6), caching, all its subpages", SCSI_OP_MODE_SENSE_6,
	  "17 00 10 00 " PAGE_08, .cmd.page_code = 0x08,
	  .cmd.subpage_code = 0xff, .cmd.dbd = true },
	{ "(6), caching, write through", SCSI_OP_MODE_SENSE_6,
	  "17 00 10 00 08 12 00*18", .write_through = true,
	  .cmd.page_code = 0x08, .cmd.dbd = true },
	{ "(6), caching, what can be changed", SCSI_OP_MODE_SENSE_6,
	  "17 00 10 00 08 12 00*18", .cmd.page_code = 0x08, .cmd.dbd = true,
	  .cmd.page_control = SCSI_PC_CHANGEABLE },
	{ "(6), caching, defaults", SCSI_OP_MODE_SENSE_6,
	  "17 00 10 00 " PAGE_08, .cmd.page_code = 0x08, .cmd.dbd = true,
	  .cmd.page_control = SCSI_PC_DEFAULT },
	{ "(10), control", SCSI_OP_MODE_SENSE_10,
	  "00 12 00 10 00 00 00 00 " PAGE_0A, .cmd.page_code = 0x0a,
	  .cmd.dbd = true },
	{ "(10), control, descriptor sense", SCSI_OP_MODE_SENSE_10,
	  "00 12 00 10 00 00 00 00 0a 0a 26 10 00 40 00*6", .d_sense = true,
	  .cmd.page_code = 0x0a, .cmd.dbd = true },
	{ "(6), write protected", SCSI_OP_MODE_SENSE_6, "0f 00 90 00 " PAGE_01,
	  .read_only = true, .cmd.page_code = 0x01, .cmd.dbd = true },
	{ "(6), exceptions, write protected", SCSI_OP_MODE_SENSE_6,
	  "17 00 90 08 " SHORT_DESC PAGE_1C, .read_only = true,
	  .cmd.page_code = 0x1c },
	{ "(10), more blocks than the short descriptor tells",
	  SCSI_OP_MODE_SENSE_10,
	  "00 1a 00 10 00 00 00 08 ff ff ff ff 00 00 02 00 " PAGE_01,
	  .blocks = 0x100000000, .cmd.page_code = 0x01 },
	{ "(10), the most that the short descriptor tells",
	  SCSI_OP_MODE_SENSE_10,
	  "00 1a 00 10 00 00 00 08 ff ff ff ff 00 00 02 00 " PAGE_01,
	  .blocks = 0xffffffff, .cmd.page_code = 0x01, .cmd.llbaa = true },
	{ "(10), long descriptor", SCSI_OP_MODE_SENSE_10,
	  "00 22 00 10 01 00 00 10 00 00 00 01 00 00 00 00 00*4 00 00 02 00 " PAGE_01,
	  .blocks = 0x100000000, .cmd.page_code = 0x01, .cmd.llbaa = true },
	{ "unknown page", SCSI_OP_MODE_SENSE_6, NULL, 0x2400, 2,
	  .cmd.page_code = 0x02 },
	{ "page 00h: no page", SCSI_OP_MODE_SENSE_6, "0b 00 10 08 " SHORT_DESC,
	  .cmd.page_code = 0x00 },
	{ "page 00h, what can be changed of it", SCSI_OP_MODE_SENSE_6, NULL,
	  0x2400, 2, .cmd.page_code = 0x00,
	  .cmd.page_control = SCSI_PC_CHANGEABLE },
	{ "I/O advice hints, as Linux 6.10 asks", SCSI_OP_MODE_SENSE_10, NULL,
	  0x2400, 3, .cmd.page_code = 0x0a, .cmd.subpage_code = 0x05,
	  .cmd.dbd = true },
	{ "all pages of a subpage", SCSI_OP_MODE_SENSE_6, NULL, 0x2400, 3,
	  .cmd.page_code = 0x3f, .cmd.subpage_code = 0x01 },
	{ "saved values", SCSI_OP_MODE_SENSE_6, NULL, 0x3900, 0,
	  .cmd.page_code = 0x08, .cmd.page_control = SCSI_PC_SAVED },
};

T_ROWS(mode_sense, mode_rows)
{
	const struct mode_row *r = *state;
	struct scsi_disk_info info = plain_disk();
	struct scsi_cmd cmd = r->cmd;
	struct scsi_sense sense = { 0 };
	struct scsi_mode mode;
	struct t_bytes want;
	size_t len;
	int err;

	cmd.op = r->op;
	info.read_only = r->read_only;
	info.write_cache = !r->write_through;
	info.mode_default.wce = true;
	info.d_sense = r->d_sense;
	if (r->blocks)
		info.blocks = r->blocks;
	if (!r->bytes) {
		err = scsi_mode_sense_encode(&info, &cmd, NULL, 0, &len,
					     &sense);
		assert_int_equal(err, -EINVAL);
		assert_int_equal(sense.code, r->code);
		assert_int_equal(sense.byte_no, r->byte_no);
		return;
	}
	want = t_bytes(r->bytes);
	for (size_t cap = 0; cap <= want.len + 1; cap++) {
		size_t n = cap < want.len ? cap : want.len;
		uint8_t *buf = malloc(cap);

		err = scsi_mode_sense_encode(&info, &cmd, buf, cap, &len,
					     &sense);
		assert_int_equal(err, 0);
		assert_int_equal(len, want.len);
		if (n)
			assert_memory_equal(buf, want.p, n);
		free(buf);
	}
	err = r->op == SCSI_OP_MODE_SENSE_6
		      ? scsi_mode_sense_6_decode(want.p, want.len, &mode)
		      : scsi_mode_sense_10_decode(want.p, want.len, &mode);
	assert_int_equal(err, 0);
	assert_int_equal(mode.write_protected, r->read_only);
	assert_true(mode.dpofua);
	assert_int_equal(mode.has_caching,
			 cmd.page_code == 0x3f || cmd.page_code == 0x08);
	free(want.p);
}

static const struct mode_in_row {
	const char *name;
	bool ten;
	const char *bytes;
	int err;
	struct scsi_mode mode;
} mode_in_rows[] = {
	{ "LIO, write back", false, "17 00 10 00 08 12 04 00*17", 0,
	  .mode.dpofua = true, .mode.has_caching = true, .mode.wce = true },
	{ "caching after others, read cache off", false,
	  "23 00 00 00 01 0a 00*10 88 12 05 00*17", 0, .mode.has_caching = true,
	  .mode.wce = true },
	{ "four bytes of many", false, "43 00 90 08", 0,
	  .mode.write_protected = true, .mode.dpofua = true },
	{ "no pages", false, "03 00 80 00", 0, .mode.write_protected = true },
	{ "a subpage before", false,
	  "1b 00 00 00 4a 05 00 02 ff ff 08 12 04 00*15", 0 },
	{ "a subpage before, whole", false,
	  "1d 00 00 00 4a 05 00 02 ff ff 08 12 04 00*17", 0,
	  .mode.has_caching = true, .mode.wce = true },
	{ "a subpage of the caching page is another page", false,
	  "09 00 00 00 48 01 00 02 04 04", 0 },
	{ "caching page without a body", false, "05 00 00 00 08 00", 0 },
	{ "page longer than what came", false, "17 00 00 00 08 ff 04 00*17",
	  0 },
	{ "descriptors longer than what came", false, "17 00 00 ff 08 12 04",
	  0 },
	{ "what is not announced is not there", false,
	  "03 00 00 00 08 12 04 00*17", 0 },
	{ "caching page cut to its third byte", false, "06 00 00 00 08 01 04",
	  0, .mode.has_caching = true, .mode.wce = true },
	{ "announced up to its third byte", false, "05 00 00 00 08 01 04", 0 },
	{ "announces less than a header", false, "02 00 00 00", -EBADMSG },
	{ "three bytes", false, "17 00 00", -EBADMSG },
	{ "(10), descriptor and caching", true,
	  "00 22 00 10 00 00 00 08 00*8 08 12 04 00*17", 0, .mode.dpofua = true,
	  .mode.has_caching = true, .mode.wce = true },
	{ "(10), long descriptor", true,
	  "00 2a 00 80 01 00 00 10 00*16 08 12 01 00*17", 0,
	  .mode.write_protected = true, .mode.has_caching = true },
	{ "(10), descriptors past the end", true,
	  "00 1a 00 00 00 00 ff ff 08 12 04 00*17", 0 },
	{ "(10), announces less than a header", true, "00 05 00*6", -EBADMSG },
	{ "(10), seven bytes", true, "00 1a 00*5", -EBADMSG },
};

T_ROWS(mode_in, mode_in_rows)
{
	const struct mode_in_row *r = *state;
	struct t_bytes b = t_bytes(r->bytes);
	struct scsi_mode mode;
	int err;

	err = r->ten ? scsi_mode_sense_10_decode(b.p, b.len, &mode)
		     : scsi_mode_sense_6_decode(b.p, b.len, &mode);
	assert_int_equal(err, r->err);
	free(b.p);
	if (err)
		return;
	assert_int_equal(mode.write_protected, r->mode.write_protected);
	assert_int_equal(mode.dpofua, r->mode.dpofua);
	assert_int_equal(mode.has_caching, r->mode.has_caching);
	assert_int_equal(mode.wce, r->mode.wce);
}

/* LUNs */

T_TEST(luns_are_listed)
{
	/* LUN 0, LUN 1, LUN 256 in flat addressing */
	const uint64_t luns[] = { 0, 1ULL << 48, 0x4100ULL << 48 };
	const char *hex = "00 00 00 18 00*4 00*8 00 01 00*6 41 00 00*6";
	struct t_bytes want = t_bytes(hex);

	for (size_t cap = 0; cap <= want.len; cap++) {
		uint8_t *buf = malloc(cap);

		assert_int_equal(scsi_report_luns_encode(luns, 3, buf, cap),
				 want.len);
		if (cap)
			assert_memory_equal(buf, want.p, cap);
		free(buf);
	}
	free(want.p);
}

T_TEST(no_luns_are_an_empty_list)
{
	uint8_t b[8];
	size_t len = scsi_report_luns_encode(NULL, 0, b, sizeof(b));

	t_assert_bytes(b, len, "00*8");
}

struct luns_row {
	const char *name;
	const char *bytes;
	int err;
	size_t cnt;
	uint32_t total;
	uint64_t last;
};

/* The buffer has room for three. */
static const struct luns_row luns_rows[] = {
	{ "one", "00 00 00 08 00*4 00*8", 0, 1, 1, 0 },
	{ "three", "00 00 00 18 00*4 00*8 00 01 00*6 00 02 00*6", 0, 3, 3,
	  2ULL << 48 },
	{ "more than there is room", "00 00 00 20 00*4 00*24 00 05 00*6", 0, 3,
	  4, 0 },
	{ "list longer than what came", "00 00 00 18 00*4 00 07 00*6 00 01 00",
	  0, 1, 3, 7ULL << 48 },
	{ "list shorter than what came", "00 00 00 08 00*4 00 07 00*6 00*8", 0,
	  1, 1, 7ULL << 48 },
	{ "header alone", "00 00 ff f8 00*4", 0, 0, 0x1fff, 0 },
	{ "longest list", "ff ff ff f8 00*4", 0, 0, 0x1fffffff, 0 },
	{ "odd length", "00 00 00 09 00*4 00*9", -EBADMSG, 0, 0, 0 },
	{ "seven bytes", "00 00 00 08 00*3", -EBADMSG, 0, 0, 0 },
	{ "nothing", "", -EBADMSG, 0, 0, 0 },
};

T_ROWS(luns_in, luns_rows)
{
	const struct luns_row *r = *state;
	struct t_bytes b = t_bytes(r->bytes);
	uint64_t luns[3];
	uint32_t total;
	size_t cnt;
	int err;

	err = scsi_report_luns_decode(b.p, b.len, luns, 3, &cnt, &total);
	free(b.p);
	assert_int_equal(err, r->err);
	if (err)
		return;
	assert_int_equal(cnt, r->cnt);
	assert_int_equal(total, r->total);
	if (cnt)
		assert_int_equal(luns[cnt - 1], r->last);
}

/* REPORT TARGET PORT GROUPS */

static const struct groups_row {
	const char *name;
	const char *bytes;
	int err;
	size_t total;
	const char *got; /* "GROUP STATE", in hexadecimal */
} groups_rows[] = {
	{ "one, active", "00 00 00 0c 00 01 00 01 00*3 01 00*2 00 01", 0, 1,
	  "1 0" },
	{ "two gateways, the second active",
	  "00 00 00 18 02 05 00 01 00*3 01 00*2 00 01"
	  " 00 05 00 02 00*3 01 00*2 00 02",
	  0, 2, "1 2 2 0" },
	{ "PREF is no state", "00 00 00 08 83 05 00 07 00*4", 0, 1, "7 3" },
	{ "two ports in a group, then another group",
	  "00 00 00 18 01 05 00 01 00*3 02 00*8 0f 05 00 02 00*4", 0, 2,
	  "1 1 2 f" },
	{ "more than there is room",
	  "00 00 00 18 00 00 00 01 00*4 00 00 00 02 00*4 00 00 00 03 00*4", 0,
	  3, "1 0 2 0" },
	{ "no groups", "00 00 00 00", 0, 0, "" },
	{ "what did not arrive whole",
	  "00 00 00 18 02 05 00 01 00*3 01 00*2 00 01 00 05", 0, 1, "1 2" },
	{ "behind the list", "00 00 00 08 00 00 00 01 00*4 ff*8", 0, 1, "1 0" },
	{ "ports past the list", "00 00 00 08 00 00 00 01 00*3 01", -EBADMSG, 0,
	  "" },
	{ "half a group", "00 00 00 04 00 00 00 01", -EBADMSG, 0, "" },
	{ "three bytes", "00 00 00", -EBADMSG, 0, "" },
};

T_ROWS(groups_in, groups_rows)
{
	const struct groups_row *r = *state;
	struct t_bytes b = t_bytes(r->bytes);
	struct scsi_port_group groups[2];
	char got[64] = "";
	size_t total = 0;

	assert_int_equal(
		scsi_report_port_groups_decode(b.p, b.len, groups, 2, &total),
		r->err);
	free(b.p);
	assert_int_equal(total, r->total);
	for (size_t i = 0; i < total && i < 2; i++)
		sprintf(got + strlen(got), "%s%x %x", i ? " " : "",
			groups[i].id, groups[i].state);
	assert_string_equal(got, r->got);
}

T_TEST(ours_is_read_back)
{
	struct scsi_disk_info info = plain_disk();
	struct scsi_port_group groups[2];
	uint8_t b[64];
	size_t total;

	info.groups.cnt = 2;
	info.groups.own = 1;
	info.groups.active = 2;
	assert_int_equal(scsi_report_port_groups_decode(
				 b,
				 scsi_report_port_groups_encode(&info, false, b,
								sizeof(b)),
				 groups, 2, &total),
			 0);
	assert_int_equal(total, 2);
	assert_false(scsi_alua_is_active(groups[0].state));
	assert_int_equal(groups[1].id, 2);
	assert_true(scsi_alua_is_active(groups[1].state));
}

/* UNMAP */

T_TEST(unmap_list_is_built)
{
	const struct scsi_extent extents[] = { { 0x123456789a, 8 },
					       { 1, UINT32_MAX } };
	uint8_t b[40];
	size_t len;

	len = scsi_unmap_encode(extents, 2, b, sizeof(b));
	t_assert_bytes(b, len,
		       "00 26 00 20 00*4 00 00 00 12 34 56 78 9a 00 00 00 08 "
		       "00*4 00*7 01 ff ff ff ff 00*4");
	/* seen: the header that Linux 6.1 sends for one descriptor */
	len = scsi_unmap_encode(extents, 1, b, sizeof(b));
	assert_int_equal(len, 24);
	t_assert_bytes(b, 8, "00 16 00 10 00 00 00 00");
}

struct unmap_row {
	const char *name;
	const char *bytes;
	int err;
	size_t cnt;
	struct scsi_extent last;
	uint16_t code;
	uint16_t byte_no;
	uint64_t info;
	uint64_t blocks; /* 0: those of plain_disk(), 200000h */
	bool unlimited;
	uint32_t max_blocks; /* 0: those of plain_disk() */
};

#define DESC(lba, blocks) lba " " blocks " 00*4 "
#define LBA_0		  "00*8"
#define ONE		  "00 00 00 01"

static const struct unmap_row unmap_rows[] = {
	{ "one extent",
	  "00 16 00 10 00*4 " DESC("00*7 05", "00 00 00 08"),
	  0,
	  1,
	  { 5, 8 } },
	{ "no list", "", 0, 0 },
	{ "no extents", "00 06 00 00 00*4", 0, 0 },
	{ "extents of no blocks are left out",
	  "00 36 00 30 00*4 " DESC(LBA_0, "00*4") DESC("00*7 07", ONE)
		  DESC("ff*8", "00*4"),
	  0,
	  1,
	  { 7, 1 } },
	{ "an incomplete last one is ignored",
	  "00 1e 00 18 00*4 " DESC("00*7 03", ONE) "ff*8",
	  0,
	  1,
	  { 3, 1 } },
	{ "last block",
	  "00 16 00 10 00*4 " DESC("00*5 1f ff ff", ONE),
	  0,
	  1,
	  { 0x1fffff, 1 } },
	{ "past the end", "00 16 00 10 00*4 " DESC("00*5 20 00 00", ONE),
	  -EINVAL, .code = 0x2100, .info = 0x200000 },
	{ "reaches past the end",
	  "00 16 00 10 00*4 " DESC("00*5 1f ff ff", "00 00 00 02"), -EINVAL,
	  .code = 0x2100, .info = 0x200000 },
	{ "wraps", "00 16 00 10 00*4 " DESC("ff*8", "00 00 00 02"), -EINVAL,
	  .code = 0x2100, .info = UINT64_MAX },
	{ "a bad one behind a good one",
	  "00 26 00 20 00*4 " DESC(LBA_0, ONE) DESC("ff*8", ONE), -EINVAL,
	  .code = 0x2100, .info = UINT64_MAX },
	{ "as many blocks as allowed",
	  "00 26 00 20 00*4 " DESC(LBA_0, "00 00 03 e7") DESC(LBA_0, ONE),
	  0,
	  2,
	  { 0, 1 } },
	{ "too many blocks in all",
	  "00 26 00 20 00*4 " DESC(LBA_0, "00 00 03 e8") DESC(LBA_0, ONE),
	  -EINVAL, .code = 0x2600, .byte_no = 32 },
	{ "as many extents as allowed",
	  "00 46 00 40 00*4 " DESC(LBA_0, ONE) DESC(LBA_0, ONE) DESC(LBA_0, ONE)
		  DESC("00*7 02", ONE),
	  0,
	  4,
	  { 2, 1 } },
	{ "too many extents",
	  "00 56 00 50 00*4 " DESC(LBA_0, ONE) DESC(LBA_0, ONE) DESC(LBA_0, ONE)
		  DESC(LBA_0, ONE) DESC(LBA_0, ONE),
	  -EINVAL, .code = 0x2600, .byte_no = 2 },
	{ "without limits, the whole of it",
	  "00 16 00 10 00*4 " DESC(LBA_0, "ff*4"),
	  0,
	  1,
	  { 0, UINT32_MAX },
	  .blocks = UINT64_MAX,
	  .unlimited = true },
	{ "no limit, spelled out, and more blocks than that",
	  "00 26 00 20 00*4 " DESC(LBA_0, "ff*4") DESC(LBA_0, "ff*4"),
	  0,
	  2,
	  { 0, UINT32_MAX },
	  .blocks = UINT64_MAX,
	  .max_blocks = UINT32_MAX },
	{ "without limits, more extents than there is room",
	  "00 56 00 50 00*4 " DESC(LBA_0, ONE) DESC(LBA_0, ONE) DESC(LBA_0, ONE)
		  DESC(LBA_0, ONE) DESC(LBA_0, ONE),
	  -EINVAL, .code = 0x2600, .byte_no = 2, .unlimited = true },
	{ "cut before the header ends", "00 16 00 10 00 00 00", -EINVAL,
	  .code = 0x1a00 },
	{ "an extent that the list's end cuts is ignored",
	  "00 16 00 10 00*4 00*15", 0, 0 },
	{ "those before it are not",
	  "00 26 00 20 00*4 " DESC("00*7 09", ONE) "ff*15",
	  0,
	  1,
	  { 9, 1 } },
	{ "longest length there is", "ff ff ff ff 00*4 " DESC(LBA_0, ONE),
	  -EINVAL, .code = 0x2600, .byte_no = 0 },
	{ "longest lengths that agree",
	  "ff ff ff f9 00*4 " DESC("00*7 09", ONE),
	  0,
	  1,
	  { 9, 1 } },
	{ "the two lengths disagree", "00 15 00 10 00*4 " DESC(LBA_0, ONE),
	  -EINVAL, .code = 0x2600, .byte_no = 0 },
	{ "more bytes than the lengths say",
	  "00 16 00 10 00*4 " DESC("00*7 09", ONE) "ff*16",
	  0,
	  1,
	  { 9, 1 } },
};

T_ROWS(unmap_in, unmap_rows)
{
	const struct unmap_row *r = *state;
	struct scsi_disk_info info = plain_disk();
	struct t_bytes b = t_bytes(r->bytes);
	struct scsi_extent extents[4] = { { 42, 42 } };
	struct scsi_sense sense = { 0 };
	size_t cnt;
	int err;

	if (r->blocks)
		info.blocks = r->blocks;
	if (r->unlimited)
		info.max_unmap_blocks = info.max_unmap_descs = 0;
	if (r->max_blocks)
		info.max_unmap_blocks = r->max_blocks;
	err = scsi_unmap_decode(b.p, b.len, &info, extents, 4, &cnt, &sense);
	free(b.p);
	assert_int_equal(err, r->err);
	if (err) {
		assert_int_equal(sense.key, SCSI_KEY_ILLEGAL_REQUEST);
		assert_int_equal(sense.code, r->code);
		assert_int_equal(sense.pointer, r->code == 0x2600
							? SCSI_POINTER_DATA
							: SCSI_POINTER_NONE);
		assert_int_equal(sense.byte_no, r->byte_no);
		assert_int_equal(sense.info_valid, r->code == 0x2100);
		assert_int_equal(sense.info, r->info);
		/* a refused list returns no extent */
		assert_int_equal(extents[0].lba, 42);
		return;
	}
	assert_int_equal(cnt, r->cnt);
	if (cnt) {
		assert_int_equal(extents[cnt - 1].lba, r->last.lba);
		assert_int_equal(extents[cnt - 1].blocks, r->last.blocks);
	}
}

/* GET LBA STATUS */

T_TEST(ranges_are_told)
{
	const struct scsi_lba_range ranges[] = {
		{ 0x10, 8, SCSI_LBA_MAPPED },
		{ 0x18, 0xffffffff, SCSI_LBA_DEALLOCATED },
	};
	const char *hex = "00 00 00 24 00*4 00*7 10 00 00 00 08 00 00*3 "
			  "00*7 18 ff ff ff ff 01 00*3";
	struct t_bytes want = t_bytes(hex);
	struct scsi_lba_range back[2];
	size_t cnt;

	for (size_t cap = 0; cap <= want.len; cap++) {
		uint8_t *buf = malloc(cap);

		assert_int_equal(scsi_lba_status_encode(ranges, 2, buf, cap),
				 want.len);
		if (cap)
			assert_memory_equal(buf, want.p, cap);
		free(buf);
	}
	assert_int_equal(
		scsi_lba_status_decode(want.p, want.len, 0x12, back, 2, &cnt),
		0);
	assert_int_equal(cnt, 2);
	assert_int_equal(back[1].lba, 0x18);
	assert_int_equal(back[1].blocks, 0xffffffff);
	assert_int_equal(back[1].state, SCSI_LBA_DEALLOCATED);
	free(want.p);
}

struct ranges_row {
	const char *name;
	const char *bytes;
	uint64_t lba;
	int err;
	size_t cnt;
};

#define RANGE(lba, blocks) lba " " blocks " 01 00*3 "

/* The buffer has room for two. */
static const struct ranges_row ranges_rows[] = {
	{ "one", "00 00 00 14 00*4 " RANGE(LBA_0, ONE), 0, 0, 1 },
	{ "starts before what was asked",
	  "00 00 00 14 00*4 " RANGE(LBA_0, "00 00 00 08"), 7, 0, 1 },
	{ "ends before what was asked",
	  "00 00 00 14 00*4 " RANGE(LBA_0, "00 00 00 08"), 8, -EBADMSG, 0 },
	{ "starts behind what was asked",
	  "00 00 00 14 00*4 " RANGE("00*7 09", "00 00 00 08"), 8, -EBADMSG, 0 },
	{ "no blocks", "00 00 00 14 00*4 " RANGE(LBA_0, "00*4"), 0, -EBADMSG,
	  0 },
	{ "wraps", "00 00 00 14 00*4 " RANGE("ff*8", "00 00 00 02"), UINT64_MAX,
	  -EBADMSG, 0 },
	{ "a gap", "00 00 00 24 00*4 " RANGE(LBA_0, ONE) RANGE("00*7 02", ONE),
	  0, -EBADMSG, 0 },
	{ "an overlap",
	  "00 00 00 24 00*4 " RANGE(LBA_0, "00 00 00 02") RANGE("00*7 01", ONE),
	  0, -EBADMSG, 0 },
	{ "more than there is room",
	  "00 00 00 34 00*4 " RANGE(LBA_0, ONE) RANGE("00*7 01", ONE)
		  RANGE("ff*8", "00*4"),
	  0, 0, 2 },
	{ "cut inside the second",
	  "00 00 00 24 00*4 " RANGE(LBA_0, ONE) "00*15", 0, 0, 1 },
	{ "announces one of two",
	  "00 00 00 14 00*4 " RANGE(LBA_0, ONE) RANGE("ff*8", "00*4"), 0, 0,
	  1 },
	{ "announces all there can be", "ff ff ff ff 00*4 " RANGE(LBA_0, ONE),
	  0, 0, 1 },
	{ "announces none", "00 00 00 04 00*4 " RANGE(LBA_0, ONE), 0, -EBADMSG,
	  0 },
	{ "announces less than a header", "00*8 " RANGE(LBA_0, ONE), 0,
	  -EBADMSG, 0 },
	{ "header alone", "00 00 00 14 00*4", 0, -EBADMSG, 0 },
	{ "seven bytes", "00 00 00 14 00*3", 0, -EBADMSG, 0 },
};

T_ROWS(ranges_in, ranges_rows)
{
	const struct ranges_row *r = *state;
	struct t_bytes b = t_bytes(r->bytes);
	struct scsi_lba_range ranges[2];
	size_t cnt;
	int err;

	err = scsi_lba_status_decode(b.p, b.len, r->lba, ranges, 2, &cnt);
	free(b.p);
	assert_int_equal(err, r->err);
	if (!err)
		assert_int_equal(cnt, r->cnt);
}

T_TEST(ranges_fit_their_allocation)
{
	assert_int_equal(scsi_lba_status_capacity(0), 1);
	assert_int_equal(scsi_lba_status_capacity(23), 1);
	assert_int_equal(scsi_lba_status_capacity(24), 1);
	assert_int_equal(scsi_lba_status_capacity(39), 1);
	assert_int_equal(scsi_lba_status_capacity(40), 2);
	assert_int_equal(scsi_lba_status_capacity(UINT32_MAX), 268435455);
}

/* REPORT SUPPORTED OPERATION CODES */

static const struct opcode_row {
	const char *name;
	uint8_t options;
	uint8_t opcode;
	uint16_t service_action;
	const char *bytes; /* NULL: refused */
	bool rctd;
	bool thick;
} opcode_rows[] = {
	{ "INQUIRY, as Linux asks", 1, 0x12, 0,
	  "00 03 00 06 12 01 ff ff ff 00" },
	{ "WRITE SAME (16), as Linux asks", 1, 0x93, 0,
	  "00 03 00 10 93 09 ff*12 00 00" },
	{ "WRITE SAME (16), thick", 1, 0x93, 0, "00 03 00 10 93 01 ff*12 00 00",
	  .thick = true },
	{ "WRITE SAME (10), as Linux asks", 1, 0x41, 0,
	  "00 03 00 0a 41 08 ff ff ff ff 00 ff ff 00" },
	{ "READ (10)", 1, 0x28, 0,
	  "00 03 00 0a 28 18 ff ff ff ff 00 ff ff 00" },
	{ "UNMAP", 3, 0x42, 0, "00 03 00 0a 42 00*6 ff ff 00" },
	{ "UNMAP, thick", 3, 0x42, 0, "00 01 00 00", .thick = true },
	{ "unknown", 1, 0xff, 0, "00 01 00 00" },
	{ "unknown with service action", 2, 0xff, 3, "00 01 00 00" },
	{ "unknown, either", 3, 0xff, 0, "00 01 00 00", .rctd = true },
	{ "service action, by operation code alone", 1, 0x9e, 0x10, NULL },
	{ "none, by service action", 2, 0x28, 0, NULL },
	{ "by service action", 2, 0x9e, 0x12, "00 03 00 10 9e 12 ff*12 00 00" },
	{ "unknown service action", 2, 0x9e, 0x11, "00 01 00 00" },
	{ "service action that wraps", 2, 0x9e, 0x110, "00 01 00 00" },
	{ "either, by service action", 3, 0xa3, 0x0c,
	  "00 03 00 0c a3 0c 83 ff ff ff ff ff ff ff 00 00" },
	{ "either, none", 3, 0x00, 0, "00 03 00 06 00*6" },
	{ "either, none has no service action 1", 3, 0x00, 1, "00 01 00 00" },
	{ "with timeouts", 1, 0x00, 0, "00 83 00 06 00*6 00 0a 00*10",
	  .rctd = true },
};

T_ROWS(one_opcode, opcode_rows)
{
	const struct opcode_row *r = *state;
	struct scsi_disk_info info = plain_disk();
	struct scsi_cmd cmd = {
		.op = SCSI_OP_REPORT_OPCODES,
		.reporting_options = r->options,
		.requested_opcode = r->opcode,
		.requested_service_action = r->service_action,
		.rctd = r->rctd,
	};
	struct scsi_sense sense = { 0 };
	bool supported;
	uint8_t b[64];
	size_t len;
	int err;

	info.unmap = !r->thick;
	err = scsi_report_opcodes_encode(&info, &cmd, b, sizeof(b), &len,
					 &sense);
	if (!r->bytes) {
		assert_int_equal(err, -EINVAL);
		assert_int_equal(sense.code, SCSI_ASC_INVALID_FIELD_IN_CDB);
		assert_int_equal(sense.byte_no, 2);
		assert_int_equal(sense.bit_no, 2);
		return;
	}
	assert_int_equal(err, 0);
	t_assert_bytes(b, len, r->bytes);
	assert_int_equal(scsi_report_opcode_decode(b, len, &supported), 0);
	assert_int_equal(supported, len > 4);
}

/* Walks the list of all commands; returns the number of entries. */
static size_t walk_all(bool thick, bool rctd, size_t desc_len)
{
	struct scsi_disk_info info = plain_disk();
	struct scsi_cmd cmd = { .op = SCSI_OP_REPORT_OPCODES, .rctd = rctd };
	struct scsi_sense sense;
	uint8_t b[4096], part[100];
	size_t len, cnt = 0;

	info.unmap = !thick;
	info.max_atomic_blocks = thick ? 0 : 8;
	assert_int_equal(scsi_report_opcodes_encode(&info, &cmd, b, sizeof(b),
						    &len, &sense),
			 0);
	assert_int_equal(len, 4 + ((size_t)b[2] << 8 | b[3]));
	assert_int_equal((len - 4) % desc_len, 0);
	for (const uint8_t *d = b + 4; d < b + len; d += desc_len) {
		const struct scsi_cdb_info *row =
			scsi_cdb_find(d[0], (unsigned int)d[2] << 8 | d[3]);

		assert_non_null(row);
		assert_int_equal(d[5] & 1, row->service_action >= 0);
		assert_int_equal(d[5] & 2, rctd ? 2 : 0);
		assert_int_equal(d[7], row->cdb_len);
		if (rctd)
			t_assert_bytes(d + 8, 12, "00 0a 00*10");
		cnt++;
	}
	assert_int_equal(scsi_report_opcodes_encode(&info, &cmd, part,
						    sizeof(part), &len, &sense),
			 0);
	assert_memory_equal(part, b, sizeof(part));
	return cnt;
}

T_TEST(all_opcodes_are_the_table)
{
	assert_int_equal(walk_all(false, false, 8), scsi_cdb_table_cnt);
	assert_int_equal(walk_all(false, true, 20), scsi_cdb_table_cnt);
	/* all but UNMAP and WRITE ATOMIC */
	assert_int_equal(walk_all(true, false, 8), scsi_cdb_table_cnt - 2);
}

T_TEST(opcode_answers_are_checked)
{
	bool supported = true;

	assert_int_equal(scsi_report_opcode_decode("\0", 1, &supported),
			 -EBADMSG);
	assert_int_equal(scsi_report_opcode_decode("\0\1", 2, &supported), 0);
	assert_false(supported);
	assert_int_equal(scsi_report_opcode_decode("\0\203", 2, &supported), 0);
	assert_true(supported);
}

/* Runs every parser on every prefix of good data, with each single byte
 * wrong. */

static const struct good_row {
	const char *name;
	const char *bytes;
} good_rows[] = {
	{ "LUNs", "00 00 00 18 00*4 00*8 00 01 00*6 41 00 00*6" },
	{ "capacity", "00 00 00 00 00 1f ff ff 00 00 02 00 00 03 c0 00*17" },
	{ "mode (6)",
	  "43 00 10 08 " SHORT_DESC PAGE_01 PAGE_08 PAGE_0A PAGE_1C },
	{ "mode (10)", "00 46 00 10 00 00 00 08 " SHORT_DESC PAGE_01 PAGE_08
			       PAGE_0A PAGE_1C },
	{ "UNMAP",
	  "00 26 00 20 00*4 " DESC(LBA_0, "00 00 03 e7") DESC(LBA_0, ONE) },
	{ "ranges",
	  "00 00 00 24 00*4 " RANGE(LBA_0, ONE) RANGE("00*7 01", ONE) },
};

static void parse_all(const uint8_t *p, size_t len)
{
	struct scsi_disk_info info = plain_disk();
	struct scsi_lba_range ranges[2];
	struct scsi_port_group groups[2];
	struct scsi_extent extents[4];
	struct scsi_capacity cap;
	struct scsi_sense sense;
	struct scsi_mode mode;
	uint64_t luns[3];
	uint32_t total;
	bool supported;
	size_t cnt;

	if (!scsi_report_luns_decode(p, len, luns, 3, &cnt, &total))
		assert_true(cnt <= 3 && cnt <= total);
	scsi_report_port_groups_decode(p, len, groups, 2, &cnt);
	scsi_read_capacity_10_decode(p, len, &cap);
	if (!scsi_read_capacity_16_decode(p, len, &cap))
		assert_true(cap.blocks <= INT64_MAX / cap.block_size);
	scsi_mode_sense_6_decode(p, len, &mode);
	scsi_mode_sense_10_decode(p, len, &mode);
	if (!scsi_unmap_decode(p, len, &info, extents, 4, &cnt, &sense)) {
		assert_true(cnt <= 4);
		for (size_t i = 0; i < cnt; i++)
			assert_true(extents[i].lba < info.blocks);
	}
	if (!scsi_lba_status_decode(p, len, 0, ranges, 2, &cnt))
		assert_true(cnt >= 1 && cnt <= 2);
	scsi_report_opcode_decode(p, len, &supported);
}

T_ROWS(parsers_stay_inside, good_rows)
{
	const struct good_row *r = *state;

	t_break_bytes(r->bytes, parse_all);
}
