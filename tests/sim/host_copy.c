/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * EXTENDED COPY. A copy writes blocks with the stamps of the blocks that it
 * read. The disk recognizes this, and asks here whether some copy may write
 * that stamp now. Then the block gets a stamp of its own, like after any write.
 */
#include "tests/sim/host_world.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/disk.h"
#include "tests/sim/sim.h"

#define TARGET_LEN  32
#define SEGMENT_LEN 28

static void naa_of(unsigned int lun, uint8_t *naa)
{
	char serial[16];

	snprintf(serial, sizeof(serial), "serial:sim%u", lun);
	scsi_naa_make(serial, naa);
}

/* ---- copies that may still write ---- */

static bool writes_block(const struct copy *p, unsigned int lun,
			 unsigned int lba, unsigned int *ret_from)
{
	for (unsigned int i = 0; i < p->segment_cnt && p->to_lun == lun; i++) {
		const struct copy_segment *s = &p->segments[i];

		if (lba < s->to || lba >= s->to + s->blocks)
			continue;
		*ret_from = s->from + lba - s->to;
		return true;
	}
	return false;
}

/* Only one copy writes a block at a time. */
static struct copy *find_copy(unsigned int lun, unsigned int lba,
			      uint32_t stamp, unsigned int *ret_from)
{
	for (unsigned int i = 0; i < world.copy_cnt; i++) {
		struct copy *p = &world.copies[i];

		if (!p->over && writes_block(p, lun, lba, ret_from) &&
		    (!stamp || (stamps[stamp].lun == p->from_lun &&
				stamps[stamp].lba == *ret_from)))
			return p;
	}
	return NULL;
}

static struct copy *allowed_copy(unsigned int lun, unsigned int lba,
				 uint32_t stamp, unsigned int *ret_from)
{
	struct copy *p = find_copy(lun, lba, stamp, ret_from);

	if (!p)
		sim_wrong("stamp %u of LUN %u block %u is written to LUN %u "
			  "block %u, and no copy does that",
			  stamp, stamps[stamp].lun, stamps[stamp].lba, lun,
			  lba);
	else if (p->fenced)
		sim_wrong("copy %u writes LUN %u block %u after a fence",
			  p->number, lun, lba);
	else
		return p;
	return NULL;
}

struct copy *hosts_copy_begins(unsigned int lun, unsigned int lba,
			       uint32_t stamp)
{
	unsigned int from;
	struct copy *p = allowed_copy(lun, lba, stamp, &from);

	if (!p)
		return NULL;
	if (!p->seen)
		p->seen = blocks_now();
	if (p->host->number != 0 && world.reservation[lun].since)
		sim_wrong("copy %u of host %u goes on on LUN %u, which is "
			  "reserved",
			  p->number, p->host->number, lun);
	return p;
}

/* The copy may be over: the disk had this piece of it before. */
uint32_t hosts_copy_lands(struct copy *p, unsigned int lun, unsigned int lba,
			  uint32_t stamp)
{
	unsigned int from;
	uint32_t landed;

	if (!p || !writes_block(p, lun, lba, &from))
		return stamp;
	blocks_seen(p->from_lun, from, stamp, p->start, blocks_now());
	landed = stamp_new_copied(lun, lba);
	stamps[landed].host = (uint8_t)p->host->number;
	assert(p->landed_cnt < COPY_BLOCKS);
	p->landed[p->landed_cnt++] = landed;
	if (p->over)
		stamp_over(landed, blocks_now());
	sim_tell("  copy %u: stamp %u becomes %u", p->number, stamp, landed);
	return landed;
}

void hosts_copy_fails(struct copy *p)
{
	if (p)
		p->failed = true;
}

/* ---- end of copies ---- */

void copy_over(struct copy *p)
{
	uint64_t t = blocks_now();

	p->over = true;
	for (unsigned int i = 0; i < p->landed_cnt; i++)
		stamp_over(p->landed[i], t);
}

void copies_over(const struct host *h)
{
	for (unsigned int i = 0; i < world.copy_cnt; i++) {
		if (world.copies[i].host == h && !world.copies[i].over)
			copy_over(&world.copies[i]);
	}
}

void copy_is_good(const struct cmd *c)
{
	struct copy *p = c->copy;
	unsigned int blocks = 0;

	for (unsigned int i = 0; i < p->segment_cnt; i++)
		blocks += p->segments[i].blocks;
	if (p->failed)
		sim_wrong("copy %u is good, but the disk failed", p->number);
	if (p->landed_cnt != blocks)
		sim_wrong("copy %u is good, with %u blocks of %u", p->number,
			  p->landed_cnt, blocks);
	for (unsigned int i = 0; i < p->landed_cnt; i++) {
		struct stamp *st = &stamps[p->landed[i]];

		st->acked = true;
		st->durable = !world.has_cache[p->to_lun];
	}
}

/* ---- fences ---- */

static bool touches(const struct copy *p, unsigned int lun)
{
	return p->from_lun == lun || p->to_lun == lun;
}

/* True if the copy was certainly there before the function. There is no order
 * between channels, but a copy that has written something has arrived. */
static bool was_before(const struct copy *p, const struct cmd *tmf)
{
	if (p->channel == tmf->ch->number)
		return p->start < tmf->order;
	return p->seen && p->seen < tmf->start;
}

void copies_fence(const struct cmd *tmf)
{
	for (unsigned int i = 0; i < world.copy_cnt; i++) {
		struct copy *p = &world.copies[i];

		if (tmf->function == SRP_TSK_ABORT_TASK ||
		    (tmf->function != SRP_TSK_LUN_RESET &&
		     p->host != tmf->ch->host))
			continue;
		p->fenced |= touches(p, tmf->lun) && was_before(p, tmf);
	}
}

/* While the list is on the way, functions on any volume end the copy. */
bool copy_may_be_ended(const struct cmd *c)
{
	const struct copy *p = c->copy;

	for (unsigned int i = 0; i < world.tmf_cnt; i++) {
		const struct tmf *m = &world.tmfs[i];

		if (m->end <= p->start || m->function == SRP_TSK_ABORT_TASK ||
		    (m->function != SRP_TSK_LUN_RESET && m->host != p->host))
			continue;
		if (touches(p, m->lun) || m->lun == c->lun || !p->seen ||
		    p->seen >= m->start)
			return true;
	}
	return false;
}

bool copy_may_be_aborted(const struct cmd *c)
{
	const struct copy *p = c->copy;
	const struct reservation *r = &world.reservation[p->to_lun];

	if (p->host->number != 0 && r->maybe_since &&
	    r->maybe_until >= p->start)
		return true;
	return disk_errors(p->from_lun) || disk_errors(p->to_lun);
}

/* ---- making a copy ---- */

/* True if no other copy writes the blocks that this one writes. */
static bool is_free(const struct copy *p)
{
	unsigned int from;

	for (unsigned int i = 0; i < world.copy_cnt; i++) {
		const struct copy *o = &world.copies[i];

		for (unsigned int b = 0; b < BLOCKS_CNT && !o->over; b++) {
			if (writes_block(o, p->to_lun, b, &from) &&
			    writes_block(p, p->to_lun, b, &from))
				return false;
		}
	}
	return true;
}

/* Copies from any blocks to consecutive blocks. Each segment is one piece. */
static void choose_segments(struct copy *p)
{
	unsigned int to = sim_random(BLOCKS_CNT / 2);

	p->segment_cnt = 1 + sim_random(COPY_SEGMENTS);
	for (unsigned int i = 0; i < p->segment_cnt; i++) {
		struct copy_segment *s = &p->segments[i];

		s->blocks = 1 + sim_random(2);
		s->from = sim_random(BLOCKS_CNT - 1);
		if (p->from_lun == p->to_lun && s->from == to)
			s->from = (to + 2) % (BLOCKS_CNT - 1);
		s->to = to;
		to += s->blocks;
		if (to > BLOCKS_CNT - 2)
			p->segment_cnt = i + 1;
	}
}

static void put_target(uint8_t *d, unsigned int lun)
{
	d[0] = 0xe4;
	d[4] = 1;
	d[5] = 3;
	d[7] = SCSI_NAA_LEN;
	naa_of(lun, d + 8);
	wire_put16(d + 30, BLOCK_BYTES);
}

static void put_segment(uint8_t *d, const struct copy_segment *s)
{
	d[0] = 0x02;
	wire_put16(d + 2, SEGMENT_LEN - 4);
	wire_put16(d + 6, 1);
	wire_put16(d + 10, (uint16_t)s->blocks);
	wire_put64(d + 12, s->from);
	wire_put64(d + 20, s->to);
}

uint32_t copy_make_list(const struct copy *p, uint8_t *b)
{
	uint32_t len = 16 + 2 * TARGET_LEN + p->segment_cnt * SEGMENT_LEN;

	memset(b, 0, len);
	wire_put16(b + 2, 2 * TARGET_LEN);
	wire_put32(b + 8, p->segment_cnt * SEGMENT_LEN);
	put_target(b + 16, p->from_lun);
	put_target(b + 16 + TARGET_LEN, p->to_lun);
	for (unsigned int i = 0; i < p->segment_cnt; i++)
		put_segment(b + 16 + 2 * TARGET_LEN + i * SEGMENT_LEN,
			    &p->segments[i]);
	return len;
}

/* Writes to memory are not visible here. */
struct copy *copy_new(const struct chan *ch, uint64_t start)
{
	struct copy *p = &world.copies[world.copy_cnt];

	if (world.copy_cnt == COPIES_MAX)
		return NULL;
	*p = (struct copy){ .number = world.copy_cnt,
			    .host = ch->host,
			    .channel = ch->number,
			    .start = start,
			    .from_lun = sim_random(BLOCKS_LUNS),
			    .to_lun = sim_random(BLOCKS_LUNS) };
	if (world.is_memory[p->to_lun])
		return NULL;
	choose_segments(p);
	if (!is_free(p))
		return NULL;
	world.copy_cnt++;
	return p;
}
