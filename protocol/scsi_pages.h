/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parameter data other than that of INQUIRY: capacity, LUN list, provisioning
 * status, supported operation codes, target port groups, the parameter list of
 * UNMAP. Mode pages are in scsi_mode.h.
 *
 * Builders and parsers keep the promises of scsi_vpd.h: builders write what
 * fits and return the full length; parsers trust nothing that a peer wrote.
 *
 * Thread: any, for every function here.
 */
#ifndef PROTOCOL_SCSI_PAGES_H
#define PROTOCOL_SCSI_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/scsi_vpd.h"

struct scsi_cmd; /* protocol/scsi_cdb.h */

/*
 * REPORT LUNS (SPC-4). A LUN is its 8-byte field read big-endian, as
 * srp_lun_encode() makes it. Linux sends back the same bytes.
 */
size_t scsi_report_luns_encode(const uint64_t *luns, size_t cnt, void *buf,
			       size_t cap);

/**
 * scsi_report_luns_decode() - the LUNs that arrived
 * @ret_luns:  the first @max of them
 * @ret_cnt:   how many were stored
 * @ret_total: how many the target has, from the list length; ask again with
 *	       room for 8 + 8 * total bytes when it is more than came
 *
 * Return: 0, or -EBADMSG when the header is cut short or the list length is
 *   not a multiple of 8.
 */
int scsi_report_luns_decode(const void *buf, size_t len, uint64_t *ret_luns,
			    size_t max, size_t *ret_cnt, uint32_t *ret_total);

/*
 * REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4): ABORT TASK, ABORT TASK
 * SET, CLEAR TASK SET, and with @lun_reset LOGICAL UNIT RESET. @repd: the long
 * form.
 */
size_t scsi_report_tmf_encode(bool lun_reset, bool repd, void *buf, size_t cap);

/* REPORT TARGET PORT GROUPS (SPC-4): info->groups. @ext_header: the extended
 * header format. */
size_t scsi_report_port_groups_encode(const struct scsi_disk_info *info,
				      bool ext_header, void *buf, size_t cap);

/* ASYMMETRIC ACCESS STATE of a target port group (SPC-4). */
enum scsi_alua {
	SCSI_ALUA_OPTIMIZED = 0x0,
	SCSI_ALUA_NON_OPTIMIZED = 0x1,
	SCSI_ALUA_STANDBY = 0x2,
	SCSI_ALUA_UNAVAILABLE = 0x3,
	SCSI_ALUA_LBA_DEPENDENT = 0x4,
	SCSI_ALUA_OFFLINE = 0xe,
	SCSI_ALUA_TRANSITIONING = 0xf,
};

/* True if reads and writes work through a port in @state. */
bool scsi_alua_is_active(uint8_t state);

struct scsi_port_group {
	uint16_t id;
	uint8_t state; /* enum scsi_alua, or a reserved value */
};

/*
 * Reads the answer to REPORT TARGET PORT GROUPS, in the format without extended
 * header. @ret: at most @max groups. @ret_total: the groups of the list that
 * arrived. Return: 0, or -EBADMSG: the answer is shorter than its header, or
 * the list ends inside a descriptor.
 */
int scsi_report_port_groups_decode(const void *buf, size_t len,
				   struct scsi_port_group *ret, size_t max,
				   size_t *ret_total);

/* The longest parameter list of SET TARGET PORT GROUPS that is accepted,
 * bytes. */
#define SCSI_SET_PORT_GROUPS_MAX 256

/* What SET TARGET PORT GROUPS requests for this target's group. */
enum scsi_group_wish {
	SCSI_GROUP_STAYS,
	SCSI_GROUP_ACTIVE,
	SCSI_GROUP_STANDBY,
};

/**
 * scsi_set_port_groups_decode() - SET TARGET PORT GROUPS' parameter list (SPC-4)
 * @info: its groups. A unit with one group has one state, active and optimized;
 *   a list that is good then changes nothing
 * @buf, @len: the data-out, as long as PARAMETER LIST LENGTH said
 * @ret_wish: also set when this fails
 *
 * The group of another target can become active only by a command to that
 * target. That it becomes standby needs no command: it does when this one takes
 * over.
 *
 * Return: 0, or -EINVAL with 05/24/00 (the last descriptor is not whole) or
 *   05/26/00 (a state or a group that cannot be, a reserved field).
 */
int scsi_set_port_groups_decode(const struct scsi_disk_info *info,
				const void *buf, size_t len,
				enum scsi_group_wish *ret_wish,
				struct scsi_sense *ret_sense);

/* READ CAPACITY (10): 8 bytes, (16): 32 bytes (SBC-3 5.15, 5.16). */
#define SCSI_READ_CAPACITY_10_LEN 8
#define SCSI_READ_CAPACITY_16_LEN 32

size_t scsi_read_capacity_10_encode(const struct scsi_disk_info *info,
				    void *buf, size_t cap);
size_t scsi_read_capacity_16_encode(const struct scsi_disk_info *info,
				    void *buf, size_t cap);

struct scsi_capacity {
	uint64_t blocks; /* at least 1 */
	uint32_t block_size;
	uint8_t physical_exp;
	bool lbpme; /* thinly provisioned */
	bool lbprz;
};

/*
 * Return: 0; -EBADMSG when cut short or nonsense (a block size that is no
 *   power of two from 512 to 64 KiB, a capacity of more than INT64_MAX
 *   bytes); -EOVERFLOW from (10) when only (16) can tell the capacity.
 */
int scsi_read_capacity_10_decode(const void *buf, size_t len,
				 struct scsi_capacity *ret_cap);
int scsi_read_capacity_16_decode(const void *buf, size_t len,
				 struct scsi_capacity *ret_cap);

/* A run of blocks. */
struct scsi_extent {
	uint64_t lba;
	uint32_t blocks;
};

/* The parameter list of UNMAP: a header, and each of its descriptors. */
#define SCSI_UNMAP_HEADER_LEN 8
#define SCSI_UNMAP_DESC_LEN   16
#define SCSI_UNMAP_MAX_EXTENTS \
	((UINT16_MAX - SCSI_UNMAP_HEADER_LEN) / SCSI_UNMAP_DESC_LEN)

/* @cnt: at most SCSI_UNMAP_MAX_EXTENTS. Return: full length in bytes. */
size_t scsi_unmap_encode(const struct scsi_extent *extents, size_t cnt,
			 void *buf, size_t cap);

/**
 * scsi_unmap_decode() - check UNMAP's parameter list (SBC-3 5.28.2)
 * @buf, @len:	the data-out, as long as PARAMETER LIST LENGTH said
 * @info:	capacity and limits to hold each descriptor against
 * @ret_extents: room for @max extents; those of zero blocks are left out.
 *		@info's max_unmap_descs must not be above @max
 * @ret_cnt:	how many were stored; 0 is a good command that does nothing
 *
 * A descriptor that the end of the list cuts off is ignored. Everything is
 * checked before anything is stored, so no block is unmapped on behalf of a
 * list that is refused.
 *
 * Return: 0, or -EINVAL with 05/1A/00 (a length does not fit), 05/26/00 (too
 *   many blocks or descriptors), 05/21/00 (past the end, with the LBA).
 */
int scsi_unmap_decode(const void *buf, size_t len,
		      const struct scsi_disk_info *info,
		      struct scsi_extent *ret_extents, size_t max,
		      size_t *ret_cnt, struct scsi_sense *ret_sense);

/* GET LBA STATUS (SBC-3 5.4). */
enum scsi_lba_state {
	SCSI_LBA_MAPPED = 0, /* mapped, or not known */
	SCSI_LBA_DEALLOCATED = 1,
	SCSI_LBA_ANCHORED = 2,
};

struct scsi_lba_range {
	uint64_t lba;
	uint32_t blocks;
	uint8_t state; /* enum scsi_lba_state */
};

#define SCSI_LBA_STATUS_HEADER_LEN 8
#define SCSI_LBA_STATUS_DESC_LEN   16

/* The number of ranges that fit into an answer of @alloc_len bytes; at least
 * 1. */
size_t scsi_lba_status_capacity(uint32_t alloc_len);

size_t scsi_lba_status_encode(const struct scsi_lba_range *ranges, size_t cnt,
			      void *buf, size_t cap);

/**
 * scsi_lba_status_decode() - the ranges that arrived
 * @lba:	what was asked for
 * @ret_ranges: the first @max of them; the first one holds @lba, each of the
 *		others starts where the one before it ends. Not to be used after
 *		a failure
 *
 * Return: 0, or -EBADMSG when that is not so or no whole range came.
 */
int scsi_lba_status_decode(const void *buf, size_t len, uint64_t lba,
			   struct scsi_lba_range *ret_ranges, size_t max,
			   size_t *ret_cnt);

/**
 * scsi_report_opcodes_encode() - REPORT SUPPORTED OPERATION CODES (SPC-4)
 * @cmd: the decoded command
 *
 * All of it comes from scsi_cdb_table, less what @info says is not there.
 *
 * Return: 0 with the full length in @ret_len; -EINVAL with sense 05/24/00
 *   when the reporting options do not suit the operation code.
 */
int scsi_report_opcodes_encode(const struct scsi_disk_info *info,
			       const struct scsi_cmd *cmd, void *buf,
			       size_t cap, size_t *ret_len,
			       struct scsi_sense *ret_sense);

/*
 * Reads the answer for one command: is it supported? Return: 0 with
 * @ret_supported, or -EBADMSG if it is cut short.
 */
int scsi_report_opcode_decode(const void *buf, size_t len, bool *ret_supported);

#endif
