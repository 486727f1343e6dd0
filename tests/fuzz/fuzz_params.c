/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target's side of parameter data: the lists of UNMAP, MODE SELECT,
 * PERSISTENT RESERVE OUT and SET TARGET PORT GROUPS, and the answers that are
 * built from tables.
 */
#include <errno.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_log.h"
#include "protocol/scsi_mode.h"
#include "protocol/scsi_pages.h"
#include "protocol/scsi_pr.h"
#include "tests/fuzz/fuzz_disk_info.h"

#define ANSWER_MAX 4096

static void check_refusal(int err, const struct scsi_sense *sense, size_t len)
{
	FUZZ_CLAIM(err == -EINVAL);
	FUZZ_CLAIM(sense->key == SCSI_KEY_ILLEGAL_REQUEST);
	FUZZ_CLAIM(scsi_asc_text(sense->code));
	if (sense->pointer == SCSI_POINTER_DATA)
		FUZZ_CLAIM(sense->byte_no < len);
}

/* ---- UNMAP ---- */

static void unmap_again(const struct scsi_extent *extents, size_t cnt,
			const struct scsi_disk_info *info)
{
	static uint8_t list[SCSI_UNMAP_HEADER_LEN +
			    FUZZ_UNMAP_DESCS * SCSI_UNMAP_DESC_LEN];
	struct scsi_extent again[FUZZ_UNMAP_DESCS];
	struct scsi_sense sense;
	size_t again_cnt;
	size_t len = scsi_unmap_encode(extents, cnt, list, sizeof(list));

	FUZZ_CLAIM(len <= sizeof(list));
	FUZZ_CLAIM(!scsi_unmap_decode(list, len, info, again, FUZZ_UNMAP_DESCS,
				      &again_cnt, &sense));
	FUZZ_CLAIM(again_cnt == cnt);
	for (size_t i = 0; i < cnt; i++)
		FUZZ_CLAIM(again[i].lba == extents[i].lba &&
			   again[i].blocks == extents[i].blocks);
}

static void unmap(struct fuzz_input *in, const struct scsi_disk_info *info)
{
	struct scsi_extent extents[FUZZ_UNMAP_DESCS];
	struct scsi_sense sense;
	size_t cnt;
	int err;

	FUZZ_FILL(extents);
	FUZZ_FILL(cnt);
	err = scsi_unmap_decode(in->p, in->left, info, extents,
				FUZZ_UNMAP_DESCS, &cnt, &sense);
	if (err) {
		FUZZ_UNTOUCHED(extents);
		FUZZ_UNTOUCHED(cnt);
		check_refusal(err, &sense, in->left);
		return;
	}
	FUZZ_CLAIM(cnt <= FUZZ_UNMAP_DESCS);
	for (size_t i = 0; i < cnt; i++)
		FUZZ_CLAIM(extents[i].blocks && extents[i].lba < info->blocks &&
			   extents[i].blocks <= info->blocks - extents[i].lba);
	unmap_again(extents, cnt, info);
}

/* ---- MODE SELECT ---- */

static void mode_select(struct fuzz_input *in,
			const struct scsi_disk_info *info)
{
	uint8_t how = fuzz_u8(in);
	struct scsi_cmd cmd = {
		.op = how & 1 ? SCSI_OP_MODE_SELECT_6 : SCSI_OP_MODE_SELECT_10,
		.save = how & 2,
	};
	const struct scsi_modes now = scsi_modes_current(info);
	const struct scsi_modes may = info->mode_changeable;
	struct scsi_modes modes;
	struct scsi_sense sense;
	int err;

	FUZZ_FILL(modes);
	err = scsi_mode_select_decode(info, &cmd, in->p, in->left, &modes,
				      &sense);
	if (err) {
		FUZZ_UNTOUCHED(modes);
		check_refusal(err, &sense, in->left);
		return;
	}
	FUZZ_CLAIM(may.wce || modes.wce == now.wce);
	FUZZ_CLAIM(may.d_sense || modes.d_sense == now.d_sense);
	FUZZ_CLAIM(may.swp || modes.swp == now.swp);
}

/* MODE SELECT accepts the answer of MODE SENSE, which changes nothing. */
static void mode_back(const struct scsi_disk_info *info,
		      const struct scsi_cmd *asked, uint8_t *b, size_t len)
{
	bool is_6 = asked->op == SCSI_OP_MODE_SENSE_6;
	struct scsi_cmd cmd = {
		.op = is_6 ? SCSI_OP_MODE_SELECT_6 : SCSI_OP_MODE_SELECT_10,
	};
	const struct scsi_modes now = scsi_modes_current(info);
	size_t page = is_6 ? 4u + b[3] : 8u + wire_get16(b + 6);
	struct scsi_modes modes;
	struct scsi_sense sense;

	if (asked->page_control != SCSI_PC_CURRENT)
		return;
	/* MODE DATA LENGTH and PS are reserved on the way back. */
	memset(b, 0, is_6 ? 1 : 2);
	for (; page < len; page += 2u + b[page + 1])
		b[page] &= 0x7f;
	FUZZ_CLAIM(
		!scsi_mode_select_decode(info, &cmd, b, len, &modes, &sense));
	FUZZ_CLAIM(scsi_modes_equal(&modes, &now));
}

static void mode_sense(struct fuzz_input *in, const struct scsi_disk_info *info)
{
	uint8_t how = fuzz_u8(in);
	struct scsi_cmd cmd = {
		.op = how & 1 ? SCSI_OP_MODE_SENSE_6 : SCSI_OP_MODE_SENSE_10,
		.dbd = how & 2,
		.llbaa = how & 1 ? false : how & 4,
		.page_control = how >> 4 & 3,
		.page_code = fuzz_u8(in) & 63,
		.subpage_code = fuzz_u8(in),
	};
	uint8_t all[SCSI_MODE_MAX_LEN], cut[SCSI_MODE_MAX_LEN];
	size_t cap = fuzz_u8(in) % sizeof(cut);
	struct scsi_sense sense;
	struct scsi_mode mode;
	size_t len, len_cut;

	if (scsi_mode_sense_encode(info, &cmd, all, sizeof(all), &len, &sense))
		return;
	FUZZ_CLAIM(len <= sizeof(all));
	FUZZ_FILL(cut);
	FUZZ_CLAIM(!scsi_mode_sense_encode(info, &cmd, cut, cap, &len_cut,
					   &sense));
	FUZZ_CLAIM(len_cut == len);
	FUZZ_CLAIM(!memcmp(all, cut, cap < len ? cap : len));
	FUZZ_CLAIM(fuzz_is_filled(cut + cap, sizeof(cut) - cap));
	FUZZ_CLAIM(!(how & 1 ? scsi_mode_sense_6_decode(all, len, &mode)
			     : scsi_mode_sense_10_decode(all, len, &mode)));
	FUZZ_CLAIM(mode.write_protected == (info->read_only || info->swp));
	if (mode.has_caching && cmd.page_control == SCSI_PC_CURRENT)
		FUZZ_CLAIM(mode.wce == info->write_cache);
	mode_back(info, &cmd, all, len);
}

/* ---- PERSISTENT RESERVE OUT ---- */

static void pr_out(struct fuzz_input *in, uint8_t action)
{
	uint8_t byte = fuzz_u8(in);
	uint8_t how = fuzz_u8(in);
	const struct scsi_pr_unit unit = {
		.target_ports = how & 2 ? 2 : 1,
		.can_aptpl = how & 1,
	};
	struct scsi_pr_request req;
	struct scsi_sense sense;
	int err;

	FUZZ_FILL(req);
	err = scsi_pr_out_decode(action, byte >> 4, byte & 15, in->p, in->left,
				 &unit, &req, &sense);
	if (err) {
		FUZZ_UNTOUCHED(req);
		check_refusal(err, &sense, in->left);
		return;
	}
	FUZZ_CLAIM(unit.can_aptpl || !req.aptpl);
	FUZZ_CLAIM(req.target_port <= unit.target_ports);
	FUZZ_CLAIM(req.port_cnt <= SCSI_PR_MAX + 1);
	FUZZ_CLAIM(fuzz_lies_in(req.ports ? req.ports : in->p,
				req.port_cnt * SCSI_PR_TRANSPORT_ID_LEN, in->p,
				in->left));
	FUZZ_CLAIM(action != SCSI_PR_REGISTER_AND_MOVE || req.port_cnt == 1);
}

/* ---- SET TARGET PORT GROUPS ---- */

/* With one group, and as group 1 of 2, of which 2 is active. */
static void set_port_groups(const struct fuzz_input *in)
{
	struct scsi_disk_info one = { 0 };
	struct scsi_disk_info two = { .groups = { .cnt = 2, .own = 1 } };
	enum scsi_group_wish wish;
	struct scsi_sense sense;
	int err;

	two.groups.active = 2;
	err = scsi_set_port_groups_decode(&two, in->p, in->left, &wish, &sense);
	if (err)
		check_refusal(err, &sense, in->left);
	FUZZ_CLAIM(!err || wish == SCSI_GROUP_STAYS);
	err = scsi_set_port_groups_decode(&one, in->p, in->left, &wish, &sense);
	FUZZ_CLAIM(wish == SCSI_GROUP_STAYS);
	if (err) {
		check_refusal(err, &sense, in->left);
		return;
	}
	FUZZ_CLAIM(in->left % 4 == 0);
	for (size_t at = 0; at < in->left; at += 4)
		FUZZ_CLAIM(wire_get32(in->p + at) ==
			   (at ? SCSI_TARGET_PORT_GROUP : 0));
}

/* ---- lists that are checked without the disk ---- */

#define SETS_PORT_GROUPS 0x80

static void list(struct fuzz_input *in)
{
	uint8_t which = fuzz_u8(in);

	if (which & SETS_PORT_GROUPS)
		set_port_groups(in);
	else
		pr_out(in, which & 7);
}

/* ---- answers: as much as fits, with the same length field ---- */

struct answer {
	uint8_t all[ANSWER_MAX];
	uint8_t cut[ANSWER_MAX];
	size_t cap;
	size_t len;
	size_t len_cut;
};

static void check_answer(const struct answer *a)
{
	FUZZ_CLAIM(a->len <= sizeof(a->all) && a->len == a->len_cut);
	FUZZ_CLAIM(!memcmp(a->all, a->cut, a->cap < a->len ? a->cap : a->len));
	FUZZ_CLAIM(fuzz_is_filled(a->cut + a->cap, sizeof(a->cut) - a->cap));
}

static int answer_judged(const struct scsi_disk_info *info,
			 const struct scsi_cmd *cmd, uint8_t kind, void *buf,
			 size_t cap, size_t *ret_len)
{
	struct scsi_sense sense;

	switch (kind) {
	case 0:
		return scsi_vpd_encode(info, cmd->page_code, buf, cap, ret_len,
				       &sense);
	case 1:
		return scsi_report_opcodes_encode(info, cmd, buf, cap, ret_len,
						  &sense);
	default:
		return scsi_log_sense_encode(info, cmd->lba, cmd, buf, cap,
					     ret_len, &sense);
	}
}

static size_t answer_plain(const struct scsi_disk_info *info,
			   const struct scsi_cmd *cmd, uint8_t kind, void *buf,
			   size_t cap)
{
	switch (kind) {
	case 3:
		return scsi_inquiry_encode(info, buf, cap);
	case 4:
		return scsi_inquiry_encode_absent(buf, cap);
	case 5:
		return scsi_report_port_groups_encode(info, cmd->ext_header,
						      buf, cap);
	case 6:
		return scsi_report_tmf_encode(/* lun_reset= */ true, cmd->repd,
					      buf, cap);
	case 7:
		return scsi_read_capacity_10_encode(info, buf, cap);
	default:
		return scsi_read_capacity_16_encode(info, buf, cap);
	}
}

static void answer(struct fuzz_input *in, const struct scsi_disk_info *info)
{
	static struct answer a;
	uint8_t kind = fuzz_u8(in) % 9;
	uint8_t how = fuzz_u8(in);
	struct scsi_cmd cmd = {
		.page_code = fuzz_u8(in),
		.subpage_code = fuzz_u8(in),
		.page_control = how & 3,
		.parameter = how & 4 ? fuzz_u16(in) : 0,
		.rctd = how & 8,
		.ext_header = how & 8,
		.repd = how & 8,
		.reporting_options = how >> 4 & 3,
		.requested_opcode = fuzz_u8(in),
		.requested_service_action = how & 64 ? fuzz_u8(in) : 0,
		.lba = fuzz_u64(in),
	};
	size_t cap = fuzz_u16(in) % (sizeof(a.cut) / 4);

	FUZZ_FILL(a.cut);
	a.cap = cap;
	if (kind < 3) {
		if (answer_judged(info, &cmd, kind, a.all, sizeof(a.all),
				  &a.len))
			return;
		FUZZ_CLAIM(!answer_judged(info, &cmd, kind, a.cut, cap,
					  &a.len_cut));
	} else {
		a.len = answer_plain(info, &cmd, kind, a.all, sizeof(a.all));
		a.len_cut = answer_plain(info, &cmd, kind, a.cut, cap);
	}
	check_answer(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);
	uint8_t what = fuzz_u8(&in) % 5;
	struct scsi_disk_info info;

	if (what == 2) {
		list(&in);
		return 0;
	}
	fuzz_disk_info(&in, &info);
	if (what == 0)
		unmap(&in, &info);
	else if (what == 1)
		mode_select(&in, &info);
	else if (what == 3)
		mode_sense(&in, &info);
	else
		answer(&in, &info);
	return 0;
}
