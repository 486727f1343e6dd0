/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/blocks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define READS_MAX  512
#define WRITES_MAX 256

struct read {
	uint32_t stamp;
	uint64_t start;
	uint64_t end;
};

/* Since the last power cut. */
struct block {
	uint32_t initial;
	uint32_t writes[WRITES_MAX];
	unsigned int write_cnt;
	struct read reads[READS_MAX];
	unsigned int read_cnt;
};

/* All operations on one stamp, or on several that must stay together. */
struct zone {
	uint32_t stamp;
	bool seen;
	uint64_t f; /* earliest end */
	uint64_t s; /* latest start */
};

struct stamp stamps[STAMPS_MAX];
static uint32_t stamp_cnt;
static uint64_t now;
static struct block blocks[BLOCKS_LUNS][BLOCKS_CNT];
static char text[256];

void blocks_reset(void)
{
	stamp_cnt = 1;
	now = 1;
	for (unsigned int i = 0; i < BLOCKS_LUNS * BLOCKS_CNT; i++) {
		struct block *b = &blocks[i / BLOCKS_CNT][i % BLOCKS_CNT];

		b->initial = 0;
		b->write_cnt = 0;
		b->read_cnt = 0;
	}
}

uint64_t blocks_now(void)
{
	return now++;
}

/* ---- stamps ---- */

uint32_t stamps_end(void)
{
	return stamp_cnt;
}

static uint32_t add_stamp(unsigned int lun, unsigned int lba)
{
	struct block *b = &blocks[lun][lba];

	stamps[stamp_cnt] = (struct stamp){ .lun = (uint8_t)lun,
					    .lba = (uint8_t)lba,
					    .start = blocks_now(),
					    .end = NEVER };
	b->writes[b->write_cnt++] = stamp_cnt;
	return stamp_cnt++;
}

uint32_t stamp_new(unsigned int lun, unsigned int lba)
{
	const unsigned int blocks_in_all = BLOCKS_LUNS * BLOCKS_CNT;

	if (stamp_cnt >= STAMPS_MAX - blocks_in_all * STAMPS_COPIED ||
	    blocks[lun][lba].write_cnt >= WRITES_MAX - STAMPS_COPIED)
		return 0;
	return add_stamp(lun, lba);
}

uint32_t stamp_new_copied(unsigned int lun, unsigned int lba)
{
	assert(stamp_cnt < STAMPS_MAX &&
	       blocks[lun][lba].write_cnt < WRITES_MAX);
	return add_stamp(lun, lba);
}

static uint64_t word(uint32_t stamp, unsigned int i)
{
	return stamp ? (stamp + 1) * 0x9e3779b97f4a7c15ull + i * stamp : 0;
}

void stamp_fill(uint32_t stamp, void *block)
{
	uint64_t *w = block;

	w[0] = stamp;
	for (unsigned int i = 1; i < BLOCK_BYTES / 8; i++)
		w[i] = word(stamp, i);
}

uint32_t stamp_parse(const void *block)
{
	const uint64_t *w = block;
	uint64_t wrong = 0;

	if (w[0] >= stamp_cnt)
		return STAMP_GARBAGE;
	for (unsigned int i = 1; i < BLOCK_BYTES / 8; i++)
		wrong |= w[i] ^ word((uint32_t)w[0], i);
	return wrong ? STAMP_GARBAGE : (uint32_t)w[0];
}

void stamp_over(uint32_t stamp, uint64_t when)
{
	if (stamps[stamp].end > when)
		stamps[stamp].end = when;
}

void blocks_seen(unsigned int lun, unsigned int lba, uint32_t stamp,
		 uint64_t start, uint64_t end)
{
	struct block *b = &blocks[lun][lba];

	if (b->read_cnt < READS_MAX)
		b->reads[b->read_cnt++] = (struct read){ stamp, start, end };
}

void blocks_flushed(unsigned int lun, uint64_t start)
{
	for (uint32_t i = 1; i < stamp_cnt; i++) {
		struct stamp *st = &stamps[i];

		if (st->lun == lun && st->acked && st->end < start)
			st->durable = true;
	}
}

/* ---- zones ---- */

static struct zone *find(struct zone *zones, unsigned int cnt, uint32_t stamp)
{
	for (unsigned int i = 0; i < cnt; i++) {
		if (zones[i].stamp == stamp)
			return &zones[i];
	}
	return NULL;
}

static unsigned int make_zones(const struct block *b, struct zone *zones)
{
	unsigned int cnt = 1;

	zones[0] = (struct zone){ .stamp = b->initial, .seen = true };
	for (unsigned int i = 0; i < b->write_cnt; i++) {
		const struct stamp *st = &stamps[b->writes[i]];

		zones[cnt++] = (struct zone){ .stamp = b->writes[i],
					      .seen = st->acked,
					      .f = st->end,
					      .s = st->start };
	}
	return cnt;
}

static const char *add_reads(const struct block *b, struct zone *zones,
			     unsigned int cnt)
{
	for (unsigned int i = 0; i < b->read_cnt; i++) {
		const struct read *r = &b->reads[i];
		struct zone *z = find(zones, cnt, r->stamp);

		if (!z)
			return "has a stamp that was never written to it, or "
			       "that a power cut took";
		if (z != zones && stamps[z->stamp].start > r->end)
			return "had a stamp before that was written";
		z->seen = true;
		if (r->end < z->f)
			z->f = r->end;
		if (r->start > z->s)
			z->s = r->start;
	}
	return NULL;
}

static bool contradict(const struct zone *a, const struct zone *b)
{
	return a->f < b->s && b->f < a->s;
}

static const char *say(const struct zone *a, const struct zone *b)
{
	snprintf(text, sizeof(text),
		 "stamps %u (done by %lld, there at %lld) and %u (done by "
		 "%lld, there at %lld) contradict each other",
		 a->stamp, (long long)a->f, (long long)a->s, b->stamp,
		 (long long)b->f, (long long)b->s);
	return text;
}

/* COMPARE AND WRITE puts its stamp directly behind the one that it found. */
static const char *join(struct zone *zones, unsigned int cnt)
{
	for (unsigned int i = cnt; i-- > 1;) {
		struct zone *z = &zones[i];
		uint32_t instead = stamps[z->stamp].instead;
		struct zone *old;

		if (!z->seen || !instead)
			continue;
		old = find(zones, cnt, instead);
		if (!old)
			return "compared with what was no longer there";
		if (z->f < old->s)
			return say(old, z);
		old->seen = true;
		if (z->f < old->f)
			old->f = z->f;
		if (z->s > old->s)
			old->s = z->s;
		z->seen = false;
	}
	return NULL;
}

static const char *compared_twice(const struct block *b)
{
	for (unsigned int i = 0; i < b->write_cnt; i++) {
		const struct stamp *a = &stamps[b->writes[i]];

		for (unsigned int k = 0; a->acked && a->instead && k < i; k++) {
			const struct stamp *o = &stamps[b->writes[k]];

			if (o->acked && o->instead == a->instead)
				return "was replaced twice by COMPARE AND "
				       "WRITE";
		}
	}
	return NULL;
}

static const char *check(const struct block *b)
{
	struct zone zones[WRITES_MAX + 1];
	unsigned int cnt = make_zones(b, zones);
	const char *bad = add_reads(b, zones, cnt);
	unsigned int n = 0;

	if (!bad)
		bad = compared_twice(b);
	if (!bad)
		bad = join(zones, cnt);
	if (bad)
		return bad;
	for (unsigned int i = 0; i < cnt; i++) {
		if (zones[i].seen)
			zones[n++] = zones[i];
	}
	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int k = 0; k < i; k++) {
			if (contradict(&zones[i], &zones[k]))
				return say(&zones[k], &zones[i]);
		}
	}
	return NULL;
}

static const char *place(unsigned int lun, unsigned int lba, const char *bad)
{
	static char where[320];

	snprintf(where, sizeof(where), "LUN %u block %u: %s", lun, lba, bad);
	return where;
}

const char *blocks_check(unsigned int lun)
{
	for (unsigned int lba = 0; lba < BLOCKS_CNT; lba++) {
		const char *bad = check(&blocks[lun][lba]);

		if (bad)
			return place(lun, lba, bad);
	}
	return NULL;
}

/* ---- power cuts ---- */

/* The earliest that @stamp was over. */
static uint64_t over(const struct block *b, uint32_t stamp)
{
	uint64_t end = stamp == b->initial ? 0 : stamps[stamp].end;

	for (unsigned int i = 0; i < b->read_cnt; i++) {
		if (b->reads[i].stamp == stamp && b->reads[i].end < end)
			end = b->reads[i].end;
	}
	return end;
}

static const char *lost(const struct block *b, uint32_t survivor)
{
	uint64_t end = over(b, survivor);
	bool known = survivor == b->initial;

	for (unsigned int i = 0; i < b->write_cnt; i++) {
		const struct stamp *st = &stamps[b->writes[i]];

		known |= b->writes[i] == survivor;
		if (!st->durable || st->start <= end)
			continue;
		snprintf(text, sizeof(text),
			 "stamp %u survived a power cut, but %u was on stable "
			 "storage",
			 survivor, b->writes[i]);
		return text;
	}
	return known ? NULL : "a stamp survived that had not been written";
}

const char *blocks_cut(unsigned int lun, unsigned int lba, uint32_t survivor)
{
	struct block *b = &blocks[lun][lba];
	const char *bad = lost(b, survivor);

	b->initial = survivor;
	b->write_cnt = 0;
	b->read_cnt = 0;
	return bad ? place(lun, lba, bad) : NULL;
}
