/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "protocol/scsi_vpd.h"
#include "tests/lib/t_bytes.h"

#define NAA "65 24 44 d0 01 02 03 04 05 06 07 08 09 0a 0b 0c"

/* A thin SSD, as rdma-target makes one from a file. */
static struct scsi_disk_info thin_disk(void)
{
	return (struct scsi_disk_info){
		.name = "disk.img",
		.serial = "8d3f5a0011223344",
		.naa = { 0x65, 0x24, 0x44, 0xd0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
			 11, 12 },
		.target_port = 1,
		.store = { .generation = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
					   12, 13, 14, 15, 16 } },
		.blocks = 0x200000,
		.block_size = 512,
		.physical_exp = 3,
		.mode_default = { .wce = true },
		.unmap = true,
		.lbprz = true,
		.optimal_granularity_blocks = 8,
		.max_transfer_blocks = 0x10000,
		.optimal_transfer_blocks = 0x800,
		.max_unmap_blocks = 0x400000,
		.max_unmap_descs = 256,
		.unmap_granularity_blocks = 8,
		.unmap_alignment_blocks = 0,
		.max_write_same_blocks = 0x123456789a,
		.write_same_nonzero = true,
	};
}

/* The simplest disk: thick, read-only, write through, removable, rotating. */
static struct scsi_disk_info thick_disk(void)
{
	return (struct scsi_disk_info){
		.name = "a name with more than sixteen bytes",
		.serial = "1",
		.naa = { 0x65, 0x24, 0x44, 0xd0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
			 11, 12 },
		.target_port = 0x102,
		.store = { .is_memory = true },
		.blocks = 1,
		.block_size = 4096,
		.read_only = true,
		.rotational = true,
		.removable = true,
		.lbprz = true, /* means nothing without unmap */
		.max_unmap_blocks = 7,
		.max_unmap_descs = 7,
		.unmap_granularity_blocks = 7,
	};
}

static const struct page_row {
	const char *name;
	struct scsi_disk_info (*disk)(void);
	int page; /* -1: standard data, -2: of an absent unit */
	const char *bytes;
} page_rows[] = {
	{ "standard data", thin_disk, -1,
	  "00 00 06 02 5b 38 00 02 'RDMABLK ' 'disk.img        ' '0001'"
	  "00*22 00 a0 09 40 04 60 04 c0 00*30" },
	{ "standard data, removable, long name", thick_disk, -1,
	  "00 80 06 02 5b 38 00 02 'RDMABLK ' 'a name with more' '0001'"
	  "00*22 00 a0 09 40 04 60 04 c0 00*30" },
	{ "standard data of an absent unit", thin_disk, -2,
	  "7f 00 06 02 5b 00 00 02 'RDMABLK ' 20*16 '0001' 00*60" },
	{ "page 00h", thin_disk, 0x00,
	  "00 00 00 09 00 80 83 86 8f b0 b1 b2 c0" },
	{ "page 8Fh", thin_disk, 0x8f,
	  "00 8f 00 60 00 01 00 08 07 83 01 00 84 02 00 03 "
	  "00 04 00 1c 00*4 00 10 00 20 00 00 05 80 00*16 "
	  "00 08 00 04 02 02 e4 00 00 0c 00 04 00 02 ff ff "
	  "80 01 00 20 00 00 00 ff 00 00 00 ff 00 40 00 00 09 00*19" },
	{ "page 80h", thin_disk, 0x80, "00 80 00 10 '8d3f5a0011223344'" },
	{ "page 83h", thin_disk, 0x83,
	  "00 83 00 49 01 03 00 10 " NAA
	  " 02 01 00 21 'RDMABLK ' 'disk.img:8d3f5a0011223344'"
	  " 41 94 00 04 00 00 00 01 41 95 00 04 00 00 00 01" },
	{ "page 83h, other port", thick_disk, 0x83,
	  "00 83 00 55 01 03 00 10 " NAA " 02 01 00 2d 'RDMABLK ' "
	  "'a name with more than sixteen bytes:1' 41 94 00 04 00 00 01 02 "
	  "41 95 00 04 00 00 00 01" },
	{ "page 86h", thin_disk, 0x86, "00 86 00 3c 00 07 01 00*6 1c 00*50" },
	{ "page 86h, no cache", thick_disk, 0x86,
	  "00 86 00 3c 00 07 00 00*6 1c 00*50" },
	{ "page B0h", thin_disk, 0xb0,
	  "00 b0 00 3c 01 00 00 08 00 01 00 00 00 00 08 00 00*4 00 40 00 00"
	  " 00 00 01 00 00 00 00 08 80 00 00 00 00 00 00 12 34 56 78 9a 00*20" },
	{ "page B0h, thick", thick_disk, 0xb0, "00 b0 00 3c 00*60" },
	{ "page B1h", thin_disk, 0xb1, "00 b1 00 3c 00 01 00 40 00*56" },
	{ "page B1h, rotating", thick_disk, 0xb1,
	  "00 b1 00 3c 00 00 00 40 00*56" },
	{ "page B2h", thin_disk, 0xb2, "00 b2 00 04 0b e4 02 00" },
	{ "page B2h, thick", thick_disk, 0xb2, "00 b2 00 04 00 00 00 00" },
	{ "page C0h", thin_disk, 0xc0,
	  "00 c0 00 1c 'RDMABLK ' 00*4 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d "
	  "0e 0f 10" },
	{ "page C0h, memory", thick_disk, 0xc0,
	  "00 c0 00 1c 'RDMABLK ' 01 00*19" },
};

static size_t build(const struct scsi_disk_info *info, int page, void *buf,
		    size_t cap)
{
	struct scsi_sense sense;
	size_t len = 0;

	if (page == -1)
		return scsi_inquiry_encode(info, buf, cap);
	if (page == -2)
		return scsi_inquiry_encode_absent(buf, cap);
	assert_int_equal(
		scsi_vpd_encode(info, (uint8_t)page, buf, cap, &len, &sense),
		0);
	return len;
}

/* Builds each page into buffers of every size. The lengths inside are always
 * the full ones. */
T_ROWS(page, page_rows)
{
	const struct page_row *r = *state;
	struct scsi_disk_info info = r->disk();
	struct t_bytes want = t_bytes(r->bytes);

	for (size_t cap = 0; cap <= want.len + 1; cap++) {
		size_t n = cap < want.len ? cap : want.len;
		uint8_t *buf = malloc(cap);

		assert_int_equal(build(&info, r->page, buf, cap), want.len);
		if (n)
			assert_memory_equal(buf, want.p, n);
		free(buf);
	}
	free(want.p);
}

T_TEST(unknown_pages_are_refused)
{
	struct scsi_disk_info info = thin_disk();
	uint8_t list[SCSI_VPD_MAX_LEN];
	size_t list_len = build(&info, 0x00, list, sizeof(list));

	for (unsigned int code = 0; code < 256; code++) {
		struct scsi_sense sense = { 0 };
		uint8_t b[SCSI_VPD_MAX_LEN];
		size_t len;
		int err = scsi_vpd_encode(&info, (uint8_t)code, b, sizeof(b),
					  &len, &sense);

		/* The list has exactly the pages that exist. */
		assert_int_equal(err == 0,
				 scsi_vpd_lists(list, list_len, (uint8_t)code));
		if (!err)
			continue;
		assert_int_equal(err, -EINVAL);
		assert_int_equal(sense.code, SCSI_ASC_INVALID_FIELD_IN_CDB);
		assert_int_equal(sense.byte_no, 2);
		assert_int_equal(sense.bit_no, 7);
	}
}

static const struct name_row {
	const char *name;
	const char *volume; /* NULL: 300 letters; "": 300 of U+00E4 */
	const char *product;
	uint8_t code_set;
	const char *back;
} name_rows[] = {
	{ "short", "a", "a", 2, "a" },
	{ "with colons", "a:b:c", "a:b:c", 2, "a:b:c" },
	{ "with spaces inside", "my disk", "my disk", 2, "my disk" },
	{ "UTF-8",
	  "gr\xc3\xb6\xc3\x9f"
	  "e",
	  "gr____e", 3,
	  "gr\xc3\xb6\xc3\x9f"
	  "e" },
	{ "control characters", "a\nb", "a_b", 3, "a_b" },
	{ "a slash", "a/b", "a/b", 2, "a_b" },
	{ "too long", NULL, "xxxxxxxxxxxxxxxx", 2, NULL },
	{ "too long, UTF-8", "", "________________", 3, "" },
};

/* The name that the initiator reads is the name that the target reported. */
T_ROWS(name_survives, name_rows)
{
	const struct name_row *r = *state;
	struct scsi_disk_info info = thin_disk();
	char longest[601] = "";
	uint8_t b[SCSI_VPD_MAX_LEN];
	struct scsi_inquiry inq;
	struct scsi_vpd_ids ids;
	size_t len;

	for (size_t i = 0; i < 300; i++)
		strcat(longest, r->volume ? "\xc3\xa4" : "x");
	info.name = r->volume && *r->volume ? r->volume : longest;

	len = build(&info, -1, b, sizeof(b));
	assert_int_equal(scsi_inquiry_decode(b, len, &inq), 0);
	assert_string_equal(inq.product, r->product);
	len = build(&info, 0x83, b, sizeof(b));
	assert_true(len <= sizeof(b));
	assert_int_equal(b[24], r->code_set);
	assert_int_equal(scsi_vpd_decode_ids(b, len, &ids), 0);
	if (r->back && *r->back) {
		assert_string_equal(ids.name, r->back);
	} else {
		assert_int_equal(strlen(ids.name), SCSI_VOLUME_NAME_MAX);
		assert_memory_equal(ids.name, longest, SCSI_VOLUME_NAME_MAX);
	}
}

T_TEST(half_a_character_is_not_told)
{
	struct scsi_disk_info info = thin_disk();
	char name[2 * SCSI_VOLUME_NAME_MAX] = "x";
	uint8_t b[SCSI_VPD_MAX_LEN];
	struct scsi_vpd_ids ids;
	size_t len;

	for (size_t i = 0; i < SCSI_VOLUME_NAME_MAX - 1; i++)
		strcat(name, "\xc3\xa4");
	info.name = name;
	len = build(&info, 0x83, b, sizeof(b));
	assert_int_equal(scsi_vpd_decode_ids(b, len, &ids), 0);
	assert_int_equal(strlen(ids.name), SCSI_VOLUME_NAME_MAX - 1);
}

T_TEST(longest_names_fit_the_largest_page)
{
	struct scsi_disk_info info = thin_disk();
	char name[1000], serial[1000];
	uint8_t b[SCSI_VPD_MAX_LEN];
	char back[SCSI_SERIAL_MAX + 1];
	struct scsi_vpd_ids ids;
	size_t len;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memset(serial, 's', sizeof(serial) - 1);
	serial[sizeof(serial) - 1] = '\0';
	info.name = name;
	info.serial = serial;
	len = build(&info, 0x83, b, sizeof(b));
	assert_int_equal(scsi_vpd_decode_ids(b, len, &ids), 0);
	assert_int_equal(strlen(ids.name), SCSI_VOLUME_NAME_MAX);
	len = build(&info, 0x80, b, sizeof(b));
	assert_int_equal(scsi_vpd_decode_serial(b, len, back), 0);
	assert_int_equal(strlen(back), SCSI_SERIAL_MAX);
}

/* Linux takes a VPD page of length 0 for an error. */
T_TEST(empty_serial_is_a_space)
{
	struct scsi_disk_info info = thin_disk();
	uint8_t b[SCSI_VPD_MAX_LEN];
	size_t len;

	info.serial = "";
	len = build(&info, 0x80, b, sizeof(b));
	t_assert_bytes(b, len, "00 80 00 01 20");
}

T_TEST(naa_is_stable_and_local)
{
	uint8_t a[SCSI_NAA_LEN], b[SCSI_NAA_LEN];

	/* These bytes name volumes on disk and in multipath's files. If they
	 * change, no user finds these volumes again. */
	scsi_naa_make("host:/srv/disk.img", a);
	assert_int_equal(a[0], 0x65);
	assert_int_equal(a[1], 0x24);
	assert_int_equal(a[2], 0x44);
	assert_int_equal(a[3] & 0xf0, 0xd0);
	t_assert_bytes(a, sizeof(a),
		       "65 24 44 d1 02 c0 3f 17 c3 4b a7 38 5f 96 3f c5");
	scsi_naa_make("host:/srv/disk.img", b);
	assert_memory_equal(a, b, sizeof(a));
	scsi_naa_make("host:/srv/disk.imh", b);
	assert_memory_not_equal(a + 4, b + 4, 4);
	assert_memory_not_equal(a + 8, b + 8, 8);
}

static const struct inquiry_row {
	const char *name;
	const char *bytes;
	int err;
	struct scsi_inquiry inq;
} inquiry_rows[] = {
	{ "LIO",
	  "00 00 06 12 5b 00 10 02 'LIO-ORG ' 'disk1           ' '4.0 '"
	  "00*60",
	  0, .inq.vendor = "LIO-ORG", .inq.product = "disk1",
	  .inq.revision = "4.0" },
	{ "LIO's virtual LUN 0",
	  "3f 00 06 12 1f 00 10 02 'LIO-ORG ' 'NULL            ' '4.0 '", 0,
	  .inq.qualifier = 1, .inq.device_type = 0x1f, .inq.vendor = "LIO-ORG",
	  .inq.product = "NULL", .inq.revision = "4.0" },
	{ "absent, removable, old", "7f 80 02 02 1f 00 00 00 00*8 20*16 00*4",
	  0, .inq.qualifier = 3, .inq.device_type = 0x1f },
	{ "bytes that are no text",
	  "00 00 06 02 1f 00 00 00 1b 'c' 00 'b    ' ff*16 '1' 0a '2 '", 0,
	  .inq.vendor = "?c?b", .inq.product = "????????????????",
	  .inq.revision = "1?2" },
	{ "announces too little", "00 00 06 02 1e 00*31", -EBADMSG },
	{ "one byte short", "00 00 06 02 1f 00*30", -EBADMSG },
	{ "nothing", "", -EBADMSG },
};

T_ROWS(inquiry, inquiry_rows)
{
	const struct inquiry_row *r = *state;
	struct t_bytes b = t_bytes(r->bytes);
	struct scsi_inquiry inq;

	assert_int_equal(scsi_inquiry_decode(b.p, b.len, &inq), r->err);
	free(b.p);
	if (r->err)
		return;
	assert_int_equal(inq.qualifier, r->inq.qualifier);
	assert_int_equal(inq.device_type, r->inq.device_type);
	assert_string_equal(inq.vendor, r->inq.vendor);
	assert_string_equal(inq.product, r->inq.product);
	assert_string_equal(inq.revision, r->inq.revision);
}

static const struct serial_row {
	const char *name;
	const char *bytes;
	int err;
	const char *serial;
} serial_rows[] = {
	{ "with LIO's NUL", "00 80 00 05 'abcd' 00", 0, "abcd" },
	{ "spaces around", "00 80 00 08 '  ab c  '", 0, "ab c" },
	{ "empty", "00 80 00 00", 0, "" },
	{ "only spaces", "00 80 00 04 20*4", 0, "" },
	{ "control characters", "00 80 00 03 'a' 0a 'b'", 0, "a?b" },
	{ "too long", "00 80 01 00 'x' 79*255", 0,
	  "xyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy" },
	{ "cut short", "00 80 00 05 'abcd'", -EBADMSG, NULL },
	{ "another page", "00 83 00 04 'abcd'", -EBADMSG, NULL },
	{ "no header", "00 80 00", -EBADMSG, NULL },
};

T_ROWS(serial, serial_rows)
{
	const struct serial_row *r = *state;
	struct t_bytes b = t_bytes(r->bytes);
	char text[SCSI_SERIAL_MAX + 1];

	assert_int_equal(scsi_vpd_decode_serial(b.p, b.len, text), r->err);
	if (!r->err)
		assert_string_equal(text, r->serial);
	free(b.p);
}

static const struct ids_row {
	const char *name;
	const char *bytes;
	int err;
	uint8_t naa_len;
	const char *volume;
	const char *vendor;
	uint8_t port_len;
	uint16_t port_group;
} ids_rows[] = {
	{ "LIO",
	  "00 83 00 3b 01 03 00 10 60 01 40 5a 11*12"
	  " 02 01 00 1b 'LIO-ORG ' 'disk1:a5b6c7d8e9f0' 00"
	  " 41 94 00 04 00 00 00 01",
	  0, 16, "disk1", "LIO-ORG" },
	{ "group and name of the port",
	  "00 83 00 1c 41 15 00 04 00 00 00 07"
	  " 43 98 00 0c 'fe80::1,t,01' 01 05 00 00",
	  0, 0, "", "", 13, 7 },
	{ "the first name of the port counts",
	  "00 83 00 1c 41 92 00 08 11*8 41 93 00 08 50*8", 0, 0, "", "", 9 },
	{ "name of the device is not the port's",
	  "00 83 00 0c 43 a8 00 08 'a,device'", 0, 0, "", "" },
	{ "group of odd length", "00 83 00 06 41 15 00 02 00 07", 0, 0, "",
	  "" },
	{ "name of a port as long as it may be",
	  "00 83 01 02 43 98 00 fe 61*254", 0, 0, "", "", 255 },
	{ "name of a port that is too long", "00 83 01 03 43 98 00 ff 61*255",
	  0, 0, "", "" },
	{ "no designators", "00 83 00 00", 0, 0, "", "" },
	{ "NAA of 8 bytes", "00 83 00 0c 01 03 00 08 50 00*7", 0, 8, "", "" },
	{ "the longer NAA counts, in either order",
	  "00 83 00 2c 01 03 00 08 50 00*7 01 03 00 10 60 00*15"
	  " 01 03 00 08 51 00*3 00*4 ",
	  0, 16, "", "" },
	{ "NAA of odd length", "00 83 00 07 01 03 00 03 50 00 00", 0, 0, "",
	  "" },
	{ "NAA of a port is not the unit's", "00 83 00 14 01 13 00 10 60 00*15",
	  0, 0, "", "", 17 },
	{ "no colon", "00 83 00 10 02 01 00 0c 'ATA     ' 'disk'", 0, 0, "disk",
	  "ATA" },
	{ "nothing before the colon",
	  "00 83 00 10 02 01 00 0c 'ACME    ' ':abc'", 0, 0, ":abc", "ACME" },
	{ "vendor alone", "00 83 00 0c 02 01 00 08 'ACME    '", 0, 0, "", "" },
	{ "hostile name", "00 83 00 12 02 01 00 0e 'ACME    ' '../' 0a 7f ':'",
	  0, 0,
	  ".._"
	  "__",
	  "ACME" },
	{ "longest designator", "00 83 01 03 02 01 00 ff 'ACME    ' 79*247", 0,
	  0, NULL, "ACME" },
	{ "empty designators", "00 83 00 08 02 01 00 00 01 03 00 00", 0, 0, "",
	  "" },
	{ "designator past the page", "00 83 00 08 02 01 00 05 'abcd'",
	  -EBADMSG, 0, NULL, NULL },
	{ "half a designator header", "00 83 00 02 02 01", -EBADMSG, 0, NULL,
	  NULL },
	{ "page that did not arrive whole",
	  "00 83 00 40 01 03 00 08 50 00*7 02 01 00 20 'ACME'", 0, 8, "", "" },
	{ "another page", "00 80 00 04 00*4", -EBADMSG, 0, NULL, NULL },
};

T_ROWS(ids, ids_rows)
{
	const struct ids_row *r = *state;
	struct t_bytes b = t_bytes(r->bytes);
	struct scsi_vpd_ids got;

	assert_int_equal(scsi_vpd_decode_ids(b.p, b.len, &got), r->err);
	free(b.p);
	if (r->err)
		return;
	assert_int_equal(got.naa_len, r->naa_len);
	assert_string_equal(got.t10_vendor, r->vendor);
	assert_int_equal(got.port_len, r->port_len);
	assert_int_equal(got.port_group, r->port_group);
	assert_int_equal(got.has_port_group, r->port_group != 0);
	if (r->volume)
		assert_string_equal(got.name, r->volume);
	else
		assert_int_equal(strlen(got.name), SCSI_VOLUME_NAME_MAX);
}

T_TEST(limits_come_back)
{
	struct scsi_disk_info info = thin_disk();
	struct scsi_block_limits got;
	uint8_t b[SCSI_VPD_MAX_LEN];
	size_t len;

	info.unmap_alignment_blocks = 3;
	len = build(&info, 0xb0, b, sizeof(b));
	assert_int_equal(scsi_vpd_decode_limits(b, len, &got), 0);
	assert_int_equal(got.max_transfer_blocks, 0x10000);
	assert_int_equal(got.optimal_transfer_blocks, 0x800);
	assert_int_equal(got.max_unmap_blocks, 0x400000);
	assert_int_equal(got.max_unmap_descs, 256);
	assert_int_equal(got.unmap_granularity_blocks, 8);
	assert_int_equal(got.unmap_alignment_blocks, 3);
	assert_int_equal(got.max_write_same_blocks, 0x123456789a);
}

T_TEST(limits_of_sbc_2_have_no_unmap)
{
	struct t_bytes b = t_bytes("00 b0 00 0c 00 00 00 01 00 00 80 00 00*4");
	struct scsi_block_limits got;

	assert_int_equal(scsi_vpd_decode_limits(b.p, b.len, &got), 0);
	assert_int_equal(got.max_transfer_blocks, 0x8000);
	assert_int_equal(got.max_unmap_blocks, 0);
	free(b.p);
	b = t_bytes("00 b0 00 0b 00 00 00 01 00 00 80 00 00*3");
	assert_int_equal(scsi_vpd_decode_limits(b.p, b.len, &got), -EBADMSG);
	free(b.p);
}

T_TEST(alignment_needs_its_valid_bit)
{
	struct t_bytes b = t_bytes("00 b0 00 3c 00*28 7f ff ff ff 00*28");
	struct scsi_block_limits got;

	assert_int_equal(scsi_vpd_decode_limits(b.p, b.len, &got), 0);
	assert_int_equal(got.unmap_alignment_blocks, 0);
	free(b.p);
}

static const struct prov_row {
	const char *name;
	const char *bytes;
	int err;
	struct scsi_provisioning prov;
} prov_rows[] = {
	{ "all",
	  "00 b2 00 04 0b e4 02 00",
	  0,
	  { .lbpu = true, .lbpws = true, .lbprz = true } },
	{ "nothing", "00 b2 00 04 00 00 00 00", 0, { 0 } },
	{ "UNMAP only, with a group descriptor",
	  "00 b2 00 08 00 81 01 00*5",
	  0,
	  { .lbpu = true } },
	{ "a pattern is not zeroes",
	  "00 b2 00 04 00 88 02 00",
	  0,
	  { .lbpu = true } },
	{ "one byte short", "00 b2 00 03 00 e4 02", -EBADMSG, { 0 } },
};

T_ROWS(provisioning, prov_rows)
{
	const struct prov_row *r = *state;
	struct t_bytes b = t_bytes(r->bytes);
	struct scsi_provisioning got;

	assert_int_equal(scsi_vpd_decode_provisioning(b.p, b.len, &got),
			 r->err);
	free(b.p);
	if (r->err)
		return;
	assert_int_equal(got.lbpu, r->prov.lbpu);
	assert_int_equal(got.lbpws, r->prov.lbpws);
	assert_int_equal(got.lbprz, r->prov.lbprz);
}

T_TEST(store_comes_back)
{
	struct scsi_disk_info info = thin_disk();
	uint8_t b[SCSI_VPD_MAX_LEN];
	struct scsi_store got;
	size_t full;

	info.store.is_memory = true;
	full = build(&info, 0xc0, b, sizeof(b));
	assert_int_equal(scsi_vpd_decode_store(b, full, &got), 0);
	assert_true(got.is_memory);
	assert_memory_equal(got.generation, info.store.generation,
			    SCSI_GENERATION_LEN);
	for (size_t len = 0; len < full; len++)
		assert_int_equal(scsi_vpd_decode_store(b, len, &got), -EBADMSG);
	b[4] = 'X'; /* another vendor's page */
	assert_int_equal(scsi_vpd_decode_store(b, full, &got), -EBADMSG);
}

T_TEST(generation_is_that_of_the_text)
{
	uint8_t a[SCSI_GENERATION_LEN];
	uint8_t b[SCSI_GENERATION_LEN];

	scsi_text_digest("boot 1", a);
	scsi_text_digest("boot 1", b);
	assert_memory_equal(a, b, sizeof(a));
	scsi_text_digest("boot 2", b);
	assert_memory_not_equal(a, b, sizeof(a));
}

/* Runs every parser on every prefix of every page, with each single byte
 * wrong. */
static void parse_all(const uint8_t *p, size_t len)
{
	char text[SCSI_SERIAL_MAX + 1];
	struct scsi_block_limits limits;
	struct scsi_provisioning prov;
	struct scsi_vpd_ids got;
	struct scsi_inquiry inq;
	struct scsi_store store;
	uint16_t rate;

	scsi_inquiry_decode(p, len, &inq);
	scsi_vpd_lists(p, len, 0x83);
	scsi_vpd_decode_serial(p, len, text);
	scsi_vpd_decode_ids(p, len, &got);
	scsi_vpd_decode_limits(p, len, &limits);
	scsi_vpd_decode_rotation(p, len, &rate);
	scsi_vpd_decode_provisioning(p, len, &prov);
	scsi_vpd_decode_store(p, len, &store);
}

T_ROWS(parsers_stay_inside, page_rows)
{
	const struct page_row *r = *state;

	t_break_bytes(r->bytes, parse_all);
}

/* Pages that must be complete are refused if they are cut. */
T_TEST(a_cut_page_is_refused)
{
	struct scsi_disk_info info = thin_disk();
	uint8_t b[SCSI_VPD_MAX_LEN];
	struct scsi_block_limits limits;
	uint16_t rate;
	size_t full;

	full = build(&info, 0xb0, b, sizeof(b));
	for (size_t len = 0; len <= full; len++)
		assert_int_equal(scsi_vpd_decode_limits(b, len, &limits),
				 len < full ? -EBADMSG : 0);
	full = build(&info, 0xb1, b, sizeof(b));
	for (size_t len = 0; len <= full; len++)
		assert_int_equal(scsi_vpd_decode_rotation(b, len, &rate),
				 len < full ? -EBADMSG : 0);
	assert_int_equal(rate, 1);
}
