/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_vpd.h"
#include "tests/lib/t_bytes.h"

/* Decodes @hex, zero padded to 16 bytes as SRP brings it. */
static int decode_hex(const char *hex, struct scsi_cmd *ret_cmd,
		      struct scsi_sense *ret_sense)
{
	struct t_bytes b = t_bytes(hex);
	uint8_t *cdb = calloc(1, SCSI_CDB_LEN);
	int err;

	assert_true(b.len <= SCSI_CDB_LEN);
	memcpy(cdb, b.p, b.len);
	err = scsi_cdb_decode(cdb, SCSI_CDB_LEN, ret_cmd, ret_sense);
	free(cdb);
	free(b.p);
	return err;
}

static const struct decode_row {
	const char *name;
	const char *cdb;
	const char *cdb_name;
	struct scsi_cmd cmd; /* .info is found by cdb_name */
} decode_rows[] = {
	/* The commands that Linux sends when it attaches a disk. */
	{ "INQUIRY", "12 00 00 00 24 00", "INQUIRY", .cmd.op = SCSI_OP_INQUIRY,
	  .cmd.alloc_len = 36 },
	{ "INQUIRY of page 83h", "12 01 83 01 02 00", "INQUIRY",
	  .cmd.op = SCSI_OP_INQUIRY, .cmd.evpd = true, .cmd.page_code = 0x83,
	  .cmd.alloc_len = 0x102 },
	{ "INQUIRY of page 00h", "12 01 00 00 04 00", "INQUIRY",
	  .cmd.op = SCSI_OP_INQUIRY, .cmd.evpd = true, .cmd.alloc_len = 4 },
	{ "INQUIRY without room", "12 00 00 00 00 00", "INQUIRY",
	  .cmd.op = SCSI_OP_INQUIRY },
	{ "READ BUFFER, data", "3c 02 00 00 10 00 00 80 00 00", "READ BUFFER",
	  .cmd.op = SCSI_OP_READ_BUFFER, .cmd.buffer_mode = SCSI_BUFFER_DATA,
	  .cmd.buffer_offset = 4096, .cmd.alloc_len = 0x8000 },
	{ "READ BUFFER, the descriptor of another buffer",
	  "3c 03 07 00 00 00 00 00 04 00", "READ BUFFER",
	  .cmd.op = SCSI_OP_READ_BUFFER,
	  .cmd.buffer_mode = SCSI_BUFFER_DESCRIPTOR, .cmd.buffer_id = 7,
	  .cmd.alloc_len = 4 },
	{ "READ BUFFER, echo: buffer and offset are ignored",
	  "3c 0a 09 ff ff ff 00 10 00 00", "READ BUFFER",
	  .cmd.op = SCSI_OP_READ_BUFFER, .cmd.buffer_mode = SCSI_BUFFER_ECHO,
	  .cmd.alloc_len = 4096 },
	{ "WRITE BUFFER, data up to the end", "3b 02 00 00 f0 00 00 10 00 00",
	  "WRITE BUFFER", .cmd.op = SCSI_OP_WRITE_BUFFER,
	  .cmd.buffer_mode = SCSI_BUFFER_DATA, .cmd.buffer_offset = 0xf000,
	  .cmd.param_len = 4096 },
	{ "WRITE BUFFER, echo", "3b 0a 00 00 00 00 00 10 00 00", "WRITE BUFFER",
	  .cmd.op = SCSI_OP_WRITE_BUFFER, .cmd.buffer_mode = SCSI_BUFFER_ECHO,
	  .cmd.param_len = 4096 },
	{ "REPORT LUNS", "a0 00 00 00 00 00 00 00 10 00 00 00", "REPORT LUNS",
	  .cmd.op = SCSI_OP_REPORT_LUNS, .cmd.alloc_len = 4096 },
	{ "REPORT LUNS, well known ones", "a0 00 01 00 00 00 ff ff ff ff 00 00",
	  "REPORT LUNS", .cmd.op = SCSI_OP_REPORT_LUNS, .cmd.select_report = 1,
	  .cmd.alloc_len = UINT32_MAX },
	{ "TEST UNIT READY", "00 00 00 00 00 00", "TEST UNIT READY",
	  .cmd.op = SCSI_OP_TEST_UNIT_READY },
	{ "READ CAPACITY (16)", "9e 10 00*8 00 00 00 20 00 00",
	  "READ CAPACITY (16)", .cmd.op = SCSI_OP_READ_CAPACITY_16,
	  .cmd.alloc_len = 32 },
	{ "READ CAPACITY (16), PMI", "9e 10 00*7 05 00 00 00 20 01 00",
	  "READ CAPACITY (16)", .cmd.op = SCSI_OP_READ_CAPACITY_16,
	  .cmd.alloc_len = 32, .cmd.lba = 5, .cmd.pmi = true },
	{ "READ CAPACITY (10)", "25 00*9", "READ CAPACITY (10)",
	  .cmd.op = SCSI_OP_READ_CAPACITY_10 },
	{ "READ CAPACITY (10), PMI", "25 00 00 00 00 07 00 00 01 00",
	  "READ CAPACITY (10)", .cmd.op = SCSI_OP_READ_CAPACITY_10,
	  .cmd.lba = 7, .cmd.pmi = true },
	{ "MODE SENSE (6), all pages", "1a 00 3f 00 04 00", "MODE SENSE (6)",
	  .cmd.op = SCSI_OP_MODE_SENSE_6, .cmd.page_code = 0x3f,
	  .cmd.alloc_len = 4 },
	{ "MODE SENSE (6), every field", "1a 08 8a ff ff 00", "MODE SENSE (6)",
	  .cmd.op = SCSI_OP_MODE_SENSE_6, .cmd.page_code = 0x0a,
	  .cmd.dbd = true, .cmd.page_control = SCSI_PC_DEFAULT,
	  .cmd.subpage_code = 0xff, .cmd.alloc_len = 255 },
	{ "MODE SENSE (10)", "5a 18 48 01 00 00 00 10 20 00", "MODE SENSE (10)",
	  .cmd.op = SCSI_OP_MODE_SENSE_10, .cmd.page_code = 0x08,
	  .cmd.dbd = true, .cmd.llbaa = true,
	  .cmd.page_control = SCSI_PC_CHANGEABLE, .cmd.subpage_code = 1,
	  .cmd.alloc_len = 0x1020 },
	{ "REPORT SUPPORTED OPERATION CODES",
	  "a3 0c 01 12 00 00 00 00 00 0a 00 00",
	  "REPORT SUPPORTED OPERATION CODES", .cmd.op = SCSI_OP_REPORT_OPCODES,
	  .cmd.reporting_options = 1, .cmd.requested_opcode = 0x12,
	  .cmd.alloc_len = 10 },
	{ "REPORT SUPPORTED OPERATION CODES, every field",
	  "a3 0c 83 9e 12 34 00 01 00 02 00 00",
	  "REPORT SUPPORTED OPERATION CODES", .cmd.op = SCSI_OP_REPORT_OPCODES,
	  .cmd.reporting_options = 3, .cmd.rctd = true,
	  .cmd.requested_opcode = 0x9e, .cmd.requested_service_action = 0x1234,
	  .cmd.alloc_len = 0x10002 },
	{ "REQUEST SENSE", "03 01 00 00 fc 00", "REQUEST SENSE",
	  .cmd.op = SCSI_OP_REQUEST_SENSE, .cmd.desc = true,
	  .cmd.alloc_len = 252 },

	{ "READ (6)", "08 1f ff fe 01 00", "READ (6)", .cmd.op = SCSI_OP_READ,
	  .cmd.lba = 0x1ffffe, .cmd.blocks = 1 },
	{ "READ (6) of 256 blocks", "08 00 00 10 00 00", "READ (6)",
	  .cmd.op = SCSI_OP_READ, .cmd.lba = 16, .cmd.blocks = 256 },
	{ "WRITE (6) of 256 blocks", "0a 00 00 00 00 00", "WRITE (6)",
	  .cmd.op = SCSI_OP_WRITE, .cmd.blocks = 256 },
	{ "READ (10)", "28 00 12 34 56 78 00 9a bc 00", "READ (10)",
	  .cmd.op = SCSI_OP_READ, .cmd.lba = 0x12345678, .cmd.blocks = 0x9abc },
	{ "READ (10) of no blocks", "28 00*9", "READ (10)",
	  .cmd.op = SCSI_OP_READ },
	{ "READ (10), DPO and FUA", "28 18 00 00 00 00 00 00 01 00",
	  "READ (10)", .cmd.op = SCSI_OP_READ, .cmd.blocks = 1,
	  .cmd.fua = true },
	{ "WRITE (10), FUA", "2a 08 ff ff ff ff 00 ff ff 00", "WRITE (10)",
	  .cmd.op = SCSI_OP_WRITE, .cmd.lba = UINT32_MAX, .cmd.blocks = 65535,
	  .cmd.fua = true },
	{ "READ (12)", "a8 10 12 34 56 78 9a bc de f0 00 00", "READ (12)",
	  .cmd.op = SCSI_OP_READ, .cmd.lba = 0x12345678,
	  .cmd.blocks = 0x9abcdef0 },
	{ "WRITE (12)", "aa 00 00 00 00 01 00 00 00 02 00 00", "WRITE (12)",
	  .cmd.op = SCSI_OP_WRITE, .cmd.lba = 1, .cmd.blocks = 2 },
	{ "READ (16)", "88 00 01 23 45 67 89 ab cd ef fe dc ba 98 00 00",
	  "READ (16)", .cmd.op = SCSI_OP_READ, .cmd.lba = 0x0123456789abcdef,
	  .cmd.blocks = 0xfedcba98 },
	{ "WRITE (16) at the last address there is",
	  "8a 08 ff*8 ff ff ff ff 00 00", "WRITE (16)", .cmd.op = SCSI_OP_WRITE,
	  .cmd.lba = UINT64_MAX, .cmd.blocks = UINT32_MAX, .cmd.fua = true },
	{ "VERIFY (10)", "2f 10 00 00 00 09 00 00 03 00", "VERIFY (10)",
	  .cmd.op = SCSI_OP_VERIFY, .cmd.lba = 9, .cmd.blocks = 3 },
	{ "VERIFY (12) with data", "af 02 00 00 00 09 00 00 00 03 00 00",
	  "VERIFY (12)", .cmd.op = SCSI_OP_VERIFY, .cmd.lba = 9,
	  .cmd.blocks = 3, .cmd.bytchk = 1 },
	{ "VERIFY (16) with data", "8f 02 00*7 09 00 00 00 03 00 00",
	  "VERIFY (16)", .cmd.op = SCSI_OP_VERIFY, .cmd.lba = 9,
	  .cmd.blocks = 3, .cmd.bytchk = 1 },
	{ "VERIFY (10) against one block", "2f 06 00 00 00 09 00 00 03 00",
	  "VERIFY (10)", .cmd.op = SCSI_OP_VERIFY, .cmd.lba = 9,
	  .cmd.blocks = 3, .cmd.bytchk = 3 },
	{ "WRITE AND VERIFY (10)", "2e 12 00 00 00 09 00 00 03 00",
	  "WRITE AND VERIFY (10)", .cmd.op = SCSI_OP_WRITE_VERIFY, .cmd.lba = 9,
	  .cmd.blocks = 3, .cmd.bytchk = 1 },
	{ "WRITE AND VERIFY (12)", "ae 00 00 00 00 09 00 00 00 03 00 00",
	  "WRITE AND VERIFY (12)", .cmd.op = SCSI_OP_WRITE_VERIFY, .cmd.lba = 9,
	  .cmd.blocks = 3 },
	{ "WRITE AND VERIFY (16)", "8e 00 00*7 09 00 00 00 03 00 00",
	  "WRITE AND VERIFY (16)", .cmd.op = SCSI_OP_WRITE_VERIFY, .cmd.lba = 9,
	  .cmd.blocks = 3 },
	{ "PRE-FETCH (10)", "34 02 00 00 00 09 00 00 03 00", "PRE-FETCH (10)",
	  .cmd.op = SCSI_OP_PREFETCH, .cmd.lba = 9, .cmd.blocks = 3,
	  .cmd.immed = true },
	{ "PRE-FETCH (16)", "90 00 00*7 09 00 00 00 03 00 00", "PRE-FETCH (16)",
	  .cmd.op = SCSI_OP_PREFETCH, .cmd.lba = 9, .cmd.blocks = 3 },
	{ "READ DEFECT DATA (10)", "37 00 1d 00 00 00 00 01 02 00",
	  "READ DEFECT DATA (10)", .cmd.op = SCSI_OP_READ_DEFECTS,
	  .cmd.alloc_len = 0x102 },
	{ "READ DEFECT DATA (12)", "b7 08 00 00 00 05 00 01 02 03 00 00",
	  "READ DEFECT DATA (12)", .cmd.op = SCSI_OP_READ_DEFECTS,
	  .cmd.alloc_len = 0x10203 },
	{ "COMPARE AND WRITE", "89 18 00*7 09 00 00 00 ff 00 00",
	  "COMPARE AND WRITE", .cmd.op = SCSI_OP_COMPARE_WRITE, .cmd.lba = 9,
	  .cmd.blocks = 255, .cmd.fua = true },
	{ "ORWRITE (16)", "8b 08 00*7 09 00 00 01 03 00 00", "ORWRITE (16)",
	  .cmd.op = SCSI_OP_ORWRITE, .cmd.lba = 9, .cmd.blocks = 259,
	  .cmd.fua = true },
	{ "WRITE ATOMIC (16)", "9c 10 00*7 09 00 00 01 03 00 00",
	  "WRITE ATOMIC (16)", .cmd.op = SCSI_OP_WRITE_ATOMIC, .cmd.lba = 9,
	  .cmd.blocks = 259 },
	{ "FORMAT UNIT", "04 00*5", "FORMAT UNIT",
	  .cmd.op = SCSI_OP_FORMAT_UNIT },
	{ "FORMAT UNIT with a long list", "04 38 00*4", "FORMAT UNIT",
	  .cmd.op = SCSI_OP_FORMAT_UNIT, .cmd.fmtdata = true,
	  .cmd.longlist = true },
	{ "SANITIZE, OVERWRITE", "48 81 00*5 00 05 00", "SANITIZE, OVERWRITE",
	  .cmd.op = SCSI_OP_SANITIZE_OVERWRITE, .cmd.immed = true,
	  .cmd.param_len = 5 },
	{ "SANITIZE, BLOCK ERASE", "48 22 00*8", "SANITIZE, BLOCK ERASE",
	  .cmd.op = SCSI_OP_SANITIZE_ERASE, .cmd.ause = true },
	{ "SANITIZE, EXIT FAILURE MODE", "48 1f 00*8",
	  "SANITIZE, EXIT FAILURE MODE", .cmd.op = SCSI_OP_SANITIZE_EXIT },
	{ "SYNCHRONIZE CACHE (10)", "35 00*9", "SYNCHRONIZE CACHE (10)",
	  .cmd.op = SCSI_OP_SYNC_CACHE },
	{ "SYNCHRONIZE CACHE (16), IMMED", "91 02 00*7 05 00 00 00 06 00 00",
	  "SYNCHRONIZE CACHE (16)", .cmd.op = SCSI_OP_SYNC_CACHE, .cmd.lba = 5,
	  .cmd.blocks = 6, .cmd.immed = true },
	{ "UNMAP", "42 00 00 00 00 00 00 00 18 00", "UNMAP",
	  .cmd.op = SCSI_OP_UNMAP, .cmd.param_len = 24 },
	{ "WRITE SAME (10), UNMAP", "41 08 00 00 00 01 00 00 02 00",
	  "WRITE SAME (10)", .cmd.op = SCSI_OP_WRITE_SAME, .cmd.lba = 1,
	  .cmd.blocks = 2, .cmd.unmap = true },
	{ "WRITE SAME (16), UNMAP and NDOB", "93 09 00*7 01 00 01 00 00 00 00",
	  "WRITE SAME (16)", .cmd.op = SCSI_OP_WRITE_SAME, .cmd.lba = 1,
	  .cmd.blocks = 65536, .cmd.unmap = true, .cmd.ndob = true },
	{ "GET LBA STATUS", "9e 12 00*6 01 00 00 00 00 18 00 00",
	  "GET LBA STATUS", .cmd.op = SCSI_OP_GET_LBA_STATUS, .cmd.lba = 256,
	  .cmd.alloc_len = 24 },
	{ "START STOP UNIT, start", "1b 01 00 00 01 00", "START STOP UNIT",
	  .cmd.op = SCSI_OP_START_STOP, .cmd.immed = true, .cmd.start = true },
	{ "START STOP UNIT, stop without flush", "1b 00 00 00 04 00",
	  "START STOP UNIT", .cmd.op = SCSI_OP_START_STOP,
	  .cmd.no_flush = true },
	{ "PREVENT ALLOW MEDIUM REMOVAL", "1e 00 00 00 01 00",
	  "PREVENT ALLOW MEDIUM REMOVAL", .cmd.op = SCSI_OP_PREVENT_REMOVAL,
	  .cmd.prevent = true },
	{ "bytes behind a six-byte CDB are none of it",
	  "00 00 00 00 00 00 ff*10", "TEST UNIT READY",
	  .cmd.op = SCSI_OP_TEST_UNIT_READY },
};

static void assert_cmd(const struct scsi_cmd *got, const struct scsi_cmd *want)
{
	assert_int_equal(got->op, want->op);
	assert_int_equal(got->lba, want->lba);
	assert_int_equal(got->blocks, want->blocks);
	assert_int_equal(got->alloc_len, want->alloc_len);
	assert_int_equal(got->param_len, want->param_len);
	assert_int_equal(got->fua, want->fua);
	assert_int_equal(got->immed, want->immed);
	assert_int_equal(got->unmap, want->unmap);
	assert_int_equal(got->ndob, want->ndob);
	assert_int_equal(got->pmi, want->pmi);
	assert_int_equal(got->start, want->start);
	assert_int_equal(got->loej, want->loej);
	assert_int_equal(got->no_flush, want->no_flush);
	assert_int_equal(got->prevent, want->prevent);
	assert_int_equal(got->evpd, want->evpd);
	assert_int_equal(got->desc, want->desc);
	assert_int_equal(got->dbd, want->dbd);
	assert_int_equal(got->llbaa, want->llbaa);
	assert_int_equal(got->rctd, want->rctd);
	assert_int_equal(got->bytchk, want->bytchk);
	assert_int_equal(got->ause, want->ause);
	assert_int_equal(got->fmtdata, want->fmtdata);
	assert_int_equal(got->longlist, want->longlist);
	assert_int_equal(got->page_code, want->page_code);
	assert_int_equal(got->subpage_code, want->subpage_code);
	assert_int_equal(got->page_control, want->page_control);
	assert_int_equal(got->select_report, want->select_report);
	assert_int_equal(got->reporting_options, want->reporting_options);
	assert_int_equal(got->requested_opcode, want->requested_opcode);
	assert_int_equal(got->requested_service_action,
			 want->requested_service_action);
	assert_int_equal(got->buffer_mode, want->buffer_mode);
	assert_int_equal(got->buffer_id, want->buffer_id);
	assert_int_equal(got->buffer_offset, want->buffer_offset);
}

T_ROWS(decode, decode_rows)
{
	const struct decode_row *r = *state;
	struct scsi_cmd cmd;
	struct scsi_sense sense;

	memset(&cmd, 0xa5, sizeof(cmd));
	assert_int_equal(decode_hex(r->cdb, &cmd, &sense), 0);
	assert_string_equal(cmd.info->name, r->cdb_name);
	assert_cmd(&cmd, &r->cmd);
}

static const struct refuse_row {
	const char *name;
	const char *cdb;
	uint16_t byte_no;
	uint8_t bit_no;
} refuse_rows[] = {
	{ "READ (10), RDPROTECT", "28 20 00*8", 1, 7 },
	{ "READ (10), RDPROTECT of all bits", "28 e0 00*8", 1, 7 },
	{ "READ (10), RARC", "28 04 00*8", 1, 2 },
	{ "READ (10), FUA_NV", "28 02 00*8", 1, 1 },
	{ "READ (10), RELADR", "28 01 00*8", 1, 0 },
	{ "READ (10), reserved bits above the group", "28 00*5 40 00 01 00", 6,
	  6 },
	{ "READ (10), NACA", "28 00*8 04", 9, 2 },
	{ "READ (6), old LUN field", "08 20 00 00 01 00", 1, 5 },
	{ "WRITE (12), WRPROTECT", "aa 40 00*10", 1, 7 },
	{ "READ (16), DLD2", "88 01 00*14", 1, 0 },
	{ "VERIFY (10), BYTCHK 2", "2f 04 00*8", 1, 2 },
	{ "WRITE AND VERIFY (10), BYTCHK 2", "2e 04 00*8", 1, 2 },
	{ "WRITE AND VERIFY (16), BYTCHK 3", "8e 06 00*14", 1, 2 },
	{ "READ DEFECT DATA (10), vendor's format", "37 00 1e 00*7", 2, 2 },
	{ "READ DEFECT DATA (12), reserved format", "b7 1f 00*10", 1, 2 },
	{ "READ DEFECT DATA (12), reserved bit", "b7 20 00*10", 1, 5 },
	{ "SYNCHRONIZE CACHE (10), SYNC_NV", "35 04 00*8", 1, 2 },
	{ "UNMAP, ANCHOR", "42 01 00*8", 1, 0 },
	{ "WRITE SAME (10), ANCHOR", "41 18 00*8", 1, 4 },
	{ "WRITE SAME (10) has no NDOB", "41 01 00*8", 1, 0 },
	{ "WRITE SAME (16), LBDATA", "93 02 00*14", 1, 1 },
	{ "WRITE SAME (16), PBDATA", "93 04 00*14", 1, 2 },
	{ "READ BUFFER, a mode that is not there", "3c 1c 00*8", 1, 4 },
	{ "READ BUFFER, another buffer", "3c 02 01 00*7", 2, 7 },
	{ "READ BUFFER, from past the end", "3c 02 00 01 00 01 00*4", 3, 7 },
	{ "WRITE BUFFER, microcode", "3b 05 00*8", 1, 4 },
	{ "WRITE BUFFER, a descriptor", "3b 0b 00*8", 1, 4 },
	{ "WRITE BUFFER, another buffer", "3b 02 01 00*7", 2, 7 },
	{ "WRITE BUFFER, past the end", "3b 02 00 00 f0 00 00 10 01 00", 6, 7 },
	{ "WRITE BUFFER, more than the echo buffer",
	  "3b 0a 00 00 00 00 00 10 01 00", 6, 7 },
	{ "INQUIRY, CMDDT", "12 02 00 00 24 00", 1, 1 },
	{ "INQUIRY, page without EVPD", "12 00 83 00 24 00", 2, 7 },
	{ "REPORT LUNS, unknown report", "a0 00 03 00*9", 2, 7 },
	{ "REPORT LUNS, before those of conglomerates", "a0 00 0f 00*9", 2, 7 },
	{ "REPORT LUNS, behind those", "a0 00 13 00*9", 2, 7 },
	{ "REPORT LUNS, a vendor's", "a0 00 f8 00*9", 2, 7 },
	{ "READ CAPACITY (10), LBA without PMI", "25 00 00 00 00 01 00*4", 2,
	  7 },
	{ "READ CAPACITY (16), LBA without PMI", "9e 10 80 00*13", 2, 7 },
	{ "service action of 9Eh", "9e 11 00*14", 1, 4 },
	{ "service action of A3h", "a3 0b 00*10", 1, 4 },
	{ "bits above a service action", "9e 30 00*14", 1, 5 },
	{ "GET LBA STATUS, REPORT TYPE", "9e 12 00*12 01 00", 14, 7 },
	{ "FORMAT UNIT, FMTPINFO", "04 40 00*4", 1, 7 },
	{ "FORMAT UNIT, vendor specific byte", "04 10 01 00*3", 2, 0 },
	{ "FORMAT UNIT, FFMT", "04 10 00 00 01 00", 4, 0 },
	{ "FORMAT UNIT, LONGLIST without a list", "04 20 00*4", 1, 5 },
	{ "FORMAT UNIT, CMPLST without a list", "04 08 00*4", 1, 3 },
	{ "FORMAT UNIT, a list's format without a list", "04 03 00*4", 1, 2 },
	{ "FORMAT UNIT, reserved format", "04 17 00*4", 1, 2 },
	{ "SANITIZE, CRYPTOGRAPHIC ERASE", "48 03 00*8", 1, 4 },
	{ "SANITIZE, ZNR", "48 41 00*5 00 05 00", 1, 6 },
	{ "SANITIZE, BLOCK ERASE with a list", "48 02 00*5 00 05 00", 7, 7 },
	{ "SANITIZE, EXIT FAILURE MODE with a list", "48 1f 00*5 01 00 00", 7,
	  7 },
	{ "COMPARE AND WRITE, longer count", "89 00*11 01 01 00 00", 12, 0 },
	{ "WRITE ATOMIC, ATOMIC BOUNDARY", "9c 00*9 01 00*5", 10, 7 },
	{ "REPORT OPCODES, reserved reporting option", "a3 0c 04 00*9", 2, 2 },
	{ "REPORT OPCODES, reserved bits", "a3 0c 40 00*9", 2, 6 },
	{ "START STOP UNIT, POWER CONDITION", "1b 00 00 00 10 00", 4, 7 },
	{ "START STOP UNIT, POWER CONDITION MODIFIER", "1b 00 00 01 00 00", 3,
	  3 },
	{ "PREVENT ALLOW, obsolete value", "1e 00 00 00 02 00", 4, 1 },
	{ "MODE SENSE (6) has no LLBAA", "1a 10 3f 00 04 00", 1, 4 },
	{ "TEST UNIT READY, reserved", "00 00 00 80 00 00", 3, 7 },
	{ "the first wrong byte is named", "00 01 ff ff ff ff", 1, 0 },
};

T_ROWS(refuse, refuse_rows)
{
	const struct refuse_row *r = *state;
	struct scsi_cmd cmd;
	struct scsi_sense sense;

	assert_int_equal(decode_hex(r->cdb, &cmd, &sense), -EINVAL);
	assert_int_equal(sense.key, SCSI_KEY_ILLEGAL_REQUEST);
	assert_int_equal(sense.code, SCSI_ASC_INVALID_FIELD_IN_CDB);
	assert_int_equal(sense.pointer, SCSI_POINTER_CDB);
	assert_int_equal(sense.byte_no, r->byte_no);
	assert_int_equal(sense.bit_no, r->bit_no);
	assert_false(sense.info_valid);
}

/* READ BUFFER and WRITE BUFFER have no mode 0. */
static bool has_buffer_mode(unsigned int opcode)
{
	return opcode == 0x3b || opcode == 0x3c;
}

/* For any bytes there is an answer, and each opcode that is not listed is
 * refused. */
T_TEST(every_unlisted_opcode_is_refused)
{
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		uint8_t cdb[SCSI_CDB_LEN] = { (uint8_t)opcode };
		struct scsi_cmd cmd;
		struct scsi_sense sense;
		int err = scsi_cdb_decode(cdb, sizeof(cdb), &cmd, &sense);

		if (scsi_cdb_find((uint8_t)opcode, 0)) {
			assert_int_equal(err,
					 has_buffer_mode(opcode) ? -EINVAL : 0);
		} else if (scsi_cdb_has_service_actions((uint8_t)opcode)) {
			assert_int_equal(err, -EINVAL);
		} else {
			assert_int_equal(err, -EOPNOTSUPP);
			assert_int_equal(sense.code, SCSI_ASC_INVALID_OPCODE);
			assert_int_equal(sense.pointer, SCSI_POINTER_NONE);
		}
	}
}

static void make_cdb(const struct scsi_cdb_info *info, uint8_t *cdb)
{
	memset(cdb, 0, SCSI_CDB_LEN);
	cdb[0] = info->opcode;
	if (info->service_action != SCSI_SERVICE_ACTION_NONE)
		cdb[1] = (uint8_t)info->service_action;
	if (has_buffer_mode(info->opcode))
		cdb[1] = SCSI_BUFFER_DATA;
}

/* A bit that the usage map lacks is refused, and the sense data points at
 * exactly this bit. */
T_ROWS_CNT(bits_outside_the_usage_map_are_refused, scsi_cdb_table,
	   scsi_cdb_table_cnt)
{
	const struct scsi_cdb_info *info = *state;

	for (unsigned int i = 8; i < 8u * info->cdb_len; i++) {
		bool service_action =
			info->service_action != SCSI_SERVICE_ACTION_NONE &&
			i / 8 == 1 && i % 8 <= 4;
		uint8_t cdb[SCSI_CDB_LEN];
		struct scsi_cmd cmd;
		struct scsi_sense sense;
		int err;

		make_cdb(info, cdb);
		cdb[i / 8] |= (uint8_t)(1 << i % 8);
		err = scsi_cdb_decode(cdb, info->cdb_len, &cmd, &sense);
		if (service_action)
			continue;
		if (i / 8 == info->ignored.byte &&
		    info->ignored.mask & 1 << i % 8) {
			assert_int_equal(err, 0);
		} else if (!(info->usage[i / 8] & 1 << i % 8)) {
			assert_int_equal(err, -EINVAL);
			assert_int_equal(sense.byte_no, i / 8);
			assert_true(sense.bit_no >= i % 8);
		} else if (err) {
			assert_int_equal(err, -EINVAL);
			assert_true(sense.byte_no <= i / 8);
		}
	}
}

T_ROWS_CNT(cut_short_is_refused, scsi_cdb_table, scsi_cdb_table_cnt)
{
	const struct scsi_cdb_info *info = *state;
	struct scsi_cmd cmd;
	struct scsi_sense sense;
	uint8_t cdb[SCSI_CDB_LEN];

	make_cdb(info, cdb);
	for (size_t len = 0; len <= info->cdb_len; len++) {
		uint8_t *exact = t_copy(cdb, len);
		int err = scsi_cdb_decode(exact, len, &cmd, &sense);

		free(exact);
		assert_int_equal(err == 0, len == info->cdb_len);
	}
}

/* Returns the length that the operation code's group defines (SAM-5, SPC-4). */
static unsigned int group_len(uint8_t opcode)
{
	static const uint8_t lens[8] = { 6, 10, 10, 0, 16, 12, 0, 0 };

	return lens[opcode >> 5];
}

static void assert_field_is_used(const struct scsi_cdb_info *info,
				 struct scsi_cdb_field field)
{
	assert_true(field.byte + field.len < info->cdb_len);
	for (unsigned int i = 1; i < field.len; i++)
		assert_int_equal(info->usage[field.byte + i], 0xff);
}

T_ROWS_CNT(row_is_consistent, scsi_cdb_table, scsi_cdb_table_cnt)
{
	const struct scsi_cdb_info *info = *state;

	assert_int_equal(info->usage[0], info->opcode);
	assert_int_equal(info->cdb_len, group_len(info->opcode));
	if (info->service_action != SCSI_SERVICE_ACTION_NONE)
		assert_int_equal(info->usage[1] & 0x1f, info->service_action);
	/* NACA and the rest of CONTROL */
	assert_int_equal(info->usage[info->cdb_len - 1], 0);
	for (size_t i = info->cdb_len; i < SCSI_CDB_LEN; i++)
		assert_int_equal(info->usage[i], 0);
	assert_field_is_used(info, info->lba);
	assert_field_is_used(info, info->blocks);
	assert_field_is_used(info, info->alloc_len);
	assert_field_is_used(info, info->param_len);
	if (info->flags & SCSI_CDB_BLOCKS)
		assert_true(info->lba.len);
	assert_non_null(info->clause);
	assert_ptr_equal(
		scsi_cdb_find(info->opcode, (unsigned int)info->service_action),
		info);
}

/* Returns the byte where SBC-3 has GROUP NUMBER in a CDB of this length. 0:
 * none. */
static uint8_t group_byte(const struct scsi_cdb_info *info)
{
	bool has_one = info->op == SCSI_OP_UNMAP ||
		       (info->flags & SCSI_CDB_BLOCKS &&
			info->op != SCSI_OP_GET_LBA_STATUS);

	if (!has_one || info->cdb_len == 6)
		return 0;
	return info->cdb_len == 10 ? 6 : info->cdb_len - 2;
}

T_ROWS_CNT(group_number_is_ignored, scsi_cdb_table, scsi_cdb_table_cnt)
{
	const struct scsi_cdb_info *info = *state;
	uint8_t byte = group_byte(info);
	struct scsi_cmd plain;
	struct scsi_cmd grouped;
	struct scsi_sense sense;
	uint8_t cdb[SCSI_CDB_LEN] = { info->opcode };

	if (!byte)
		return;
	assert_int_equal(scsi_cdb_decode(cdb, sizeof(cdb), &plain, &sense), 0);
	cdb[byte] = 0x1f;
	memset(&grouped, 0xa5, sizeof(grouped));
	assert_int_equal(scsi_cdb_decode(cdb, sizeof(cdb), &grouped, &sense),
			 0);
	assert_cmd(&grouped, &plain);
	/* The target ignores it, and REPORT SUPPORTED OPERATION CODES says
	 * so. */
	assert_int_equal(info->usage[byte], 0);
}

T_TEST(table_is_sorted_and_complete)
{
	bool seen[SCSI_OP_CNT] = { false };

	for (size_t i = 0; i < scsi_cdb_table_cnt; i++) {
		const struct scsi_cdb_info *a = &scsi_cdb_table[i];

		seen[a->op] = true;
		if (i)
			assert_true(a[-1].opcode < a->opcode ||
				    (a[-1].opcode == a->opcode &&
				     a[-1].service_action < a->service_action));
	}
	for (size_t op = 0; op < SCSI_OP_CNT; op++)
		assert_true(seen[op]);
}

/* SAM-5: three commands are answered despite unit attentions or an absent
 * unit. */
T_TEST(only_three_commands_pass_a_unit_attention)
{
	for (size_t i = 0; i < scsi_cdb_table_cnt; i++) {
		const struct scsi_cdb_info *info = &scsi_cdb_table[i];
		bool passes = info->op == SCSI_OP_INQUIRY ||
			      info->op == SCSI_OP_REPORT_LUNS ||
			      info->op == SCSI_OP_REQUEST_SENSE;

		assert_int_equal(!!(info->flags & SCSI_CDB_PASSES_UA), passes);
		assert_int_equal(!!(info->flags & SCSI_CDB_ABSENT_LUN), passes);
	}
}

/* Checks against a unit of 1000 blocks. */
struct check_row {
	const char *name;
	const char *cdb;
	int err;
	struct scsi_sense sense;
	uint64_t blocks; /* blocks, after the check */
	bool read_only;
	bool not_thin;
	bool nonzero;
	uint32_t max_transfer;
	uint64_t max_write_same;
	uint64_t capacity; /* 0: 1000 */
};

#define OUT_OF_RANGE(lba)                                          \
	{                                                          \
		.key = 5, .code = 0x2100, .bit_no = SCSI_BIT_NONE, \
		.info_valid = true, .info = lba                    \
	}
#define CDB_FIELD(byte, bit)                                           \
	{                                                              \
		.key = 5, .code = 0x2400, .pointer = SCSI_POINTER_CDB, \
		.byte_no = byte, .bit_no = bit                         \
	}
#define PROTECTED                                                 \
	{                                                         \
		.key = 7, .code = 0x2700, .bit_no = SCSI_BIT_NONE \
	}
#define BAD_OPCODE                                                \
	{                                                         \
		.key = 5, .code = 0x2000, .bit_no = SCSI_BIT_NONE \
	}
#define FINE      \
	{         \
		0 \
	}

static const struct check_row check_rows[] = {
	{ "first block", "28 00 00 00 00 00 00 00 01 00", 0, FINE, 1 },
	{ "last block", "28 00 00 00 03 e7 00 00 01 00", 0, FINE, 1 },
	{ "whole unit", "28 00 00 00 00 00 00 03 e8 00", 0, FINE, 1000 },
	{ "no blocks at the last one", "28 00 00 00 03 e7 00 00 00 00", 0, FINE,
	  0 },
	{ "no blocks past the last one", "28 00 00 00 03 e8 00 00 00 00",
	  -ERANGE, OUT_OF_RANGE(1000) },
	{ "one block past the last one", "28 00 00 00 03 e8 00 00 01 00",
	  -ERANGE, OUT_OF_RANGE(1000) },
	{ "reaches past the end", "28 00 00 00 03 e7 00 00 02 00", -ERANGE,
	  OUT_OF_RANGE(1000) },
	{ "one block too many", "28 00 00 00 00 00 00 03 e9 00", -ERANGE,
	  OUT_OF_RANGE(1000) },
	{ "LBA plus blocks wraps to the start", "88 00 ff*8 00 00 00 02 00 00",
	  -ERANGE, OUT_OF_RANGE(UINT64_MAX) },
	{ "LBA plus blocks wraps far",
	  "8a 00 ff ff ff ff 00 00 00 01 ff ff ff ff 00 00", -ERANGE,
	  OUT_OF_RANGE(0xffffffff00000001) },
	{ "the largest unit there can be",
	  "88 00 ff ff ff ff ff ff ff fe 00 00 00 01 00 00", 0, FINE, 1,
	  .capacity = UINT64_MAX },
	{ "past the largest unit", "88 00 ff*8 00 00 00 00 00 00", -ERANGE,
	  OUT_OF_RANGE(UINT64_MAX), .capacity = UINT64_MAX },
	{ "READ (6) of 256 at the end", "08 00 02 e8 00 00", 0, FINE, 256 },
	{ "READ (6) of 256 past the end", "08 00 02 e9 00 00", -ERANGE,
	  OUT_OF_RANGE(1000) },
	{ "VERIFY past the end", "2f 00 00 00 03 e7 00 00 02 00", -ERANGE,
	  OUT_OF_RANGE(1000) },
	{ "flush everything", "35 00*9", 0, FINE, 1000 },
	{ "flush from a block to the end", "35 00 00 00 03 e7 00 00 00 00", 0,
	  FINE, 1 },
	{ "flush from past the end", "35 00 00 00 03 e8 00 00 00 00", -ERANGE,
	  OUT_OF_RANGE(1000) },
	{ "flush of too much", "91 00*8 01 00 00 03 e8 00 00", -ERANGE,
	  OUT_OF_RANGE(1), .capacity = 1 },
	{ "flush is no transfer", "35 00*9", 0, FINE, 1000, .max_transfer = 8 },
	{ "flush of a write-protected unit", "35 00*9", 0, FINE, 1000,
	  .read_only = true },
	{ "provisioning status in range", "9e 12 00*6 03 e7 00 00 00 18 00 00",
	  0, FINE, 0 },
	{ "provisioning status past the end",
	  "9e 12 00*6 03 e8 00 00 00 18 00 00", -ERANGE, OUT_OF_RANGE(1000) },
	{ "largest transfer", "2a 00 00 00 00 00 00 00 08 00", 0, FINE, 8,
	  .max_transfer = 8 },
	{ "larger than the largest transfer", "2a 00 00 00 00 00 00 00 09 00",
	  -EINVAL, CDB_FIELD(7, 7), .max_transfer = 8 },
	{ "larger than the largest transfer, 16",
	  "8a 00*8 00 00 00 00 09 00 00", -EINVAL, CDB_FIELD(10, 7),
	  .max_transfer = 8 },
	{ "write to a write-protected unit", "2a 00 00 00 00 00 00 00 01 00",
	  -EROFS, PROTECTED, .read_only = true },
	{ "read of a write-protected unit", "28 00 00 00 00 00 00 00 01 00", 0,
	  FINE, 1, .read_only = true },
	{ "unmap of a write-protected unit", "42 00*6 00 18 00", -EROFS,
	  PROTECTED, .read_only = true },
	/* Write protection is reported first, whatever else is wrong. */
	{ "write past the end of a write-protected unit",
	  "2a 00 00 00 03 e8 00 00 01 00", -EROFS, PROTECTED,
	  .read_only = true },
	{ "larger than the largest transfer, write-protected unit",
	  "2a 00 00 00 00 00 00 00 09 00", -EROFS, PROTECTED, .max_transfer = 8,
	  .read_only = true },
	{ "write same above its limit, write-protected unit",
	  "93 00*8 00 00 00 00 41 00 00", -EROFS, PROTECTED,
	  .max_write_same = 64, .read_only = true },
	{ "write same, unmap, thick and write-protected unit",
	  "93 08 00*7 00 00 00 00 40 00 00", -EROFS, PROTECTED,
	  .not_thin = true, .read_only = true },
	{ "unmap, thick and write-protected unit", "42 00*6 00 18 00", -EINVAL,
	  BAD_OPCODE, .not_thin = true, .read_only = true },
	{ "read past the end of a write-protected unit",
	  "28 00 00 00 03 e8 00 00 01 00", -ERANGE, OUT_OF_RANGE(1000),
	  .read_only = true },
	{ "write same to the end", "41 00 00 00 00 0a 00 00 00 00", 0, FINE,
	  990 },
	{ "write same of no blocks, when refused",
	  "41 00 00 00 00 0a 00 00 00 00", -EINVAL, CDB_FIELD(7, 7),
	  .nonzero = true },
	{ "write same of no blocks, when refused, 16", "93 00*15", -EINVAL,
	  CDB_FIELD(10, 7), .nonzero = true },
	{ "write same at its limit", "93 00*8 00 00 00 00 40 00 00", 0, FINE,
	  64, .max_write_same = 64 },
	{ "write same above its limit", "93 00*8 00 00 00 00 41 00 00", -EINVAL,
	  CDB_FIELD(10, 7), .max_write_same = 64 },
	{ "write same to the end above its limit", "93 00*15", -EINVAL,
	  CDB_FIELD(10, 7), .max_write_same = 64 },
	{ "write same is not limited by transfers",
	  "93 00*8 00 00 00 00 40 00 00", 0, FINE, 64, .max_transfer = 8 },
	{ "write same, unmap, thick unit", "93 08 00*7 00 00 00 00 40 00 00",
	  -EINVAL, CDB_FIELD(1, 3), .not_thin = true },
	{ "write same, thick unit", "93 00*8 00 00 00 00 40 00 00", 0, FINE, 64,
	  .not_thin = true },
	{ "unmap, thick unit", "42 00*6 00 18 00", -EINVAL, BAD_OPCODE,
	  .not_thin = true },
	{ "no blocks to check", "12 00 00 00 24 00", 0, FINE, 0,
	  .read_only = true, .not_thin = true },
};

T_ROWS(check, check_rows)
{
	const struct check_row *r = *state;
	struct scsi_disk_info info = {
		.blocks = r->capacity ? r->capacity : 1000,
		.read_only = r->read_only,
		.unmap = !r->not_thin,
		.write_same_nonzero = r->nonzero,
		.max_transfer_blocks = r->max_transfer,
		.max_write_same_blocks = r->max_write_same,
	};
	struct scsi_sense sense = { 0 };
	struct scsi_cmd cmd;

	assert_int_equal(decode_hex(r->cdb, &cmd, &sense), 0);
	assert_int_equal(scsi_cmd_check(&cmd, &info, &sense), r->err);
	if (!r->err) {
		assert_int_equal(cmd.blocks, r->blocks);
		return;
	}
	assert_int_equal(sense.key, r->sense.key);
	assert_int_equal(sense.code, r->sense.code);
	assert_int_equal(sense.pointer, r->sense.pointer);
	assert_int_equal(sense.byte_no, r->sense.byte_no);
	assert_int_equal(sense.bit_no, r->sense.bit_no);
	assert_int_equal(sense.info_valid, r->sense.info_valid);
	assert_int_equal(sense.info, r->sense.info);
}

static const struct len_row {
	const char *name;
	const char *cdb;
	uint64_t out;
	uint64_t in;
} len_rows[] = {
	{ "READ (10)", "28 00*6 00 08 00", 0, 4096 },
	{ "READ (6) of 256", "08 00*5", 0, 131072 },
	{ "WRITE (16), all there can be", "8a 00*9 ff ff ff ff 00 00",
	  4294967295ULL * 512, 0 },
	{ "VERIFY without data", "2f 00*6 00 08 00", 0, 0 },
	{ "VERIFY with data", "2f 02 00*5 00 08 00", 4096, 0 },
	{ "VERIFY against one block", "2f 06 00*5 00 08 00", 512, 0 },
	{ "VERIFY of nothing against one block", "2f 06 00*8", 0, 0 },
	{ "WRITE AND VERIFY", "2e 00*6 00 08 00", 4096, 0 },
	{ "COMPARE AND WRITE", "89 00*12 08 00 00", 8192, 0 },
	{ "ORWRITE", "8b 00*12 08 00 00", 4096, 0 },
	{ "WRITE ATOMIC", "9c 00*12 08 00 00", 4096, 0 },
	{ "SANITIZE, OVERWRITE", "48 01 00*5 00 05 00", 5, 0 },
	{ "PRE-FETCH", "34 00*6 00 08 00", 0, 0 },
	{ "READ DEFECT DATA (10)", "37 00*6 00 08 00", 0, 8 },
	{ "WRITE SAME", "41 00*6 ff ff 00", 512, 0 },
	{ "WRITE SAME without data-out", "93 01 00*8 00 00 ff ff 00 00", 0, 0 },
	{ "UNMAP", "42 00*6 00 18 00", 24, 0 },
	{ "READ CAPACITY (10)", "25 00*9", 0, 8 },
	{ "INQUIRY", "12 00 00 01 00 00", 0, 256 },
	{ "WRITE BUFFER", "3b 02 00*4 01 00 00 00", 65536, 0 },
	{ "READ BUFFER", "3c 02 00*4 01 00 00 00", 0, 65536 },
	{ "REPORT LUNS", "a0 00*5 ff ff ff ff 00 00", 0, UINT32_MAX },
	{ "TEST UNIT READY", "00*6", 0, 0 },
	{ "SYNCHRONIZE CACHE", "35 00*6 00 08 00", 0, 0 },
};

T_ROWS(data_len, len_rows)
{
	const struct len_row *r = *state;
	struct scsi_sense sense;
	struct scsi_cmd cmd;

	assert_int_equal(decode_hex(r->cdb, &cmd, &sense), 0);
	assert_int_equal(scsi_cmd_data_out_len(&cmd, 512), r->out);
	assert_int_equal(scsi_cmd_data_in_len(&cmd, 512), r->in);
}

/* CDBs that the initiator builds. Our own decoder accepts each of them. */
struct built {
	uint8_t b[SCSI_CDB_LEN];
	size_t len;
};

static void assert_built(const struct built *cdb, const char *hex)
{
	struct t_bytes want = t_bytes(hex);
	struct scsi_sense sense;
	struct scsi_cmd cmd;

	assert_int_equal(cdb->len, want.len);
	assert_memory_equal(cdb->b, want.p, want.len);
	for (size_t i = want.len; i < SCSI_CDB_LEN; i++)
		assert_int_equal(cdb->b[i], 0);
	assert_int_equal(scsi_cdb_decode(cdb->b, cdb->len, &cmd, &sense), 0);
	assert_int_equal(cmd.info->cdb_len, cdb->len);
	free(want.p);
}

#define BUILT(call, hex)                            \
	do {                                        \
		struct built cdb;                   \
		memset(cdb.b, 0xa5, sizeof(cdb.b)); \
		cdb.len = call;                     \
		assert_built(&cdb, hex);            \
	} while (0)

T_TEST(control_cdbs_are_built)
{
	BUILT(scsi_cdb_test_unit_ready(cdb.b), "00*6");
	BUILT(scsi_cdb_inquiry(36, cdb.b), "12 00 00 00 24 00");
	BUILT(scsi_cdb_inquiry_vpd(0x83, 0x400, cdb.b), "12 01 83 04 00 00");
	BUILT(scsi_cdb_report_luns(4096, cdb.b),
	      "a0 00 00 00 00 00 00 00 10 00 00 00");
	BUILT(scsi_cdb_read_capacity_10(cdb.b), "25 00*9");
	BUILT(scsi_cdb_read_buffer(SCSI_BUFFER_DATA, 0x1000, 0xf000, cdb.b),
	      "3c 02 00 00 10 00 00 f0 00 00");
	BUILT(scsi_cdb_write_buffer(SCSI_BUFFER_ECHO, 0, 4096, cdb.b),
	      "3b 0a 00 00 00 00 00 10 00 00");
	BUILT(scsi_cdb_read_capacity_16(32, cdb.b),
	      "9e 10 00*8 00 00 00 20 00 00");
	BUILT(scsi_cdb_mode_sense_6(0x3f, 192, cdb.b), "1a 08 3f 00 c0 00");
	BUILT(scsi_cdb_get_lba_status(0x123456789a, 24, cdb.b),
	      "9e 12 00 00 00 12 34 56 78 9a 00 00 00 18 00 00");
}

T_TEST(block_cdbs_are_built)
{
	/* seen: Linux 6.1 reads the first blocks of a new disk with this */
	BUILT(scsi_cdb_read(0, 8, false, cdb.b),
	      "28 00 00 00 00 00 00 00 08 00");
	BUILT(scsi_cdb_read(UINT32_MAX, 65535, true, cdb.b),
	      "28 08 ff ff ff ff 00 ff ff 00");
	BUILT(scsi_cdb_read(0, 65536, false, cdb.b),
	      "88 00 00*8 00 01 00 00 00 00");
	BUILT(scsi_cdb_read(1ULL << 32, 1, true, cdb.b),
	      "88 08 00 00 00 01 00 00 00 00 00 00 00 01 00 00");
	BUILT(scsi_cdb_write(0x12345678, 0x4000, false, cdb.b),
	      "2a 00 12 34 56 78 00 40 00 00");
	BUILT(scsi_cdb_write(UINT64_MAX, UINT32_MAX, true, cdb.b),
	      "8a 08 ff*8 ff ff ff ff 00 00");
	BUILT(scsi_cdb_sync_cache(0, 0, cdb.b), "35 00*9");
	BUILT(scsi_cdb_sync_cache(1ULL << 32, 0, cdb.b),
	      "91 00 00 00 00 01 00 00 00 00 00 00 00 00 00 00");
	BUILT(scsi_cdb_unmap(24, cdb.b), "42 00 00 00 00 00 00 00 18 00");
	BUILT(scsi_cdb_write_same_16(1, 2, 0, cdb.b),
	      "93 00 00*7 01 00 00 00 02 00 00");
	BUILT(scsi_cdb_write_same_16(
		      1, 2, SCSI_WRITE_SAME_UNMAP | SCSI_WRITE_SAME_NDOB,
		      cdb.b),
	      "93 09 00*7 01 00 00 00 02 00 00");
}
