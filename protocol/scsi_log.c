/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/scsi_cdb.h"
#include "protocol/scsi_log.h"

#include <errno.h>
#include <string.h>

#include "protocol/wire.h"

#define PAGE_MAX_LEN	64
#define PAGE_HEADER_LEN 4
#define ALL_SUBPAGES	0xff

#define DS  0x80 /* no parameter is saved */
#define SPF 0x40

/* FORMAT AND LINKING: a list in binary. */
#define BINARY_LIST 0x03

/* A page that is being written. */
struct log {
	const struct scsi_disk_info *info;
	uint64_t used;
	uint16_t from; /* the parameter pointer */
	uint16_t last; /* the highest parameter code so far */
	uint8_t b[PAGE_MAX_LEN];
	size_t len;
};

static void put_param(struct log *log, uint16_t code, const uint8_t *value,
		      uint8_t len)
{
	uint8_t *b = log->b + log->len;

	log->last = code;
	if (code < log->from)
		return;
	wire_put16(b, code);
	b[2] = BINARY_LIST;
	b[3] = len;
	memcpy(b + 4, value, len);
	log->len += 4u + len;
}

/* SPC-4 7.3.8: no exception; the temperature is not known. */
static void log_page_put_exceptions(struct log *log)
{
	static const uint8_t value[] = { 0, 0, 0xff, 0 };

	put_param(log, 0, value, sizeof(value));
}

static void put_count(struct log *log, uint16_t code, uint64_t bytes)
{
	uint64_t unit = (uint64_t)log->info->block_size
			<< SCSI_THRESHOLD_EXPONENT(log->info);
	uint64_t cnt = bytes / unit;
	uint8_t value[8] = { 0 };

	wire_put32(value, cnt < UINT32_MAX ? (uint32_t)cnt : UINT32_MAX);
	value[4] = 0x01; /* SCOPE: of this logical unit alone */
	put_param(log, code, value, sizeof(value));
}

/* SBC-3 6.4.5: used LBA mapping resources. This unit cannot say how much the
 * store has left: others may use it, too. */
static void log_page_put_provisioning(struct log *log)
{
	put_count(log, 2, log->used);
}

static bool is_thin(const struct scsi_disk_info *info)
{
	return info->unmap;
}

/* Ascending. */
static const struct page {
	uint8_t code;
	void (*put)(struct log *log);
	bool (*exists)(const struct scsi_disk_info *info); /* NULL: always */
} pages[] = {
	{ SCSI_LOG_SUPPORTED, NULL, NULL },
	{ SCSI_LOG_PROVISIONING, log_page_put_provisioning, is_thin },
	{ SCSI_LOG_EXCEPTIONS, log_page_put_exceptions, NULL },
};

#define PAGE_CNT (sizeof(pages) / sizeof(pages[0]))

static bool exists(const struct page *page, const struct scsi_disk_info *info)
{
	return !page->exists || page->exists(info);
}

/* With subpages, each entry has two bytes, and 00h/FFh is an entry. */
static void put_supported(struct log *log, bool subpages)
{
	for (size_t i = 0; i < PAGE_CNT; i++) {
		if (!exists(&pages[i], log->info))
			continue;
		log->b[log->len++] = pages[i].code;
		if (!subpages)
			continue;
		log->b[log->len++] = 0;
		if (pages[i].code == SCSI_LOG_SUPPORTED) {
			log->b[log->len++] = pages[i].code;
			log->b[log->len++] = ALL_SUBPAGES;
		}
	}
}

static const struct page *log_page_find_page(const struct scsi_disk_info *info,
					     uint8_t code)
{
	for (size_t i = 0; i < PAGE_CNT; i++) {
		if (pages[i].code == code && exists(&pages[i], info))
			return &pages[i];
	}
	return NULL;
}

static int log_page_refuse(uint16_t byte, uint8_t bit,
			   struct scsi_sense *ret_sense)
{
	*ret_sense = scsi_sense_cdb_field(byte, bit);
	return -EINVAL;
}

static int log_page_check(const struct page *page, const struct scsi_cmd *cmd,
			  struct scsi_sense *ret_sense)
{
	bool lists = cmd->page_code == SCSI_LOG_SUPPORTED;

	if (!page)
		return log_page_refuse(2, 5, ret_sense);
	if (cmd->subpage_code && !(lists && cmd->subpage_code == ALL_SUBPAGES))
		return log_page_refuse(3, 7, ret_sense);
	/* For lists of pages, PC has no meaning (SPC-4 7.3.1). The same holds
	 * for parameters that are binary lists (6.8), as all parameters
	 * here. */
	return lists && cmd->parameter ? log_page_refuse(5, 7, ret_sense) : 0;
}

int scsi_log_sense_encode(const struct scsi_disk_info *info, uint64_t used,
			  const struct scsi_cmd *cmd, void *buf, size_t cap,
			  size_t *ret_len, struct scsi_sense *ret_sense)
{
	const struct page *page = log_page_find_page(info, cmd->page_code);
	struct log log = {
		.info = info,
		.used = used,
		.from = cmd->parameter,
		.len = PAGE_HEADER_LEN,
	};
	int err = log_page_check(page, cmd, ret_sense);

	if (err)
		return err;
	log.b[0] = page->code;
	if (page->put) {
		log.b[0] |= DS;
		page->put(&log);
	} else {
		put_supported(&log, cmd->subpage_code);
	}
	if (log.from > log.last)
		return log_page_refuse(5, 7, ret_sense);
	if (cmd->subpage_code) {
		log.b[0] |= SPF;
		log.b[1] = cmd->subpage_code;
	}
	wire_put16(log.b + 2, (uint16_t)(log.len - PAGE_HEADER_LEN));
	if (cap)
		memcpy(buf, log.b, log.len < cap ? log.len : cap);
	*ret_len = log.len;
	return 0;
}
