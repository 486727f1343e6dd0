/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands: the fields that are special to each CDB, then the table. */
#include "protocol/scsi_cdb.h"

#include <errno.h>

#include "protocol/scsi_cdb_bits.h"
#include "protocol/scsi_pages.h"
#include "protocol/scsi_pr.h"
#include "protocol/wire.h"

static int fields_request_sense(const uint8_t *cdb, struct scsi_cmd *cmd,
				struct scsi_sense *ret_sense)
{
	cmd->desc = cdb[1] & 1;
	return 0;
}

static int fields_inquiry(const uint8_t *cdb, struct scsi_cmd *cmd,
			  struct scsi_sense *ret_sense)
{
	cmd->evpd = cdb[1] & CDB_EVPD;
	cmd->page_code = cdb[2];
	if (cmd->page_code && !cmd->evpd) {
		*ret_sense = scsi_sense_cdb_field(2, 7);
		return -EINVAL;
	}
	return 0;
}

static int fields_report_luns(const uint8_t *cdb, struct scsi_cmd *cmd,
			      struct scsi_sense *ret_sense)
{
	cmd->select_report = cdb[2];
	if (cmd->select_report > SCSI_LUNS_ALL &&
	    (cmd->select_report < SCSI_LUNS_ADMINISTRATIVE ||
	     cmd->select_report > SCSI_LUNS_SUBSIDIARY)) {
		*ret_sense = scsi_sense_cdb_field(2, 7);
		return -EINVAL;
	}
	return 0;
}

static int fields_report_opcodes(const uint8_t *cdb, struct scsi_cmd *cmd,
				 struct scsi_sense *ret_sense)
{
	cmd->rctd = cdb[2] & CDB_RCTD;
	cmd->reporting_options = cdb[2] & 7;
	cmd->requested_opcode = cdb[3];
	cmd->requested_service_action = wire_get16(cdb + 4);
	return 0;
}

static int fields_mode_sense(const uint8_t *cdb, struct scsi_cmd *cmd,
			     struct scsi_sense *ret_sense)
{
	cmd->dbd = cdb[1] & CDB_DBD;
	cmd->llbaa = cdb[1] & CDB_LLBAA;
	cmd->page_control = cdb[2] >> 6;
	cmd->page_code = cdb[2] & 0x3f;
	cmd->subpage_code = cdb[3];
	return 0;
}

static int fields_mode_select(const uint8_t *cdb, struct scsi_cmd *cmd,
			      struct scsi_sense *ret_sense)
{
	cmd->save = cdb[1] & CDB_SP;
	if (cdb[1] & CDB_PF || !cmd->param_len)
		return 0;
	/* Without PF, the pages have a vendor-specific format. */
	*ret_sense = scsi_sense_cdb_field(1, 4);
	return -EINVAL;
}

static int fields_log_sense(const uint8_t *cdb, struct scsi_cmd *cmd,
			    struct scsi_sense *ret_sense)
{
	cmd->page_control = cdb[2] >> 6;
	cmd->page_code = cdb[2] & 0x3f;
	cmd->subpage_code = cdb[3];
	cmd->parameter = wire_get16(cdb + 5);
	return 0;
}

/* A longer list cannot be valid, and would need a buffer. */
static int fields_persistent_out(const uint8_t *cdb, struct scsi_cmd *cmd,
				 struct scsi_sense *ret_sense)
{
	cmd->scope = cdb[2] >> 4;
	cmd->type = cdb[2] & 0x0f;
	if (cmd->param_len <= SCSI_PR_OUT_MAX)
		return 0;
	*ret_sense = scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
				SCSI_ASC_PARAMETER_LIST_LENGTH_ERROR);
	return -EINVAL;
}

static int fields_report_port_groups(const uint8_t *cdb, struct scsi_cmd *cmd,
				     struct scsi_sense *ret_sense)
{
	cmd->ext_header = cdb[1] & CDB_EXT_HEADER;
	return 0;
}

/* A longer list can only repeat the same groups, and would need a buffer. */
static int fields_set_port_groups(const uint8_t *cdb, struct scsi_cmd *cmd,
				  struct scsi_sense *ret_sense)
{
	if (cmd->param_len <= SCSI_SET_PORT_GROUPS_MAX)
		return 0;
	*ret_sense = scsi_sense_cdb_field(6, 7);
	return -EINVAL;
}

static int fields_report_tmf(const uint8_t *cdb, struct scsi_cmd *cmd,
			     struct scsi_sense *ret_sense)
{
	cmd->repd = cdb[2] & CDB_REPD;
	return 0;
}

static int fields_start_stop(const uint8_t *cdb, struct scsi_cmd *cmd,
			     struct scsi_sense *ret_sense)
{
	cmd->immed = cdb[1] & 1;
	cmd->start = cdb[4] & CDB_START;
	cmd->loej = cdb[4] & CDB_LOEJ;
	cmd->no_flush = cdb[4] & CDB_NO_FLUSH;
	return 0;
}

static int fields_prevent(const uint8_t *cdb, struct scsi_cmd *cmd,
			  struct scsi_sense *ret_sense)
{
	cmd->prevent = cdb[4] & CDB_PREVENT;
	return 0;
}

/* An LBA without PMI was an error until SBC-3 made both obsolete. */
static int fields_read_capacity(const uint8_t *cdb, struct scsi_cmd *cmd,
				struct scsi_sense *ret_sense)
{
	cmd->pmi = cdb[cmd->info->cdb_len - 2] & CDB_PMI;
	if (cmd->lba && !cmd->pmi) {
		*ret_sense = scsi_sense_cdb_field(2, 7);
		return -EINVAL;
	}
	return 0;
}

static int fields_rw_6(const uint8_t *cdb, struct scsi_cmd *cmd,
		       struct scsi_sense *ret_sense)
{
	if (!cmd->blocks)
		cmd->blocks = 256;
	return 0;
}

static int fields_rw(const uint8_t *cdb, struct scsi_cmd *cmd,
		     struct scsi_sense *ret_sense)
{
	cmd->fua = cdb[1] & CDB_FUA;
	return 0;
}

static int fields_verify(const uint8_t *cdb, struct scsi_cmd *cmd,
			 struct scsi_sense *ret_sense)
{
	cmd->bytchk = (cdb[1] & CDB_BYTCHK) >> 1;
	if (cmd->bytchk == 2) {
		*ret_sense = scsi_sense_cdb_field(1, 2);
		return -EINVAL;
	}
	return 0;
}

/* The lists are empty in each of the existing formats. */
static int fields_defects(const uint8_t *cdb, struct scsi_cmd *cmd,
			  struct scsi_sense *ret_sense)
{
	uint8_t byte = cmd->info->cdb_len == 10 ? 2 : 1;

	cmd->defects = cdb[byte] & CDB_DEFECTS;
	if ((cmd->defects & 7) > 5) {
		*ret_sense = scsi_sense_cdb_field(byte, 2);
		return -EINVAL;
	}
	return 0;
}

static int fields_sync_cache(const uint8_t *cdb, struct scsi_cmd *cmd,
			     struct scsi_sense *ret_sense)
{
	cmd->immed = cdb[1] & CDB_IMMED_SYNC;
	return 0;
}

static int fields_write_same(const uint8_t *cdb, struct scsi_cmd *cmd,
			     struct scsi_sense *ret_sense)
{
	cmd->unmap = cdb[1] & CDB_UNMAP;
	cmd->ndob = cdb[1] & CDB_NDOB;
	return 0;
}

/* Without a defect list, CMPLST and the format of the list mean nothing. */
static int fields_format_unit(const uint8_t *cdb, struct scsi_cmd *cmd,
			      struct scsi_sense *ret_sense)
{
	uint8_t list = cdb[1] & 0x2f; /* LONGLIST, CMPLST, the format */

	cmd->fmtdata = cdb[1] & CDB_FMTDATA;
	cmd->longlist = cdb[1] & CDB_LONGLIST;
	if (!cmd->fmtdata && list) {
		*ret_sense = scsi_sense_cdb_field(1, list & CDB_LONGLIST ? 5
						     : list & 8		 ? 3
									 : 2);
		return -EINVAL;
	}
	if ((list & 7) > 5) {
		*ret_sense = scsi_sense_cdb_field(1, 2);
		return -EINVAL;
	}
	return 0;
}

/* Only OVERWRITE has a parameter list. */
static int fields_sanitize(const uint8_t *cdb, struct scsi_cmd *cmd,
			   struct scsi_sense *ret_sense)
{
	cmd->immed = cdb[1] & CDB_IMMED_SANITIZE;
	cmd->ause = cdb[1] & CDB_AUSE;
	if (cmd->param_len && cmd->op != SCSI_OP_SANITIZE_OVERWRITE) {
		*ret_sense = scsi_sense_cdb_field(7, 7);
		return -EINVAL;
	}
	return 0;
}

static int fields_copy_results(const uint8_t *cdb, struct scsi_cmd *cmd,
			       struct scsi_sense *ret_sense)
{
	cmd->list_id = cdb[2];
	return 0;
}

/* BUFFER ID, of which there is one, and BUFFER OFFSET. */
static bool read_buffer_place(const uint8_t *cdb, struct scsi_cmd *cmd,
			      struct scsi_sense *ret_sense)
{
	cmd->buffer_id = cdb[2];
	cmd->buffer_offset = wire_get24(cdb + 3);
	if (cmd->buffer_id == 0 && cmd->buffer_offset <= SCSI_BUFFER_LEN)
		return true;
	*ret_sense = scsi_sense_cdb_field(cmd->buffer_id ? 2 : 3, 7);
	return false;
}

/* The echo modes ignore BUFFER ID and BUFFER OFFSET (SPC-4). */
static int fields_write_buffer(const uint8_t *cdb, struct scsi_cmd *cmd,
			       struct scsi_sense *ret_sense)
{
	uint32_t room = SCSI_ECHO_LEN;

	cmd->buffer_mode = cdb[1] & 0x1f;
	if (cmd->buffer_mode == SCSI_BUFFER_DATA) {
		if (!read_buffer_place(cdb, cmd, ret_sense))
			return -EINVAL;
		room = SCSI_BUFFER_LEN - cmd->buffer_offset;
	} else if (cmd->buffer_mode != SCSI_BUFFER_ECHO) {
		*ret_sense = scsi_sense_cdb_field(1, 4);
		return -EINVAL;
	}
	if (cmd->param_len <= room)
		return 0;
	*ret_sense = scsi_sense_cdb_field(6, 7);
	return -EINVAL;
}

static int fields_read_buffer(const uint8_t *cdb, struct scsi_cmd *cmd,
			      struct scsi_sense *ret_sense)
{
	cmd->buffer_mode = cdb[1] & 0x1f;
	switch (cmd->buffer_mode) {
	case SCSI_BUFFER_DATA:
		return read_buffer_place(cdb, cmd, ret_sense) ? 0 : -EINVAL;
	case SCSI_BUFFER_DESCRIPTOR:
		cmd->buffer_id = cdb[2];
		return 0;
	case SCSI_BUFFER_ECHO:
	case SCSI_BUFFER_ECHO_DESCRIPTOR:
		return 0;
	default:
		*ret_sense = scsi_sense_cdb_field(1, 4);
		return -EINVAL;
	}
}

/* The places of the fields in the usual block commands. */
#define LBA_10	  .lba = { 2, 4 }
#define LBA_16	  .lba = { 2, 8 }
#define BLOCKS_10 .blocks = { 7, 2 }
#define BLOCKS_12 .blocks = { 6, 4 }
#define BLOCKS_16 .blocks = { 10, 4 }

/* RDPROTECT, WRPROTECT or VRPROTECT: the target refuses them. */
#define NARROW_PROTECT .narrow = { { 1, 0xe0 } }

/* The same, and BYTCHK of WRITE AND VERIFY, of which one bit is allowed. */
#define CDB_BYTCHK_ALL 0x02
#define NARROW_BYTCHK  .narrow = { { 1, 0xe0 }, { 1, CDB_BYTCHK } }

/* GROUP NUMBER. A unit without the grouping function (GROUP_SUP 0) ignores it
 * (SBC-3, grouping function). */
#define GROUP_10 .ignored = { 6, 0x1f }
#define GROUP_12 .ignored = { 10, 0x1f }
#define GROUP_16 .ignored = { 14, 0x1f }

/* Usage maps from byte 1 on. The last byte is CONTROL; its NACA bit is not
 * supported (INQUIRY says NORMACA 0). */
#define USAGE_6(op, b1)                     \
	{                                   \
		op, b1, 0xff, 0xff, 0xff, 0 \
	}
#define USAGE_10(op, b1)                                         \
	{                                                        \
		op, b1, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0 \
	}
#define USAGE_12(op, b1)                                                     \
	{                                                                    \
		op, b1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0 \
	}
#define USAGE_16(op, b1)                                                      \
	{                                                                     \
		op, b1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, \
			0xff, 0xff, 0xff, 0, 0                                \
	}

const struct scsi_cdb_info scsi_cdb_table[] = {
	{
		.name = "TEST UNIT READY",
		.clause = "SPC-4 6.47",
		.note = "GOOD, or the reason why the unit is not ready.",
		.opcode = 0x00,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_TEST_UNIT_READY,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_ALLOWED,
		.usage = { 0x00 },
	},
	{
		.name = "REQUEST SENSE",
		.clause = "SPC-4 6.39",
		.note = "Fixed and descriptor format (DESC). Reports and "
			"clears the first pending unit attention.",
		.opcode = 0x03,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_REQUEST_SENSE,
		.access = SCSI_ACCESS_ALWAYS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PASSES_UA | SCSI_CDB_ABSENT_LUN |
			 SCSI_CDB_PASSES_JOB,
		.usage = { 0x03, 0x01, 0, 0, 0xff, 0 },
		.alloc_len = { 4, 1 },
		.fields = fields_request_sense,
	},
	{
		.name = "FORMAT UNIT",
		.clause = "SBC-3 5.3",
		.note = "Writes zeroes to every block. Accepts parameter "
			"lists of a disk without defects, and IMMED. "
			"Meanwhile other commands get NOT READY with the "
			"progress. Formatting continues when the command is "
			"aborted. If the target ends, the format has failed "
			"(reported after a restart with a state directory).",
		.opcode = 0x04,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_FORMAT_UNIT,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags =
			SCSI_CDB_WRITES | SCSI_CDB_PASSES_FAILED | SCSI_CDB_JOB,
		.usage = { 0x04, 0x3f, 0, 0, 0, 0 },
		.narrow = { { 1, 0xc0 } }, /* FMTPINFO */
		.fields = fields_format_unit,
	},
	{
		.name = "READ (6)",
		.clause = "SBC-2",
		.note = "A length of zero reads nothing; in READ (6) it "
			"means 256 blocks. FUA: the target first makes the "
			"blocks stable.",
		.opcode = 0x08,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_READ,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_6(0x08, 0x1f),
		.lba = { 1, 3 },
		.blocks = { 4, 1 },
		.fields = fields_rw_6,
	},
	{
		.name = "WRITE (6)",
		.clause = "SBC-2",
		.note = "With FUA, and while WCE is off, the data is stable "
			"before GOOD.",
		.opcode = 0x0a,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_WRITE,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_6(0x0a, 0x1f),
		.lba = { 1, 3 },
		.blocks = { 4, 1 },
		.fields = fields_rw_6,
	},
	{
		.name = "INQUIRY",
		.clause = "SPC-4 6.6",
		.note = "Standard data and the VPD pages below.",
		.opcode = 0x12,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_INQUIRY,
		.access = SCSI_ACCESS_ALWAYS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PASSES_UA | SCSI_CDB_ABSENT_LUN |
			 SCSI_CDB_PASSES_JOB,
		.usage = USAGE_6(0x12, CDB_EVPD),
		.alloc_len = { 3, 2 },
		.fields = fields_inquiry,
	},
	{
		.name = "MODE SELECT (6)",
		.clause = "SPC-4 6.11",
		.note = "The target checks all of the list before it "
			"changes anything. SP needs a state directory. The "
			"other nexuses get unit attention 2Ah/01h. The "
			"target flushes the cache before it clears WCE or "
			"sets SWP; if that fails, nothing changes. Commands "
			"that use blocks end before SWP is set.",
		.opcode = 0x15,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_MODE_SELECT_6,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM,
		.usage = { 0x15, CDB_PF | CDB_SP, 0, 0, 0xff, 0 },
		.param_len = { 4, 1 },
		.fields = fields_mode_select,
	},
	{
		.name = "RESERVE (6)",
		.clause = "SPC-2",
		.note = "Reserves the whole unit; third-party and extent "
			"reservations are refused. If there are "
			"registrations, the rules of CRH apply (SPC-4 "
			"5.12.3).",
		.opcode = 0x16,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_RESERVE,
		.access = SCSI_ACCESS_ALWAYS,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_NO_MEDIUM | SCSI_CDB_RESERVE,
		.usage = { 0x16, 0, 0, 0, 0, 0 },
		/* 3RDPTY and the third party, of SPC-2 */
		.narrow = { { 1, 0x0e } },
	},
	{
		.name = "RELEASE (6)",
		.clause = "SPC-2",
		.note = "As RESERVE. Has no effect on the reservation of "
			"another nexus.",
		.opcode = 0x17,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_RELEASE,
		.access = SCSI_ACCESS_ALWAYS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_NO_MEDIUM | SCSI_CDB_RESERVE,
		.usage = { 0x17, 0, 0, 0, 0, 0 },
		.narrow = { { 1, 0x0e } },
	},
	{
		.name = "MODE SENSE (6)",
		.clause = "SPC-4 6.13",
		.note = "The mode pages below, or all of them; subpages 00h "
			"and FFh. Saved values need a state directory.",
		.opcode = 0x1a,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_MODE_SENSE_6,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM,
		.usage = USAGE_6(0x1a, CDB_DBD),
		.alloc_len = { 4, 1 },
		.fields = fields_mode_sense,
	},
	{
		.name = "START STOP UNIT",
		.clause = "SBC-3 5.25",
		.note = "Power conditions are refused. Stopping flushes the "
			"cache; with IMMED, a failure is a deferred error. "
			"LOEJ ejects or loads removable volumes; refused "
			"with 05h/53h/02h while removal is prevented. An eject "
			"stops new commands, waits for the running ones, and "
			"flushes. If the flush fails, the medium is back. "
			"Without LOEJ, a stopped volume can still be read "
			"and written; it needs no START.",
		.opcode = 0x1b,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_START_STOP,
		.access = SCSI_ACCESS_BY_FIELD,
		.readers = SCSI_READERS_BY_FIELD,
		.flags = SCSI_CDB_NO_MEDIUM,
		.usage = { 0x1b, 0x01, 0, 0,
			   CDB_START | CDB_LOEJ | CDB_NO_FLUSH, 0 },
		/* POWER CONDITION MODIFIER, POWER CONDITION */
		.narrow = { { 3, 0x0f }, { 4, 0xf0 } },
		.fields = fields_start_stop,
	},
	{
		.name = "PREVENT ALLOW MEDIUM REMOVAL",
		.clause = "SBC-3 5.10",
		.note = "Lasts until the nexus allows removal, is lost, or "
			"is preempted by PREEMPT AND ABORT, or until the "
			"unit is reset.",
		.opcode = 0x1e,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_PREVENT_REMOVAL,
		.access = SCSI_ACCESS_BY_FIELD,
		.readers = SCSI_READERS_BY_FIELD,
		.flags = SCSI_CDB_NO_MEDIUM,
		.usage = { 0x1e, 0, 0, 0, CDB_PREVENT, 0 },
		.fields = fields_prevent,
	},
	{
		.name = "READ CAPACITY (10)",
		.clause = "SBC-3 5.15",
		.note = "An LBA without PMI is refused.",
		.opcode = 0x25,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_READ_CAPACITY_10,
		.access = SCSI_ACCESS_ALWAYS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY,
		.usage = { 0x25, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, CDB_PMI, 0 },
		LBA_10,
		.fields = fields_read_capacity,
	},
	{
		.name = "READ (10)",
		.clause = "SBC-3 5.11",
		.note = "A length of zero reads nothing; in READ (6) it "
			"means 256 blocks. FUA: the target first makes the "
			"blocks stable.",
		.opcode = 0x28,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_READ,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_10(0x28, CDB_DPO | CDB_FUA),
		NARROW_PROTECT,
		GROUP_10,
		LBA_10,
		BLOCKS_10,
		.fields = fields_rw,
	},
	{
		.name = "WRITE (10)",
		.clause = "SBC-3 5.33",
		.note = "With FUA, and while WCE is off, the data is stable "
			"before GOOD.",
		.opcode = 0x2a,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_WRITE,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_10(0x2a, CDB_DPO | CDB_FUA),
		NARROW_PROTECT,
		GROUP_10,
		LBA_10,
		BLOCKS_10,
		.fields = fields_rw,
	},
	{
		.name = "WRITE AND VERIFY (10)",
		.clause = "SBC-3 5.36",
		.note = "BYTCHK 0 and 1.",
		.opcode = 0x2e,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_WRITE_VERIFY,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_10(0x2e, CDB_DPO | CDB_BYTCHK_ALL),
		NARROW_BYTCHK,
		GROUP_10,
		LBA_10,
		BLOCKS_10,
		.fields = fields_verify,
	},
	{
		.name = "VERIFY (10)",
		.clause = "SBC-3 5.29",
		.note = "BYTCHK 0, 1 and 3; 2 is refused.",
		.opcode = 0x2f,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_VERIFY,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_10(0x2f, CDB_DPO | CDB_BYTCHK),
		NARROW_PROTECT,
		GROUP_10,
		LBA_10,
		BLOCKS_10,
		.fields = fields_verify,
	},
	{
		.name = "PRE-FETCH (10)",
		.clause = "SBC-3 5.8",
		.note = "CONDITION MET if all blocks are in a cache; GOOD "
			"if there is no cache, or if it is too small for "
			"them. With IMMED, a failure is a deferred error.",
		.opcode = 0x34,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_PREFETCH,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_ZERO_TO_END |
			 SCSI_CDB_NO_TRANSFER,
		.usage = USAGE_10(0x34, CDB_IMMED_SYNC),
		GROUP_10,
		LBA_10,
		BLOCKS_10,
		.fields = fields_sync_cache,
	},
	{
		.name = "SYNCHRONIZE CACHE (10)",
		.clause = "SBC-3 5.26",
		.note = "Flushes the whole cache, whatever the range. With "
			"IMMED, a failure is a deferred error.",
		.opcode = 0x35,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_SYNC_CACHE,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_ZERO_TO_END |
			 SCSI_CDB_NO_TRANSFER,
		.usage = USAGE_10(0x35, CDB_IMMED_SYNC),
		GROUP_10,
		LBA_10,
		BLOCKS_10,
		.fields = fields_sync_cache,
	},
	{
		.name = "READ DEFECT DATA (10)",
		.clause = "SBC-3 5.17",
		.note = "The lists are empty: there are no defects.",
		.opcode = 0x37,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_READ_DEFECTS,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.usage = { 0x37, 0, CDB_DEFECTS, 0, 0, 0, 0, 0xff, 0xff, 0 },
		.alloc_len = { 7, 2 },
		.fields = fields_defects,
	},
	{
		.name = "WRITE BUFFER",
		.clause = "SPC-4 6.49",
		.note = "MODE 02h (data: buffer 0, 64 KiB) and 0Ah (echo "
			"buffer, 4 KiB). Each I_T nexus has a buffer of its "
			"own, in memory. `rdma-doctor` measures with it.",
		.opcode = 0x3b,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_WRITE_BUFFER,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_NO_MEDIUM,
		.usage = { 0x3b, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			   0 },
		.param_len = { 6, 3 },
		.fields = fields_write_buffer,
	},
	{
		.name = "READ BUFFER",
		.clause = "SPC-4 6.18",
		.note = "MODE 02h and 0Ah, as WRITE BUFFER, and their "
			"descriptors, 03h and 0Bh. Before any WRITE BUFFER "
			"of the nexus, mode 02h reads zeroes, and mode 0Ah "
			"is refused (2Ch/00h).",
		.opcode = 0x3c,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_READ_BUFFER,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_NO_MEDIUM,
		.usage = { 0x3c, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			   0 },
		.alloc_len = { 6, 3 },
		.fields = fields_read_buffer,
	},
	{
		.name = "WRITE SAME (10)",
		.clause = "SBC-3 5.43",
		.note = "At most as many blocks as VPD page B0h says. Zero "
			"blocks means up to the last block. ANCHOR is "
			"refused.",
		.opcode = 0x41,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_WRITE_SAME,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES |
			 SCSI_CDB_ZERO_TO_END | SCSI_CDB_NO_TRANSFER,
		.usage = USAGE_10(0x41, CDB_UNMAP),
		NARROW_PROTECT,
		GROUP_10,
		LBA_10,
		BLOCKS_10,
		.fields = fields_write_same,
	},
	{
		.name = "UNMAP",
		.clause = "SBC-3 5.28",
		.note = "At most as many blocks and descriptors as VPD page "
			"B0h says. The target checks the whole list first. "
			"ANCHOR is refused.",
		.opcode = 0x42,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_UNMAP,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_WRITES | SCSI_CDB_UNMAPS,
		.usage = { 0x42, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0 },
		GROUP_10,
		.param_len = { 7, 2 },
	},
	{
		.name = "SANITIZE, OVERWRITE",
		.clause = "SBC-3 5.24",
		.note = "Accepts a count, a pattern, INVERT, IMMED and AUSE. "
			"Meanwhile other commands get NOT READY with the "
			"progress. The job continues when the command is "
			"aborted. If the target ends first, it has failed "
			"(reported after a restart with a state directory).",
		.opcode = 0x48,
		.service_action = 0x01,
		.cdb_len = 10,
		.op = SCSI_OP_SANITIZE_OVERWRITE,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags =
			SCSI_CDB_WRITES | SCSI_CDB_PASSES_FAILED | SCSI_CDB_JOB,
		.usage = { 0x48, CDB_IMMED_SANITIZE | CDB_AUSE | 0x01, 0, 0, 0,
			   0, 0, 0xff, 0xff, 0 },
		.param_len = { 7, 2 },
		.fields = fields_sanitize,
	},
	{
		.name = "SANITIZE, BLOCK ERASE",
		.clause = "SBC-3 5.24",
		.note = "As OVERWRITE.",
		.opcode = 0x48,
		.service_action = 0x02,
		.cdb_len = 10,
		.op = SCSI_OP_SANITIZE_ERASE,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags =
			SCSI_CDB_WRITES | SCSI_CDB_PASSES_FAILED | SCSI_CDB_JOB,
		.usage = { 0x48, CDB_IMMED_SANITIZE | CDB_AUSE | 0x02, 0, 0, 0,
			   0, 0, 0xff, 0xff, 0 },
		.param_len = { 7, 2 },
		.fields = fields_sanitize,
	},
	{
		.name = "SANITIZE, EXIT FAILURE MODE",
		.clause = "SBC-3 5.24",
		.note = "After a SANITIZE with AUSE that failed.",
		.opcode = 0x48,
		.service_action = 0x1f,
		.cdb_len = 10,
		.op = SCSI_OP_SANITIZE_EXIT,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_PASSES_FAILED | SCSI_CDB_JOB,
		.usage = { 0x48, CDB_IMMED_SANITIZE | CDB_AUSE | 0x1f, 0, 0, 0,
			   0, 0, 0xff, 0xff, 0 },
		.param_len = { 7, 2 },
		.fields = fields_sanitize,
	},
	{
		.name = "LOG SENSE",
		.clause = "SPC-4 6.8",
		.note = "The log pages below; none can be saved. All "
			"parameters are binary lists, for which PC is "
			"ignored.",
		.opcode = 0x4d,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_LOG_SENSE,
		.access = SCSI_ACCESS_ALWAYS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM,
		.usage = { 0x4d, 0, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0 },
		.alloc_len = { 7, 2 },
		.fields = fields_log_sense,
	},
	{
		.name = "MODE SELECT (10)",
		.clause = "SPC-4 6.12",
		.note = "The target checks all of the list before it "
			"changes anything. SP needs a state directory. The "
			"other nexuses get unit attention 2Ah/01h. The "
			"target flushes the cache before it clears WCE or "
			"sets SWP; if that fails, nothing changes. Commands "
			"that use blocks end before SWP is set.",
		.opcode = 0x55,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_MODE_SELECT_10,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM,
		.usage = { 0x55, CDB_PF | CDB_SP, 0, 0, 0, 0, 0, 0xff, 0xff,
			   0 },
		.param_len = { 7, 2 },
		.fields = fields_mode_select,
	},
	{
		.name = "RESERVE (10)",
		.clause = "SPC-2",
		.note = "Reserves the whole unit; third-party and extent "
			"reservations are refused. If there are "
			"registrations, the rules of CRH apply (SPC-4 "
			"5.12.3).",
		.opcode = 0x56,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_RESERVE,
		.access = SCSI_ACCESS_ALWAYS,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_NO_MEDIUM | SCSI_CDB_RESERVE,
		.usage = { 0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0 },
	},
	{
		.name = "RELEASE (10)",
		.clause = "SPC-2",
		.note = "As RESERVE. Has no effect on the reservation of "
			"another nexus.",
		.opcode = 0x57,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_RELEASE,
		.access = SCSI_ACCESS_ALWAYS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_NO_MEDIUM | SCSI_CDB_RESERVE,
		.usage = { 0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0 },
	},
	{
		.name = "MODE SENSE (10)",
		.clause = "SPC-4 6.14",
		.note = "The mode pages below, or all of them; subpages 00h "
			"and FFh. Saved values need a state directory.",
		.opcode = 0x5a,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_MODE_SENSE_10,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM,
		.usage = { 0x5a, CDB_LLBAA | CDB_DBD, 0xff, 0xff, 0, 0, 0, 0xff,
			   0xff, 0 },
		.alloc_len = { 7, 2 },
		.fields = fields_mode_sense,
	},
	{
		.name = "PERSISTENT RESERVE IN, READ KEYS",
		.clause = "SPC-4 6.15",
		.note = "At most 128 keys.",
		.opcode = 0x5e,
		.service_action = 0x00,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_IN,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5e, 0x00, 0, 0, 0, 0, 0, 0xff, 0xff, 0 },
		.alloc_len = { 7, 2 },
	},
	{
		.name = "PERSISTENT RESERVE IN, READ RESERVATION",
		.clause = "SPC-4 6.15",
		.opcode = 0x5e,
		.service_action = 0x01,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_IN,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5e, 0x01, 0, 0, 0, 0, 0, 0xff, 0xff, 0 },
		.alloc_len = { 7, 2 },
	},
	{
		.name = "PERSISTENT RESERVE IN, REPORT CAPABILITIES",
		.clause = "SPC-4 6.15",
		.opcode = 0x5e,
		.service_action = 0x02,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_IN,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5e, 0x02, 0, 0, 0, 0, 0, 0xff, 0xff, 0 },
		.alloc_len = { 7, 2 },
	},
	{
		.name = "PERSISTENT RESERVE IN, READ FULL STATUS",
		.clause = "SPC-4 6.15",
		.note = "Reports the TransportID of each initiator port.",
		.opcode = 0x5e,
		.service_action = 0x03,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_IN,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5e, 0x03, 0, 0, 0, 0, 0, 0xff, 0xff, 0 },
		.alloc_len = { 7, 2 },
	},
	{
		.name = "PERSISTENT RESERVE OUT, REGISTER",
		.clause = "SPC-4 6.16",
		.note = "SPEC_I_PT, ALL_TG_PT, APTPL (needs a "
			"state directory). At most 128 registrations of a "
			"unit (05h/55h/04h).",
		.opcode = 0x5f,
		.service_action = 0x00,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_OUT,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5f, 0x00, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0 },
		.param_len = { 5, 4 },
		.fields = fields_persistent_out,
	},
	{
		.name = "PERSISTENT RESERVE OUT, RESERVE",
		.clause = "SPC-4 6.16",
		.note = "LU_SCOPE; types 1, 3, 5, 6, 7 and 8.",
		.opcode = 0x5f,
		.service_action = 0x01,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_OUT,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5f, 0x01, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0 },
		.param_len = { 5, 4 },
		.fields = fields_persistent_out,
	},
	{
		.name = "PERSISTENT RESERVE OUT, RELEASE",
		.clause = "SPC-4 6.16",
		.opcode = 0x5f,
		.service_action = 0x02,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_OUT,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5f, 0x02, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0 },
		.param_len = { 5, 4 },
		.fields = fields_persistent_out,
	},
	{
		.name = "PERSISTENT RESERVE OUT, CLEAR",
		.clause = "SPC-4 6.16",
		.opcode = 0x5f,
		.service_action = 0x03,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_OUT,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5f, 0x03, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0 },
		.param_len = { 5, 4 },
		.fields = fields_persistent_out,
	},
	{
		.name = "PERSISTENT RESERVE OUT, PREEMPT",
		.clause = "SPC-4 6.16",
		.opcode = 0x5f,
		.service_action = 0x04,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_OUT,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5f, 0x04, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0 },
		.param_len = { 5, 4 },
		.fields = fields_persistent_out,
	},
	{
		.name = "PERSISTENT RESERVE OUT, PREEMPT AND ABORT",
		.clause = "SPC-4 6.16",
		.note = "As PREEMPT. Answered when no command of the preempted "
			"nexuses submits anything any more. Blocks that the "
			"store still has for one of them wait. These nexuses "
			"no longer prevent removal.",
		.opcode = 0x5f,
		.service_action = 0x05,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_OUT,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5f, 0x05, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0 },
		.param_len = { 5, 4 },
		.fields = fields_persistent_out,
	},
	{
		.name = "PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY",
		.clause = "SPC-4 6.16",
		.note = "SPEC_I_PT is refused. APTPL needs a state directory.",
		.opcode = 0x5f,
		.service_action = 0x06,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_OUT,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5f, 0x06, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0 },
		.param_len = { 5, 4 },
		.fields = fields_persistent_out,
	},
	{
		.name = "PERSISTENT RESERVE OUT, REGISTER AND MOVE",
		.clause = "SPC-4 6.16",
		.note = "The new holder is named by an SRP TransportID; relative target port 1. "
			"APTPL needs a state directory.",
		.opcode = 0x5f,
		.service_action = 0x07,
		.cdb_len = 10,
		.op = SCSI_OP_PERSISTENT_OUT,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PERSISTENT,
		.usage = { 0x5f, 0x07, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0 },
		.param_len = { 5, 4 },
		.fields = fields_persistent_out,
	},
	{
		.name = "EXTENDED COPY (LID1)",
		.clause = "SPC-4 6.5",
		.note = "Copies blocks to blocks, from LUNs that the nexus "
			"may read to LUNs that it may write.",
		.opcode = 0x83,
		.service_action = 0x00,
		.cdb_len = 16,
		.op = SCSI_OP_EXTENDED_COPY,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_ALLOWED,
		.usage = { 0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff,
			   0xff, 0, 0 },
		.param_len = { 10, 4 },
	},
	{
		.name = "RECEIVE COPY STATUS (LID1)",
		.clause = "SPC-4 6.25",
		.opcode = 0x84,
		.service_action = 0x00,
		.cdb_len = 16,
		.op = SCSI_OP_COPY_STATUS,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_NO_MEDIUM,
		.usage = { 0x84, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff,
			   0xff, 0, 0 },
		.alloc_len = { 10, 4 },
		.fields = fields_copy_results,
		.note = "A result is kept until a LOGICAL UNIT RESET or the "
			"loss of the nexus. A nexus keeps 16.",
	},
	{
		.name = "RECEIVE COPY OPERATING PARAMETERS",
		.clause = "SPC-4 6.22",
		.opcode = 0x84,
		.service_action = 0x03,
		.cdb_len = 16,
		.op = SCSI_OP_COPY_PARAMETERS,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_NO_MEDIUM,
		.usage = { 0x84, 0x03, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff,
			   0xff, 0xff, 0, 0 },
		.alloc_len = { 10, 4 },
		.fields = fields_copy_results,
	},
	{
		.name = "READ (16)",
		.clause = "SBC-3 5.13",
		.note = "A length of zero reads nothing; in READ (6) it "
			"means 256 blocks. FUA: the target first makes the "
			"blocks stable.",
		.opcode = 0x88,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_READ,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_16(0x88, CDB_DPO | CDB_FUA),
		NARROW_PROTECT,
		GROUP_16,
		LBA_16,
		BLOCKS_16,
		.fields = fields_rw,
	},
	{
		.name = "COMPARE AND WRITE",
		.clause = "SBC-3 5.2",
		.note = "Atomic for every other command. At most as many "
			"blocks as VPD page B0h says. The sense data of a "
			"miscompare has the offset.",
		.opcode = 0x89,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_COMPARE_WRITE,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = { 0x89, CDB_DPO | CDB_FUA, 0xff, 0xff, 0xff, 0xff,
			   0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, 0, 0 },
		NARROW_PROTECT,
		GROUP_16,
		LBA_16,
		.blocks = { 13, 1 },
		.fields = fields_rw,
	},
	{
		.name = "WRITE (16)",
		.clause = "SBC-3 5.35",
		.note = "With FUA, and while WCE is off, the data is stable "
			"before GOOD.",
		.opcode = 0x8a,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_WRITE,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_16(0x8a, CDB_DPO | CDB_FUA),
		NARROW_PROTECT,
		GROUP_16,
		LBA_16,
		BLOCKS_16,
		.fields = fields_rw,
	},
	{
		.name = "ORWRITE (16)",
		.clause = "SBC-3 5.6",
		.note = "BMOP 000b.",
		.opcode = 0x8b,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_ORWRITE,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_16(0x8b, CDB_DPO | CDB_FUA),
		NARROW_PROTECT,
		GROUP_16,
		LBA_16,
		BLOCKS_16,
		.fields = fields_rw,
	},
	{
		.name = "WRITE AND VERIFY (16)",
		.clause = "SBC-3 5.38",
		.note = "BYTCHK 0 and 1.",
		.opcode = 0x8e,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_WRITE_VERIFY,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_16(0x8e, CDB_DPO | CDB_BYTCHK_ALL),
		NARROW_BYTCHK,
		GROUP_16,
		LBA_16,
		BLOCKS_16,
		.fields = fields_verify,
	},
	{
		.name = "VERIFY (16)",
		.clause = "SBC-3 5.31",
		.note = "BYTCHK 0, 1 and 3; 2 is refused.",
		.opcode = 0x8f,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_VERIFY,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_16(0x8f, CDB_DPO | CDB_BYTCHK),
		NARROW_PROTECT,
		GROUP_16,
		LBA_16,
		BLOCKS_16,
		.fields = fields_verify,
	},
	{
		.name = "PRE-FETCH (16)",
		.clause = "SBC-3 5.9",
		.note = "CONDITION MET if all blocks are in a cache; GOOD "
			"if there is no cache, or if it is too small for "
			"them. With IMMED, a failure is a deferred error.",
		.opcode = 0x90,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_PREFETCH,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_ZERO_TO_END |
			 SCSI_CDB_NO_TRANSFER,
		.usage = USAGE_16(0x90, CDB_IMMED_SYNC),
		GROUP_16,
		LBA_16,
		BLOCKS_16,
		.fields = fields_sync_cache,
	},
	{
		.name = "SYNCHRONIZE CACHE (16)",
		.clause = "SBC-3 5.27",
		.note = "Flushes the whole cache, whatever the range. With "
			"IMMED, a failure is a deferred error.",
		.opcode = 0x91,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_SYNC_CACHE,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_ZERO_TO_END |
			 SCSI_CDB_NO_TRANSFER,
		.usage = USAGE_16(0x91, CDB_IMMED_SYNC),
		GROUP_16,
		LBA_16,
		BLOCKS_16,
		.fields = fields_sync_cache,
	},
	{
		.name = "WRITE SAME (16)",
		.clause = "SBC-3 5.44",
		.note = "At most as many blocks as VPD page B0h says. Zero "
			"blocks means up to the last block. ANCHOR is "
			"refused.",
		.opcode = 0x93,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_WRITE_SAME,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES |
			 SCSI_CDB_ZERO_TO_END | SCSI_CDB_NO_TRANSFER,
		.usage = USAGE_16(0x93, CDB_UNMAP | CDB_NDOB),
		NARROW_PROTECT,
		GROUP_16,
		LBA_16,
		BLOCKS_16,
		.fields = fields_write_same,
	},
	{
		.name = "WRITE ATOMIC (16)",
		.clause = "SBC-4",
		.note = "At most as many blocks as VPD page B0h says.",
		.opcode = 0x9c,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_WRITE_ATOMIC,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES | SCSI_CDB_ATOMIC,
		.usage = { 0x9c, CDB_DPO | CDB_FUA, 0xff, 0xff, 0xff, 0xff,
			   0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0 },
		/* and ATOMIC BOUNDARY */
		.narrow = { { 1, 0xe0 }, { 10, 0xff } },
		GROUP_16,
		LBA_16,
		.blocks = { 12, 2 },
		.fields = fields_rw,
	},
	{
		.name = "READ CAPACITY (16)",
		.clause = "SBC-3 5.16",
		.note = "An LBA without PMI is refused.",
		.opcode = 0x9e,
		.service_action = 0x10,
		.cdb_len = 16,
		.op = SCSI_OP_READ_CAPACITY_16,
		.access = SCSI_ACCESS_ALWAYS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY,
		.usage = { 0x9e, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			   0xff, 0xff, 0xff, 0xff, 0xff, CDB_PMI, 0 },
		LBA_16,
		.alloc_len = { 10, 4 },
		.fields = fields_read_capacity,
	},
	{
		.name = "GET LBA STATUS",
		.clause = "SBC-3 5.4",
		.note = "REPORT TYPE 0. Blocks whose state the store does "
			"not report count as mapped.",
		.opcode = 0x9e,
		.service_action = 0x12,
		.cdb_len = 16,
		.op = SCSI_OP_GET_LBA_STATUS,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_16(0x9e, 0x12),
		.narrow = { { 14, 0xff } }, /* REPORT TYPE, of SBC-4 */
		LBA_16,
		.alloc_len = { 10, 4 },
	},
	{
		.name = "REPORT LUNS",
		.clause = "SPC-4 6.33",
		.note = "SELECT REPORT 00h, 01h, 02h, 10h, 11h and 12h: there "
			"are no well-known, administrative or subsidiary "
			"units. 10h and 11h at LUN 0 only.",
		.opcode = 0xa0,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 12,
		.op = SCSI_OP_REPORT_LUNS,
		.access = SCSI_ACCESS_ALWAYS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PASSES_UA | SCSI_CDB_ABSENT_LUN |
			 SCSI_CDB_PASSES_JOB,
		.usage = { 0xa0, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0,
			   0 },
		.alloc_len = { 6, 4 },
		.fields = fields_report_luns,
	},
	{
		.name = "REPORT TARGET PORT GROUPS",
		.clause = "SPC-4 6.37",
		.note = "One group, active and optimized; or one for each "
			"target that serves the volume, all but one in "
			"standby. Both header formats.",
		.opcode = 0xa3,
		.service_action = 0x0a,
		.cdb_len = 12,
		.op = SCSI_OP_REPORT_PORT_GROUPS,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM,
		.usage = { 0xa3, CDB_EXT_HEADER | 0x0a, 0, 0, 0, 0, 0xff, 0xff,
			   0xff, 0xff, 0, 0 },
		.narrow = { { 1, 0xe0 } }, /* PARAMETER DATA FORMAT */
		.alloc_len = { 6, 4 },
		.fields = fields_report_port_groups,
	},
	{
		.name = "REPORT SUPPORTED OPERATION CODES",
		.clause = "SPC-4 6.35",
		.note = "All reporting options, RCTD (no times are "
			"indicated).",
		.opcode = 0xa3,
		.service_action = 0x0c,
		.cdb_len = 12,
		.op = SCSI_OP_REPORT_OPCODES,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PASSES_JOB,
		.usage = { 0xa3, 0x0c, CDB_RCTD | 0x03, 0xff, 0xff, 0xff, 0xff,
			   0xff, 0xff, 0xff, 0, 0 },
		.narrow = { { 2, 0x07 } },
		.alloc_len = { 6, 4 },
		.fields = fields_report_opcodes,
	},
	{
		.name = "REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS",
		.clause = "SPC-4 6.36",
		.note = "ABORT TASK, ABORT TASK SET, CLEAR TASK SET, "
			"LOGICAL UNIT RESET; REPD. An allocation length below 4 "
			"is refused.",
		.opcode = 0xa3,
		.service_action = 0x0d,
		.cdb_len = 12,
		.op = SCSI_OP_REPORT_TMF,
		.access = SCSI_ACCESS_ASKS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM |
			 SCSI_CDB_PASSES_JOB,
		.usage = { 0xa3, 0x0d, CDB_REPD, 0, 0, 0, 0xff, 0xff, 0xff,
			   0xff, 0, 0 },
		.alloc_len = { 6, 4 },
		.fields = fields_report_tmf,
	},
	{
		.name = "SET TARGET PORT GROUPS",
		.clause = "SPC-4 6.45",
		.note = "A volume with one group is always active and "
			"optimized. With several groups, the group of the "
			"port that the command comes through becomes active or "
			"standby. The target checks the whole list.",
		.opcode = 0xa4,
		.service_action = 0x0a,
		.cdb_len = 12,
		.op = SCSI_OP_SET_PORT_GROUPS,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_STANDBY | SCSI_CDB_NO_MEDIUM,
		.usage = { 0xa4, 0x0a, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0,
			   0 },
		.param_len = { 6, 4 },
		.fields = fields_set_port_groups,
	},
	{
		.name = "READ (12)",
		.clause = "SBC-3 5.12",
		.note = "A length of zero reads nothing; in READ (6) it "
			"means 256 blocks. FUA: the target first makes the "
			"blocks stable.",
		.opcode = 0xa8,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 12,
		.op = SCSI_OP_READ,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_12(0xa8, CDB_DPO | CDB_FUA),
		NARROW_PROTECT,
		GROUP_12,
		LBA_10,
		BLOCKS_12,
		.fields = fields_rw,
	},
	{
		.name = "WRITE (12)",
		.clause = "SBC-3 5.34",
		.note = "With FUA, and while WCE is off, the data is stable "
			"before GOOD.",
		.opcode = 0xaa,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 12,
		.op = SCSI_OP_WRITE,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_12(0xaa, CDB_DPO | CDB_FUA),
		NARROW_PROTECT,
		GROUP_12,
		LBA_10,
		BLOCKS_12,
		.fields = fields_rw,
	},
	{
		.name = "WRITE AND VERIFY (12)",
		.clause = "SBC-3 5.37",
		.note = "BYTCHK 0 and 1.",
		.opcode = 0xae,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 12,
		.op = SCSI_OP_WRITE_VERIFY,
		.access = SCSI_ACCESS_CHANGES,
		.readers = SCSI_READERS_REFUSED,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_12(0xae, CDB_DPO | CDB_BYTCHK_ALL),
		NARROW_BYTCHK,
		GROUP_12,
		LBA_10,
		BLOCKS_12,
		.fields = fields_verify,
	},
	{
		.name = "VERIFY (12)",
		.clause = "SBC-3 5.30",
		.note = "BYTCHK 0, 1 and 3; 2 is refused.",
		.opcode = 0xaf,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 12,
		.op = SCSI_OP_VERIFY,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_12(0xaf, CDB_DPO | CDB_BYTCHK),
		NARROW_PROTECT,
		GROUP_12,
		LBA_10,
		BLOCKS_12,
		.fields = fields_verify,
	},
	{
		.name = "READ DEFECT DATA (12)",
		.clause = "SBC-3 5.18",
		.note = "The lists are empty: there are no defects.",
		.opcode = 0xb7,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 12,
		.op = SCSI_OP_READ_DEFECTS,
		.access = SCSI_ACCESS_READS,
		.readers = SCSI_READERS_ALLOWED,
		.usage = { 0xb7, CDB_DEFECTS, 0xff, 0xff, 0xff, 0xff, 0xff,
			   0xff, 0xff, 0xff, 0, 0 },
		.alloc_len = { 6, 4 },
		.fields = fields_defects,
	},
};

const size_t scsi_cdb_table_cnt =
	sizeof(scsi_cdb_table) / sizeof(scsi_cdb_table[0]);
