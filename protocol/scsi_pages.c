/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/scsi_cdb.h"
#include "protocol/scsi_pages.h"

#include <errno.h>
#include <string.h>

#include "protocol/scsi_cdb_bits.h"
#include "protocol/wire.h"

static size_t pages_put_once(const void *data, size_t len, void *buf,
			     size_t cap)
{
	struct wire_out out = wire_out(buf, cap);

	wire_give(&out, data, len);
	return out.len;
}

static size_t pages_min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t scsi_report_luns_encode(const uint64_t *luns, size_t cnt, void *buf,
			       size_t cap)
{
	struct wire_out out = wire_out(buf, cap);
	uint8_t b[8] = { 0 };

	wire_put32(b, (uint32_t)(8 * cnt));
	wire_give(&out, b, 8);
	for (size_t i = 0; i < cnt; i++) {
		wire_put64(b, luns[i]);
		wire_give(&out, b, 8);
	}
	return out.len;
}

size_t scsi_report_tmf_encode(bool lun_reset, bool repd, void *buf, size_t cap)
{
	/* ATS, ATSS, CTSS, LURS; no times are reported. */
	uint8_t b[16] = { 0xd0, 0, 0, repd ? 12 : 0 };

	if (lun_reset)
		b[0] |= 0x08;
	return pages_put_once(b, repd ? sizeof(b) : 4, buf, cap);
}

#define GROUP_STATE_MASK    0x0f
#define GROUP_STATE_ACTIVE  SCSI_ALUA_OPTIMIZED
#define GROUP_STATE_STANDBY SCSI_ALUA_STANDBY
#define GROUP_REPORT_LEN    12

/* A target port group descriptor with one port. */
static void put_group(uint8_t *d, uint8_t state, uint8_t supported,
		      uint16_t group, uint16_t port)
{
	d[0] = state;
	d[1] = supported;
	wire_put16(d + 2, group);
	d[7] = 1; /* TARGET PORT COUNT */
	wire_put16(d + 10, port);
}

size_t scsi_report_port_groups_encode(const struct scsi_disk_info *info,
				      bool ext_header, void *buf, size_t cap)
{
	uint8_t b[8 + SCSI_PORT_GROUPS_MAX * GROUP_REPORT_LEN] = { 0 };
	uint16_t active = info->groups.active;
	size_t len = ext_header ? 8 : 4;

	if (ext_header)
		b[4] = 0x10; /* FORMAT TYPE; a transition takes no time */
	if (!info->groups.cnt) {
		put_group(b + len, GROUP_STATE_ACTIVE, 0x01 /* AO_SUP */,
			  SCSI_TARGET_PORT_GROUP, info->target_port);
		len += GROUP_REPORT_LEN;
	}
	for (uint16_t i = 1; i <= info->groups.cnt; i++) {
		put_group(b + len,
			  i == active ? GROUP_STATE_ACTIVE
				      : GROUP_STATE_STANDBY,
			  0x05 /* AO_SUP, S_SUP */, i, i);
		len += GROUP_REPORT_LEN;
	}
	wire_put32(b, (uint32_t)(len - 4));
	return pages_put_once(b, len, buf, cap);
}

bool scsi_alua_is_active(uint8_t state)
{
	return state == SCSI_ALUA_OPTIMIZED ||
	       state == SCSI_ALUA_NON_OPTIMIZED ||
	       state == SCSI_ALUA_LBA_DEPENDENT;
}

/* The length of a target port group descriptor without its ports. */
#define GROUP_HEAD_LEN 8

int scsi_report_port_groups_decode(const void *buf, size_t len,
				   struct scsi_port_group *ret, size_t max,
				   size_t *ret_total)
{
	struct wire_cursor list = { .p = buf, .left = len };
	const uint8_t *head = wire_take(&list, 4);
	size_t total = 0;
	bool cut;

	if (!head)
		return -EBADMSG;
	cut = wire_get32(head) > list.left;
	if (!cut)
		list.left = wire_get32(head);
	while (list.left) {
		const uint8_t *d = wire_take(&list, GROUP_HEAD_LEN);

		if (!d || !wire_take(&list, 4 * (size_t)d[7])) {
			if (cut)
				break;
			return -EBADMSG;
		}
		if (total < max)
			ret[total] = (struct scsi_port_group){
				.id = wire_get16(d + 2),
				.state = d[0] & GROUP_STATE_MASK,
			};
		total++;
	}
	*ret_total = total;
	return 0;
}

int scsi_report_luns_decode(const void *buf, size_t len, uint64_t *ret_luns,
			    size_t max, size_t *ret_cnt, uint32_t *ret_total)
{
	const uint8_t *b = buf;
	uint32_t list_len;
	size_t cnt;

	if (len < 8)
		return -EBADMSG;
	list_len = wire_get32(b);
	if (list_len % 8)
		return -EBADMSG;
	cnt = pages_min_size(pages_min_size(list_len / 8, (len - 8) / 8), max);
	for (size_t i = 0; i < cnt; i++)
		ret_luns[i] = wire_get64(b + 8 + 8 * i);
	*ret_cnt = cnt;
	*ret_total = list_len / 8;
	return 0;
}

size_t scsi_read_capacity_10_encode(const struct scsi_disk_info *info,
				    void *buf, size_t cap)
{
	uint8_t b[SCSI_READ_CAPACITY_10_LEN];
	uint64_t last = info->blocks - 1;

	wire_put32(b, last < UINT32_MAX ? (uint32_t)last : UINT32_MAX);
	wire_put32(b + 4, info->block_size);
	return pages_put_once(b, sizeof(b), buf, cap);
}

size_t scsi_read_capacity_16_encode(const struct scsi_disk_info *info,
				    void *buf, size_t cap)
{
	uint8_t b[SCSI_READ_CAPACITY_16_LEN] = { 0 };

	wire_put64(b, info->blocks - 1);
	wire_put32(b + 8, info->block_size);
	b[13] = info->physical_exp & 0x0f;
	if (info->unmap)
		b[14] |= 0x80; /* LBPME */
	if (info->unmap && info->lbprz)
		b[14] |= 0x40; /* LBPRZ */
	return pages_put_once(b, sizeof(b), buf, cap);
}

static int check_capacity(const struct scsi_capacity *cap)
{
	uint32_t size = cap->block_size;

	if (size < 512 || size > 65536 || (size & (size - 1)))
		return -EBADMSG;
	if (!cap->blocks || cap->blocks > (uint64_t)INT64_MAX / size)
		return -EBADMSG;
	return 0;
}

int scsi_read_capacity_10_decode(const void *buf, size_t len,
				 struct scsi_capacity *ret_cap)
{
	const uint8_t *b = buf;
	struct scsi_capacity cap = { 0 };
	int err;

	if (len < SCSI_READ_CAPACITY_10_LEN)
		return -EBADMSG;
	if (wire_get32(b) == UINT32_MAX)
		return -EOVERFLOW;
	cap.blocks = (uint64_t)wire_get32(b) + 1;
	cap.block_size = wire_get32(b + 4);
	err = check_capacity(&cap);
	if (err)
		return err;
	*ret_cap = cap;
	return 0;
}

int scsi_read_capacity_16_decode(const void *buf, size_t len,
				 struct scsi_capacity *ret_cap)
{
	struct scsi_capacity cap = { 0 };
	uint8_t b[SCSI_READ_CAPACITY_16_LEN] = { 0 };
	int err;

	/* SBC-2 and older return 12 bytes. */
	if (len < 12)
		return -EBADMSG;
	memcpy(b, buf, pages_min_size(len, sizeof(b)));
	/* FFFF FFFF FFFF FFFFh wraps to 0, which is refused. */
	cap.blocks = wire_get64(b) + 1;
	cap.block_size = wire_get32(b + 8);
	cap.physical_exp = b[13] & 0x0f;
	cap.lbpme = b[14] & 0x80;
	cap.lbprz = b[14] & 0x40;
	err = check_capacity(&cap);
	if (err)
		return err;
	*ret_cap = cap;
	return 0;
}

size_t scsi_unmap_encode(const struct scsi_extent *extents, size_t cnt,
			 void *buf, size_t cap)
{
	struct wire_out out = wire_out(buf, cap);
	size_t desc_len = cnt * SCSI_UNMAP_DESC_LEN;
	uint8_t b[SCSI_UNMAP_DESC_LEN] = { 0 };

	wire_put16(b, (uint16_t)(desc_len + SCSI_UNMAP_HEADER_LEN - 2));
	wire_put16(b + 2, (uint16_t)desc_len);
	wire_give(&out, b, SCSI_UNMAP_HEADER_LEN);
	for (size_t i = 0; i < cnt; i++) {
		wire_put64(b, extents[i].lba);
		wire_put32(b + 8, extents[i].blocks);
		wire_give(&out, b, SCSI_UNMAP_DESC_LEN);
	}
	return out.len;
}

static int pages_refuse(struct scsi_sense sense, struct scsi_sense *ret_sense)
{
	*ret_sense = sense;
	return -EINVAL;
}

static int pages_refuse_data(size_t at, uint8_t bit,
			     struct scsi_sense *ret_sense)
{
	return pages_refuse(scsi_sense_data_field((uint16_t)at, bit),
			    ret_sense);
}

/* ---- SET TARGET PORT GROUPS ---- */

#define GROUPS_HEADER_LEN 4
#define GROUP_DESC_LEN	  4

/* Checks the state that the descriptor at @at of @b requests. The state is
 * checked before the last field: with another state, that field may be a port
 * and not a group. */
static int check_group(const struct scsi_port_groups *groups, const uint8_t *b,
		       size_t at, struct scsi_sense *ret_sense)
{
	const uint8_t *d = b + at;
	uint16_t group = wire_get16(d + 2);

	if (d[0] & ~GROUP_STATE_MASK)
		return pages_refuse_data(at, scsi_sense_top_bit(d[0]),
					 ret_sense);
	if (d[0] != GROUP_STATE_ACTIVE &&
	    (d[0] != GROUP_STATE_STANDBY || !groups->cnt))
		return pages_refuse_data(at, 3, ret_sense);
	if (d[1])
		return pages_refuse_data(at + 1, scsi_sense_top_bit(d[1]),
					 ret_sense);
	if (groups->cnt ? !group || group > groups->cnt
			: group != SCSI_TARGET_PORT_GROUP)
		return pages_refuse_data(at + 2, 7, ret_sense);
	/* A target becomes active only by a command to itself: it fences the
	 * others. */
	if (groups->cnt && group != groups->own && d[0] == GROUP_STATE_ACTIVE &&
	    group != groups->active)
		return pages_refuse_data(at, 3, ret_sense);
	return 0;
}

static int check_groups_header(const uint8_t *b, size_t len,
			       struct scsi_sense *ret_sense)
{
	/* For this list only, SPC-4 says that the length is wrong, not that the
	 * list is cut short. */
	if (len < GROUPS_HEADER_LEN || len % GROUP_DESC_LEN)
		return pages_refuse(scsi_sense_cdb_field(6, 7), ret_sense);
	for (size_t i = 0; i < GROUPS_HEADER_LEN; i++) {
		if (b[i])
			return pages_refuse_data(i, scsi_sense_top_bit(b[i]),
						 ret_sense);
	}
	return 0;
}

int scsi_set_port_groups_decode(const struct scsi_disk_info *info,
				const void *buf, size_t len,
				enum scsi_group_wish *ret_wish,
				struct scsi_sense *ret_sense)
{
	enum scsi_group_wish wish = SCSI_GROUP_STAYS;
	const uint8_t *b = buf;
	int err;

	*ret_wish = wish;
	if (!len) /* PARAMETER LIST LENGTH 0 changes nothing (SPC-4) */
		return 0;
	err = check_groups_header(b, len, ret_sense);
	for (size_t at = GROUPS_HEADER_LEN; at < len && !err;
	     at += GROUP_DESC_LEN) {
		err = check_group(&info->groups, b, at, ret_sense);
		if (!err && info->groups.cnt &&
		    wire_get16(b + at + 2) == info->groups.own)
			wish = b[at] == GROUP_STATE_ACTIVE ? SCSI_GROUP_ACTIVE
							   : SCSI_GROUP_STANDBY;
	}
	if (!err)
		*ret_wish = wish;
	return err;
}

/* ---- UNMAP ---- */

/* How many whole descriptors follow the header. */
static int unmap_desc_cnt(const uint8_t *b, size_t len, size_t *ret_cnt,
			  struct scsi_sense *ret_sense)
{
	size_t data_len, desc_len;

	if (len < SCSI_UNMAP_HEADER_LEN)
		return pages_refuse(
			scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
				   SCSI_ASC_PARAMETER_LIST_LENGTH_ERROR),
			ret_sense);
	data_len = wire_get16(b);
	desc_len = wire_get16(b + 2);
	if (data_len < desc_len + SCSI_UNMAP_HEADER_LEN - 2)
		return pages_refuse(scsi_sense_data_field(0, 7), ret_sense);
	/* An incomplete last descriptor is ignored, and so are bytes beyond the
	 * parameter list length (SBC-3 5.28.2). */
	*ret_cnt = pages_min_size(desc_len, len - SCSI_UNMAP_HEADER_LEN) /
		   SCSI_UNMAP_DESC_LEN;
	return 0;
}

static struct scsi_extent unmap_desc(const uint8_t *list, size_t i)
{
	const uint8_t *d =
		list + SCSI_UNMAP_HEADER_LEN + i * SCSI_UNMAP_DESC_LEN;

	return (struct scsi_extent){ .lba = wire_get64(d),
				     .blocks = wire_get32(d + 8) };
}

static int check_extent(const struct scsi_extent *extent, uint64_t blocks,
			struct scsi_sense *ret_sense)
{
	struct scsi_sense sense =
		scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_LBA_OUT_OF_RANGE);

	if (!extent->blocks ||
	    (extent->lba < blocks && extent->blocks <= blocks - extent->lba))
		return 0;
	sense.info_valid = true;
	sense.info = extent->lba < blocks ? blocks : extent->lba;
	return pages_refuse(sense, ret_sense);
}

static int check_unmap_list(const uint8_t *list, size_t cnt,
			    const struct scsi_disk_info *info,
			    struct scsi_sense *ret_sense)
{
	uint64_t limit = info->max_unmap_blocks;
	uint64_t total = 0;
	int err;

	/* FFFF FFFFh means "no limit" (SBC-3, Block Limits VPD page). */
	if (!limit || limit == UINT32_MAX)
		limit = UINT64_MAX;
	for (size_t i = 0; i < cnt; i++) {
		struct scsi_extent extent = unmap_desc(list, i);

		err = check_extent(&extent, info->blocks, ret_sense);
		if (err)
			return err;
		/* At most 4095 times 32 bits: this cannot overflow. */
		total += extent.blocks;
		if (total > limit)
			return pages_refuse(
				scsi_sense_data_field(
					(uint16_t)(SCSI_UNMAP_HEADER_LEN +
						   i * SCSI_UNMAP_DESC_LEN + 8),
					7),
				ret_sense);
	}
	return 0;
}

int scsi_unmap_decode(const void *buf, size_t len,
		      const struct scsi_disk_info *info,
		      struct scsi_extent *ret_extents, size_t max,
		      size_t *ret_cnt, struct scsi_sense *ret_sense)
{
	size_t cnt, n = 0;
	int err;

	if (!len) { /* PARAMETER LIST LENGTH 0 is not an error (SBC-3 5.28.1) */
		*ret_cnt = 0;
		return 0;
	}
	err = unmap_desc_cnt(buf, len, &cnt, ret_sense);
	if (err)
		return err;
	if (cnt > max || (info->max_unmap_descs && cnt > info->max_unmap_descs))
		return pages_refuse(scsi_sense_data_field(2, 7), ret_sense);
	err = check_unmap_list(buf, cnt, info, ret_sense);
	if (err)
		return err;
	for (size_t i = 0; i < cnt; i++) {
		struct scsi_extent extent = unmap_desc(buf, i);

		if (extent.blocks)
			ret_extents[n++] = extent;
	}
	*ret_cnt = n;
	return 0;
}

size_t scsi_lba_status_capacity(uint32_t alloc_len)
{
	const uint32_t least =
		SCSI_LBA_STATUS_HEADER_LEN + SCSI_LBA_STATUS_DESC_LEN;

	if (alloc_len < least)
		return 1;
	return (alloc_len - SCSI_LBA_STATUS_HEADER_LEN) /
	       SCSI_LBA_STATUS_DESC_LEN;
}

size_t scsi_lba_status_encode(const struct scsi_lba_range *ranges, size_t cnt,
			      void *buf, size_t cap)
{
	struct wire_out out = wire_out(buf, cap);
	uint8_t b[SCSI_LBA_STATUS_DESC_LEN] = { 0 };

	/* PARAMETER DATA LENGTH counts the bytes after itself. */
	wire_put32(b, (uint32_t)(cnt * SCSI_LBA_STATUS_DESC_LEN + 4));
	wire_give(&out, b, SCSI_LBA_STATUS_HEADER_LEN);
	for (size_t i = 0; i < cnt; i++) {
		wire_put64(b, ranges[i].lba);
		wire_put32(b + 8, ranges[i].blocks);
		b[12] = ranges[i].state & 0x0f;
		wire_give(&out, b, SCSI_LBA_STATUS_DESC_LEN);
	}
	return out.len;
}

/* Does @range start at @lba, and end without wrapping? */
static bool range_follows(const struct scsi_lba_range *range, uint64_t lba,
			  bool first)
{
	if (!range->blocks || range->blocks > UINT64_MAX - range->lba)
		return false;
	if (!first)
		return range->lba == lba;
	return range->lba <= lba && lba - range->lba < range->blocks;
}

int scsi_lba_status_decode(const void *buf, size_t len, uint64_t lba,
			   struct scsi_lba_range *ret_ranges, size_t max,
			   size_t *ret_cnt)
{
	const uint8_t *b = buf, *d;
	uint64_t announced;
	size_t cnt;

	if (len < SCSI_LBA_STATUS_HEADER_LEN)
		return -EBADMSG;
	announced = (uint64_t)wire_get32(b) + 4;
	if (len > announced)
		len = (size_t)announced;
	if (len < SCSI_LBA_STATUS_HEADER_LEN + SCSI_LBA_STATUS_DESC_LEN)
		return -EBADMSG;
	cnt = pages_min_size((len - SCSI_LBA_STATUS_HEADER_LEN) /
				     SCSI_LBA_STATUS_DESC_LEN,
			     max);
	for (size_t i = 0; i < cnt; i++) {
		struct scsi_lba_range *range = &ret_ranges[i];

		d = b + SCSI_LBA_STATUS_HEADER_LEN +
		    i * SCSI_LBA_STATUS_DESC_LEN;
		range->lba = wire_get64(d);
		range->blocks = wire_get32(d + 8);
		range->state = d[12] & 0x0f;
		if (!range_follows(range, lba, i == 0))
			return -EBADMSG;
		lba = range->lba + range->blocks;
	}
	*ret_cnt = cnt;
	return 0;
}

/* REPORT SUPPORTED OPERATION CODES. */

enum reporting_option {
	REPORT_ALL = 0,
	REPORT_OPCODE = 1,	   /* one without service actions */
	REPORT_SERVICE_ACTION = 2, /* one with a service action */
	REPORT_EITHER = 3,
};

#define SUPPORT_NONE	 1
#define SUPPORT_STANDARD 3

#define TIMEOUTS_LEN 12
#define DESC_LEN     8

/* No time is reported: 0 is "no indication". */
static const uint8_t timeouts_desc[TIMEOUTS_LEN] = { 0, TIMEOUTS_LEN - 2 };

static void put_command_desc(struct wire_out *out,
			     const struct scsi_cdb_info *row, bool rctd)
{
	uint8_t b[DESC_LEN] = { row->opcode };

	if (row->service_action != SCSI_SERVICE_ACTION_NONE) {
		wire_put16(b + 2, (uint16_t)row->service_action);
		b[5] |= 0x01; /* SERVACTV */
	}
	if (rctd)
		b[5] |= 0x02; /* CTDP */
	wire_put16(b + 6, row->cdb_len);
	wire_give(out, b, sizeof(b));
	if (rctd)
		wire_give(out, timeouts_desc, TIMEOUTS_LEN);
}

static void put_all_commands(const struct scsi_disk_info *info, bool rctd,
			     struct wire_out *out)
{
	size_t cnt = 0;
	uint8_t b[4];

	for (size_t i = 0; i < scsi_cdb_table_cnt; i++)
		cnt += scsi_cdb_exists(&scsi_cdb_table[i], info);
	wire_put32(b, (uint32_t)(cnt * (DESC_LEN + (rctd ? TIMEOUTS_LEN : 0))));
	wire_give(out, b, sizeof(b));
	for (size_t i = 0; i < scsi_cdb_table_cnt; i++) {
		if (scsi_cdb_exists(&scsi_cdb_table[i], info))
			put_command_desc(out, &scsi_cdb_table[i], rctd);
	}
}

static void put_one_command(const struct scsi_disk_info *info,
			    const struct scsi_cdb_info *row, bool rctd,
			    struct wire_out *out)
{
	uint8_t usage[SCSI_CDB_LEN];
	uint8_t b[4] = { 0 };

	if (!row || !scsi_cdb_exists(row, info)) {
		b[1] = SUPPORT_NONE;
		wire_give(out, b, sizeof(b));
		return;
	}
	b[1] = SUPPORT_STANDARD | (rctd ? 0x80 : 0);
	wire_put16(b + 2, row->cdb_len);
	wire_give(out, b, sizeof(b));
	memcpy(usage, row->usage, sizeof(usage));
	if (row->op == SCSI_OP_WRITE_SAME && !info->unmap)
		usage[1] &= (uint8_t)~CDB_UNMAP;
	if (row->op == SCSI_OP_START_STOP && !info->removable)
		usage[4] &= (uint8_t)~CDB_LOEJ;
	wire_give(out, usage, row->cdb_len);
	if (rctd)
		wire_give(out, timeouts_desc, TIMEOUTS_LEN);
}

/* Does the reporting option fit the requested operation code? */
static bool option_suits(const struct scsi_cmd *cmd)
{
	bool has = scsi_cdb_has_service_actions(cmd->requested_opcode);
	bool known = has || scsi_cdb_find(cmd->requested_opcode, 0);

	if (cmd->reporting_options == REPORT_OPCODE)
		return !has;
	if (cmd->reporting_options == REPORT_SERVICE_ACTION)
		return has || !known;
	return true;
}

int scsi_report_opcodes_encode(const struct scsi_disk_info *info,
			       const struct scsi_cmd *cmd, void *buf,
			       size_t cap, size_t *ret_len,
			       struct scsi_sense *ret_sense)
{
	struct wire_out out = wire_out(buf, cap);
	const struct scsi_cdb_info *row;

	if (cmd->reporting_options == REPORT_ALL) {
		put_all_commands(info, cmd->rctd, &out);
		*ret_len = out.len;
		return 0;
	}
	if (!option_suits(cmd))
		return pages_refuse(scsi_sense_cdb_field(2, 2), ret_sense);
	row = scsi_cdb_find(cmd->requested_opcode,
			    cmd->requested_service_action);
	/* Option 3: a command without service actions has service action 0
	 * (SPC-4). */
	if (row && row->service_action == SCSI_SERVICE_ACTION_NONE &&
	    cmd->reporting_options == REPORT_EITHER &&
	    cmd->requested_service_action)
		row = NULL;
	put_one_command(info, row, cmd->rctd, &out);
	*ret_len = out.len;
	return 0;
}

int scsi_report_opcode_decode(const void *buf, size_t len, bool *ret_supported)
{
	const uint8_t *b = buf;
	uint8_t support;

	if (len < 2)
		return -EBADMSG;
	support = b[1] & 7;
	/* 5 means "supported in a vendor specific manner" */
	*ret_supported = support == SUPPORT_STANDARD;
	return 0;
}
