/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "protocol/scsi_sense.h"
#include "tests/lib/t_bytes.h"

struct wire_row {
	const char *name;
	enum scsi_sense_format format;
	struct scsi_sense sense;
	const char *bytes;
};

#define PLAIN(k, c)                                          \
	{                                                    \
		.key = k, .code = c, .bit_no = SCSI_BIT_NONE \
	}

static const struct wire_row wire_rows[] = {
	{ "fixed: unknown operation code", SCSI_SENSE_FIXED, PLAIN(0x5, 0x2000),
	  "70 00 05 00*4 0a 00*4 20 00 00*4" },
	{ "fixed: power on", SCSI_SENSE_FIXED, PLAIN(0x6, 0x2900),
	  "70 00 06 00*4 0a 00*4 29 00 00*4" },
	{ "fixed: nothing to say", SCSI_SENSE_FIXED, PLAIN(0x0, 0x0000),
	  "70 00*6 0a 00*10" },
	{ "fixed: field and bit in the CDB",
	  SCSI_SENSE_FIXED,
	  { .key = 0x5,
	    .code = 0x2400,
	    .pointer = SCSI_POINTER_CDB,
	    .byte_no = 2,
	    .bit_no = 5 },
	  "70 00 05 00*4 0a 00*4 24 00 00 cd 00 02" },
	{ "fixed: whole byte in the CDB",
	  SCSI_SENSE_FIXED,
	  { .key = 0x5,
	    .code = 0x2400,
	    .pointer = SCSI_POINTER_CDB,
	    .byte_no = 15,
	    .bit_no = SCSI_BIT_NONE },
	  "70 00 05 00*4 0a 00*4 24 00 00 c0 00 0f" },
	{ "fixed: field in the parameter list",
	  SCSI_SENSE_FIXED,
	  { .key = 0x5,
	    .code = 0x2600,
	    .pointer = SCSI_POINTER_DATA,
	    .byte_no = 0x1234,
	    .bit_no = 7 },
	  "70 00 05 00*4 0a 00*4 26 00 00 8f 12 34" },
	{ "fixed: information",
	  SCSI_SENSE_FIXED,
	  { .key = 0x3,
	    .code = 0x1100,
	    .bit_no = SCSI_BIT_NONE,
	    .info_valid = true,
	    .info = 0x89abcdef },
	  "f0 00 03 89 ab cd ef 0a 00*4 11 00 00*4" },
	{ "fixed: half way through",
	  SCSI_SENSE_FIXED,
	  { .key = 0x2,
	    .code = 0x041b,
	    .bit_no = SCSI_BIT_NONE,
	    .progress_valid = true,
	    .progress = 0x8001 },
	  "70 00 02 00*4 0a 00*4 04 1b 00 80 80 01" },
	{ "descriptor: half way through",
	  SCSI_SENSE_DESCRIPTOR,
	  { .key = 0x2,
	    .code = 0x0404,
	    .bit_no = SCSI_BIT_NONE,
	    .progress_valid = true,
	    .progress = 0x8001 },
	  "72 02 04 04 00 00 00 08 02 06 00 00 80 80 01 00" },
	{ "descriptor: plain", SCSI_SENSE_DESCRIPTOR, PLAIN(0x5, 0x2000),
	  "72 05 20 00 00*4" },
	{ "descriptor: information",
	  SCSI_SENSE_DESCRIPTOR,
	  { .key = 0x5,
	    .code = 0x2100,
	    .bit_no = SCSI_BIT_NONE,
	    .info_valid = true,
	    .info = 0x0123456789abcdef },
	  "72 05 21 00 00*3 0c 00 0a 80 00 01 23 45 67 89 ab cd ef" },
	{ "descriptor: field pointer",
	  SCSI_SENSE_DESCRIPTOR,
	  { .key = 0x5,
	    .code = 0x2400,
	    .pointer = SCSI_POINTER_CDB,
	    .byte_no = 1,
	    .bit_no = 7 },
	  "72 05 24 00 00*3 08 02 06 00 00 cf 00 01 00" },
	{ "descriptor: both",
	  SCSI_SENSE_DESCRIPTOR,
	  { .key = 0x5,
	    .code = 0x2600,
	    .pointer = SCSI_POINTER_DATA,
	    .byte_no = 8,
	    .bit_no = 0,
	    .info_valid = true,
	    .info = 1 },
	  "72 05 26 00 00*3 14 00 0a 80 00 00*7 01 02 06 00 00 88 00 08 00" },
};

static void assert_sense(const struct scsi_sense *got,
			 const struct scsi_sense *want)
{
	assert_int_equal(got->key, want->key);
	assert_int_equal(got->code, want->code);
	assert_int_equal(got->pointer, want->pointer);
	assert_int_equal(got->bit_no, want->bit_no);
	assert_int_equal(got->byte_no, want->byte_no);
	assert_int_equal(got->info_valid, want->info_valid);
	assert_int_equal(got->progress_valid, want->progress_valid);
	assert_int_equal(got->progress, want->progress);
	assert_int_equal(got->info, want->info);
	assert_int_equal(got->deferred, want->deferred);
}

/* Encodes each row into buffers of every size, and decodes the full one. */
T_ROWS(on_the_wire, wire_rows)
{
	const struct wire_row *r = *state;
	struct t_bytes want = t_bytes(r->bytes);
	struct scsi_sense back;

	for (size_t cap = 0; cap <= want.len; cap++) {
		uint8_t *buf = malloc(cap);

		assert_int_equal(
			scsi_sense_encode(&r->sense, r->format, buf, cap),
			want.len);
		if (cap)
			assert_memory_equal(buf, want.p, cap);
		free(buf);
	}
	assert_true(want.len <= SCSI_SENSE_MAX_LEN);
	assert_int_equal(scsi_sense_decode(want.p, want.len, &back), 0);
	assert_sense(&back, &r->sense);
	free(want.p);
}

static const struct decode_row {
	const char *name;
	const char *bytes;
	int err;
	struct scsi_sense sense;
} decode_rows[] = {
	{ "nothing at all", "", -EBADMSG, PLAIN(0, 0) },
	{ "a response code alone", "70", -EBADMSG, PLAIN(0, 0) },
	{ "descriptor response code alone", "72", -EBADMSG, PLAIN(0, 0) },
	{ "vendor specific response code", "7f 05 05 00*15", -EBADMSG,
	  PLAIN(0, 0) },
	{ "no response code", "00*18", -EBADMSG, PLAIN(0, 0) },
	{ "fixed: only the key came", "70 00 06", 0, PLAIN(0x6, 0) },
	{ "fixed: eight bytes, no code", "70 00 02 00*4 00", 0, PLAIN(0x2, 0) },
	{ "fixed: code without qualifier", "70 00 02 00*4 05 00*4 04", 0,
	  PLAIN(0x2, 0x0400) },
	{ "fixed: what is not announced does not count",
	  "70 00 05 00*4 00 00*4 24 00 00 cd 00 02", 0, PLAIN(0x5, 0) },
	{ "fixed: announces more than came", "70 00 05 00*4 ff 00*4 20 00", 0,
	  PLAIN(0x5, 0x2000) },
	{ "fixed: deferred",
	  "71 00 03 00*4 0a 00*4 0c 00 00*4",
	  0,
	  { .key = 3,
	    .code = 0x0c00,
	    .bit_no = SCSI_BIT_NONE,
	    .deferred = true } },
	{ "fixed: flags above the key", "70 00 e5 00*4 0a 00*4 20 00 00*4", 0,
	  PLAIN(0x5, 0x2000) },
	{ "fixed: progress is no field pointer",
	  "70 00 02 00*4 0a 00*4 04 04 00 80 12 34",
	  0,
	  { .key = 0x2,
	    .code = 0x0404,
	    .bit_no = SCSI_BIT_NONE,
	    .progress_valid = true,
	    .progress = 0x1234 } },
	{ "fixed: retry count is no progress",
	  "70 00 03 00*4 0a 00*4 11 00 00 80 12 34", 0, PLAIN(0x3, 0x1100) },
	{ "fixed: 96 bytes as LIO sends them",
	  "70 00 05 00*4 0a 00*4 25 00 00*82", 0, PLAIN(0x5, 0x2500) },
	{ "descriptor: two bytes", "72 06", 0, PLAIN(0x6, 0) },
	{ "descriptor: four bytes", "72 06 29 03", 0, PLAIN(0x6, 0x2903) },
	{ "descriptor: a descriptor longer than what came",
	  "72 05 24 00 00*3 08 02 ff 00 00 cf 00 01 00", 0,
	  PLAIN(0x5, 0x2400) },
	{ "descriptor: a descriptor past the announced length",
	  "72 05 24 00 00*3 00 02 06 00 00 cf 00 01 00", 0,
	  PLAIN(0x5, 0x2400) },
	{ "descriptor: too short for what it says it is",
	  "72 05 24 00 00*3 06 02 04 00 00 cf 00", 0, PLAIN(0x5, 0x2400) },
	{ "descriptor: unknown ones are passed over",
	  "72 05 24 00 00*3 0c 80 02 ff ff 02 06 00 00 cf 00 01 00",
	  0,
	  { .key = 5,
	    .code = 0x2400,
	    .pointer = SCSI_POINTER_CDB,
	    .byte_no = 1,
	    .bit_no = 7 } },
	{ "descriptor: empty ones end", "72 05 24 00 00*3 04 00 00 00 00", 0,
	  PLAIN(0x5, 0x2400) },
	{ "descriptor: information that is not valid",
	  "72 03 11 00 00*3 0c 00 0a 00 00 ff*8", 0, PLAIN(0x3, 0x1100) },
};

T_ROWS(decode, decode_rows)
{
	const struct decode_row *r = *state;
	struct t_bytes b = t_bytes(r->bytes);
	struct scsi_sense sense;
	uint8_t *exact = t_copy(b.p, b.len);

	assert_int_equal(scsi_sense_decode(exact, b.len, &sense), r->err);
	if (!r->err)
		assert_sense(&sense, &r->sense);
	free(exact);
	free(b.p);
}

/* No read goes past the end, for any cut and any stated length. */
T_ROWS(truncated, wire_rows)
{
	const struct wire_row *r = *state;
	struct t_bytes b = t_bytes(r->bytes);
	struct scsi_sense sense;

	for (size_t len = 0; len <= b.len; len++) {
		for (unsigned int announced = 0; announced < 256;
		     announced += 5) {
			uint8_t *exact = t_copy(b.p, len);
			int err;

			if (len > 7)
				exact[7] = (uint8_t)announced;
			err = scsi_sense_decode(exact, len, &sense);
			assert_true(err == 0 || (err == -EBADMSG && len < 3));
			if (!err)
				assert_int_equal(sense.key, r->sense.key);
			free(exact);
		}
	}
	free(b.p);
}

T_TEST(information_above_32_bits_needs_descriptors)
{
	struct scsi_sense sense =
		scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_LBA_OUT_OF_RANGE);
	uint8_t b[SCSI_SENSE_MAX_LEN];
	size_t len;

	sense.info_valid = true;
	sense.info = 1ULL << 32;
	len = scsi_sense_encode(&sense, SCSI_SENSE_FIXED, b, sizeof(b));
	t_assert_bytes(b, len, "70 00 05 00*4 0a 00*4 21 00 00*4");
}

static const struct from_row {
	const char *name;
	int err;
	enum scsi_medium_op op;
	uint8_t key;
	uint16_t code;
} from_rows[] = {
	{ "a read fails", -EIO, SCSI_MEDIUM_READ, 0x3, 0x1100 },
	{ "a write fails", -EIO, SCSI_MEDIUM_WRITE, 0x3, 0x0c00 },
	{ "no space", -ENOSPC, SCSI_MEDIUM_WRITE, 0x7, 0x2707 },
	{ "quota", -EDQUOT, SCSI_MEDIUM_WRITE, 0x7, 0x2707 },
	{ "read-only store", -EROFS, SCSI_MEDIUM_WRITE, 0x7, 0x2700 },
	{ "a write is not allowed", -EPERM, SCSI_MEDIUM_WRITE, 0x7, 0x2700 },
	{ "a read is not allowed", -EACCES, SCSI_MEDIUM_READ, 0x4, 0x4400 },
	{ "memory is short", -ENOMEM, SCSI_MEDIUM_READ, 0xb, 0x5503 },
	{ "try again", -EAGAIN, SCSI_MEDIUM_WRITE, 0xb, 0x5503 },
	{ "canceled", -ECANCELED, SCSI_MEDIUM_WRITE, 0xb, 0x0000 },
	{ "store is away", -ENODEV, SCSI_MEDIUM_READ, 0x2, 0x0403 },
	{ "not supported", -EOPNOTSUPP, SCSI_MEDIUM_WRITE, 0x5, 0x2000 },
	{ "anything else", -EPIPE, SCSI_MEDIUM_READ, 0x4, 0x4400 },
	{ "not an errno", 12345, SCSI_MEDIUM_READ, 0x4, 0x4400 },
};

T_ROWS(from_errno, from_rows)
{
	const struct from_row *r = *state;
	struct scsi_sense sense = scsi_sense_from_errno(r->err, r->op);

	assert_int_equal(sense.key, r->key);
	assert_int_equal(sense.code, r->code);
	assert_int_equal(sense.pointer, SCSI_POINTER_NONE);
	assert_non_null(scsi_asc_text(sense.code));
}

static const struct to_row {
	const char *name;
	uint8_t key;
	uint16_t code;
	int err;
} to_rows[] = {
	{ "no sense", 0x0, 0x0000, 0 },
	{ "recovered", 0x1, 0x1700, 0 },
	{ "becoming ready", 0x2, 0x0401, -EAGAIN },
	{ "needs a hand", 0x2, 0x0403, -EIO },
	{ "no medium", 0x2, 0x3a00, -ENOMEDIUM },
	{ "no medium, tray open", 0x2, 0x3a02, -ENOMEDIUM },
	{ "read error", 0x3, 0x1100, -EIO },
	{ "hardware", 0x4, 0x4400, -EIO },
	{ "operation code", 0x5, 0x2000, -EOPNOTSUPP },
	{ "no access rights", 0x5, 0x2002, -EACCES },
	{ "past the end", 0x5, 0x2100, -ENXIO },
	{ "field in CDB", 0x5, 0x2400, -EINVAL },
	{ "no such unit", 0x5, 0x2500, -ENODEV },
	{ "capacity changed", 0x6, 0x2a09, -EAGAIN },
	{ "out of space", 0x7, 0x2707, -ENOSPC },
	{ "write protected", 0x7, 0x2700, -EROFS },
	{ "software write protected", 0x7, 0x2702, -EROFS },
	{ "access denied", 0x7, 0x2002, -EACCES },
	{ "aborted", 0xb, 0x0000, -EAGAIN },
	{ "miscompare", 0xe, 0x1d00, -EILSEQ },
	{ "reserved key", 0xc, 0x0000, -EIO },
};

T_ROWS(to_errno, to_rows)
{
	const struct to_row *r = *state;
	struct scsi_sense sense = { .key = r->key, .code = r->code };

	assert_int_equal(scsi_sense_to_errno(&sense), r->err);
}

/* The command that came with the error was not executed, whatever the key
 * says. */
T_TEST(deferred_error_is_not_of_this_command)
{
	for (unsigned int key = 0; key < 16; key++) {
		struct scsi_sense sense = { .key = (uint8_t)key,
					    .code = SCSI_ASC_WRITE_ERROR,
					    .deferred = true };

		assert_int_equal(scsi_sense_to_errno(&sense), -EAGAIN);
	}
}

static const struct text_row {
	const char *name; /* is the text */
	struct scsi_sense sense;
} text_rows[] = {
	{ "ILLEGAL REQUEST: logical block address out of range (05/21/00)",
	  PLAIN(0x5, 0x2100) },
	{ "ILLEGAL REQUEST: invalid field in CDB (05/24/00), CDB byte 2 bit 7",
	  { .key = 5,
	    .code = 0x2400,
	    .pointer = SCSI_POINTER_CDB,
	    .byte_no = 2,
	    .bit_no = 7 } },
	{ "ILLEGAL REQUEST: invalid field in parameter list (05/26/00), "
	  "parameter list byte 65535",
	  { .key = 5,
	    .code = 0x2600,
	    .pointer = SCSI_POINTER_DATA,
	    .byte_no = 65535,
	    .bit_no = SCSI_BIT_NONE } },
	{ "VENDOR SPECIFIC: unknown reason (09/ff/fe)", PLAIN(0x9, 0xfffe) },
};

T_ROWS(text, text_rows)
{
	const struct text_row *r = *state;
	char buf[SCSI_SENSE_TEXT_LEN];

	assert_string_equal(scsi_sense_text(&r->sense, buf), r->name);
}

T_TEST(every_text_fits_its_buffer)
{
	struct scsi_sense sense = { .pointer = SCSI_POINTER_DATA,
				    .byte_no = UINT16_MAX };
	char buf[SCSI_SENSE_TEXT_LEN];

	for (unsigned int code = 0; code <= UINT16_MAX; code++) {
		sense.code = (uint16_t)code;
		sense.key = (uint8_t)code;
		if (!scsi_asc_text(sense.code))
			continue;
		scsi_sense_text(&sense, buf);
		assert_string_equal(buf + strlen(buf) - 5, "bit 0");
	}
}

T_TEST(statuses_have_names)
{
	assert_string_equal(scsi_status_name(0x00), "GOOD");
	assert_string_equal(scsi_status_name(0x02), "CHECK CONDITION");
	assert_string_equal(scsi_status_name(0x04), "CONDITION MET");
	assert_string_equal(scsi_status_name(0x08), "BUSY");
	assert_string_equal(scsi_status_name(0x18), "RESERVATION CONFLICT");
	assert_string_equal(scsi_status_name(0x28), "TASK SET FULL");
	assert_string_equal(scsi_status_name(0xff), "unknown status");
	assert_string_equal(scsi_key_name(0x6), "UNIT ATTENTION");
}
