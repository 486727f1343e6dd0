/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/scsi_vpd.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "protocol/scsi_cdb.h"
#include "protocol/wire.h"

#define PAGE_HEADER_LEN 4

#define DESIGNATOR_HEADER_LEN 4

/* DESIGNATOR TYPE, ASSOCIATION and CODE SET (SPC-4, designation descriptor). */
enum designator_type {
	DESIGNATOR_T10_VENDOR = 1,
	DESIGNATOR_EUI_64 = 2,
	DESIGNATOR_NAA = 3,
	DESIGNATOR_RELATIVE_PORT = 4,
	DESIGNATOR_PORT_GROUP = 5,
	DESIGNATOR_NAME_STRING = 8,
};

#define ASSOCIATION_UNIT 0
#define ASSOCIATION_PORT 1

#define CODE_SET_BINARY 1
#define CODE_SET_ASCII	2
#define CODE_SET_UTF8	3

#define PROTOCOL_ID_SRP 4

/* Version descriptors (SPC-4 annex, version descriptor values). */
static const uint16_t version_descriptors[] = {
	0x00a0, /* SAM-5 */
	0x0940, /* SRP */
	0x0460, /* SPC-4 */
	0x04c0, /* SBC-3 */
};

/* SPC-4, VERSION field of INQUIRY. */
#define VERSION_SPC4 6

static_assert(SCSI_VOLUME_NAME_MAX + 1 + SCSI_SERIAL_MAX + 8 <= UINT8_MAX,
	      "the T10 vendor designator has a length of one byte");

static size_t put_out(const void *data, size_t len, void *buf, size_t cap)
{
	if (cap)
		memcpy(buf, data, len < cap ? len : cap);
	return len;
}

static bool is_printable(uint8_t c)
{
	return c >= 0x20 && c <= 0x7e;
}

/* Left-aligned ASCII, as in INQUIRY: @text is cut, or padded with spaces. */
static void put_ascii(uint8_t *field, size_t len, const char *text)
{
	size_t n = strnlen(text, len);

	for (size_t i = 0; i < n; i++)
		field[i] =
			is_printable((uint8_t)text[i]) ? (uint8_t)text[i] : '_';
	memset(field + n, ' ', len - n);
}

/* Bytes of the volume name that are reported. A UTF-8 character is not cut in
 * two. */
static size_t name_len(const char *name)
{
	size_t len = strnlen(name, SCSI_VOLUME_NAME_MAX + 1);

	if (len <= SCSI_VOLUME_NAME_MAX)
		return len;
	len = SCSI_VOLUME_NAME_MAX;
	while (len && ((uint8_t)name[len] & 0xc0) == 0x80)
		len--;
	return len;
}

/* FNV-1a from two starts, then mixed. It is not secret, only well
 * distributed. */
static uint64_t hash_text(const char *text, uint64_t h)
{
	for (; *text; text++) {
		h ^= (uint8_t)*text;
		h *= 0x100000001b3u;
	}
	h ^= h >> 30;
	h *= 0xbf58476d1ce4e5b9u;
	h ^= h >> 27;
	h *= 0x94d049bb133111ebu;
	return h ^ h >> 31;
}

void scsi_naa_make(const char *identity, uint8_t ret_naa[SCSI_NAA_LEN])
{
	/* "RDM". The local bit is set (02h of the first byte), so no company
	 * has it. */
	const uint32_t company = 0x52444d;
	uint64_t specific = hash_text(identity, 0xcbf29ce484222325u);

	ret_naa[0] = (uint8_t)(0x60 | company >> 20);
	ret_naa[1] = (uint8_t)(company >> 12);
	ret_naa[2] = (uint8_t)(company >> 4);
	ret_naa[3] = (uint8_t)((company & 0xf) << 4 | (specific >> 32 & 0xf));
	wire_put32(ret_naa + 4, (uint32_t)specific);
	wire_put64(ret_naa + 8, hash_text(identity, 0x6c62272e07bb0142u));
}

void scsi_text_digest(const char *text, uint8_t ret_digest[16])
{
	wire_put64(ret_digest, hash_text(text, 0xcbf29ce484222325u));
	wire_put64(ret_digest + 8, hash_text(text, 0x6c62272e07bb0142u));
}

static void put_inquiry(uint8_t *b, const char *product)
{
	b[2] = VERSION_SPC4;
	b[3] = 0x02; /* RESPONSE DATA FORMAT */
	b[4] = SCSI_INQUIRY_LEN - 5;
	b[7] = 0x02; /* CMDQUE */
	put_ascii(b + 8, 8, SCSI_OUR_VENDOR);
	put_ascii(b + 16, 16, product);
	put_ascii(b + 32, 4, SCSI_OUR_REVISION);
}

size_t scsi_inquiry_encode(const struct scsi_disk_info *info, void *buf,
			   size_t cap)
{
	uint8_t b[SCSI_INQUIRY_LEN] = { 0 };
	size_t cnt = sizeof(version_descriptors) / sizeof(uint16_t);

	put_inquiry(b, info->name);
	b[1] = info->removable ? 0x80 : 0;
	/* TPGS: implicit and explicit, so SET TARGET PORT GROUPS is supported
	 * (SPC-4). 3PC: EXTENDED COPY. */
	b[5] = 0x38;
	for (size_t i = 0; i < cnt; i++)
		wire_put16(b + 58 + 2 * i, version_descriptors[i]);
	return put_out(b, sizeof(b), buf, cap);
}

size_t scsi_inquiry_encode_absent(void *buf, size_t cap)
{
	uint8_t b[SCSI_INQUIRY_LEN] = { 0 };

	put_inquiry(b, "");
	b[0] = 0x7f; /* no unit can be here; the device type is unknown */
	return put_out(b, sizeof(b), buf, cap);
}

/* Each function fills @b, which is all zero, from byte 4 on. It returns the
 * length of the page. */
static size_t put_supported_pages(const struct scsi_disk_info *info,
				  uint8_t *b);

static size_t put_serial(const struct scsi_disk_info *info, uint8_t *b)
{
	size_t len = strnlen(info->serial, SCSI_SERIAL_MAX);

	/* Linux treats a page without a body as an error. */
	if (!len)
		len = 1;
	put_ascii(b + PAGE_HEADER_LEN, len, info->serial);
	return PAGE_HEADER_LEN + len;
}

static size_t put_naa(const struct scsi_disk_info *info, uint8_t *d)
{
	d[0] = CODE_SET_BINARY;
	d[1] = ASSOCIATION_UNIT << 4 | DESIGNATOR_NAA;
	d[3] = SCSI_NAA_LEN;
	memcpy(d + 4, info->naa, SCSI_NAA_LEN);
	return DESIGNATOR_HEADER_LEN + SCSI_NAA_LEN;
}

static uint8_t text_code_set(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!is_printable((uint8_t)text[i]))
			return CODE_SET_UTF8;
	}
	return CODE_SET_ASCII;
}

/*
 * "name:serial", the form of LIO. Two volumes of the same name on two targets
 * have different serial numbers, so their designators differ, as they must.
 */
static size_t put_t10_vendor(const struct scsi_disk_info *info, uint8_t *d)
{
	size_t name = name_len(info->name);
	size_t serial = strnlen(info->serial, SCSI_SERIAL_MAX);
	uint8_t *p = d + DESIGNATOR_HEADER_LEN;

	d[0] = text_code_set(info->name, name);
	d[1] = ASSOCIATION_UNIT << 4 | DESIGNATOR_T10_VENDOR;
	d[3] = (uint8_t)(8 + name + 1 + serial);
	put_ascii(p, 8, SCSI_OUR_VENDOR);
	memcpy(p + 8, info->name, name);
	p[8 + name] = ':';
	put_ascii(p + 8 + name + 1, serial, info->serial);
	return DESIGNATOR_HEADER_LEN + d[3];
}

static size_t put_relative_port(const struct scsi_disk_info *info, uint8_t *d)
{
	d[0] = PROTOCOL_ID_SRP << 4 | CODE_SET_BINARY;
	/* 80h: PROTOCOL IDENTIFIER is valid. */
	d[1] = 0x80 | ASSOCIATION_PORT << 4 | DESIGNATOR_RELATIVE_PORT;
	d[3] = 4;
	wire_put16(d + 6, info->target_port);
	return DESIGNATOR_HEADER_LEN + 4;
}

static size_t put_port_group(const struct scsi_disk_info *info, uint8_t *d)
{
	uint16_t own =
		info->groups.cnt ? info->groups.own : SCSI_TARGET_PORT_GROUP;

	d[0] = PROTOCOL_ID_SRP << 4 | CODE_SET_BINARY;
	d[1] = 0x80 | ASSOCIATION_PORT << 4 | DESIGNATOR_PORT_GROUP;
	d[3] = 4;
	wire_put16(d + 6, own);
	return DESIGNATOR_HEADER_LEN + 4;
}

static size_t put_identification(const struct scsi_disk_info *info, uint8_t *b)
{
	size_t len = PAGE_HEADER_LEN;

	len += put_naa(info, b + len);
	len += put_t10_vendor(info, b + len);
	len += put_relative_port(info, b + len);
	len += put_port_group(info, b + len);
	return len;
}

static size_t put_extended_inquiry(const struct scsi_disk_info *info,
				   uint8_t *b)
{
	b[5] = 0x07; /* HEADSUP, ORDSUP, SIMPSUP: task attributes */
	/* V_SUP: there is a volatile cache, enabled (WCE) or not */
	b[6] = info->mode_default.wce ? 0x01 : 0;
	b[13] = SCSI_SENSE_MAX_LEN;
	return 64;
}

/* Third-party copy descriptors (SPC-4, Third-party Copy VPD page). Their
 * lengths are multiples of four. Each function returns the length of its
 * descriptor. */
static size_t put_copy_head(uint8_t *d, uint16_t type, uint16_t len)
{
	wire_put16(d, type);
	wire_put16(d + 2, len);
	return 4 + (size_t)len;
}

static size_t put_copy_commands(uint8_t *d)
{
	/* operation code, number of service actions, service actions */
	static const uint8_t list[] = { 0x83, 1, 0x00, 0x84, 2, 0x00, 0x03 };

	d[4] = sizeof(list);
	memcpy(d + 5, list, sizeof(list));
	return put_copy_head(d, 0x0001, 8);
}

static size_t put_copy_parameters(uint8_t *d)
{
	wire_put16(d + 8, SCSI_COPY_TARGETS);
	wire_put16(d + 10, SCSI_COPY_SEGMENTS);
	wire_put32(d + 12, SCSI_COPY_DESCRIPTORS_LEN);
	return put_copy_head(d, 0x0004, 28);
}

static size_t put_copy_descriptors(uint8_t *d)
{
	d[4] = 2;
	d[5] = 0x02; /* block to block */
	d[6] = 0xe4; /* identification descriptor */
	return put_copy_head(d, 0x0008, 4);
}

/* Besides the descriptors of the list, FFFFh: this logical unit. */
static size_t put_copy_ids(uint8_t *d)
{
	wire_put16(d + 4, 2);
	wire_put16(d + 6, 0xffff);
	return put_copy_head(d, 0x000c, 4);
}

static size_t put_copy_operations(uint8_t *d)
{
	wire_put32(d + 4, SCSI_COPY_CONCURRENT);
	wire_put32(d + 8, SCSI_COPY_CONCURRENT);
	wire_put32(d + 12, SCSI_COPY_SEGMENT_MAX);
	d[16] = 9; /* DATA SEGMENT GRANULARITY: 512 bytes */
	return put_copy_head(d, 0x8001, 32);
}

static size_t put_third_party_copy(const struct scsi_disk_info *info,
				   uint8_t *b)
{
	size_t len = PAGE_HEADER_LEN;

	len += put_copy_commands(b + len);
	len += put_copy_parameters(b + len);
	len += put_copy_descriptors(b + len);
	len += put_copy_ids(b + len);
	len += put_copy_operations(b + len);
	return len;
}

static void put_unmap_limits(const struct scsi_disk_info *info, uint8_t *b)
{
	wire_put32(b + 20, info->max_unmap_blocks);
	wire_put32(b + 24, info->max_unmap_descs);
	wire_put32(b + 28, info->unmap_granularity_blocks);
	/* UGAVALID is the top bit of the alignment. */
	if (info->unmap_granularity_blocks)
		wire_put32(b + 32, 0x80000000u | info->unmap_alignment_blocks);
}

static size_t put_block_limits(const struct scsi_disk_info *info, uint8_t *b)
{
	b[4] = info->write_same_nonzero ? 0x01 : 0;
	b[5] = info->max_caw_blocks;
	wire_put16(b + 6, info->optimal_granularity_blocks);
	wire_put32(b + 8, info->max_transfer_blocks);
	wire_put32(b + 12, info->optimal_transfer_blocks);
	if (info->unmap)
		put_unmap_limits(info, b);
	wire_put64(b + 36, info->max_write_same_blocks);
	/* No alignment, granularity or boundary of atomic writes. */
	wire_put32(b + 44, info->max_atomic_blocks);
	return 64;
}

static size_t put_characteristics(const struct scsi_disk_info *info, uint8_t *b)
{
	/* MEDIUM ROTATION RATE: 1 means not rotating, 0 not reported */
	wire_put16(b + 4, info->rotational ? 0 : 1);
	/* WABEREQ 01b: after BLOCK ERASE, reading a block succeeds. WACEREQ
	 * 00b: there is no CRYPTOGRAPHIC ERASE. */
	b[7] = 0x40;
	return 64;
}

static size_t vpd_put_provisioning(const struct scsi_disk_info *info,
				   uint8_t *b)
{
	if (info->unmap) {
		b[4] = SCSI_THRESHOLD_EXPONENT(info);
		b[5] = 0xe0; /* LBPU, LBPWS, LBPWS10 */
		b[6] = 0x02; /* PROVISIONING TYPE: thin */
	}
	if (info->unmap && info->lbprz)
		b[5] |= 0x04;
	return 8;
}

static size_t put_store(const struct scsi_disk_info *info, uint8_t *b)
{
	put_ascii(b + 4, 8, SCSI_OUR_VENDOR);
	b[12] = info->store.is_memory ? 0x01 : 0;
	memcpy(b + 16, info->store.generation, SCSI_GENERATION_LEN);
	return 16 + SCSI_GENERATION_LEN;
}

/* In ascending order, as page 00h lists them. */
static const struct {
	uint8_t code;
	size_t (*put)(const struct scsi_disk_info *info, uint8_t *b);
} pages[] = {
	{ SCSI_VPD_SUPPORTED_PAGES, put_supported_pages },
	{ SCSI_VPD_UNIT_SERIAL_NUMBER, put_serial },
	{ SCSI_VPD_DEVICE_IDENTIFICATION, put_identification },
	{ SCSI_VPD_EXTENDED_INQUIRY, put_extended_inquiry },
	{ SCSI_VPD_THIRD_PARTY_COPY, put_third_party_copy },
	{ SCSI_VPD_BLOCK_LIMITS, put_block_limits },
	{ SCSI_VPD_BLOCK_CHARACTERISTICS, put_characteristics },
	{ SCSI_VPD_PROVISIONING, vpd_put_provisioning },
	{ SCSI_VPD_STORE, put_store },
};

#define PAGE_CNT (sizeof(pages) / sizeof(pages[0]))

static size_t put_supported_pages(const struct scsi_disk_info *info, uint8_t *b)
{
	for (size_t i = 0; i < PAGE_CNT; i++)
		b[PAGE_HEADER_LEN + i] = pages[i].code;
	return PAGE_HEADER_LEN + PAGE_CNT;
}

int scsi_vpd_encode(const struct scsi_disk_info *info, uint8_t page_code,
		    void *buf, size_t cap, size_t *ret_len,
		    struct scsi_sense *ret_sense)
{
	uint8_t b[SCSI_VPD_MAX_LEN] = { 0 };
	size_t len;

	for (size_t i = 0; i < PAGE_CNT; i++) {
		if (pages[i].code != page_code)
			continue;
		len = pages[i].put(info, b);
		b[1] = page_code;
		wire_put16(b + 2, (uint16_t)(len - PAGE_HEADER_LEN));
		*ret_len = put_out(b, len, buf, cap);
		return 0;
	}
	*ret_sense = scsi_sense_cdb_field(2, 7);
	return -EINVAL;
}

/* Copies text that a target wrote into @text, which has room for @len bytes and
 * a NUL. */
static void get_text(const uint8_t *p, size_t len, char *text)
{
	while (len && (p[len - 1] == ' ' || p[len - 1] == '\0'))
		len--;
	for (size_t i = 0; i < len; i++)
		text[i] = is_printable(p[i]) ? (char)p[i] : '?';
	text[len] = '\0';
}

int scsi_inquiry_decode(const void *buf, size_t len,
			struct scsi_inquiry *ret_inquiry)
{
	const uint8_t *b = buf;
	struct scsi_inquiry inq = { 0 };

	if (len < 36 || b[4] < 36 - 5)
		return -EBADMSG;
	inq.qualifier = b[0] >> 5;
	inq.device_type = b[0] & 0x1f;
	inq.alua = b[5] & 0x30;
	get_text(b + 8, 8, inq.vendor);
	get_text(b + 16, 16, inq.product);
	get_text(b + 32, 4, inq.revision);
	*ret_inquiry = inq;
	return 0;
}

/*
 * The body of page @code. An incomplete body is -EBADMSG, or with @ret_cut the
 * part that arrived.
 */
static int open_page(const void *buf, size_t len, uint8_t code,
		     struct wire_cursor *ret_body, bool *ret_cut)
{
	const uint8_t *b = buf;
	size_t body_len;
	bool cut;

	if (len < PAGE_HEADER_LEN || b[1] != code)
		return -EBADMSG;
	body_len = wire_get16(b + 2);
	cut = body_len > len - PAGE_HEADER_LEN;
	if (cut && !ret_cut)
		return -EBADMSG;
	if (cut)
		body_len = len - PAGE_HEADER_LEN;
	if (ret_cut)
		*ret_cut = cut;
	*ret_body = wire_cursor(b + PAGE_HEADER_LEN, body_len);
	return 0;
}

bool scsi_vpd_lists(const void *buf, size_t len, uint8_t page_code)
{
	struct wire_cursor body;
	bool cut;

	if (open_page(buf, len, SCSI_VPD_SUPPORTED_PAGES, &body, &cut))
		return false;
	return body.left && memchr(body.p, page_code, body.left);
}

int scsi_vpd_decode_serial(const void *buf, size_t len,
			   char ret_serial[SCSI_SERIAL_MAX + 1])
{
	struct wire_cursor body;
	int err;

	err = open_page(buf, len, SCSI_VPD_UNIT_SERIAL_NUMBER, &body, NULL);
	if (err)
		return err;
	while (body.left && *body.p == ' ')
		wire_take(&body, 1);
	if (body.left > SCSI_SERIAL_MAX)
		body.left = SCSI_SERIAL_MAX;
	get_text(body.p, body.left, ret_serial);
	return 0;
}

/* The length of @p up to its last colon. Without a colon, all of it. */
static size_t len_before_colon(const uint8_t *p, size_t len)
{
	const uint8_t *colon = memrchr(p, ':', len);

	return colon && colon > p ? (size_t)(colon - p) : len;
}

static void take_t10_vendor(const uint8_t *p, size_t len,
			    struct scsi_vpd_ids *ids)
{
	if (len <= 8 || ids->t10_vendor[0])
		return;
	get_text(p, 8, ids->t10_vendor);
	p += 8;
	len -= 8;
	while (len && (p[len - 1] == ' ' || p[len - 1] == '\0'))
		len--;
	len = len_before_colon(p, len);
	if (len > SCSI_VOLUME_NAME_MAX)
		len = SCSI_VOLUME_NAME_MAX;
	for (size_t i = 0; i < len; i++)
		ids->name[i] = p[i] < 0x20 || p[i] == 0x7f || p[i] == '/'
				       ? '_'
				       : (char)p[i];
	ids->name[len] = '\0';
}

static void take_naa(const uint8_t *p, size_t len, struct scsi_vpd_ids *ids)
{
	if ((len != 8 && len != SCSI_NAA_LEN) || len <= ids->naa_len)
		return;
	memcpy(ids->naa, p, len);
	ids->naa_len = (uint8_t)len;
}

static void take_of_unit(uint8_t type, const uint8_t *p, size_t len,
			 struct scsi_vpd_ids *ids)
{
	if (type == DESIGNATOR_T10_VENDOR)
		take_t10_vendor(p, len, ids);
	else if (type == DESIGNATOR_NAA)
		take_naa(p, len, ids);
}

static void take_of_port(uint8_t type, const uint8_t *p, size_t len,
			 struct scsi_vpd_ids *ids)
{
	bool is_name = type == DESIGNATOR_EUI_64 || type == DESIGNATOR_NAA ||
		       type == DESIGNATOR_NAME_STRING;

	if (type == DESIGNATOR_PORT_GROUP && len == 4) {
		ids->port_group = wire_get16(p + 2);
		ids->has_port_group = true;
	}
	if (!is_name || ids->port_len || len == 0 || len >= sizeof(ids->port))
		return;
	ids->port[0] = type;
	memcpy(ids->port + 1, p, len);
	ids->port_len = (uint8_t)(1 + len);
}

int scsi_vpd_decode_ids(const void *buf, size_t len,
			struct scsi_vpd_ids *ret_ids)
{
	struct scsi_vpd_ids ids = { 0 };
	struct wire_cursor body;
	const uint8_t *d, *p;
	bool cut;
	int err;

	err = open_page(buf, len, SCSI_VPD_DEVICE_IDENTIFICATION, &body, &cut);
	if (err)
		return err;
	while (body.left) {
		d = wire_take(&body, DESIGNATOR_HEADER_LEN);
		p = d ? wire_take(&body, d[3]) : NULL;
		if (!p && cut)
			break;
		if (!p)
			return -EBADMSG;
		if ((d[1] >> 4 & 3) == ASSOCIATION_UNIT)
			take_of_unit(d[1] & 0xf, p, d[3], &ids);
		else if ((d[1] >> 4 & 3) == ASSOCIATION_PORT)
			take_of_port(d[1] & 0xf, p, d[3], &ids);
	}
	*ret_ids = ids;
	return 0;
}

int scsi_vpd_decode_limits(const void *buf, size_t len,
			   struct scsi_block_limits *ret_limits)
{
	struct scsi_block_limits limits = { 0 };
	struct wire_cursor body;
	uint8_t b[64] = { 0 };
	int err;

	err = open_page(buf, len, SCSI_VPD_BLOCK_LIMITS, &body, NULL);
	if (err)
		return err;
	if (body.left < 16 - PAGE_HEADER_LEN)
		return -EBADMSG;
	if (body.left > sizeof(b) - PAGE_HEADER_LEN)
		body.left = sizeof(b) - PAGE_HEADER_LEN;
	memcpy(b + PAGE_HEADER_LEN, body.p, body.left);

	limits.max_transfer_blocks = wire_get32(b + 8);
	limits.optimal_transfer_blocks = wire_get32(b + 12);
	limits.max_unmap_blocks = wire_get32(b + 20);
	limits.max_unmap_descs = wire_get32(b + 24);
	limits.unmap_granularity_blocks = wire_get32(b + 28);
	if (b[32] & 0x80)
		limits.unmap_alignment_blocks = wire_get32(b + 32) & INT32_MAX;
	limits.max_write_same_blocks = wire_get64(b + 36);
	*ret_limits = limits;
	return 0;
}

int scsi_vpd_decode_rotation(const void *buf, size_t len, uint16_t *ret_rate)
{
	struct wire_cursor body;
	const uint8_t *p;
	int err;

	err = open_page(buf, len, SCSI_VPD_BLOCK_CHARACTERISTICS, &body, NULL);
	if (err)
		return err;
	p = wire_take(&body, 2);
	if (!p)
		return -EBADMSG;
	*ret_rate = wire_get16(p);
	return 0;
}

int scsi_vpd_decode_provisioning(const void *buf, size_t len,
				 struct scsi_provisioning *ret_prov)
{
	struct wire_cursor body;
	const uint8_t *p;
	int err;

	err = open_page(buf, len, SCSI_VPD_PROVISIONING, &body, NULL);
	if (err)
		return err;
	p = wire_take(&body, 4);
	if (!p)
		return -EBADMSG;
	*ret_prov = (struct scsi_provisioning){
		.lbpu = p[1] & 0x80,
		.lbpws = p[1] & 0x40,
		/* SBC-4 has three bits here: xx1b is "zeroes" */
		.lbprz = p[1] & 0x04,
	};
	return 0;
}

int scsi_vpd_decode_store(const void *buf, size_t len,
			  struct scsi_store *ret_store)
{
	struct wire_cursor body;
	const uint8_t *p;
	int err;

	err = open_page(buf, len, SCSI_VPD_STORE, &body, NULL);
	if (err)
		return err;
	p = wire_take(&body, 12 + SCSI_GENERATION_LEN);
	if (!p || memcmp(p, SCSI_OUR_VENDOR, 8))
		return -EBADMSG;
	ret_store->is_memory = p[8] & 0x01;
	memcpy(ret_store->generation, p + 12, SCSI_GENERATION_LEN);
	return 0;
}
