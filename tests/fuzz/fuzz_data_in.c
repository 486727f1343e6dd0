/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of a target, as our initiator reads them: data-in and sense data. */
#include <errno.h>

#include "protocol/scsi_mode.h"
#include "protocol/scsi_pages.h"
#include "protocol/scsi_sense.h"
#include "protocol/scsi_vpd.h"
#include "tests/fuzz/fuzz.h"

static void check_text(const char *text, size_t size, bool is_name)
{
	FUZZ_CLAIM(memchr(text, '\0', size));
	for (const char *c = text; *c; c++) {
		FUZZ_CLAIM((unsigned char)*c >= ' ' && *c != 0x7f);
		FUZZ_CLAIM(!is_name || *c != '/');
	}
}

static void inquiry(const struct fuzz_input *in)
{
	struct scsi_inquiry inq;

	FUZZ_FILL(inq);
	if (scsi_inquiry_decode(in->p, in->left, &inq)) {
		FUZZ_UNTOUCHED(inq);
		return;
	}
	check_text(inq.vendor, sizeof(inq.vendor), false);
	check_text(inq.product, sizeof(inq.product), false);
	check_text(inq.revision, sizeof(inq.revision), false);
	FUZZ_CLAIM(inq.qualifier <= 7 && inq.device_type <= 31);
}

static void vpd_ids(const struct fuzz_input *in)
{
	char serial[SCSI_SERIAL_MAX + 1];
	struct scsi_vpd_ids ids;

	FUZZ_FILL(serial);
	if (scsi_vpd_decode_serial(in->p, in->left, serial))
		FUZZ_UNTOUCHED(serial);
	else
		check_text(serial, sizeof(serial), false);
	FUZZ_FILL(ids);
	if (scsi_vpd_decode_ids(in->p, in->left, &ids)) {
		FUZZ_UNTOUCHED(ids);
		return;
	}
	FUZZ_CLAIM(ids.naa_len == 0 || ids.naa_len == 8 || ids.naa_len == 16);
	check_text(ids.name, sizeof(ids.name), true);
	check_text(ids.t10_vendor, sizeof(ids.t10_vendor), false);
	FUZZ_CLAIM(ids.port_len != 1 && (!ids.port_len || ids.port[0]));
	FUZZ_CLAIM(ids.has_port_group || !ids.port_group);
}

static void vpd_limits(const struct fuzz_input *in)
{
	struct scsi_block_limits limits;
	struct scsi_provisioning prov;
	uint16_t rate;

	FUZZ_FILL(limits);
	if (scsi_vpd_decode_limits(in->p, in->left, &limits))
		FUZZ_UNTOUCHED(limits);
	FUZZ_FILL(prov);
	if (scsi_vpd_decode_provisioning(in->p, in->left, &prov))
		FUZZ_UNTOUCHED(prov);
	FUZZ_FILL(rate);
	if (scsi_vpd_decode_rotation(in->p, in->left, &rate))
		FUZZ_UNTOUCHED(rate);
}

static void vpd(struct fuzz_input *in)
{
	uint8_t page = fuzz_u8(in);

	if (scsi_vpd_lists(in->p, in->left, page))
		FUZZ_CLAIM(in->left > 4 &&
			   memchr(in->p + 4, page, in->left - 4));
	vpd_ids(in);
	vpd_limits(in);
}

static void check_capacity(const struct scsi_capacity *cap)
{
	FUZZ_CLAIM(cap->blocks > 0 && cap->block_size >= 512 &&
		   cap->block_size <= 65536);
	FUZZ_CLAIM(cap->blocks <= (uint64_t)INT64_MAX / cap->block_size);
}

/* Encoding the decoded value again gives data with the same meaning. */
static void capacity_again(const struct scsi_capacity *cap)
{
	const struct scsi_disk_info info = {
		.blocks = cap->blocks,
		.block_size = cap->block_size,
		.physical_exp = cap->physical_exp,
		.unmap = cap->lbpme,
		.lbprz = cap->lbprz,
	};
	uint8_t b[SCSI_READ_CAPACITY_16_LEN];
	struct scsi_capacity again;

	scsi_read_capacity_16_encode(&info, b, sizeof(b));
	FUZZ_CLAIM(!scsi_read_capacity_16_decode(b, sizeof(b), &again));
	FUZZ_CLAIM(again.blocks == cap->blocks &&
		   again.block_size == cap->block_size &&
		   again.physical_exp == cap->physical_exp &&
		   again.lbpme == cap->lbpme);
	scsi_read_capacity_10_encode(&info, b, sizeof(b));
	if (scsi_read_capacity_10_decode(b, SCSI_READ_CAPACITY_10_LEN, &again))
		FUZZ_CLAIM(cap->blocks > UINT32_MAX);
	else
		FUZZ_CLAIM(again.blocks == cap->blocks);
}

static void capacity(const struct fuzz_input *in)
{
	struct scsi_capacity cap;

	FUZZ_FILL(cap);
	if (scsi_read_capacity_10_decode(in->p, in->left, &cap))
		FUZZ_UNTOUCHED(cap);
	else
		check_capacity(&cap);
	FUZZ_FILL(cap);
	if (scsi_read_capacity_16_decode(in->p, in->left, &cap)) {
		FUZZ_UNTOUCHED(cap);
		return;
	}
	check_capacity(&cap);
	capacity_again(&cap);
}

static void port_groups(const struct fuzz_input *in)
{
	struct scsi_port_group groups[4];
	size_t total;

	FUZZ_FILL(groups);
	if (scsi_report_port_groups_decode(in->p, in->left, groups, 4, &total))
		return;
	FUZZ_CLAIM(total <= in->left / 8);
	for (size_t i = 0; i < total && i < 4; i++)
		FUZZ_CLAIM(groups[i].state <= 0xf);
}

static void report_luns(struct fuzz_input *in)
{
	uint64_t luns[16], again[16];
	size_t max = fuzz_u8(in) % 17;
	size_t cnt, again_cnt;
	uint8_t b[8 + sizeof(luns)];
	uint32_t total;

	port_groups(in);
	FUZZ_FILL(luns);
	if (scsi_report_luns_decode(in->p, in->left, luns, max, &cnt, &total)) {
		FUZZ_UNTOUCHED(luns);
		return;
	}
	FUZZ_CLAIM(cnt <= max && cnt <= total && 8 + 8 * cnt <= in->left);
	FUZZ_CLAIM(scsi_report_luns_encode(luns, cnt, b, sizeof(b)) ==
		   8 + 8 * cnt);
	FUZZ_CLAIM(!scsi_report_luns_decode(b, 8 + 8 * cnt, again, 16,
					    &again_cnt, &total));
	FUZZ_CLAIM(again_cnt == cnt && total == cnt &&
		   !memcmp(luns, again, 8 * cnt));
}

static void mode(const struct fuzz_input *in)
{
	struct scsi_mode m;

	FUZZ_FILL(m);
	if (scsi_mode_sense_6_decode(in->p, in->left, &m))
		FUZZ_UNTOUCHED(m);
	else
		FUZZ_CLAIM(m.has_caching || !m.wce);
	FUZZ_FILL(m);
	if (scsi_mode_sense_10_decode(in->p, in->left, &m))
		FUZZ_UNTOUCHED(m);
	else
		FUZZ_CLAIM(m.has_caching || !m.wce);
}

static void lba_status(struct fuzz_input *in)
{
	struct scsi_lba_range ranges[16];
	uint64_t lba = fuzz_u64(in);
	size_t max = 1 + fuzz_u8(in) % 16;
	uint8_t b[SCSI_LBA_STATUS_HEADER_LEN + 16 * SCSI_LBA_STATUS_DESC_LEN];
	uint64_t at = lba;
	size_t cnt, len;

	FUZZ_CLAIM(scsi_lba_status_capacity((uint32_t)in->left) >= 1);
	if (scsi_lba_status_decode(in->p, in->left, lba, ranges, max, &cnt))
		return;
	FUZZ_CLAIM(cnt >= 1 && cnt <= max);
	FUZZ_CLAIM(ranges[0].lba <= lba &&
		   lba - ranges[0].lba < ranges[0].blocks);
	for (size_t i = 0; i < cnt; i++) {
		FUZZ_CLAIM(ranges[i].blocks && (!i || ranges[i].lba == at));
		at = ranges[i].lba + ranges[i].blocks;
		FUZZ_CLAIM(at > ranges[i].lba);
	}
	len = scsi_lba_status_encode(ranges, cnt, b, sizeof(b));
	FUZZ_CLAIM(!scsi_lba_status_decode(b, len, lba, ranges, max, &cnt));
}

static void check_same_sense(const struct scsi_sense *a,
			     const struct scsi_sense *b)
{
	FUZZ_CLAIM(a->key == b->key && a->code == b->code);
	FUZZ_CLAIM(a->pointer == b->pointer && a->info_valid == b->info_valid);
	if (a->pointer != SCSI_POINTER_NONE)
		FUZZ_CLAIM(a->byte_no == b->byte_no && a->bit_no == b->bit_no);
	FUZZ_CLAIM(!a->info_valid || a->info == b->info);
	FUZZ_CLAIM(a->progress_valid == b->progress_valid);
	FUZZ_CLAIM(!a->progress_valid || a->progress == b->progress);
}

static void check_texts(const struct scsi_sense *s)
{
	char text[SCSI_SENSE_TEXT_LEN];

	FUZZ_CLAIM(*scsi_key_name(s->key));
	FUZZ_CLAIM(scsi_sense_text(s, text) == text);
	FUZZ_CLAIM(memchr(text, '\0', sizeof(text)) && *text);
	FUZZ_CLAIM(scsi_sense_to_errno(s) <= 0);
}

static void sense(struct fuzz_input *in)
{
	uint8_t b[SCSI_SENSE_MAX_LEN];
	struct scsi_sense s, again;
	uint8_t status = fuzz_u8(in);
	size_t cap = fuzz_u8(in) % (sizeof(b) + 1);
	size_t len;

	FUZZ_CLAIM(*scsi_status_name(status));
	FUZZ_FILL(s);
	if (scsi_sense_decode(in->p, in->left, &s)) {
		FUZZ_UNTOUCHED(s);
		return;
	}
	check_texts(&s);
	len = scsi_sense_encode(&s, SCSI_SENSE_DESCRIPTOR, b, sizeof(b));
	FUZZ_CLAIM(len <= sizeof(b));
	FUZZ_CLAIM(!scsi_sense_decode(b, len, &again));
	check_same_sense(&s, &again);
	len = scsi_sense_encode(&s, SCSI_SENSE_FIXED, b, sizeof(b));
	FUZZ_CLAIM(len <= sizeof(b) && !scsi_sense_decode(b, len, &again));
	if (!s.info_valid || s.info <= UINT32_MAX)
		check_same_sense(&s, &again);
	FUZZ_CLAIM(scsi_sense_encode(&s, SCSI_SENSE_FIXED, b, cap) == len);
}

/* Every failure of a store has sense data that an initiator can read. */
static void from_errno(struct fuzz_input *in)
{
	int err = -(int)(fuzz_u8(in) & 0x7f);
	struct scsi_sense s = scsi_sense_from_errno(
		err, fuzz_bool(in) ? SCSI_MEDIUM_READ : SCSI_MEDIUM_WRITE);

	FUZZ_CLAIM(s.key != SCSI_KEY_NO_SENSE && scsi_asc_text(s.code));
	check_texts(&s);
}

static void opcode(const struct fuzz_input *in)
{
	bool supported;

	FUZZ_FILL(*(uint8_t *)&supported);
	if (scsi_report_opcode_decode(in->p, in->left, &supported))
		FUZZ_CLAIM(in->left < 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);

	switch (fuzz_u8(&in) % 9) {
	case 0:
		inquiry(&in);
		break;
	case 1:
		vpd(&in);
		break;
	case 2:
		capacity(&in);
		break;
	case 3:
		report_luns(&in);
		break;
	case 4:
		mode(&in);
		break;
	case 5:
		lba_status(&in);
		break;
	case 6:
		sense(&in);
		break;
	case 7:
		from_errno(&in);
		break;
	default:
		opcode(&in);
	}
	return 0;
}
