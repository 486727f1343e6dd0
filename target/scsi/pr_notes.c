/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/pr_notes.h"

#include <errno.h>
#include <string.h>

#include "protocol/wire.h"

static const uint8_t pr_notes_magic[8] = "RDB-PR\0\1";

#define PR_NOTES_NEWS_BITS                                \
	(SCSI_PR_NEWS_PREEMPTED | SCSI_PR_NEWS_RELEASED | \
	 SCSI_PR_NEWS_UNREGISTERED | SCSI_PR_NEWS_ABORT)

/* ---- encode ---- */

static void pr_notes_put_entry(uint8_t *b, uint64_t first,
			       const struct scsi_pr_nexus *nexus, uint8_t last)
{
	memset(b, 0, PR_NOTES_ENTRY_LEN);
	wire_put64(b, first);
	memcpy(b + 8, nexus->port.b, sizeof(nexus->port.b));
	wire_put16(b + 24, nexus->target_port);
	b[26] = last;
}

size_t pr_notes_encode(const struct pr_notes *notes, uint8_t *buf)
{
	const struct scsi_pr *pr = &notes->pr;
	uint8_t *at = buf + PR_NOTES_HEADER_LEN;

	memset(buf, 0, PR_NOTES_HEADER_LEN);
	memcpy(buf, pr_notes_magic, sizeof(pr_notes_magic));
	wire_put32(buf + 8, pr->generation);
	buf[12] = pr->aptpl;
	buf[13] = pr->type;
	wire_put16(buf + 14, pr->holder);
	wire_put16(buf + 16, pr->cnt);
	wire_put16(buf + 18, notes->news_cnt);
	wire_put64(buf + 24, notes->forgotten);
	for (uint16_t i = 0; i < pr->cnt; i++, at += PR_NOTES_ENTRY_LEN)
		pr_notes_put_entry(at, pr->regs[i].key, &pr->regs[i].nexus,
				   pr->regs[i].all_ports);
	for (uint16_t i = 0; i < notes->news_cnt; i++, at += PR_NOTES_ENTRY_LEN)
		pr_notes_put_entry(at, notes->news[i].version,
				   &notes->news[i].nexus, notes->news[i].news);
	return (size_t)(at - buf);
}

/* ---- decode ---- */

static bool pr_notes_is_zero(const uint8_t *b, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (b[i])
			return false;
	}
	return true;
}

/* False: it is not valid. */
static bool pr_notes_take_entry(const uint8_t *b, uint64_t *first,
				struct scsi_pr_nexus *nexus, uint8_t *last)
{
	*first = wire_get64(b);
	memcpy(nexus->port.b, b + 8, sizeof(nexus->port.b));
	nexus->target_port = wire_get16(b + 24);
	*last = b[26];
	return *first && nexus->target_port &&
	       pr_notes_is_zero(b + 27, PR_NOTES_ENTRY_LEN - 27);
}

static bool pr_notes_take_registration(const uint8_t *b, struct scsi_pr *pr)
{
	struct scsi_pr_registration reg = { 0 };
	uint8_t all_ports;

	if (!pr_notes_take_entry(b, &reg.key, &reg.nexus, &all_ports) ||
	    all_ports > 1 || scsi_pr_find(pr, &reg.nexus))
		return false;
	reg.all_ports = all_ports;
	pr->regs[pr->cnt++] = reg;
	return true;
}

static bool pr_notes_take_news(const uint8_t *b, struct pr_notes *notes)
{
	struct pr_news news = { 0 };

	if (!pr_notes_take_entry(b, &news.version, &news.nexus, &news.news) ||
	    !news.news || news.news & ~PR_NOTES_NEWS_BITS)
		return false;
	notes->news[notes->news_cnt++] = news;
	return true;
}

/* Reads the reservation, after the registrations. */
static bool pr_notes_take_reservation(const uint8_t *b, struct scsi_pr *pr)
{
	uint16_t holder = wire_get16(b + 14);

	pr->type = b[13];
	if (!pr->type)
		return !holder;
	pr->holder = holder;
	return scsi_pr_type_name(pr->type) && holder < pr->cnt;
}

/* The header's counts fit @len. */
static bool pr_notes_has_room(const uint8_t *b, size_t len)
{
	uint16_t regs = wire_get16(b + 16);
	uint16_t news = wire_get16(b + 18);

	return regs <= SCSI_PR_MAX && news <= PR_NOTES_NEWS_MAX &&
	       len == PR_NOTES_HEADER_LEN +
			       (size_t)(regs + news) * PR_NOTES_ENTRY_LEN;
}

static bool pr_notes_take(const uint8_t *b, size_t len, struct pr_notes *notes)
{
	const uint8_t *at = b + PR_NOTES_HEADER_LEN;
	struct scsi_pr *pr = &notes->pr;

	if (len < PR_NOTES_HEADER_LEN ||
	    memcmp(b, pr_notes_magic, sizeof(pr_notes_magic)) ||
	    !pr_notes_has_room(b, len) || b[12] > 1 ||
	    !pr_notes_is_zero(b + 20, 4))
		return false;
	pr->generation = wire_get32(b + 8);
	pr->aptpl = b[12];
	notes->forgotten = wire_get64(b + 24);
	for (uint16_t i = wire_get16(b + 16); i; i--) {
		if (!pr_notes_take_registration(at, pr))
			return false;
		at += PR_NOTES_ENTRY_LEN;
	}
	for (uint16_t i = wire_get16(b + 18); i; i--) {
		if (!pr_notes_take_news(at, notes))
			return false;
		at += PR_NOTES_ENTRY_LEN;
	}
	return pr_notes_take_reservation(b, pr);
}

int pr_notes_decode(const void *buf, size_t len, struct pr_notes *ret)
{
	struct pr_notes notes = { 0 };

	if (len && !pr_notes_take(buf, len, &notes))
		return -EBADMSG;
	*ret = notes;
	return 0;
}

/* ---- news ---- */

static void pr_notes_drop(struct pr_notes *notes, uint16_t i)
{
	notes->news_cnt--;
	memmove(&notes->news[i], &notes->news[i + 1],
		(size_t)(notes->news_cnt - i) * sizeof(notes->news[0]));
}

/* A nexus that has not taken older news of the same kind gets the new ones. */
static void pr_notes_drop_older(struct pr_notes *notes,
				const struct scsi_pr_effect *effect)
{
	for (uint16_t i = notes->news_cnt; i; i--) {
		const struct pr_news *news = &notes->news[i - 1];

		if (scsi_pr_nexus_equal(&news->nexus, &effect->nexus) &&
		    !(news->news & ~effect->news))
			pr_notes_drop(notes, (uint16_t)(i - 1));
	}
}

void pr_notes_add(struct pr_notes *notes, uint64_t version,
		  const struct scsi_pr_effects *effects)
{
	for (uint16_t i = 0; i < effects->cnt; i++) {
		const struct scsi_pr_effect *effect = &effects->to[i];

		pr_notes_drop_older(notes, effect);
		if (notes->news_cnt == PR_NOTES_NEWS_MAX) {
			notes->forgotten = notes->news[0].version;
			pr_notes_drop(notes, 0);
		}
		notes->news[notes->news_cnt++] = (struct pr_news){
			.version = version,
			.nexus = effect->nexus,
			.news = effect->news,
		};
	}
}
