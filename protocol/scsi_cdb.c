/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/scsi_cdb.h"

#include <errno.h>
#include <string.h>

#include "protocol/scsi_vpd.h"
#include "protocol/wire.h"

/* Byte 1 of READ, WRITE, VERIFY, WRITE SAME. */
#define CDB_DPO	   0x10
#define CDB_FUA	   0x08
#define CDB_BYTCHK 0x02 /* of the two bits, the one that is supported */
#define CDB_ANCHOR 0x10
#define CDB_UNMAP  0x08
#define CDB_NDOB   0x01

#define CDB_IMMED_SYNC 0x02 /* SYNCHRONIZE CACHE byte 1 */
#define CDB_EVPD       0x01
#define CDB_DBD	       0x08
#define CDB_LLBAA      0x10
#define CDB_PMI	       0x01
#define CDB_START      0x01
#define CDB_LOEJ       0x02
#define CDB_NO_FLUSH   0x04
#define CDB_PREVENT    0x01
#define CDB_RCTD       0x80

#define SERVICE_ACTION_MASK 0x1f

#define READ_CAPACITY_10_LEN 8 /* the one data-in without allocation length */

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
	if (cmd->select_report > 2) {
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

/* An LBA without PMI was refused until SBC-3 made both obsolete. */
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
	cmd->dpo = cdb[1] & CDB_DPO;
	cmd->fua = cdb[1] & CDB_FUA;
	return 0;
}

static int fields_verify(const uint8_t *cdb, struct scsi_cmd *cmd,
			 struct scsi_sense *ret_sense)
{
	cmd->dpo = cdb[1] & CDB_DPO;
	cmd->bytchk = cdb[1] >> 1 & 3;
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
	cmd->anchor = cdb[1] & CDB_ANCHOR;
	cmd->unmap = cdb[1] & CDB_UNMAP;
	cmd->ndob = cdb[1] & CDB_NDOB;
	return 0;
}

/* Where the fields of the usual block commands are. */
#define LBA_10	  .lba = { 2, 4 }
#define LBA_16	  .lba = { 2, 8 }
#define BLOCKS_10 .blocks = { 7, 2 }
#define BLOCKS_12 .blocks = { 6, 4 }
#define BLOCKS_16 .blocks = { 10, 4 }

/* RDPROTECT, WRPROTECT or VRPROTECT, and GROUP NUMBER: both refused. */
#define NARROW_10 .narrow = { { 1, 0xe0 }, { 6, 0x1f } }
#define NARROW_12 .narrow = { { 1, 0xe0 }, { 10, 0x1f } }
#define NARROW_16 .narrow = { { 1, 0xe0 }, { 14, 0x1f } }

/* Usage maps from byte 1 on; the last byte is CONTROL, whose NACA bit nobody
 * here supports (INQUIRY says NORMACA 0). */
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
		.clause = "SPC-4",
		.opcode = 0x00,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_TEST_UNIT_READY,
		.usage = { 0x00 },
	},
	{
		.name = "REQUEST SENSE",
		.clause = "SPC-4",
		.opcode = 0x03,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_REQUEST_SENSE,
		.flags = SCSI_CDB_PASSES_UA | SCSI_CDB_ABSENT_LUN,
		.usage = { 0x03, 0x01, 0, 0, 0xff, 0 },
		.alloc_len = { 4, 1 },
		.fields = fields_request_sense,
	},
	{
		.name = "READ (6)",
		.clause = "SBC-2",
		.opcode = 0x08,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_READ,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_6(0x08, 0x1f),
		.lba = { 1, 3 },
		.blocks = { 4, 1 },
		.fields = fields_rw_6,
	},
	{
		.name = "WRITE (6)",
		.clause = "SBC-2",
		.opcode = 0x0a,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_WRITE,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_6(0x0a, 0x1f),
		.lba = { 1, 3 },
		.blocks = { 4, 1 },
		.fields = fields_rw_6,
	},
	{
		.name = "INQUIRY",
		.clause = "SPC-4",
		.opcode = 0x12,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_INQUIRY,
		.flags = SCSI_CDB_PASSES_UA | SCSI_CDB_ABSENT_LUN,
		.usage = USAGE_6(0x12, CDB_EVPD),
		.alloc_len = { 3, 2 },
		.fields = fields_inquiry,
	},
	{
		.name = "MODE SENSE (6)",
		.clause = "SPC-4",
		.opcode = 0x1a,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_MODE_SENSE_6,
		.usage = USAGE_6(0x1a, CDB_DBD),
		.alloc_len = { 4, 1 },
		.fields = fields_mode_sense,
	},
	{
		.name = "START STOP UNIT",
		.clause = "SBC-3 5.25",
		.opcode = 0x1b,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_START_STOP,
		.usage = { 0x1b, 0x01, 0, 0, CDB_START | CDB_NO_FLUSH, 0 },
		/* POWER CONDITION MODIFIER, POWER CONDITION */
		.narrow = { { 3, 0x0f }, { 4, 0xf0 } },
		.fields = fields_start_stop,
	},
	{
		.name = "PREVENT ALLOW MEDIUM REMOVAL",
		.clause = "SBC-3 5.10",
		.opcode = 0x1e,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 6,
		.op = SCSI_OP_PREVENT_REMOVAL,
		.usage = { 0x1e, 0, 0, 0, CDB_PREVENT, 0 },
		.fields = fields_prevent,
	},
	{
		.name = "READ CAPACITY (10)",
		.clause = "SBC-3 5.15",
		.opcode = 0x25,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_READ_CAPACITY_10,
		.usage = { 0x25, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, CDB_PMI, 0 },
		LBA_10,
		.fields = fields_read_capacity,
	},
	{
		.name = "READ (10)",
		.clause = "SBC-3 5.11",
		.opcode = 0x28,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_READ,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_10(0x28, CDB_DPO | CDB_FUA),
		NARROW_10,
		LBA_10,
		BLOCKS_10,
		.fields = fields_rw,
	},
	{
		.name = "WRITE (10)",
		.clause = "SBC-3 5.33",
		.opcode = 0x2a,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_WRITE,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_10(0x2a, CDB_DPO | CDB_FUA),
		NARROW_10,
		LBA_10,
		BLOCKS_10,
		.fields = fields_rw,
	},
	{
		.name = "VERIFY (10)",
		.clause = "SBC-3 5.29",
		.opcode = 0x2f,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_VERIFY,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_10(0x2f, CDB_DPO | CDB_BYTCHK),
		NARROW_10,
		LBA_10,
		BLOCKS_10,
		.fields = fields_verify,
	},
	{
		.name = "SYNCHRONIZE CACHE (10)",
		.clause = "SBC-3 5.26",
		.opcode = 0x35,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_SYNC_CACHE,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_ZERO_TO_END |
			 SCSI_CDB_NO_TRANSFER,
		.usage = USAGE_10(0x35, CDB_IMMED_SYNC),
		.narrow = { { 6, 0x1f } },
		LBA_10,
		BLOCKS_10,
		.fields = fields_sync_cache,
	},
	{
		.name = "WRITE SAME (10)",
		.clause = "SBC-3 5.43",
		.opcode = 0x41,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_WRITE_SAME,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES |
			 SCSI_CDB_ZERO_TO_END | SCSI_CDB_NO_TRANSFER,
		.usage = USAGE_10(0x41, CDB_UNMAP),
		.narrow = { { 1, 0xe0 }, { 6, 0x1f } },
		LBA_10,
		BLOCKS_10,
		.fields = fields_write_same,
	},
	{
		.name = "UNMAP",
		.clause = "SBC-3 5.28",
		.opcode = 0x42,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_UNMAP,
		.flags = SCSI_CDB_WRITES | SCSI_CDB_UNMAPS,
		.usage = { 0x42, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0 },
		.narrow = { { 6, 0x1f } },
		.param_len = { 7, 2 },
	},
	{
		.name = "MODE SENSE (10)",
		.clause = "SPC-4",
		.opcode = 0x5a,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 10,
		.op = SCSI_OP_MODE_SENSE_10,
		.usage = { 0x5a, CDB_LLBAA | CDB_DBD, 0xff, 0xff, 0, 0, 0, 0xff,
			   0xff, 0 },
		.alloc_len = { 7, 2 },
		.fields = fields_mode_sense,
	},
	{
		.name = "READ (16)",
		.clause = "SBC-3 5.13",
		.opcode = 0x88,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_READ,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_16(0x88, CDB_DPO | CDB_FUA),
		NARROW_16,
		LBA_16,
		BLOCKS_16,
		.fields = fields_rw,
	},
	{
		.name = "WRITE (16)",
		.clause = "SBC-3 5.35",
		.opcode = 0x8a,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_WRITE,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_16(0x8a, CDB_DPO | CDB_FUA),
		NARROW_16,
		LBA_16,
		BLOCKS_16,
		.fields = fields_rw,
	},
	{
		.name = "VERIFY (16)",
		.clause = "SBC-3 5.31",
		.opcode = 0x8f,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_VERIFY,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_16(0x8f, CDB_DPO | CDB_BYTCHK),
		NARROW_16,
		LBA_16,
		BLOCKS_16,
		.fields = fields_verify,
	},
	{
		.name = "SYNCHRONIZE CACHE (16)",
		.clause = "SBC-3 5.27",
		.opcode = 0x91,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_SYNC_CACHE,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_ZERO_TO_END |
			 SCSI_CDB_NO_TRANSFER,
		.usage = USAGE_16(0x91, CDB_IMMED_SYNC),
		.narrow = { { 14, 0x1f } },
		LBA_16,
		BLOCKS_16,
		.fields = fields_sync_cache,
	},
	{
		.name = "WRITE SAME (16)",
		.clause = "SBC-3 5.44",
		.opcode = 0x93,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 16,
		.op = SCSI_OP_WRITE_SAME,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES |
			 SCSI_CDB_ZERO_TO_END | SCSI_CDB_NO_TRANSFER,
		.usage = USAGE_16(0x93, CDB_UNMAP | CDB_NDOB),
		.narrow = { { 1, 0xe0 }, { 14, 0x1f } },
		LBA_16,
		BLOCKS_16,
		.fields = fields_write_same,
	},
	{
		.name = "READ CAPACITY (16)",
		.clause = "SBC-3 5.16",
		.opcode = 0x9e,
		.service_action = 0x10,
		.cdb_len = 16,
		.op = SCSI_OP_READ_CAPACITY_16,
		.usage = { 0x9e, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			   0xff, 0xff, 0xff, 0xff, 0xff, CDB_PMI, 0 },
		LBA_16,
		.alloc_len = { 10, 4 },
		.fields = fields_read_capacity,
	},
	{
		.name = "GET LBA STATUS",
		.clause = "SBC-3 5.4",
		.opcode = 0x9e,
		.service_action = 0x12,
		.cdb_len = 16,
		.op = SCSI_OP_GET_LBA_STATUS,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_16(0x9e, 0x12),
		.narrow = { { 14, 0xff } }, /* REPORT TYPE, of SBC-4 */
		LBA_16,
		.alloc_len = { 10, 4 },
	},
	{
		.name = "REPORT LUNS",
		.clause = "SPC-4",
		.opcode = 0xa0,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 12,
		.op = SCSI_OP_REPORT_LUNS,
		.flags = SCSI_CDB_PASSES_UA | SCSI_CDB_ABSENT_LUN,
		.usage = { 0xa0, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0,
			   0 },
		.alloc_len = { 6, 4 },
		.fields = fields_report_luns,
	},
	{
		.name = "REPORT SUPPORTED OPERATION CODES",
		.clause = "SPC-4",
		.opcode = 0xa3,
		.service_action = 0x0c,
		.cdb_len = 12,
		.op = SCSI_OP_REPORT_OPCODES,
		.usage = { 0xa3, 0x0c, CDB_RCTD | 0x03, 0xff, 0xff, 0xff, 0xff,
			   0xff, 0xff, 0xff, 0, 0 },
		.narrow = { { 2, 0x07 } },
		.alloc_len = { 6, 4 },
		.fields = fields_report_opcodes,
	},
	{
		.name = "READ (12)",
		.clause = "SBC-3 5.12",
		.opcode = 0xa8,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 12,
		.op = SCSI_OP_READ,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_12(0xa8, CDB_DPO | CDB_FUA),
		NARROW_12,
		LBA_10,
		BLOCKS_12,
		.fields = fields_rw,
	},
	{
		.name = "WRITE (12)",
		.clause = "SBC-3 5.34",
		.opcode = 0xaa,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 12,
		.op = SCSI_OP_WRITE,
		.flags = SCSI_CDB_BLOCKS | SCSI_CDB_WRITES,
		.usage = USAGE_12(0xaa, CDB_DPO | CDB_FUA),
		NARROW_12,
		LBA_10,
		BLOCKS_12,
		.fields = fields_rw,
	},
	{
		.name = "VERIFY (12)",
		.clause = "SBC-3 5.30",
		.opcode = 0xaf,
		.service_action = SCSI_SERVICE_ACTION_NONE,
		.cdb_len = 12,
		.op = SCSI_OP_VERIFY,
		.flags = SCSI_CDB_BLOCKS,
		.usage = USAGE_12(0xaf, CDB_DPO | CDB_BYTCHK),
		NARROW_12,
		LBA_10,
		BLOCKS_12,
		.fields = fields_verify,
	},
};

const size_t scsi_cdb_table_cnt =
	sizeof(scsi_cdb_table) / sizeof(scsi_cdb_table[0]);

const struct scsi_cdb_info *scsi_cdb_find(uint8_t opcode,
					  unsigned int service_action)
{
	for (size_t i = 0; i < scsi_cdb_table_cnt; i++) {
		const struct scsi_cdb_info *info = &scsi_cdb_table[i];

		if (info->opcode != opcode)
			continue;
		if (info->service_action == SCSI_SERVICE_ACTION_NONE ||
		    (unsigned int)info->service_action == service_action)
			return info;
	}
	return NULL;
}

bool scsi_cdb_has_service_actions(uint8_t opcode)
{
	for (size_t i = 0; i < scsi_cdb_table_cnt; i++) {
		if (scsi_cdb_table[i].opcode == opcode)
			return scsi_cdb_table[i].service_action !=
			       SCSI_SERVICE_ACTION_NONE;
	}
	return false;
}

static uint64_t get_field(const uint8_t *cdb, struct scsi_cdb_field field)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < field.len; i++)
		v = v << 8 | cdb[field.byte + i];
	return v;
}

static uint8_t top_bit(uint8_t mask)
{
	uint8_t bit = 7;

	while (bit && !(mask >> bit & 1))
		bit--;
	return bit;
}

/* Which bit to point at when @refused are the wrong ones of byte @i. */
static uint8_t bit_pointer(const struct scsi_cdb_info *info, uint8_t i,
			   uint8_t refused)
{
	uint8_t bit = top_bit(refused);

	for (size_t n = 0; n < sizeof(info->narrow) / sizeof(*info->narrow);
	     n++) {
		if (info->narrow[n].byte == i &&
		    info->narrow[n].mask >> bit & 1)
			return top_bit(info->narrow[n].mask);
	}
	return bit;
}

static int check_usage(const struct scsi_cdb_info *info, const uint8_t *cdb,
		       struct scsi_sense *ret_sense)
{
	for (uint8_t i = 1; i < info->cdb_len; i++) {
		uint8_t known = info->usage[i];
		uint8_t refused;

		if (i == 1 && info->service_action != SCSI_SERVICE_ACTION_NONE)
			known |= SERVICE_ACTION_MASK;
		refused = cdb[i] & (uint8_t)~known;
		if (refused) {
			*ret_sense = scsi_sense_cdb_field(
				i, bit_pointer(info, i, refused));
			return -EINVAL;
		}
	}
	return 0;
}

static int find_row(const uint8_t *cdb, size_t len,
		    const struct scsi_cdb_info **ret_info,
		    struct scsi_sense *ret_sense)
{
	const struct scsi_cdb_info *info;
	unsigned int service_action =
		len > 1 ? cdb[1] & SERVICE_ACTION_MASK : 0;

	info = len ? scsi_cdb_find(cdb[0], service_action) : NULL;
	if (!info && len && scsi_cdb_has_service_actions(cdb[0])) {
		*ret_sense = scsi_sense_cdb_field(1, 4);
		return -EINVAL;
	}
	if (!info) {
		*ret_sense = scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
					SCSI_ASC_INVALID_OPCODE);
		return -EOPNOTSUPP;
	}
	if (len < info->cdb_len) {
		*ret_sense = scsi_sense_cdb_field((uint16_t)len, SCSI_BIT_NONE);
		return -EINVAL;
	}
	*ret_info = info;
	return 0;
}

int scsi_cdb_decode(const void *cdb, size_t len, struct scsi_cmd *ret_cmd,
		    struct scsi_sense *ret_sense)
{
	const uint8_t *b = cdb;
	const struct scsi_cdb_info *info;
	struct scsi_cmd cmd = { 0 };
	int err;

	err = find_row(b, len, &info, ret_sense);
	if (err)
		return err;
	err = check_usage(info, b, ret_sense);
	if (err)
		return err;

	cmd.op = (enum scsi_op)info->op;
	cmd.info = info;
	cmd.lba = get_field(b, info->lba);
	cmd.blocks = get_field(b, info->blocks);
	cmd.alloc_len = (uint32_t)get_field(b, info->alloc_len);
	cmd.param_len = (uint32_t)get_field(b, info->param_len);
	err = info->fields ? info->fields(b, &cmd, ret_sense) : 0;
	if (err)
		return err;
	*ret_cmd = cmd;
	return 0;
}

static int check_unmap(const struct scsi_cmd *cmd,
		       const struct scsi_disk_info *info,
		       struct scsi_sense *ret_sense)
{
	if (info->unmap)
		return 0;
	if (cmd->info->flags & SCSI_CDB_UNMAPS) {
		*ret_sense = scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
					SCSI_ASC_INVALID_OPCODE);
		return -EINVAL;
	}
	if (cmd->op == SCSI_OP_WRITE_SAME && cmd->unmap) {
		*ret_sense = scsi_sense_cdb_field(1, top_bit(CDB_UNMAP));
		return -EINVAL;
	}
	return 0;
}

/* The first block that is not there goes into INFORMATION. */
static int check_range(const struct scsi_cmd *cmd,
		       const struct scsi_disk_info *info,
		       struct scsi_sense *ret_sense)
{
	if (cmd->lba < info->blocks && cmd->blocks <= info->blocks - cmd->lba)
		return 0;
	*ret_sense =
		scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_LBA_OUT_OF_RANGE);
	ret_sense->info_valid = true;
	ret_sense->info = cmd->lba < info->blocks ? info->blocks : cmd->lba;
	return -ERANGE;
}

static int check_limits(const struct scsi_cmd *cmd,
			const struct scsi_disk_info *info,
			struct scsi_sense *ret_sense)
{
	uint64_t max = 0;

	if (!(cmd->info->flags & SCSI_CDB_NO_TRANSFER))
		max = info->max_transfer_blocks;
	else if (cmd->op == SCSI_OP_WRITE_SAME)
		max = info->max_write_same_blocks;
	if (!max || cmd->blocks <= max)
		return 0;
	*ret_sense = scsi_sense_cdb_field(cmd->info->blocks.byte, 7);
	return -EINVAL;
}

static int check_blocks(struct scsi_cmd *cmd, const struct scsi_disk_info *info,
			struct scsi_sense *ret_sense)
{
	bool to_end = !cmd->blocks && cmd->info->flags & SCSI_CDB_ZERO_TO_END;
	int err;

	if (to_end && cmd->op == SCSI_OP_WRITE_SAME &&
	    info->write_same_nonzero) {
		*ret_sense = scsi_sense_cdb_field(cmd->info->blocks.byte, 7);
		return -EINVAL;
	}
	err = check_range(cmd, info, ret_sense);
	if (err)
		return err;
	if (to_end)
		cmd->blocks = info->blocks - cmd->lba;
	return check_limits(cmd, info, ret_sense);
}

int scsi_cmd_check(struct scsi_cmd *cmd, const struct scsi_disk_info *info,
		   struct scsi_sense *ret_sense)
{
	int err;

	err = check_unmap(cmd, info, ret_sense);
	if (err)
		return err;
	if (cmd->info->flags & SCSI_CDB_BLOCKS) {
		err = check_blocks(cmd, info, ret_sense);
		if (err)
			return err;
	}
	if (cmd->info->flags & SCSI_CDB_WRITES && info->read_only) {
		*ret_sense = scsi_sense(SCSI_KEY_DATA_PROTECT,
					SCSI_ASC_WRITE_PROTECTED);
		return -EROFS;
	}
	return 0;
}

uint64_t scsi_cmd_data_out_len(const struct scsi_cmd *cmd, uint32_t block_size)
{
	if (cmd->op == SCSI_OP_WRITE ||
	    (cmd->op == SCSI_OP_VERIFY && cmd->bytchk))
		return cmd->blocks * block_size;
	if (cmd->op == SCSI_OP_WRITE_SAME && !cmd->ndob)
		return block_size;
	return cmd->param_len;
}

uint64_t scsi_cmd_data_in_len(const struct scsi_cmd *cmd, uint32_t block_size)
{
	if (cmd->op == SCSI_OP_READ)
		return cmd->blocks * block_size;
	if (cmd->op == SCSI_OP_READ_CAPACITY_10)
		return READ_CAPACITY_10_LEN;
	return cmd->alloc_len;
}

static uint8_t *start_cdb(uint8_t opcode, uint8_t *cdb)
{
	memset(cdb, 0, SCSI_CDB_LEN);
	cdb[0] = opcode;
	return cdb;
}

size_t scsi_cdb_test_unit_ready(uint8_t ret_cdb[SCSI_CDB_LEN])
{
	start_cdb(0x00, ret_cdb);
	return 6;
}

size_t scsi_cdb_request_sense(uint8_t alloc_len, uint8_t ret_cdb[SCSI_CDB_LEN])
{
	start_cdb(0x03, ret_cdb)[4] = alloc_len;
	return 6;
}

size_t scsi_cdb_inquiry(uint16_t alloc_len, uint8_t ret_cdb[SCSI_CDB_LEN])
{
	wire_put16(start_cdb(0x12, ret_cdb) + 3, alloc_len);
	return 6;
}

size_t scsi_cdb_inquiry_vpd(uint8_t page_code, uint16_t alloc_len,
			    uint8_t ret_cdb[SCSI_CDB_LEN])
{
	size_t len = scsi_cdb_inquiry(alloc_len, ret_cdb);

	ret_cdb[1] = CDB_EVPD;
	ret_cdb[2] = page_code;
	return len;
}

size_t scsi_cdb_report_luns(uint32_t alloc_len, uint8_t ret_cdb[SCSI_CDB_LEN])
{
	wire_put32(start_cdb(0xa0, ret_cdb) + 6, alloc_len);
	return 12;
}

size_t scsi_cdb_read_capacity_10(uint8_t ret_cdb[SCSI_CDB_LEN])
{
	start_cdb(0x25, ret_cdb);
	return 10;
}

size_t scsi_cdb_read_capacity_16(uint32_t alloc_len,
				 uint8_t ret_cdb[SCSI_CDB_LEN])
{
	start_cdb(0x9e, ret_cdb)[1] = 0x10;
	wire_put32(ret_cdb + 10, alloc_len);
	return 16;
}

size_t scsi_cdb_mode_sense_6(uint8_t page_code, uint8_t alloc_len,
			     uint8_t ret_cdb[SCSI_CDB_LEN])
{
	start_cdb(0x1a, ret_cdb)[1] = CDB_DBD;
	ret_cdb[2] = page_code;
	ret_cdb[4] = alloc_len;
	return 6;
}

size_t scsi_cdb_mode_sense_10(uint8_t page_code, uint16_t alloc_len,
			      uint8_t ret_cdb[SCSI_CDB_LEN])
{
	start_cdb(0x5a, ret_cdb)[1] = CDB_DBD;
	ret_cdb[2] = page_code;
	wire_put16(ret_cdb + 7, alloc_len);
	return 10;
}

size_t scsi_cdb_start_stop(bool start, uint8_t ret_cdb[SCSI_CDB_LEN])
{
	start_cdb(0x1b, ret_cdb)[4] = start ? CDB_START : 0;
	return 6;
}

size_t scsi_cdb_report_opcode(uint8_t opcode, uint16_t service_action,
			      uint32_t alloc_len, uint8_t ret_cdb[SCSI_CDB_LEN])
{
	start_cdb(0xa3, ret_cdb)[1] = 0x0c;
	/* Option 3 suits operation codes with and without service actions. */
	ret_cdb[2] = 3;
	ret_cdb[3] = opcode;
	wire_put16(ret_cdb + 4, service_action);
	wire_put32(ret_cdb + 6, alloc_len);
	return 12;
}

/* The ten-byte form of a block command where it can say it. */
static size_t put_blocks(uint8_t opcode_10, uint8_t opcode_16, uint64_t lba,
			 uint32_t blocks, uint8_t *cdb)
{
	if (lba <= UINT32_MAX && blocks <= UINT16_MAX) {
		start_cdb(opcode_10, cdb);
		wire_put32(cdb + 2, (uint32_t)lba);
		wire_put16(cdb + 7, (uint16_t)blocks);
		return 10;
	}
	start_cdb(opcode_16, cdb);
	wire_put64(cdb + 2, lba);
	wire_put32(cdb + 10, blocks);
	return 16;
}

size_t scsi_cdb_read(uint64_t lba, uint32_t blocks, bool fua,
		     uint8_t ret_cdb[SCSI_CDB_LEN])
{
	size_t len = put_blocks(0x28, 0x88, lba, blocks, ret_cdb);

	ret_cdb[1] = fua ? CDB_FUA : 0;
	return len;
}

size_t scsi_cdb_write(uint64_t lba, uint32_t blocks, bool fua,
		      uint8_t ret_cdb[SCSI_CDB_LEN])
{
	size_t len = put_blocks(0x2a, 0x8a, lba, blocks, ret_cdb);

	ret_cdb[1] = fua ? CDB_FUA : 0;
	return len;
}

size_t scsi_cdb_sync_cache(uint64_t lba, uint32_t blocks,
			   uint8_t ret_cdb[SCSI_CDB_LEN])
{
	return put_blocks(0x35, 0x91, lba, blocks, ret_cdb);
}

size_t scsi_cdb_unmap(uint16_t param_len, uint8_t ret_cdb[SCSI_CDB_LEN])
{
	wire_put16(start_cdb(0x42, ret_cdb) + 7, param_len);
	return 10;
}

size_t scsi_cdb_write_same_16(uint64_t lba, uint32_t blocks, unsigned int flags,
			      uint8_t ret_cdb[SCSI_CDB_LEN])
{
	start_cdb(0x93, ret_cdb);
	if (flags & SCSI_WRITE_SAME_UNMAP)
		ret_cdb[1] |= CDB_UNMAP;
	if (flags & SCSI_WRITE_SAME_NDOB)
		ret_cdb[1] |= CDB_NDOB;
	wire_put64(ret_cdb + 2, lba);
	wire_put32(ret_cdb + 10, blocks);
	return 16;
}

size_t scsi_cdb_get_lba_status(uint64_t lba, uint32_t alloc_len,
			       uint8_t ret_cdb[SCSI_CDB_LEN])
{
	start_cdb(0x9e, ret_cdb)[1] = 0x12;
	wire_put64(ret_cdb + 2, lba);
	wire_put32(ret_cdb + 10, alloc_len);
	return 16;
}
