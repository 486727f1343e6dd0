/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/blocks.h"

#include <assert.h>
#include <stdio.h>

#include "tests/lib/history.h"

#define READS_MAX  512
#define WRITES_MAX 256

struct read {
	uint32_t stamp;
	uint64_t start;
	uint64_t end;
};

/* The state since the last power cut. */
struct block {
	uint32_t initial;
	uint32_t writes[WRITES_MAX];
	unsigned int write_cnt;
	struct read reads[READS_MAX];
	unsigned int read_cnt;
	uint64_t seen; /* block_see() */
};

struct stamp stamps[STAMPS_MAX];
static uint32_t stamp_cnt;
static uint64_t now;
static struct block blocks[BLOCKS_LUNS][BLOCKS_CNT];

void blocks_reset(void)
{
	stamp_cnt = 1;
	now = 1;
	for (unsigned int i = 0; i < BLOCKS_LUNS * BLOCKS_CNT; i++) {
		struct block *b = &blocks[i / BLOCKS_CNT][i % BLOCKS_CNT];

		b->initial = 0;
		b->write_cnt = 0;
		b->read_cnt = 0;
		b->seen = 0;
	}
}

void block_see(unsigned int lun, unsigned int lba, uint64_t start)
{
	struct block *b = &blocks[lun][lba];

	if (start > b->seen)
		b->seen = start;
}

uint64_t block_seen(unsigned int lun, unsigned int lba)
{
	return blocks[lun][lba].seen;
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

/* ---- checks ---- */

static struct history_op op_of_write(uint32_t stamp, uint64_t end)
{
	const struct stamp *st = &stamps[stamp];

	return (struct history_op){
		.start = st->start,
		.end = st->end < end ? st->end : end,
		.value = stamp,
		.instead = st->instead,
		.is_write = true,
		.acked = st->acked,
		.confirmed = st->durable,
	};
}

/* The operations on @b. No write takes place after @end. */
static struct history make_history(const struct block *b, uint64_t end)
{
	/* And the operation that a power cut has left. */
	static struct history_op ops[WRITES_MAX + READS_MAX + 1];
	struct history h = { .ops = ops, .initial = b->initial };

	for (unsigned int i = 0; i < b->write_cnt; i++)
		ops[h.cnt++] = op_of_write(b->writes[i], end);
	for (unsigned int i = 0; i < b->read_cnt; i++) {
		const struct read *r = &b->reads[i];

		ops[h.cnt++] = (struct history_op){ .start = r->start,
						    .end = r->end,
						    .value = r->stamp,
						    .acked = true };
	}
	return h;
}

/* Returns what is wrong, or NULL. */
static const char *judge_history(unsigned int lun, unsigned int lba,
				 const struct history *h)
{
	static char text[256];
	struct history_fault f = history_check(h);

	if (f.verdict == HISTORY_GOOD)
		return NULL;
	snprintf(text, sizeof(text),
		 "LUN %u block %u %s: stamp %llu, against stamp %llu", lun, lba,
		 history_verdict_text(f.verdict), (unsigned long long)f.value,
		 (unsigned long long)f.other);
	return text;
}

const char *blocks_check(unsigned int lun)
{
	const char *bad = NULL;

	for (unsigned int lba = 0; lba < BLOCKS_CNT && !bad; lba++) {
		struct history h = make_history(&blocks[lun][lba], NEVER);

		bad = judge_history(lun, lba, &h);
	}
	return bad;
}

const char *blocks_cut(unsigned int lun, unsigned int lba, uint32_t survivor)
{
	struct block *b = &blocks[lun][lba];
	uint64_t t = blocks_now();
	const struct history_cut cut = { t, t + 1 };
	struct history h = make_history(b, t);
	const char *bad;

	h.cuts = &cut;
	h.cut_cnt = 1;
	h.ops[h.cnt++] = (struct history_op){
		.start = t + 2, .end = t + 2, .value = survivor, .acked = true
	};
	bad = judge_history(lun, lba, &h);
	b->initial = survivor;
	b->write_cnt = 0;
	b->read_cnt = 0;
	return bad;
}
