/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/proof/judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/proof/stamp.h"

#define OPEN UINT64_MAX

/* A record, with facts that follow from all records. */
struct event {
	const struct lane *lane;
	const struct journal_record *record;
	uint64_t end; /* ns; OPEN */
	bool confirmed;
};

/* The events of one lane or nexus, or of all. */
struct events {
	struct event *v;
	size_t cnt;
};

static void *must_alloc(size_t cnt, size_t size)
{
	void *p = calloc(cnt ? cnt : 1, size);

	if (!p)
		abort();
	return p;
}

/* ---- facts from the journals ---- */

static bool has_succeeded(const struct event *e)
{
	return e->record->state == JOURNAL_DONE && e->record->err == 0;
}

static struct events all_events(const struct journal *j)
{
	struct events all = { 0 };
	size_t cnt = 0;

	for (unsigned int i = 0; i < j->lane_cnt; i++)
		cnt += j->lanes[i].cnt;
	all.v = must_alloc(cnt, sizeof(*all.v));
	for (unsigned int i = 0; i < j->lane_cnt; i++) {
		for (uint32_t k = 0; k < j->lanes[i].cnt; k++) {
			const struct journal_record *r =
				&j->lanes[i].records[k];

			all.v[all.cnt++] = (struct event){
				.lane = &j->lanes[i],
				.record = r,
				.end = r->state == JOURNAL_DONE ? r->end : OPEN,
			};
		}
	}
	return all;
}

static bool is_flush(const struct event *e)
{
	return e->record->op == JOURNAL_FLUSH &&
	       e->record->state == JOURNAL_DONE;
}

/* If writes of a session may be lost, only one of its lanes is told. A flush of
 * another lane at that time proves nothing about earlier writes. */
static bool is_doubted(const struct events *all, const struct event *write,
		       const struct event *flush)
{
	for (size_t i = 0; i < all->cnt; i++) {
		const struct event *e = &all->v[i];

		if (is_flush(e) && e->record->err &&
		    e->lane->nexus == write->lane->nexus &&
		    e->record->end >= write->record->end &&
		    e->record->start <= flush->record->end)
			return true;
	}
	return false;
}

/* The events of a lane are consecutive and in order. If its flush and the flush
 * before succeeded, the flush confirms all writes between them. */
static void confirm(const struct events *all)
{
	size_t from = 0; /* the first event that the next flush covers */

	for (size_t i = 0; i < all->cnt; i++) {
		const struct event *e = &all->v[i];

		if (i > 0 && e->lane != all->v[i - 1].lane)
			from = i;
		if (!is_flush(e))
			continue;
		for (; from < i; from++)
			all->v[from].confirmed =
				has_succeeded(e) &&
				has_succeeded(&all->v[from]) &&
				!(e->lane->shares_errors &&
				  is_doubted(all, &all->v[from], e));
	}
}

static int by_start(const void *a, const void *b)
{
	const struct event *x = *(const struct event *const *)a;
	const struct event *y = *(const struct event *const *)b;

	return (x->record->start > y->record->start) -
	       (x->record->start < y->record->start);
}

/*
 * Sets the latest end of each failed write of a nexus. Works from the last
 * start to the first, because each write depends on those that began after its
 * failure.
 */
static void bound_nexus(struct event **v, size_t cnt)
{
	uint64_t *soonest = must_alloc(cnt + 1, sizeof(*soonest));

	soonest[cnt] = OPEN;
	for (size_t i = cnt; i-- > 0;) {
		bool proof = has_succeeded(v[i]) &&
			     v[i]->record->op != JOURNAL_FLUSH;

		soonest[i] = soonest[i + 1];
		if (proof && v[i]->record->end < soonest[i])
			soonest[i] = v[i]->record->end;
	}
	for (size_t i = 0; i < cnt; i++) {
		size_t k = i;

		if (has_succeeded(v[i]) || v[i]->record->op != JOURNAL_WRITE ||
		    v[i]->record->state != JOURNAL_DONE)
			continue;
		while (k < cnt && v[k]->record->start <= v[i]->record->end)
			k++;
		v[i]->end = soonest[k];
	}
	free(soonest);
}

static void bound(const struct events *all, unsigned int lane_cnt)
{
	struct event **v = must_alloc(all->cnt, sizeof(*v));

	for (unsigned int nexus = 1; nexus <= lane_cnt; nexus++) {
		size_t cnt = 0;

		for (size_t i = 0; i < all->cnt; i++) {
			if (all->v[i].lane->nexus == nexus)
				v[cnt++] = &all->v[i];
		}
		qsort(v, cnt, sizeof(struct event *), by_start);
		bound_nexus(v, cnt);
	}
	free(v);
}

/* ---- histories ---- */

/* All operations on all blocks. Those on block b are at[b] ... at[b + 1]. */
struct histories {
	struct history_op *ops;
	size_t *at;
};

static bool tells(const struct event *e)
{
	return e->record->op == JOURNAL_WRITE ||
	       (e->record->op == JOURNAL_READ && has_succeeded(e));
}

static struct history_op op_of(const struct event *e, uint32_t i)
{
	const struct journal_record *r = e->record;
	bool write = r->op == JOURNAL_WRITE;

	return (struct history_op){
		.start = r->start,
		.end = e->end,
		.value = write ? stamp_value(e->lane->number, r->what)
			       : e->lane->seen[r->what + i],
		.is_write = write,
		.acked = has_succeeded(e),
		.confirmed = e->confirmed,
		.tag = e,
	};
}

static struct histories sort_by_block(const struct journal *j,
				      const struct events *all)
{
	struct histories h = { .at = must_alloc(j->blocks + 2, sizeof(*h.at)) };
	size_t *at = h.at + 1; /* place for the next operation on a block */

	for (size_t i = 0; i < all->cnt; i++) {
		const struct journal_record *r = all->v[i].record;

		for (uint32_t k = 0; tells(&all->v[i]) && k < r->cnt; k++)
			at[r->first + k + 1]++;
	}
	for (uint32_t b = 0; b < j->blocks; b++)
		at[b + 1] += at[b];
	h.ops = must_alloc(at[j->blocks], sizeof(*h.ops));
	for (size_t i = 0; i < all->cnt; i++) {
		const struct journal_record *r = all->v[i].record;

		for (uint32_t k = 0; tells(&all->v[i]) && k < r->cnt; k++)
			h.ops[at[r->first + k]++] = op_of(&all->v[i], k);
	}
	return h;
}

/* ---- messages ---- */

static double seconds(const struct judge *judge, uint64_t t)
{
	return ((double)t - (double)judge->begin) / 1e9;
}

static const char *value_text(uint64_t value, char *buf, size_t len)
{
	if (value == HISTORY_MIXED)
		snprintf(buf, len, "parts of several writes");
	else if (value == STAMP_ZERO)
		snprintf(buf, len, "zeroes");
	else
		snprintf(buf, len, "write %u of lane %u", stamp_seq(value),
			 stamp_lane(value));
	return buf;
}

static const char *outcome(const struct history_op *op, char *buf, size_t len)
{
	const struct event *e = op->tag;

	if (!op->is_write)
		return "";
	if (e->record->state != JOURNAL_DONE)
		return ", never answered";
	if (e->record->err == 0)
		return op->confirmed ? ", acknowledged, flushed later"
				     : ", acknowledged";
	snprintf(buf, len, ", failed: %s", strerror(-e->record->err));
	return buf;
}

static void print_op(const struct judge *judge, const struct history_op *op)
{
	const struct event *e = op->tag;
	char value[64];
	char why[128];

	if (!op->tag)
		return;
	printf("  %11.6f .. ", seconds(judge, op->start));
	if (e->record->state == JOURNAL_DONE)
		printf("%11.6f", seconds(judge, e->record->end));
	else
		printf("%11s", "?");
	printf("  lane %2u (%s) %s %s%s\n", e->lane->number,
	       judge->through[e->lane->nexus], op->is_write ? "wrote" : "read ",
	       value_text(op->value, value, sizeof(value)),
	       outcome(op, why, sizeof(why)));
}

static int op_by_start(const void *a, const void *b)
{
	const struct history_op *x = a;
	const struct history_op *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static void print_allowed(const struct history *h,
			  const struct history_op *seen)
{
	char text[64];

	printf("The last of these reads could have given:");
	if (history_allows(h, seen, h->initial))
		printf(" what was there at first (%s);",
		       value_text(h->initial, text, sizeof(text)));
	for (size_t i = 0; i < h->cnt; i++) {
		if (h->ops[i].is_write &&
		    history_allows(h, seen, h->ops[i].value))
			printf(" %s;",
			       value_text(h->ops[i].value, text, sizeof(text)));
	}
	printf("\n");
}

static void print_cuts(const struct judge *judge)
{
	for (size_t i = 0; i < judge->cut_cnt; i++)
		printf("  %11.6f .. %11.6f  what was not flushed was lost\n",
		       seconds(judge, judge->cuts[i].begin),
		       seconds(judge, judge->cuts[i].end));
}

static void print_fault(const struct judge *judge, const struct history *h,
			uint32_t block, const struct history_fault *f)
{
	const struct journal *j = judge->j;
	uint64_t at = j->offset + (uint64_t)block * j->block_size;
	char value[64];
	char other[64];

	printf("VIOLATION: block %u (bytes %" PRIu64 " to %" PRIu64 ") %s\n",
	       block, at, at + j->block_size - 1,
	       history_verdict_text(f->verdict));
	printf("It shows by: %s", value_text(f->value, value, sizeof(value)));
	if (f->first[0] || f->verdict == HISTORY_LOST)
		printf(", against %s",
		       value_text(f->other, other, sizeof(other)));
	printf("\n");
	if (f->seen)
		print_op(judge, f->seen);
	for (int i = 0; i < 2; i++) {
		if (f->first[i])
			print_op(judge, f->first[i]);
		if (f->first[i] && f->second[i]) {
			printf("    was over before\n");
			print_op(judge, f->second[i]);
		}
	}
	if (f->seen)
		print_allowed(h, f->seen);
	printf("The history of block %u; before it, %s:\n", block,
	       value_text(h->initial, value, sizeof(value)));
	qsort(h->ops, h->cnt, sizeof(*h->ops), op_by_start);
	for (size_t i = 0; i < h->cnt; i++)
		print_op(judge, &h->ops[i]);
	print_cuts(judge);
}

/* ---- all checks ---- */

static bool judge_blocks(struct judge *judge, const struct histories *hs)
{
	for (uint32_t b = 0; b < judge->j->blocks; b++) {
		struct history h = {
			.ops = hs->ops + hs->at[b],
			.cnt = hs->at[b + 1] - hs->at[b],
			.initial = judge->initial[b],
			.replay_ns = judge->replay_ns,
			.cuts = judge->cuts,
			.cut_cnt = judge->cut_cnt,
		};
		struct history_fault f = history_check(&h);

		if (f.verdict != HISTORY_GOOD) {
			print_fault(judge, &h, b, &f);
			judge->bad_block = b;
			judge->bad_value = f.value;
			return false;
		}
	}
	return true;
}

bool judge_all(struct judge *judge)
{
	struct events all = all_events(judge->j);
	struct histories hs;
	bool good;

	confirm(&all);
	bound(&all, judge->j->lane_cnt);
	hs = sort_by_block(judge->j, &all);
	good = judge_blocks(judge, &hs);
	judge->ops += all.cnt;
	free(hs.ops);
	free(hs.at);
	free(all.v);
	return good;
}

static void take_seen(struct judge *judge, const struct lane *l)
{
	/* The last reads are those of all blocks. */
	for (uint32_t i = 0; i < l->cnt; i++) {
		const struct journal_record *r = &l->records[i];

		if (r->op == JOURNAL_READ && r->err == 0)
			memcpy(judge->initial + r->first, l->seen + r->what,
			       r->cnt * sizeof(*l->seen));
	}
}

void judge_forget(struct judge *judge)
{
	struct journal *j = judge->j;

	take_seen(judge, &j->lanes[0]);
	for (unsigned int i = 0; i < j->lane_cnt; i++)
		lane_forget(&j->lanes[i]);
	judge->cut_cnt = 0;
}

static uint64_t first_success(const struct judge *judge, unsigned int nexus,
			      uint64_t since)
{
	const struct journal *j = judge->j;
	uint64_t first = OPEN;

	for (unsigned int i = 0; i < j->lane_cnt; i++) {
		const struct lane *l = &j->lanes[i];

		for (uint32_t k = 0; l->nexus == nexus && k < l->cnt; k++) {
			const struct journal_record *r = &l->records[k];

			if (r->state == JOURNAL_DONE && r->err == 0 &&
			    r->end > since && r->end < first)
				first = r->end;
		}
	}
	return first;
}

uint64_t judge_usable_after(const struct judge *judge, uint64_t since)
{
	const struct journal *j = judge->j;
	uint64_t last = since;

	for (unsigned int i = 0; i < j->lane_cnt; i++) {
		uint64_t t = first_success(judge, j->lanes[i].nexus, since);

		if (t == OPEN)
			return OPEN;
		if (t > last)
			last = t;
	}
	return last - since;
}
