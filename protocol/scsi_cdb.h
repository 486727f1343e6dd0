/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Command descriptor blocks: the table of commands that a logical unit
 * supports, the decoder from a CDB to a typed command, and the CDBs that our
 * initiator sends.
 *
 * The decoder refuses a CDB that the table does not have, and a CDB with a bit
 * that the usage map of its row does not declare. So each field is either
 * honoured or refused, and REPORT SUPPORTED OPERATION CODES is exact. Only
 * GROUP NUMBER is ignored, as the standard requires of a unit without groups.
 *
 * A new command is a row in the table, a line of SCSI_OPS and a handler.
 *
 * Thread: any, for every function here.
 */
#ifndef PROTOCOL_SCSI_CDB_H
#define PROTOCOL_SCSI_CDB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/scsi_access.h"
#include "protocol/scsi_cdb_index.h"
#include "protocol/scsi_sense.h"

struct scsi_disk_info;

/* The CDB field of SRP_CMD. Every CDB here fits into it, padded with zeroes. */
#define SCSI_CDB_LEN 16

/*
 * The operations, each with its handler, scsi_HANDLER in target/scsi/. CDBs of
 * different sizes that ask for the same thing share an operation; the table
 * says which commands these are.
 */
#define SCSI_OPS(X)                               \
	X(TEST_UNIT_READY, test_unit_ready)       \
	X(REQUEST_SENSE, request_sense)           \
	X(INQUIRY, inquiry)                       \
	X(REPORT_LUNS, report_luns)               \
	X(REPORT_OPCODES, report_opcodes)         \
	X(MODE_SENSE_6, mode_sense)               \
	X(MODE_SENSE_10, mode_sense)              \
	X(MODE_SELECT_6, mode_select)             \
	X(MODE_SELECT_10, mode_select)            \
	X(LOG_SENSE, log_sense)                   \
	X(REPORT_TMF, report_tmf)                 \
	X(REPORT_PORT_GROUPS, report_port_groups) \
	X(SET_PORT_GROUPS, set_port_groups)       \
	X(PERSISTENT_IN, persistent_in)           \
	X(PERSISTENT_OUT, persistent_out)         \
	X(RESERVE, reserve)                       \
	X(RELEASE, release)                       \
	X(START_STOP, start_stop)                 \
	X(PREVENT_REMOVAL, prevent_removal)       \
	X(READ_CAPACITY_10, read_capacity_10)     \
	X(READ_CAPACITY_16, read_capacity_16)     \
	X(GET_LBA_STATUS, get_lba_status)         \
	X(READ, read)                             \
	X(WRITE, write)                           \
	X(VERIFY, verify)                         \
	X(WRITE_VERIFY, write_verify)             \
	X(PREFETCH, prefetch)                     \
	X(READ_DEFECTS, read_defects)             \
	X(SYNC_CACHE, sync_cache)                 \
	X(WRITE_SAME, write_same)                 \
	X(UNMAP, unmap)                           \
	X(COMPARE_WRITE, compare_write)           \
	X(ORWRITE, orwrite)                       \
	X(WRITE_ATOMIC, write_atomic)             \
	X(FORMAT_UNIT, format_unit)               \
	X(SANITIZE_OVERWRITE, sanitize_overwrite) \
	X(SANITIZE_ERASE, sanitize_erase)         \
	X(SANITIZE_EXIT, sanitize_exit)           \
	X(EXTENDED_COPY, extended_copy)           \
	X(COPY_STATUS, copy_status)               \
	X(COPY_PARAMETERS, copy_parameters)       \
	X(WRITE_BUFFER, write_buffer)             \
	X(READ_BUFFER, read_buffer)

enum scsi_op {
#define SCSI_OP_VALUE(op, handler) SCSI_OP_##op,
	SCSI_OPS(SCSI_OP_VALUE)
#undef SCSI_OP_VALUE
	SCSI_OP_CNT,
};

/* Properties of a row. */
enum scsi_cdb_flag {
	/* is answered while a unit attention is pending, and does not clear it
	 * (SAM-5, unit attention condition) */
	SCSI_CDB_PASSES_UA = 1 << 0,
	/* is answered for a LUN without a logical unit (SAM-5, incorrect
	 * LUN) */
	SCSI_CDB_ABSENT_LUN = 1 << 1,
	/* changes what is stored: refused on a write-protected unit */
	SCSI_CDB_WRITES = 1 << 2,
	/* has an LBA, and mostly a block count, to check against the
	 * capacity */
	SCSI_CDB_BLOCKS = 1 << 3,
	/* exists only if the logical unit is thinly provisioned */
	SCSI_CDB_UNMAPS = 1 << 4,
	/* a block count of zero means up to the last block */
	SCSI_CDB_ZERO_TO_END = 1 << 5,
	/* its blocks are not transferred: MAXIMUM TRANSFER LENGTH does not
	 * apply */
	SCSI_CDB_NO_TRANSFER = 1 << 6,
	/* exists only if the unit writes several blocks as a whole or not at
	 * all */
	SCSI_CDB_ATOMIC = 1 << 7,
	/* is answered while FORMAT UNIT or SANITIZE runs, and after it
	 * failed */
	SCSI_CDB_PASSES_JOB = 1 << 8,
	/* is answered after FORMAT UNIT or SANITIZE failed */
	SCSI_CDB_PASSES_FAILED = 1 << 9,
	/* is answered while the medium is removed */
	SCSI_CDB_NO_MEDIUM = 1 << 10,
	/* works on the whole unit, maybe for a long time; see
	 * scsi_disk_info.no_jobs */
	SCSI_CDB_JOB = 1 << 11,
	/* is answered by a target port in the standby state (SPC-4 5.15.2.7.4).
	 * As in Linux's target, this includes READ CAPACITY: an initiator that
	 * finds the disk through a standby port then knows its size. */
	SCSI_CDB_STANDBY = 1 << 12,
	/* exist only if the unit has persistent reservations, or RESERVE */
	SCSI_CDB_PERSISTENT = 1 << 13,
	SCSI_CDB_RESERVE = 1 << 14,
	/* some units do not have the command */
	SCSI_CDB_OPTIONAL = SCSI_CDB_UNMAPS | SCSI_CDB_ATOMIC | SCSI_CDB_JOB |
			    SCSI_CDB_PERSISTENT | SCSI_CDB_RESERVE,
};

/*
 * May an initiator with read-only rights send the command? Not if the command
 * changes what others see: blocks, mode values, reservations, the medium. A row
 * without a value refuses it.
 */
enum scsi_readers {
	SCSI_READERS_REFUSED,
	SCSI_READERS_ALLOWED,
	/* allowed if it starts the unit, or allows removal of the medium */
	SCSI_READERS_BY_FIELD,
};

/* A big-endian field of the CDB. len 0: the CDB does not have it. */
struct scsi_cdb_field {
	uint8_t byte;
	uint8_t len;
};

/* Some bits of a byte; mask 0: none. */
struct scsi_cdb_bits {
	uint8_t byte;
	uint8_t mask;
};

struct scsi_cmd;

#define SCSI_SERVICE_ACTION_NONE (-1)

/* One row of the table. */
struct scsi_cdb_info {
	const char *name; /* "READ (10)" */
	/* "SBC-3 5.11", "SPC-4 6.6" (of revision 36e: they moved) */
	const char *clause;
	/* For docs/scsi.md: what is special, and what the target refuses
	 * besides bits that are not in @usage. NULL: nothing. */
	const char *note;
	uint8_t opcode;
	int8_t service_action; /* bits 4..0 of byte 1, or NONE */
	uint8_t cdb_len;
	uint8_t op;	 /* enum scsi_op */
	uint8_t access;	 /* enum scsi_access */
	uint8_t readers; /* enum scsi_readers */
	uint16_t flags;	 /* enum scsi_cdb_flag */
	/* The bits that the target looks at. Byte 0 is the opcode; the service
	 * action is included if there is one (SPC-4, CDB USAGE DATA). */
	uint8_t usage[SCSI_CDB_LEN];
	/* Fields of several bits that are not completely in @usage. The bit
	 * pointer names the top bit (SPC-4 4.5.2.4.2). */
	struct scsi_cdb_bits narrow[2];
	/* Bits that may be set and have no meaning for this unit. Not in
	 * @usage. */
	struct scsi_cdb_bits ignored;
	struct scsi_cdb_field lba;
	struct scsi_cdb_field blocks;
	struct scsi_cdb_field alloc_len;
	struct scsi_cdb_field param_len;
	/* Fills in and checks the fields that are special to this CDB. Private
	 * to scsi_cdb_decode(). NULL: there are none. */
	int (*fields)(const uint8_t *cdb, struct scsi_cmd *cmd,
		      struct scsi_sense *ret_sense);
};

/* The commands, ascending by opcode and service action. */
extern const struct scsi_cdb_info scsi_cdb_table[];
extern const size_t scsi_cdb_table_cnt;

/* A decoded CDB. Fields that the command does not have are zero. */
struct scsi_cmd {
	enum scsi_op op;
	const struct scsi_cdb_info *info; /* its row, never NULL */
	uint64_t lba;
	uint64_t blocks;    /* a 0 of READ (6) and WRITE (6) is 256 here */
	uint32_t alloc_len; /* at most this many bytes of data-in */
	uint32_t param_len; /* exactly this many bytes of data-out */

	bool fua;	 /* READ, WRITE: the medium, not a volatile cache */
	uint8_t list_id; /* RECEIVE COPY RESULTS */
	bool immed;	 /* the status may be sent before the command is done */
	bool ause;	 /* SANITIZE */
	bool fmtdata;	 /* FORMAT UNIT: there is a parameter list */
	bool longlist;	 /* FORMAT UNIT: its header is a long one */
	bool unmap;	 /* WRITE SAME: deallocate if the blocks then read as
			  * zeroes */
	bool ndob;	 /* WRITE SAME (16): no data-out, the block is zeroes */
	bool pmi;	 /* READ CAPACITY */
	bool start;	 /* START STOP UNIT */
	bool loej;	 /* START STOP UNIT */
	bool no_flush;	 /* START STOP UNIT */
	bool prevent;	 /* PREVENT ALLOW MEDIUM REMOVAL */
	bool save;	 /* MODE SELECT: SP */
	bool ext_header; /* REPORT TARGET PORT GROUPS: extended format */
	bool repd;	 /* REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS */
	bool evpd;	 /* INQUIRY: page_code is a VPD page */
	bool desc;	 /* REQUEST SENSE: descriptor format */
	bool dbd;	 /* MODE SENSE: no block descriptor */
	bool llbaa;	 /* MODE SENSE (10): a long block descriptor is
			  * allowed */
	bool rctd;	 /* REPORT SUPPORTED OPERATION CODES: with timeouts */
	uint8_t bytchk;	 /* VERIFY, WRITE AND VERIFY: enum scsi_bytchk */
	uint8_t defects; /* READ DEFECT DATA: the bits CDB_DEFECTS as
			  * received */
	uint8_t scope;	 /* PERSISTENT RESERVE OUT */
	uint8_t type;	 /* the same: enum scsi_pr_type or unknown */
	uint8_t page_code;	   /* INQUIRY, MODE SENSE, LOG SENSE */
	uint8_t subpage_code;	   /* MODE SENSE, LOG SENSE */
	uint16_t parameter;	   /* LOG SENSE: parameter pointer */
	uint8_t page_control;	   /* MODE SENSE: enum scsi_page_control; LOG
				    * SENSE: its own */
	uint8_t select_report;	   /* REPORT LUNS: enum scsi_select_report */
	uint8_t reporting_options; /* REPORT SUPPORTED OPERATION CODES: 0..3 */
	uint8_t requested_opcode;  /* the same */
	uint16_t requested_service_action; /* the same */
	uint8_t buffer_mode;		   /* READ BUFFER, WRITE BUFFER: enum
					    * scsi_buffer_mode */
	uint8_t buffer_id;		   /* the same */
	uint32_t buffer_offset; /* the same, of SCSI_BUFFER_DATA: within
				 * SCSI_BUFFER_LEN */
};

/* MODE of READ BUFFER and WRITE BUFFER (SPC-4); others are refused. */
enum scsi_buffer_mode {
	SCSI_BUFFER_DATA = 0x02,
	SCSI_BUFFER_DESCRIPTOR = 0x03, /* only READ BUFFER, as the last */
	SCSI_BUFFER_ECHO = 0x0a,
	SCSI_BUFFER_ECHO_DESCRIPTOR = 0x0b,
};

/* Bytes of buffer 0, of the echo buffer (SPC-4: at most 4096), and of both
 * descriptors. */
#define SCSI_BUFFER_LEN		   65536u
#define SCSI_ECHO_LEN		   4096u
#define SCSI_BUFFER_DESCRIPTOR_LEN 4u

/* SELECT REPORT (SPC-4, REPORT LUNS). */
enum scsi_select_report {
	SCSI_LUNS_USUAL = 0x00,	     /* all but well-known ones */
	SCSI_LUNS_WELL_KNOWN = 0x01, /* there are none */
	SCSI_LUNS_ALL = 0x02,
	SCSI_LUNS_ADMINISTRATIVE = 0x10, /* there are none; only for LUN 0 */
	SCSI_LUNS_TOP = 0x11, /* and units outside of conglomerates; only for
			       * LUN 0 */
	SCSI_LUNS_SUBSIDIARY = 0x12, /* of the addressed unit: there are none */
};

/* BYTCHK (SBC-3, VERIFY); 2 is refused. */
enum scsi_bytchk {
	SCSI_BYTCHK_NONE = 0,	   /* only read the medium */
	SCSI_BYTCHK_ALL = 1,	   /* data-out has every block */
	SCSI_BYTCHK_ONE_BLOCK = 3, /* each block with the one block of
				    * data-out */
};

/* Limits of one EXTENDED COPY, as RECEIVE COPY RESULTS and VPD page 8Fh report
 * them: descriptors and bytes (target/scsi/volume.h has the reasons). */
#define SCSI_COPY_TARGETS  16
#define SCSI_COPY_SEGMENTS 32
#define SCSI_COPY_DESCRIPTORS_LEN \
	(SCSI_COPY_TARGETS * 32 + SCSI_COPY_SEGMENTS * 28)
#define SCSI_COPY_SEGMENT_MAX (4u << 20)
/* Concurrent copies: as many as there are commands. */
#define SCSI_COPY_CONCURRENT 255

/* MODE SENSE's PC field (SPC-4). */
enum scsi_page_control {
	SCSI_PC_CURRENT = 0,
	SCSI_PC_CHANGEABLE = 1,
	SCSI_PC_DEFAULT = 2,
	SCSI_PC_SAVED = 3,
};

/**
 * scsi_cdb_find() - the table's row for an opcode
 * @service_action: looked at only where the opcode has service actions
 *
 * Return: the row, or NULL.
 */
const struct scsi_cdb_info *scsi_cdb_find(uint8_t opcode,
					  unsigned int service_action);

/* For scsi_cdb_row(): of the rows of an opcode, from @first on, the one for the
 * service action of @cdb. */
const struct scsi_cdb_info *
scsi_cdb_row_of_service_action(const struct scsi_cdb_info *first,
			       const void *cdb, size_t len);

/* The row for the @len bytes of @cdb, which are not trusted. NULL: there is
 * none. */
static inline const struct scsi_cdb_info *
scsi_cdb_row(const struct scsi_cdb_index *index, const void *cdb, size_t len)
{
	const struct scsi_cdb_info *first =
		len ? index->first[*(const uint8_t *)cdb] : NULL;

	/* The most frequent commands have no service actions. */
	if (!first || first->service_action == SCSI_SERVICE_ACTION_NONE)
		return first;
	return scsi_cdb_row_of_service_action(first, cdb, len);
}

/* For scsi_cmd_access(), if the row says BY_FIELD. */
enum scsi_access scsi_cmd_access_by_field(const struct scsi_cmd *cmd);

/* How @cmd conflicts with a reservation. Never BY_FIELD. */
static inline enum scsi_access scsi_cmd_access(const struct scsi_cmd *cmd)
{
	enum scsi_access access = (enum scsi_access)cmd->info->access;

	if (access != SCSI_ACCESS_BY_FIELD)
		return access;
	return scsi_cmd_access_by_field(cmd);
}

/* May an initiator with read-only rights send @cmd? */
bool scsi_cmd_is_for_readers(const struct scsi_cmd *cmd);

/* Does @opcode have service actions? False for an unknown opcode. */
bool scsi_cdb_has_service_actions(uint8_t opcode);

/* Does the logical unit have the command of @row? */
bool scsi_cdb_exists(const struct scsi_cdb_info *row,
		     const struct scsi_disk_info *info);

/**
 * scsi_cdb_decode() - check a CDB and read its fields
 * @cdb:       the bytes; not trusted
 * @len:       how many there are; SRP always brings 16 or more
 * @ret_cmd:   valid on success; after a failure, info is NULL if it was before
 * @ret_sense: written only on failure: what to answer, with field pointer
 *
 * Whether the LBA exists and the unit may be written is not known here; see
 * scsi_cmd_check().
 *
 * Return: 0, -EOPNOTSUPP for an unknown operation code (05/20/00), -EINVAL
 *   for an unknown service action or a bit or value that is not supported
 *   (05/24/00).
 */
int scsi_cdb_decode(const void *cdb, size_t len, struct scsi_cmd *ret_cmd,
		    struct scsi_sense *ret_sense);

/* As scsi_cdb_decode(), for a caller that has the row: @info, from
 * scsi_cdb_row(). */
int scsi_cdb_decode_row(const struct scsi_cdb_info *info, const void *cdb,
			size_t len, struct scsi_cmd *ret_cmd,
			struct scsi_sense *ret_sense);

/**
 * scsi_cmd_check() - check a command against the logical unit
 * @cmd: from scsi_cdb_decode(); where zero blocks means "up to the end"
 *	 (SYNCHRONIZE CACHE, WRITE SAME) cmd->blocks is set to just that
 * @info: the logical unit
 * @ret_sense: written only on failure
 *
 * Answers the same for every backend, the first of these that holds: a command
 * that the unit does not have (05/20/00), write protected (07/27/00, by SWP
 * 07/27/02), UNMAP where nothing is thinly provisioned (05/24/00), past the end
 * (05/21/00 with the LBA as information), more blocks than VPD page B0h allows
 * (05/24/00).
 *
 * Return: 0, or -EINVAL, -ERANGE, -EROFS.
 */
int scsi_cmd_check(struct scsi_cmd *cmd, const struct scsi_disk_info *info,
		   struct scsi_sense *ret_sense);

/*
 * The bytes that the command transfers. Data-out: exactly this many. Data-in:
 * exactly this many for READ, at most this many (the allocation length) for
 * others.
 */
uint64_t scsi_cmd_data_out_len(const struct scsi_cmd *cmd, uint32_t block_size);
uint64_t scsi_cmd_data_in_len(const struct scsi_cmd *cmd, uint32_t block_size);

/*
 * CDBs for the initiator. Each function fills all SCSI_CDB_LEN bytes of
 * @ret_cdb and returns the length of the CDB.
 */
size_t scsi_cdb_test_unit_ready(uint8_t ret_cdb[SCSI_CDB_LEN]);
size_t scsi_cdb_inquiry(uint16_t alloc_len, uint8_t ret_cdb[SCSI_CDB_LEN]);
size_t scsi_cdb_inquiry_vpd(uint8_t page_code, uint16_t alloc_len,
			    uint8_t ret_cdb[SCSI_CDB_LEN]);
size_t scsi_cdb_report_luns(uint32_t alloc_len, uint8_t ret_cdb[SCSI_CDB_LEN]);
size_t scsi_cdb_report_port_groups(uint32_t alloc_len,
				   uint8_t ret_cdb[SCSI_CDB_LEN]);
size_t scsi_cdb_read_capacity_10(uint8_t ret_cdb[SCSI_CDB_LEN]);
size_t scsi_cdb_read_capacity_16(uint32_t alloc_len,
				 uint8_t ret_cdb[SCSI_CDB_LEN]);
/* Requests current values, without block descriptor. */
size_t scsi_cdb_mode_sense_6(uint8_t page_code, uint8_t alloc_len,
			     uint8_t ret_cdb[SCSI_CDB_LEN]);
/* @offset, @len: at most SCSI_BUFFER_LEN, 24 bits */
size_t scsi_cdb_read_buffer(enum scsi_buffer_mode mode, uint32_t offset,
			    uint32_t alloc_len, uint8_t ret_cdb[SCSI_CDB_LEN]);
size_t scsi_cdb_write_buffer(enum scsi_buffer_mode mode, uint32_t offset,
			     uint32_t len, uint8_t ret_cdb[SCSI_CDB_LEN]);

/* Ten bytes if LBA and count fit, else sixteen. */
size_t scsi_cdb_read(uint64_t lba, uint32_t blocks, bool fua,
		     uint8_t ret_cdb[SCSI_CDB_LEN]);
size_t scsi_cdb_write(uint64_t lba, uint32_t blocks, bool fua,
		      uint8_t ret_cdb[SCSI_CDB_LEN]);
/* @blocks 0: from @lba to the end. IMMED is never set: GOOD means that the data
 * is stable. */
size_t scsi_cdb_sync_cache(uint64_t lba, uint32_t blocks,
			   uint8_t ret_cdb[SCSI_CDB_LEN]);
/* @param_len: from scsi_unmap_encode(). */
size_t scsi_cdb_unmap(uint16_t param_len, uint8_t ret_cdb[SCSI_CDB_LEN]);

enum scsi_write_same_flag {
	SCSI_WRITE_SAME_UNMAP = 1 << 0, /* deallocate blocks if they then
					 * read as zeroes */
	SCSI_WRITE_SAME_NDOB = 1 << 1,	/* no data-out: the block is all
					 * zeroes */
};

size_t scsi_cdb_write_same_16(uint64_t lba, uint32_t blocks, unsigned int flags,
			      uint8_t ret_cdb[SCSI_CDB_LEN]);
size_t scsi_cdb_get_lba_status(uint64_t lba, uint32_t alloc_len,
			       uint8_t ret_cdb[SCSI_CDB_LEN]);

#endif
