/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/scsi_cdb.h"

#include <errno.h>
#include <string.h>

#include "protocol/scsi_cdb_bits.h"
#include "protocol/scsi_vpd.h"
#include "protocol/wire.h"

/* The only data-in without an allocation length. */
#define READ_CAPACITY_10_LEN 8

/* The first row of @opcode. NULL: there is none. */
static const struct scsi_cdb_info *first_row(uint8_t opcode)
{
	const struct scsi_cdb_info *end = scsi_cdb_table + scsi_cdb_table_cnt;
	const struct scsi_cdb_info *from = scsi_cdb_table;
	size_t cnt = scsi_cdb_table_cnt;

	while (cnt > 0) {
		const struct scsi_cdb_info *middle = from + cnt / 2;

		if (middle->opcode < opcode) {
			from = middle + 1;
			cnt--;
		}
		cnt /= 2;
	}
	return from < end && from->opcode == opcode ? from : NULL;
}

/* Searches the rows of one opcode, which begin at @info; NULL: there are none. */
static const struct scsi_cdb_info *pick_row(const struct scsi_cdb_info *info,
					    unsigned int service_action)
{
	const struct scsi_cdb_info *end = scsi_cdb_table + scsi_cdb_table_cnt;
	const struct scsi_cdb_info *first = info;

	if (!first || first->service_action == SCSI_SERVICE_ACTION_NONE)
		return first;
	for (; info < end && info->opcode == first->opcode; info++) {
		if ((unsigned int)info->service_action == service_action)
			return info;
	}
	return NULL;
}

const struct scsi_cdb_info *scsi_cdb_find(uint8_t opcode,
					  unsigned int service_action)
{
	return pick_row(first_row(opcode), service_action);
}

void scsi_cdb_index_init(struct scsi_cdb_index *ret_index)
{
	for (unsigned int opcode = 0; opcode < 256; opcode++)
		ret_index->first[opcode] = first_row((uint8_t)opcode);
}

bool scsi_cdb_has_service_actions(uint8_t opcode)
{
	const struct scsi_cdb_info *info = first_row(opcode);

	return info && info->service_action != SCSI_SERVICE_ACTION_NONE;
}

static inline uint64_t get_field(const uint8_t *cdb,
				 struct scsi_cdb_field field)
{
	uint64_t v = 0;

	if (!field.len)
		return 0;
	switch (field.len) {
	case 2:
		return wire_get16(cdb + field.byte);
	case 4:
		return wire_get32(cdb + field.byte);
	case 8:
		return wire_get64(cdb + field.byte);
	}
	for (unsigned int i = 0; i < field.len; i++)
		v = v << 8 | cdb[field.byte + i];
	return v;
}

/* The bit that the field pointer names when the bits @refused of byte @i are
 * wrong. */
static uint8_t bit_pointer(const struct scsi_cdb_info *info, uint8_t i,
			   uint8_t refused)
{
	uint8_t bit = scsi_sense_top_bit(refused);

	for (size_t n = 0; n < sizeof(info->narrow) / sizeof(*info->narrow);
	     n++) {
		if (info->narrow[n].byte == i &&
		    info->narrow[n].mask >> bit & 1)
			return scsi_sense_top_bit(info->narrow[n].mask);
	}
	return bit;
}

/* True if a bit is set that the usage map lacks. The map has the service action
 * of the row, and no ignored field. @cdb: SCSI_CDB_LEN bytes. */
static bool has_unused_bits(const struct scsi_cdb_info *info,
			    const uint8_t *cdb)
{
	/* From SCSI_CDB_LEN - n on: n bytes that count, then some that do not. */
	static const uint8_t beyond[2 * SCSI_CDB_LEN] = {
		[SCSI_CDB_LEN... 2 * SCSI_CDB_LEN - 1] = 0xff,
	};
	uint64_t set[SCSI_CDB_LEN / 8];
	uint64_t known[SCSI_CDB_LEN / 8];
	uint64_t rest[SCSI_CDB_LEN / 8];

	memcpy(set, cdb, sizeof(set));
	memcpy(known, info->usage, sizeof(known));
	memcpy(rest, beyond + SCSI_CDB_LEN - info->cdb_len, sizeof(rest));
	return (set[0] & ~(known[0] | rest[0])) |
	       (set[1] & ~(known[1] | rest[1]));
}

static int check_usage(const struct scsi_cdb_info *info, const uint8_t *cdb,
		       struct scsi_sense *ret_sense)
{
	if (!has_unused_bits(info, cdb))
		return 0;
	for (uint8_t i = 0; i < info->cdb_len; i++) {
		uint8_t refused = cdb[i] & (uint8_t)~info->usage[i];

		if (i == info->ignored.byte)
			refused &= (uint8_t)~info->ignored.mask;
		if (!refused)
			continue;
		*ret_sense =
			scsi_sense_cdb_field(i, bit_pointer(info, i, refused));
		return -EINVAL;
	}
	return 0;
}

static unsigned int cdb_service_action(const uint8_t *cdb, size_t len)
{
	return len > 1 ? cdb[1] & SERVICE_ACTION_MASK : 0;
}

const struct scsi_cdb_info *
scsi_cdb_row_of_service_action(const struct scsi_cdb_info *first,
			       const void *cdb, size_t len)
{
	return pick_row(first, cdb_service_action(cdb, len));
}

/* The table has no row for this CDB. */
static int unknown(const uint8_t *cdb, size_t len, struct scsi_sense *ret_sense)
{
	if (len && scsi_cdb_has_service_actions(cdb[0])) {
		*ret_sense = scsi_sense_cdb_field(1, 4);
		return -EINVAL;
	}
	*ret_sense =
		scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE);
	return -EOPNOTSUPP;
}

/* @cdb: SCSI_CDB_LEN bytes. */
static int decode_fields(const struct scsi_cdb_info *info, const uint8_t *cdb,
			 struct scsi_cmd *ret_cmd, struct scsi_sense *ret_sense)
{
	int err = check_usage(info, cdb, ret_sense);

	if (err)
		return err;
	ret_cmd->op = (enum scsi_op)info->op;
	ret_cmd->info = info;
	ret_cmd->lba = get_field(cdb, info->lba);
	ret_cmd->blocks = get_field(cdb, info->blocks);
	ret_cmd->alloc_len = (uint32_t)get_field(cdb, info->alloc_len);
	ret_cmd->param_len = (uint32_t)get_field(cdb, info->param_len);
	/* The others, of which info->fields() sets some. */
	memset((char *)ret_cmd + offsetof(struct scsi_cmd, fua), 0,
	       sizeof(*ret_cmd) - offsetof(struct scsi_cmd, fua));
	err = info->fields ? info->fields(cdb, ret_cmd, ret_sense) : 0;
	if (err)
		ret_cmd->info = NULL;
	return err;
}

int scsi_cdb_decode_row(const struct scsi_cdb_info *info, const void *cdb,
			size_t len, struct scsi_cmd *ret_cmd,
			struct scsi_sense *ret_sense)
{
	uint8_t padded[SCSI_CDB_LEN];

	if (!info)
		return unknown(cdb, len, ret_sense);
	/* SRP always brings that many. */
	if (len < SCSI_CDB_LEN) {
		if (len < info->cdb_len) {
			*ret_sense = scsi_sense_cdb_field((uint16_t)len,
							  SCSI_BIT_NONE);
			return -EINVAL;
		}
		memset(padded, 0, sizeof(padded));
		cdb = memcpy(padded, cdb, len);
	}
	return decode_fields(info, cdb, ret_cmd, ret_sense);
}

int scsi_cdb_decode(const void *cdb, size_t len, struct scsi_cmd *ret_cmd,
		    struct scsi_sense *ret_sense)
{
	const struct scsi_cdb_info *info = NULL;
	const uint8_t *b = cdb;

	if (len)
		info = scsi_cdb_find(b[0], cdb_service_action(b, len));
	return scsi_cdb_decode_row(info, cdb, len, ret_cmd, ret_sense);
}

/* True for a START STOP UNIT that starts the unit, and for a PREVENT ALLOW
 * MEDIUM REMOVAL that allows removal. */
static bool is_harmless(const struct scsi_cmd *cmd)
{
	if (cmd->op == SCSI_OP_START_STOP)
		return cmd->start && !cmd->loej;
	return !cmd->prevent;
}

enum scsi_access scsi_cmd_access_by_field(const struct scsi_cmd *cmd)
{
	return is_harmless(cmd) ? SCSI_ACCESS_ALWAYS : SCSI_ACCESS_CHANGES;
}

bool scsi_cmd_is_for_readers(const struct scsi_cmd *cmd)
{
	switch ((enum scsi_readers)cmd->info->readers) {
	case SCSI_READERS_REFUSED:
		return false;
	case SCSI_READERS_ALLOWED:
		return true;
	case SCSI_READERS_BY_FIELD:
		break;
	}
	return is_harmless(cmd);
}

bool scsi_cdb_exists(const struct scsi_cdb_info *row,
		     const struct scsi_disk_info *info)
{
	if (!(row->flags & SCSI_CDB_OPTIONAL))
		return true;
	if (row->flags & SCSI_CDB_UNMAPS)
		return info->unmap;
	if (row->flags & SCSI_CDB_ATOMIC)
		return info->max_atomic_blocks;
	if (row->flags & SCSI_CDB_JOB)
		return !info->no_jobs;
	if (row->flags & SCSI_CDB_PERSISTENT)
		return !info->no_reservations;
	return !info->no_reserve;
}

static int check_exists(const struct scsi_cmd *cmd,
			const struct scsi_disk_info *info,
			struct scsi_sense *ret_sense)
{
	if (scsi_cdb_exists(cmd->info, info))
		return 0;
	*ret_sense =
		scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE);
	return -EINVAL;
}

static int check_protection(const struct scsi_cmd *cmd,
			    const struct scsi_disk_info *info,
			    struct scsi_sense *ret_sense)
{
	if (!(cmd->info->flags & SCSI_CDB_WRITES) ||
	    (!info->read_only && !info->swp))
		return 0;
	*ret_sense =
		scsi_sense(SCSI_KEY_DATA_PROTECT,
			   info->read_only ? SCSI_ASC_WRITE_PROTECTED
					   : SCSI_ASC_SOFTWARE_WRITE_PROTECTED);
	return -EROFS;
}

/* Checks fields that need something that this unit may not have. */
static int check_fields(const struct scsi_cmd *cmd,
			const struct scsi_disk_info *info,
			struct scsi_sense *ret_sense)
{
	if (cmd->op == SCSI_OP_WRITE_SAME && cmd->unmap && !info->unmap) {
		*ret_sense =
			scsi_sense_cdb_field(1, scsi_sense_top_bit(CDB_UNMAP));
		return -EINVAL;
	}
	if (cmd->op == SCSI_OP_START_STOP && cmd->loej && !info->removable) {
		*ret_sense =
			scsi_sense_cdb_field(4, scsi_sense_top_bit(CDB_LOEJ));
		return -EINVAL;
	}
	return 0;
}

/* INFORMATION gets the first block that does not exist. */
static int cdb_check_range(const struct scsi_cmd *cmd,
			   const struct scsi_disk_info *info,
			   struct scsi_sense *ret_sense)
{
	uint64_t blocks = info->blocks;

	if (cmd->lba < blocks && cmd->blocks <= blocks - cmd->lba)
		return 0;
	*ret_sense =
		scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_LBA_OUT_OF_RANGE);
	ret_sense->info_valid = true;
	ret_sense->info = cmd->lba < blocks ? blocks : cmd->lba;
	return -ERANGE;
}

static int cdb_check_limits(const struct scsi_cmd *cmd,
			    const struct scsi_disk_info *info,
			    struct scsi_sense *ret_sense)
{
	uint64_t max = 0;

	/* Each of these limits is below the largest transfer. */
	if (cmd->op == SCSI_OP_COMPARE_WRITE)
		max = info->max_caw_blocks;
	else if (cmd->op == SCSI_OP_WRITE_ATOMIC)
		max = info->max_atomic_blocks;
	else if (!(cmd->info->flags & SCSI_CDB_NO_TRANSFER))
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
	err = cdb_check_range(cmd, info, ret_sense);
	if (err)
		return err;
	if (to_end)
		cmd->blocks = info->blocks - cmd->lba;
	return cdb_check_limits(cmd, info, ret_sense);
}

int scsi_cmd_check(struct scsi_cmd *cmd, const struct scsi_disk_info *info,
		   struct scsi_sense *ret_sense)
{
	int err;

	err = check_exists(cmd, info, ret_sense);
	if (!err)
		err = check_protection(cmd, info, ret_sense);
	if (!err)
		err = check_fields(cmd, info, ret_sense);
	if (!err && cmd->info->flags & SCSI_CDB_BLOCKS)
		err = check_blocks(cmd, info, ret_sense);
	return err;
}

/* The number of blocks in data-out that VERIFY compares. */
static uint64_t verify_blocks(const struct scsi_cmd *cmd)
{
	if (cmd->bytchk == SCSI_BYTCHK_ONE_BLOCK)
		return cmd->blocks ? 1 : 0;
	return cmd->bytchk ? cmd->blocks : 0;
}

uint64_t scsi_cmd_data_out_len(const struct scsi_cmd *cmd, uint32_t block_size)
{
	switch (cmd->op) {
	case SCSI_OP_WRITE:
	case SCSI_OP_WRITE_VERIFY:
	case SCSI_OP_ORWRITE:
	case SCSI_OP_WRITE_ATOMIC:
		return cmd->blocks * block_size;
	case SCSI_OP_COMPARE_WRITE:
		return 2 * cmd->blocks * block_size;
	case SCSI_OP_VERIFY:
		return verify_blocks(cmd) * block_size;
	case SCSI_OP_WRITE_SAME:
		return cmd->ndob ? 0 : block_size;
	default:
		return cmd->param_len;
	}
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

size_t scsi_cdb_report_port_groups(uint32_t alloc_len,
				   uint8_t ret_cdb[SCSI_CDB_LEN])
{
	uint8_t *cdb = start_cdb(0xa3, ret_cdb);

	cdb[1] = 0x0a;
	wire_put32(cdb + 6, alloc_len);
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

static size_t put_buffer_cdb(uint8_t opcode, enum scsi_buffer_mode mode,
			     uint32_t offset, uint32_t len,
			     uint8_t ret_cdb[SCSI_CDB_LEN])
{
	start_cdb(opcode, ret_cdb)[1] = (uint8_t)mode;
	wire_put24(ret_cdb + 3, offset);
	wire_put24(ret_cdb + 6, len);
	return 10;
}

size_t scsi_cdb_read_buffer(enum scsi_buffer_mode mode, uint32_t offset,
			    uint32_t alloc_len, uint8_t ret_cdb[SCSI_CDB_LEN])
{
	return put_buffer_cdb(0x3c, mode, offset, alloc_len, ret_cdb);
}

size_t scsi_cdb_write_buffer(enum scsi_buffer_mode mode, uint32_t offset,
			     uint32_t len, uint8_t ret_cdb[SCSI_CDB_LEN])
{
	return put_buffer_cdb(0x3b, mode, offset, len, ret_cdb);
}

/* Writes the ten-byte form of a block command if LBA and count fit into it. */
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
