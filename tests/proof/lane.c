/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/proof/lane.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/history.h"
#include "tests/proof/stamp.h"

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift
 * generators, scrambled". */
static uint32_t random_below(struct lane *l, uint32_t limit)
{
	l->random ^= l->random >> 12;
	l->random ^= l->random << 25;
	l->random ^= l->random >> 27;
	return (uint32_t)((l->random * 0x2545f4914f6cdd1dull >> 32) * limit >>
			  32);
}

void lane_open(struct lane_work *ret, struct journal *j, struct lane *lane,
	       const char *through)
{
	size_t len = (size_t)j->max_blocks * j->block_size;

	*ret = (struct lane_work){ .j = j, .lane = lane, .through = through };
	ret->buf = aligned_alloc(4096, (len + 4095) & ~(size_t)4095);
	if (!ret->buf)
		abort();
	memset(ret->buf, 0, len);
}

/* ---- choice of operations ---- */

/* Half of the operations use the blocks that every lane writes. Small ranges
 * are more frequent. */
static void choose_range(struct lane_work *w, uint32_t *ret_first,
			 uint32_t *ret_cnt)
{
	const struct journal *j = w->j;
	struct lane *l = w->lane;
	bool shared = j->shared_cnt && (!l->own_cnt || random_below(l, 2));
	uint32_t first = shared ? 0 : l->own_first;
	uint32_t room = shared ? j->shared_cnt : l->own_cnt;
	uint32_t max = j->max_blocks < room ? j->max_blocks : room;

	*ret_cnt = 1 + random_below(l, 1 + random_below(l, max));
	*ret_first = first + random_below(l, room - *ret_cnt + 1);
}

static void begin_write(struct lane_work *w, uint32_t first, uint32_t cnt)
{
	const struct journal *j = w->j;
	uint64_t value = stamp_value(w->lane->number, w->lane->seq + 1);

	for (uint32_t i = 0; i < cnt; i++)
		stamp_write(w->buf + (size_t)i * j->block_size, j->block_size,
			    j->run, first + i, value);
	w->record = lane_begin(w->lane, JOURNAL_WRITE, first, cnt);
}

static void begin_read(struct lane_work *w, uint32_t first, uint32_t cnt)
{
	/* Bytes that are not read must not look like data. */
	memset(w->buf, 0xee, (size_t)cnt * w->j->block_size);
	w->record = lane_begin(w->lane, JOURNAL_READ, first, cnt);
}

static void begin_any(struct lane_work *w)
{
	uint32_t flush_every = w->j->flush_every;
	uint32_t first, cnt;

	if (flush_every && random_below(w->lane, flush_every) == 0) {
		w->record = lane_begin(w->lane, JOURNAL_FLUSH, 0, 0);
		return;
	}
	choose_range(w, &first, &cnt);
	if (random_below(w->lane, 5) < 3)
		begin_write(w, first, cnt);
	else
		begin_read(w, first, cnt);
}

/* ---- phases ---- */

static enum lane_step rest(struct lane_work *w)
{
	w->lane->resting = w->phase_nr;
	return LANE_WAIT;
}

static uint32_t next_cnt(const struct lane_work *w)
{
	uint32_t left = w->j->blocks - w->next;

	return left < w->j->max_blocks ? left : w->j->max_blocks;
}

/* Writes until all blocks were written. */
static enum lane_step write_all(struct lane_work *w)
{
	if (next_cnt(w) == 0)
		return rest(w);
	begin_write(w, w->next, next_cnt(w));
	return LANE_GO;
}

/* Reads until a read succeeds. */
static enum lane_step read_once(struct lane_work *w)
{
	if (w->next > 0)
		return rest(w);
	begin_read(w, 0, 1);
	return LANE_GO;
}

/* Flushes until a flush succeeds, then reads until all blocks were read. */
static enum lane_step read_all(struct lane_work *w)
{
	if (w->flushed && next_cnt(w) == 0)
		return rest(w);
	if (!w->flushed)
		w->record = lane_begin(w->lane, JOURNAL_FLUSH, 0, 0);
	else
		begin_read(w, w->next, next_cnt(w));
	return LANE_GO;
}

static void enter_phase(struct lane_work *w, uint32_t nr)
{
	if (w->phase_nr == nr)
		return;
	w->phase_nr = nr;
	w->next = 0;
	w->flushed = w->j->flush_every == 0;
}

enum lane_step lane_next(struct lane_work *w)
{
	uint32_t nr = w->j->phase_nr;
	uint32_t phase = w->j->phase;

	/* The number is raised last, after all data of the phase is set. */
	enter_phase(w, nr);
	if (phase == PHASE_QUIT)
		return LANE_QUIT;
	if (w->lane->resting == nr)
		return LANE_WAIT;
	if (phase == PHASE_FILL && w->lane->number == 1)
		return write_all(w);
	if (phase == PHASE_FENCE && w->lane->is_first)
		return read_once(w);
	if (phase == PHASE_READ && w->lane->is_first)
		return read_all(w);
	if (phase != PHASE_LOAD || w->j->violated)
		return rest(w);
	if (!lane_has_room(w->j, w->lane))
		return LANE_WAIT; /* until the journal was checked */
	begin_any(w);
	return LANE_GO;
}

/* ---- answers ---- */

static void complain(struct lane_work *w, uint32_t block, uint64_t value,
		     const char *msg)
{
	if (!atomic_exchange(&w->j->violated, true)) {
		w->j->violated_block = block;
		w->j->violated_value = value;
	}
	fprintf(stderr,
		"VIOLATION: lane %u, through %s: block %u (bytes %" PRIu64
		" to %" PRIu64 ") %s\n",
		w->lane->number, w->through, block,
		w->j->offset + (uint64_t)block * w->j->block_size,
		w->j->offset + (uint64_t)(block + 1) * w->j->block_size - 1,
		msg);
}

/* Older than a value that this same lane had acknowledged: a violation in any
 * case. */
static bool is_stale(const struct lane_work *w, uint32_t block, uint64_t value)
{
	return stamp_lane(value) == w->lane->number && !w->j->volatile_cache &&
	       stamp_seq(value) < w->lane->newest[block];
}

static void see(struct lane_work *w, uint32_t i)
{
	const struct journal *j = w->j;
	uint32_t block = w->record->first + i;
	uint64_t *seen = &w->lane->seen[w->record->what + i];
	enum stamp_kind kind;
	char msg[256];

	kind = stamp_read(w->buf + (size_t)i * j->block_size, j->block_size,
			  j->run, block, seen, msg, sizeof(msg));
	if (kind == STAMP_ALIEN) {
		complain(w, block, STAMP_ZERO, msg);
	} else if (kind == STAMP_MIXED) {
		*seen = HISTORY_MIXED; /* the judge knows if it may be */
	} else if (is_stale(w, block, *seen)) {
		snprintf(msg, sizeof(msg),
			 "holds write %u of this lane, whose write %u was "
			 "acknowledged later",
			 stamp_seq(*seen), w->lane->newest[block]);
		complain(w, block, *seen, msg);
	}
}

void lane_answered(struct lane_work *w, int res)
{
	struct journal_record *r = w->record;

	for (uint32_t i = 0; r->op == JOURNAL_READ && !res && i < r->cnt; i++)
		see(w, i);
	lane_end(w->lane, r, res);
	if (!res && r->op == JOURNAL_FLUSH)
		w->flushed = true;
	if (!res && r->op != JOURNAL_FLUSH)
		w->next += r->cnt;
	w->record = NULL;
}
