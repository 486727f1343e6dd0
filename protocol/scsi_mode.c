/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/scsi_cdb.h"
#include "protocol/scsi_mode.h"

#include <errno.h>
#include <string.h>

#include "protocol/wire.h"

#define ALL_SUBPAGES	   0xff
#define SHORT_BLOCK_DESC   8
#define LONG_BLOCK_DESC	   16
#define MODE_HEADER_6_LEN  4
#define MODE_HEADER_10_LEN 8
#define PAGE_HEADER_LEN	   2
#define PAGE_MAX_LEN	   20

#define PS  0x80 /* the page can be saved */
#define SPF 0x40 /* subpage format */

/* ---- the pages ---- */

/* Values that no initiator can change. Each function fills @b, which is all
 * zero, from byte 2 on. */

static void put_control(uint8_t *b)
{
	b[2] = 0x22; /* TST 001b: one task set for each nexus; GLTSD: nothing
		      * is saved */
	b[3] = 0x10; /* QUEUE ALGORITHM MODIFIER: unrestricted; QERR 00b */
	b[5] = 0x40; /* TAS: a command that another nexus aborts is answered */
}

static void mode_put_exceptions(uint8_t *b)
{
	b[2] = 0x08; /* DEXCPT: none are reported */
}

/* In ascending order, as "all pages" returns them. */
static const struct page {
	uint8_t code;
	uint8_t len; /* with the two bytes of header */
	void (*put)(uint8_t *b);
} pages[] = {
	{ SCSI_MODE_READ_WRITE_RECOVERY, 12, NULL },
	{ SCSI_MODE_CACHING, PAGE_MAX_LEN, NULL },
	{ SCSI_MODE_CONTROL, 12, put_control },
	{ SCSI_MODE_EXCEPTIONS, 12, mode_put_exceptions },
};

#define PAGE_CNT (sizeof(pages) / sizeof(pages[0]))

/* The places of the values of struct scsi_modes in the pages. */
static const struct {
	uint8_t page;
	uint8_t byte;
	uint8_t mask;
	size_t offset; /* of the bool */
} settings[] = {
	{ SCSI_MODE_CACHING, 2, 0x04, offsetof(struct scsi_modes, wce) },
	{ SCSI_MODE_CONTROL, 2, 0x04, offsetof(struct scsi_modes, d_sense) },
	{ SCSI_MODE_CONTROL, 4, 0x08, offsetof(struct scsi_modes, swp) },
};

#define SETTING_CNT (sizeof(settings) / sizeof(settings[0]))

static bool *setting(struct scsi_modes *modes, size_t i)
{
	return (bool *)(void *)((uint8_t *)modes + settings[i].offset);
}

struct scsi_modes scsi_modes_current(const struct scsi_disk_info *info)
{
	return (struct scsi_modes){
		.wce = info->write_cache,
		.d_sense = info->d_sense,
		.swp = info->swp,
	};
}

bool scsi_modes_equal(const struct scsi_modes *a, const struct scsi_modes *b)
{
	return a->wce == b->wce && a->d_sense == b->d_sense && a->swp == b->swp;
}

static const struct page *mode_find_page(uint8_t code)
{
	for (size_t i = 0; i < PAGE_CNT; i++) {
		if (pages[i].code == code)
			return &pages[i];
	}
	return NULL;
}

/* Sets the bits of a page that @modes has. */
static void put_settings(const struct page *page, struct scsi_modes modes,
			 uint8_t *b)
{
	for (size_t i = 0; i < SETTING_CNT; i++) {
		if (settings[i].page == page->code && *setting(&modes, i))
			b[settings[i].byte] |= settings[i].mask;
	}
}

static void put_page(const struct page *page, struct scsi_modes modes,
		     uint8_t *b)
{
	b[0] = page->code;
	b[1] = page->len - PAGE_HEADER_LEN;
	if (page->put)
		page->put(b);
	put_settings(page, modes, b);
}

static void put_mask(const struct scsi_disk_info *info, const struct page *page,
		     uint8_t *b)
{
	b[0] = page->code;
	b[1] = page->len - PAGE_HEADER_LEN;
	put_settings(page, info->mode_changeable, b);
}

/* ---- MODE SENSE ---- */

static size_t put_pages(const struct scsi_disk_info *info,
			const struct scsi_cmd *cmd, uint8_t *b)
{
	size_t len = 0;

	for (size_t i = 0; i < PAGE_CNT; i++) {
		const struct page *page = &pages[i];

		if (cmd->page_code != SCSI_MODE_ALL_PAGES &&
		    cmd->page_code != page->code)
			continue;
		switch ((enum scsi_page_control)cmd->page_control) {
		case SCSI_PC_CURRENT:
			put_page(page, scsi_modes_current(info), b + len);
			break;
		case SCSI_PC_CHANGEABLE:
			put_mask(info, page, b + len);
			break;
		case SCSI_PC_DEFAULT:
			put_page(page, info->mode_default, b + len);
			break;
		case SCSI_PC_SAVED:
			put_page(page, info->mode_saved, b + len);
			break;
		}
		if (info->mode_save)
			b[len] |= PS;
		len += page->len;
	}
	return len;
}

static int mode_refuse(struct scsi_sense sense, struct scsi_sense *ret_sense)
{
	*ret_sense = sense;
	return -EINVAL;
}

/* SPC-4 6.13.1: also for the block descriptor, but for no page. */
static bool asks_for_header(const struct scsi_cmd *cmd)
{
	return !cmd->page_code && !cmd->subpage_code &&
	       cmd->page_control == SCSI_PC_CURRENT;
}

static int check_mode_sense(const struct scsi_disk_info *info,
			    const struct scsi_cmd *cmd,
			    struct scsi_sense *ret_sense)
{
	if (cmd->page_control == SCSI_PC_SAVED && !info->mode_save)
		return mode_refuse(scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
					      SCSI_ASC_SAVING_NOT_SUPPORTED),
				   ret_sense);
	if (asks_for_header(cmd))
		return 0;
	if (cmd->page_code != SCSI_MODE_ALL_PAGES &&
	    !mode_find_page(cmd->page_code))
		return mode_refuse(scsi_sense_cdb_field(2, 5), ret_sense);
	if (cmd->subpage_code && cmd->subpage_code != ALL_SUBPAGES)
		return mode_refuse(scsi_sense_cdb_field(3, 7), ret_sense);
	return 0;
}

/* SBC-3, mode parameter short and long LBA block descriptor. */
static size_t put_block_desc(const struct scsi_disk_info *info,
			     const struct scsi_cmd *cmd, uint8_t *b)
{
	uint64_t blocks = info->blocks;
	bool fits = blocks <= UINT32_MAX;

	if (cmd->dbd)
		return 0;
	if (!fits && cmd->llbaa) {
		wire_put64(b, blocks);
		wire_put32(b + 12, info->block_size);
		return LONG_BLOCK_DESC;
	}
	wire_put32(b, fits ? (uint32_t)blocks : UINT32_MAX);
	wire_put24(b + 5, info->block_size);
	return SHORT_BLOCK_DESC;
}

static size_t mode_put_once(const void *data, size_t len, void *buf, size_t cap)
{
	if (cap)
		memcpy(buf, data, len < cap ? len : cap);
	return len;
}

int scsi_mode_sense_encode(const struct scsi_disk_info *info,
			   const struct scsi_cmd *cmd, void *buf, size_t cap,
			   size_t *ret_len, struct scsi_sense *ret_sense)
{
	uint8_t b[SCSI_MODE_MAX_LEN] = { 0 };
	/* WP. DPOFUA: READ and WRITE have both bits, as the table says. */
	uint8_t device_specific = info->read_only || info->swp ? 0x90 : 0x10;
	size_t len, desc_len;
	int err;

	err = check_mode_sense(info, cmd, ret_sense);
	if (err)
		return err;
	len = cmd->op == SCSI_OP_MODE_SENSE_6 ? MODE_HEADER_6_LEN
					      : MODE_HEADER_10_LEN;
	desc_len = put_block_desc(info, cmd, b + len);
	len += desc_len;
	len += put_pages(info, cmd, b + len);
	if (cmd->op == SCSI_OP_MODE_SENSE_6) {
		b[0] = (uint8_t)(len - 1);
		b[2] = device_specific;
		b[3] = (uint8_t)desc_len;
	} else {
		wire_put16(b, (uint16_t)(len - 2));
		b[3] = device_specific;
		b[4] = desc_len == LONG_BLOCK_DESC; /* LONGLBA */
		wire_put16(b + 6, (uint16_t)desc_len);
	}
	*ret_len = mode_put_once(b, len, buf, cap);
	return 0;
}

/* ---- MODE SELECT ---- */

/* A parameter list that is being checked. */
struct select {
	const struct scsi_disk_info *info;
	const uint8_t *list;
	struct wire_cursor rest;
	struct scsi_modes modes;
	struct scsi_sense *sense;
};

static uint16_t offset_of(const struct select *s, const uint8_t *p)
{
	return (uint16_t)(p - s->list);
}

static int mode_refuse_data(const struct select *s, const uint8_t *p,
			    uint8_t bit)
{
	return mode_refuse(scsi_sense_data_field(offset_of(s, p), bit),
			   s->sense);
}

static int mode_refuse_length(const struct select *s)
{
	return mode_refuse(scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
				      SCSI_ASC_PARAMETER_LIST_LENGTH_ERROR),
			   s->sense);
}

/* @may: the bits that may be set. */
static int check_byte(const struct select *s, const uint8_t *p, uint8_t may)
{
	uint8_t wrong = *p & (uint8_t)~may;

	return wrong ? mode_refuse_data(s, p, scsi_sense_top_bit(wrong)) : 0;
}

/* Capacity and block size must be the current ones: they cannot be changed. */
static int check_block_desc(const struct select *s, const uint8_t *d,
			    size_t len)
{
	bool is_long = len == LONG_BLOCK_DESC;
	uint64_t cnt = is_long ? wire_get64(d) : wire_get32(d);
	uint64_t all = is_long ? UINT64_MAX : UINT32_MAX;
	const uint8_t *size = d + (is_long ? 12 : 5);

	if (cnt && cnt != all && cnt != s->info->blocks)
		return mode_refuse_data(s, d, 7);
	if (!is_long && d[4])
		return mode_refuse_data(s, d + 4, 7);
	if ((is_long ? wire_get32(size) : wire_get24(size)) !=
	    s->info->block_size)
		return mode_refuse_data(s, size, 7);
	return 0;
}

/* Takes one block descriptor, or none. */
static int take_block_desc(struct select *s, const uint8_t *len_field,
			   size_t len, bool is_long)
{
	size_t want = is_long ? LONG_BLOCK_DESC : SHORT_BLOCK_DESC;
	const uint8_t *d;

	if (!len)
		return 0;
	if (len != want)
		return mode_refuse_data(s, len_field, 7);
	d = wire_take(&s->rest, len);
	return d ? check_block_desc(s, d, len) : mode_refuse_length(s);
}

/* MODE DATA LENGTH is reserved here. WP and DPOFUA are ignored (SBC-3). */
static int take_header_6(struct select *s)
{
	const uint8_t *h = wire_take(&s->rest, MODE_HEADER_6_LEN);
	int err;

	if (!h)
		return mode_refuse_length(s);
	err = check_byte(s, h, 0);
	if (!err)
		err = check_byte(s, h + 1, 0); /* MEDIUM TYPE */
	if (!err)
		err = check_byte(s, h + 2, 0x90);
	return err ? err : take_block_desc(s, h + 3, h[3], false);
}

static int take_header_10(struct select *s)
{
	static const uint8_t may[] = { 0, 0, 0, 0x90, 0x01, 0 };
	const uint8_t *h = wire_take(&s->rest, MODE_HEADER_10_LEN);
	int err = 0;

	if (!h)
		return mode_refuse_length(s);
	for (size_t i = 0; i < sizeof(may) && !err; i++)
		err = check_byte(s, h + i, may[i]);
	return err ? err
		   : take_block_desc(s, h + 6, wire_get16(h + 6), h[4] & 1);
}

static void take_settings(struct select *s, const struct page *page,
			  const uint8_t *b)
{
	for (size_t i = 0; i < SETTING_CNT; i++) {
		if (settings[i].page == page->code)
			*setting(&s->modes, i) =
				b[settings[i].byte] & settings[i].mask;
	}
}

/* The page must have the current bytes, except for bits that can be changed. */
static int check_page(const struct select *s, const struct page *page,
		      const uint8_t *b)
{
	uint8_t now[PAGE_MAX_LEN] = { 0 };
	uint8_t mask[PAGE_MAX_LEN] = { 0 };

	put_page(page, scsi_modes_current(s->info), now);
	put_mask(s->info, page, mask);
	for (uint8_t i = PAGE_HEADER_LEN; i < page->len; i++) {
		uint8_t wrong = (b[i] ^ now[i]) & (uint8_t)~mask[i];

		if (wrong)
			return mode_refuse_data(s, b + i,
						scsi_sense_top_bit(wrong));
	}
	return 0;
}

static int take_page(struct select *s)
{
	const uint8_t *b = s->rest.p;
	const struct page *page;
	int err;

	if (!wire_take(&s->rest, PAGE_HEADER_LEN))
		return mode_refuse_length(s);
	if (b[0] & (PS | SPF))
		return mode_refuse_data(s, b, b[0] & PS ? 7 : 6);
	page = mode_find_page(b[0]);
	if (!page)
		return mode_refuse_data(s, b, 5);
	if (b[1] != page->len - PAGE_HEADER_LEN)
		return mode_refuse_data(s, b + 1, 7);
	if (!wire_take(&s->rest, b[1]))
		return mode_refuse_length(s);
	err = check_page(s, page, b);
	if (!err)
		take_settings(s, page, b);
	return err;
}

int scsi_mode_select_decode(const struct scsi_disk_info *info,
			    const struct scsi_cmd *cmd, const void *buf,
			    size_t len, struct scsi_modes *ret_modes,
			    struct scsi_sense *ret_sense)
{
	struct select s = {
		.info = info,
		.list = buf,
		.rest = wire_cursor(buf, len),
		.modes = scsi_modes_current(info),
		.sense = ret_sense,
	};
	int err = 0;

	if (cmd->save && !info->mode_save)
		return mode_refuse(scsi_sense_cdb_field(1, 0), ret_sense);
	if (len) /* PARAMETER LIST LENGTH 0 is not an error (SPC-4) */
		err = cmd->op == SCSI_OP_MODE_SELECT_6 ? take_header_6(&s)
						       : take_header_10(&s);
	while (!err && s.rest.left)
		err = take_page(&s);
	if (!err)
		*ret_modes = s.modes;
	return err;
}

/* ---- the initiator's side ---- */

/* Searches mode pages for the caching page. */
static void find_caching(struct wire_cursor rest, struct scsi_mode *mode)
{
	const uint8_t *head, *sub, *body;
	size_t len;

	while ((head = wire_take(&rest, 2)) != NULL) {
		len = head[1];
		if (head[0] & SPF) { /* a length of 16 bits */
			sub = wire_take(&rest, 2);
			if (!sub)
				return;
			len = wire_get16(sub);
		}
		body = wire_take(&rest, len);
		if (!body)
			return;
		if ((head[0] & 0x7f) != SCSI_MODE_CACHING || !len)
			continue;
		mode->has_caching = true;
		mode->wce = body[0] & 0x04;
		return;
	}
}

static void decode_mode(struct wire_cursor after_header,
			uint8_t device_specific, size_t desc_len,
			struct scsi_mode *ret_mode)
{
	struct scsi_mode mode = {
		.write_protected = device_specific & 0x80,
		.dpofua = device_specific & 0x10,
	};

	if (wire_take(&after_header, desc_len))
		find_caching(after_header, &mode);
	*ret_mode = mode;
}

static size_t mode_min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

int scsi_mode_sense_6_decode(const void *buf, size_t len,
			     struct scsi_mode *ret_mode)
{
	const uint8_t *b = buf;

	if (len < MODE_HEADER_6_LEN || b[0] < MODE_HEADER_6_LEN - 1)
		return -EBADMSG;
	len = mode_min_size(len, (size_t)b[0] + 1) - MODE_HEADER_6_LEN;
	decode_mode(wire_cursor(b + MODE_HEADER_6_LEN, len), b[2], b[3],
		    ret_mode);
	return 0;
}

int scsi_mode_sense_10_decode(const void *buf, size_t len,
			      struct scsi_mode *ret_mode)
{
	const uint8_t *b = buf;

	if (len < MODE_HEADER_10_LEN || wire_get16(b) < MODE_HEADER_10_LEN - 2)
		return -EBADMSG;
	len = mode_min_size(len, (size_t)wire_get16(b) + 2) -
	      MODE_HEADER_10_LEN;
	decode_mode(wire_cursor(b + MODE_HEADER_10_LEN, len), b[3],
		    wire_get16(b + 6), ret_mode);
	return 0;
}
