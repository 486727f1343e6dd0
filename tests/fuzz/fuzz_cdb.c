/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CDBs: the decoder and the usage map must agree about every bit. Also how a
 * unit executes a command, and the CDBs that our initiator sends.
 */
#include <errno.h>

#include "protocol/scsi_cdb.h"
#include "tests/fuzz/fuzz_disk_info.h"

#define SERVICE_ACTION 0x1f

static void check_refusal(int err, const struct scsi_sense *sense, size_t len)
{
	FUZZ_CLAIM(err == -EINVAL || err == -EOPNOTSUPP);
	FUZZ_CLAIM(sense->key == SCSI_KEY_ILLEGAL_REQUEST);
	if (sense->pointer == SCSI_POINTER_CDB)
		FUZZ_CLAIM(sense->byte_no <= len && sense->byte_no < 16);
	FUZZ_CLAIM(sense->bit_no <= 7 || sense->bit_no == SCSI_BIT_NONE);
	FUZZ_CLAIM(scsi_asc_text(sense->code));
}

static uint8_t known_bits(const struct scsi_cdb_info *row, uint8_t i)
{
	uint8_t known = row->usage[i];

	if (i == 0)
		return 0xff;
	if (i == 1 && row->service_action != SCSI_SERVICE_ACTION_NONE)
		known |= SERVICE_ACTION;
	if (i == row->ignored.byte)
		known |= row->ignored.mask;
	return known;
}

/* Every bit that the row neither uses nor ignores is refused, and the sense
 * data points at it. */
static void check_usage(const uint8_t *cdb, const struct scsi_cmd *cmd)
{
	uint8_t b[SCSI_CDB_LEN];

	for (uint8_t i = 0; i < cmd->info->cdb_len; i++) {
		uint8_t unknown = (uint8_t)~known_bits(cmd->info, i);

		FUZZ_CLAIM(!(cdb[i] & unknown));
		for (uint8_t bit = 0; bit < 8; bit++) {
			struct scsi_cmd other;
			struct scsi_sense sense;

			if (!(unknown >> bit & 1))
				continue;
			memcpy(b, cdb, sizeof(b));
			b[i] |= (uint8_t)(1u << bit);
			FUZZ_CLAIM(scsi_cdb_decode(b, sizeof(b), &other,
						   &sense) == -EINVAL);
			FUZZ_CLAIM(sense.pointer == SCSI_POINTER_CDB &&
				   sense.byte_no == i);
		}
	}
}

static void check_cmd(struct scsi_cmd *cmd, const struct scsi_disk_info *info)
{
	struct scsi_sense sense;
	uint64_t out, in;
	int err;

	FUZZ_CLAIM(scsi_cmd_access(cmd) < SCSI_ACCESS_BY_FIELD);
	FUZZ_FILL(sense);
	err = scsi_cmd_check(cmd, info, &sense);
	if (err) {
		FUZZ_CLAIM(err == -EINVAL || err == -ERANGE || err == -EROFS);
		FUZZ_CLAIM(scsi_asc_text(sense.code));
		return;
	}
	FUZZ_UNTOUCHED(sense);
	FUZZ_CLAIM(scsi_cdb_exists(cmd->info, info));
	if (cmd->info->flags & SCSI_CDB_BLOCKS)
		FUZZ_CLAIM(cmd->lba < info->blocks &&
			   cmd->blocks <= info->blocks - cmd->lba);
	if (cmd->info->flags & SCSI_CDB_WRITES)
		FUZZ_CLAIM(!info->read_only && !info->swp);
	out = scsi_cmd_data_out_len(cmd, info->block_size);
	in = scsi_cmd_data_in_len(cmd, info->block_size);
	FUZZ_CLAIM(out <= UINT32_MAX && in <= UINT32_MAX);
}

static void decode(struct fuzz_input *in, const struct scsi_disk_info *info)
{
	uint8_t cdb[SCSI_CDB_LEN] = { 0 };
	size_t len = in->left < sizeof(cdb) ? in->left : sizeof(cdb);
	struct scsi_sense sense;
	struct scsi_cmd cmd;
	int err;

	FUZZ_FILL(cmd);
	FUZZ_FILL(sense);
	cmd.info = NULL;
	err = scsi_cdb_decode(in->p, in->left, &cmd, &sense);
	if (err) {
		FUZZ_CLAIM(!cmd.info);
		check_refusal(err, &sense, len);
		return;
	}
	FUZZ_UNTOUCHED(sense);
	memcpy(cdb, in->p, len);
	FUZZ_CLAIM(cmd.info->opcode == cdb[0] && cmd.op == cmd.info->op);
	FUZZ_CLAIM(len >= cmd.info->cdb_len);
	FUZZ_CLAIM(scsi_cdb_find(cdb[0], cdb[1] & SERVICE_ACTION) == cmd.info);
	check_usage(cdb, &cmd);
	check_cmd(&cmd, info);
}

/* A row of the table, with only those bits set that it uses. */
static void decode_row(struct fuzz_input *in, const struct scsi_disk_info *info)
{
	const struct scsi_cdb_info *row =
		&scsi_cdb_table[fuzz_u8(in) % scsi_cdb_table_cnt];
	uint8_t cdb[SCSI_CDB_LEN];
	struct fuzz_input again;

	fuzz_take(in, cdb, sizeof(cdb));
	for (uint8_t i = 0; i < sizeof(cdb); i++)
		cdb[i] &= i < row->cdb_len ? known_bits(row, i) : 0;
	cdb[0] = row->opcode;
	if (row->service_action != SCSI_SERVICE_ACTION_NONE)
		cdb[1] = (uint8_t)((cdb[1] & ~SERVICE_ACTION) |
				   row->service_action);
	again = fuzz_input(cdb, sizeof(cdb));
	decode(&again, info);
}

/* ---- our initiator's CDBs decode to their original values ---- */

static struct scsi_cmd understood(const uint8_t *cdb, size_t len)
{
	struct scsi_sense sense;
	struct scsi_cmd cmd;

	FUZZ_CLAIM(!scsi_cdb_decode(cdb, SCSI_CDB_LEN, &cmd, &sense));
	FUZZ_CLAIM(cmd.info->cdb_len == len);
	return cmd;
}

static void encode_blocks(struct fuzz_input *in)
{
	uint64_t lba = fuzz_u64(in) >> (fuzz_u8(in) & 63);
	uint32_t blocks = fuzz_u32(in) >> (fuzz_u8(in) & 31);
	uint8_t how = fuzz_u8(in);
	uint8_t cdb[SCSI_CDB_LEN];
	struct scsi_cmd cmd;

	cmd = understood(cdb, scsi_cdb_read(lba, blocks, how & 1, cdb));
	FUZZ_CLAIM(cmd.op == SCSI_OP_READ && cmd.fua == (how & 1));
	FUZZ_CLAIM(cmd.lba == lba && cmd.blocks == blocks);
	cmd = understood(cdb, scsi_cdb_write(lba, blocks, how & 1, cdb));
	FUZZ_CLAIM(cmd.op == SCSI_OP_WRITE && cmd.fua == (how & 1));
	FUZZ_CLAIM(cmd.lba == lba && cmd.blocks == blocks);
	cmd = understood(cdb, scsi_cdb_sync_cache(lba, blocks, cdb));
	FUZZ_CLAIM(cmd.op == SCSI_OP_SYNC_CACHE && !cmd.immed);
	FUZZ_CLAIM(cmd.lba == lba && cmd.blocks == blocks);
	cmd = understood(cdb,
			 scsi_cdb_write_same_16(lba, blocks, how & 3, cdb));
	FUZZ_CLAIM(cmd.op == SCSI_OP_WRITE_SAME && cmd.lba == lba &&
		   cmd.blocks == blocks);
	FUZZ_CLAIM(cmd.unmap == !!(how & SCSI_WRITE_SAME_UNMAP) &&
		   cmd.ndob == !!(how & SCSI_WRITE_SAME_NDOB));
	cmd = understood(cdb, scsi_cdb_get_lba_status(lba, blocks, cdb));
	FUZZ_CLAIM(cmd.lba == lba && cmd.alloc_len == blocks);
}

static void encode_others(struct fuzz_input *in)
{
	uint32_t len = fuzz_u32(in);
	uint8_t code = fuzz_u8(in);
	uint8_t cdb[SCSI_CDB_LEN];
	struct scsi_cmd cmd;

	understood(cdb, scsi_cdb_test_unit_ready(cdb));
	cmd = understood(cdb, scsi_cdb_inquiry((uint16_t)len, cdb));
	FUZZ_CLAIM(cmd.alloc_len == (uint16_t)len && !cmd.evpd);
	cmd = understood(cdb, scsi_cdb_inquiry_vpd(code, (uint16_t)len, cdb));
	FUZZ_CLAIM(cmd.evpd && cmd.page_code == code);
	cmd = understood(cdb, scsi_cdb_report_luns(len, cdb));
	FUZZ_CLAIM(cmd.alloc_len == len && cmd.select_report == 0);
	understood(cdb, scsi_cdb_read_capacity_10(cdb));
	cmd = understood(cdb, scsi_cdb_read_capacity_16(len, cdb));
	FUZZ_CLAIM(cmd.alloc_len == len);
	cmd = understood(cdb,
			 scsi_cdb_mode_sense_6(code & 63, (uint8_t)len, cdb));
	FUZZ_CLAIM(cmd.page_code == (code & 63) && cmd.dbd);
	cmd = understood(cdb, scsi_cdb_unmap((uint16_t)len, cdb));
	FUZZ_CLAIM(cmd.op == SCSI_OP_UNMAP && cmd.param_len == (uint16_t)len);
	FUZZ_CLAIM(scsi_cdb_has_service_actions(code) ||
		   !scsi_cdb_find(code, 0) ||
		   scsi_cdb_find(code, 0)->service_action ==
			   SCSI_SERVICE_ACTION_NONE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);
	uint8_t how = fuzz_u8(&in) & 7;
	struct scsi_disk_info info;

	if (how == 0) {
		encode_blocks(&in);
		return 0;
	}
	if (how == 1) {
		encode_others(&in);
		return 0;
	}
	fuzz_disk_info(&in, &info);
	if (how < 5)
		decode_row(&in, &info);
	else
		decode(&in, &info);
	return 0;
}
