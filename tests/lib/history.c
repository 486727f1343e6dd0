/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/history.h"

#include <stdlib.h>
#include <string.h>

#define OPEN UINT64_MAX

/* All operations on one value between two power cuts. If a write may take place
 * several times, only one of these times. */
struct zone {
	uint64_t value;
	const struct history_op *write; /* NULL: the value was there before */
	const struct history_op *read;	/* one of its reads, or NULL */
	bool again;			/* the write may take place again */
	bool joined;			/* a value that replaced it is part */
	uint64_t f;			/* earliest end of these operations */
	uint64_t s;			/* latest start of these operations */
	const struct history_op *f_op;	/* the operation that ends at f; NULL:
					 * the epoch begins at f */
	const struct history_op *s_op;	/* the operation that starts at s; NULL:
					 * as for f_op */
};

struct zones {
	struct zone *v;
	size_t cnt;
	size_t write_cnt; /* the first zones are those of writes, sorted by
			   * value */
};

/* The time between two power cuts. */
struct epoch {
	uint64_t begin;
	uint64_t cut_begin;
	uint64_t cut_end;
};

static void *must_alloc(size_t cnt, size_t size)
{
	void *p = calloc(cnt ? cnt : 1, size);

	if (!p)
		abort();
	return p;
}

static struct history_fault good(void)
{
	return (struct history_fault){ .verdict = HISTORY_GOOD };
}

/* ---- operations of an epoch ---- */

static bool write_is_of(const struct history_op *op, const struct epoch *e)
{
	return op->is_write && op->start < e->cut_begin && op->end >= e->begin;
}

/* A read that a power cut interrupted may have been answered before or after
 * the cut. It proves nothing. */
static bool read_is_of(const struct history_op *op, const struct epoch *e)
{
	return !op->is_write && op->value != HISTORY_MIXED &&
	       op->start >= e->begin && op->end <= e->cut_begin;
}

/* True if the operation was answered with success in this epoch, and not
 * because it was repeated in a later one. */
static bool was_acked_in(const struct history_op *op, const struct epoch *e)
{
	return op->acked && op->end <= e->cut_end;
}

/* ---- zones ---- */

static int by_value(const void *a, const void *b)
{
	const struct zone *x = a;
	const struct zone *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

static int by_f(const void *a, const void *b)
{
	const struct zone *x = a;
	const struct zone *y = b;

	return (x->f > y->f) - (x->f < y->f);
}

static struct zone *find(const struct zones *z, uint64_t value)
{
	const struct zone key = { .value = value };

	return bsearch(&key, z->v, z->write_cnt, sizeof(*z->v), by_value);
}

static bool may_happen_again(const struct history *h,
			     const struct history_op *op)
{
	return h->replay_ns && op->end - op->start >= h->replay_ns;
}

static struct zone zone_of_write(const struct history *h,
				 const struct history_op *op,
				 const struct epoch *e)
{
	bool acked = was_acked_in(op, e);

	return (struct zone){
		.value = op->value,
		.write = op,
		.again = may_happen_again(h, op),
		.f = acked		      ? op->end
		     : op->end < e->cut_begin ? op->end
					      : OPEN,
		.s = op->start > e->begin ? op->start : e->begin,
		.f_op = op,
		.s_op = op,
	};
}

static void zone_add_read(struct zone *z, const struct history_op *op)
{
	z->read = op;
	if (op->end < z->f) {
		z->f = op->end;
		z->f_op = op;
	}
	if (op->start > z->s) {
		z->s = op->start;
		z->s_op = op;
	}
}

/* Zones for the values written in the epoch, with room for one more, and for
 * one for each read. */
static struct zones zones_of_writes(const struct history *h,
				    const struct epoch *e)
{
	struct zones z = { .v = must_alloc(h->cnt + 1, sizeof(*z.v)) };

	for (size_t i = 0; i < h->cnt; i++) {
		if (write_is_of(&h->ops[i], e))
			z.v[z.cnt++] = zone_of_write(h, &h->ops[i], e);
	}
	qsort(z.v, z.cnt, sizeof(*z.v), by_value);
	z.write_cnt = z.cnt;
	return z;
}

/* ---- what a power cut leaves ---- */

static const struct history_op *find_write(const struct history *h,
					   uint64_t value)
{
	for (size_t i = 0; i < h->cnt; i++) {
		if (h->ops[i].is_write && h->ops[i].value == value)
			return &h->ops[i];
	}
	return NULL;
}

/* Returns the earliest time at which the write @w was over: it was answered, or
 * an initiator had read its value. */
static uint64_t write_over(const struct history *h, const struct history_op *w)
{
	uint64_t end = w->end;

	for (size_t i = 0; i < h->cnt && !may_happen_again(h, w); i++) {
		const struct history_op *op = &h->ops[i];

		if (!op->is_write && op->value == w->value && op->end < end)
			end = op->end;
	}
	return end;
}

/* Returns the earliest confirmed write that began after the write of @value was
 * over, and was itself over before @t. */
static const struct history_op *confirmed_after(const struct history *h,
						uint64_t value, uint64_t t)
{
	const struct history_op *w = find_write(h, value);
	uint64_t w_over = w ? write_over(h, w) : 0;
	const struct history_op *found = NULL;

	for (size_t i = 0; i < h->cnt; i++) {
		const struct history_op *op = &h->ops[i];

		if (!op->is_write || !op->confirmed || op->end >= t ||
		    (w && op->start <= w_over))
			continue;
		if (!found || op->end < found->end)
			found = op;
	}
	return found;
}

/*
 * @read saw a value that was not written in this epoch. @old is the zone of the
 * survivor. Its read is unset if no survivor was seen so far.
 */
static struct history_fault survivor(const struct history *h,
				     const struct epoch *e, struct zone *old,
				     const struct history_op *read)
{
	const struct history_op *w = find_write(h, read->value);
	const struct history_op *newer;

	/* The initial value was stable: the judge flushed it. */
	if (!w && read->value != h->initial && e->begin)
		return (struct history_fault){ .verdict = HISTORY_LOST,
					       .value = read->value,
					       .other = h->initial,
					       .seen = read };
	if ((!w && read->value != h->initial) ||
	    (w && w->start >= e->cut_begin))
		return (struct history_fault){ .verdict = HISTORY_UNWRITTEN,
					       .value = read->value,
					       .seen = read };
	if (e->begin == 0 && read->value != h->initial)
		return (struct history_fault){ .verdict = HISTORY_UNWRITTEN,
					       .value = read->value,
					       .seen = read };
	if (old->read && old->value != read->value)
		return (struct history_fault){
			.verdict = HISTORY_TWO_SURVIVORS,
			.value = read->value,
			.other = old->value,
			.seen = read,
			.first = { old->read },
		};
	newer = e->begin ? confirmed_after(h, read->value, read->start) : NULL;
	if (newer)
		return (struct history_fault){ .verdict = HISTORY_LOST,
					       .value = read->value,
					       .other = newer->value,
					       .seen = read,
					       .first = { newer } };
	old->value = read->value;
	zone_add_read(old, read);
	return good();
}

static struct history_fault add_reads(const struct history *h,
				      const struct epoch *e, struct zones *z)
{
	/* The value that survived counts as written before the epoch begins. */
	struct zone old = { .value = h->initial, .f = e->begin };

	for (size_t i = 0; i < h->cnt; i++) {
		const struct history_op *op = &h->ops[i];
		struct history_fault fault;
		struct zone *zone;

		if (!read_is_of(op, e))
			continue;
		zone = find(z, op->value);
		if (zone && zone->write->start > op->end)
			return (struct history_fault){
				.verdict = HISTORY_UNWRITTEN,
				.value = op->value,
				.seen = op,
				.first = { zone->write },
			};
		if (zone && zone->again) {
			z->v[z->cnt] = *zone;
			zone = &z->v[z->cnt++];
		}
		if (zone) {
			zone_add_read(zone, op);
			continue;
		}
		fault = survivor(h, e, &old, op);
		if (fault.verdict != HISTORY_GOOD)
			return fault;
	}
	z->v[z->cnt++] = old;
	return good();
}

/* ---- contradictions ---- */

/* A write without success whose value no read has seen need not have
 * happened. */
static bool zone_is_seen(const struct zone *z, const struct epoch *e)
{
	return z->read || z->joined || (z->write && was_acked_in(z->write, e));
}

static void drop_unseen(const struct epoch *e, struct zones *z)
{
	size_t n = 0;

	for (size_t i = 0; i < z->cnt; i++) {
		if (zone_is_seen(&z->v[i], e))
			z->v[n++] = z->v[i];
	}
	z->cnt = n;
}

/* If a write took place several times, the zones of its value never contradict
 * each other. */
static bool contradict(const struct zone *a, const struct zone *b)
{
	return a->value != b->value && a->f < b->s && b->f < a->s;
}

static struct history_fault contradiction(const struct zone *a,
					  const struct zone *b)
{
	/* The message is about the zone whose last operation is the later
	 * one. */
	const struct zone *late = a->s >= b->s ? a : b;
	const struct zone *other = late == a ? b : a;

	return (struct history_fault){
		.verdict = HISTORY_CONTRADICTION,
		.value = late->value,
		.other = other->value,
		.seen = late->read,
		.first = { late->f_op, other->f_op },
		.second = { other->s_op, late->s_op },
	};
}

/* ---- COMPARE AND WRITE ---- */

/* Returns the zone of the value that @of replaced. NULL: this value was not
 * there. After a power cut, the block may have any value until it is read. */
static struct zone *find_replaced(const struct epoch *e, const struct zones *z,
				  const struct zone *of)
{
	uint64_t value = of->write->instead;
	struct zone *found = find(z, value);
	struct zone *old = &z->v[z->cnt - 1];

	if (found)
		return found;
	return old->value == value || (e->begin && !old->read) ? old : NULL;
}

static void zone_join(struct zone *to, const struct zone *z)
{
	to->joined = true;
	if (z->f < to->f) {
		to->f = z->f;
		to->f_op = z->f_op;
	}
	if (z->s > to->s) {
		to->s = z->s;
		to->s_op = z->s_op;
	}
}

/* Values that no other value can separate count as one value. Starts with the
 * last value, because a replaced value may itself have replaced another one. */
static struct history_fault join_replaced(const struct epoch *e,
					  struct zones *z)
{
	for (size_t i = z->write_cnt; i-- > 0;) {
		struct zone *zone = &z->v[i];
		struct zone *old;

		if (!zone->write->instead || !zone_is_seen(zone, e))
			continue;
		old = find_replaced(e, z, zone);
		if (!old)
			return (struct history_fault){
				.verdict = HISTORY_NOT_FOUND,
				.value = zone->value,
				.other = zone->write->instead,
				.first = { zone->write },
			};
		if (zone->f < old->s)
			return contradiction(old, zone);
		zone_join(old, zone);
		*zone = (struct zone){ .value = zone->value };
	}
	return good();
}

/* Two commands that succeeded cannot have found the same value. */
static struct history_fault check_replaced_once(const struct epoch *e,
						const struct zones *z)
{
	for (size_t i = 0; i < z->write_cnt; i++) {
		const struct history_op *a = z->v[i].write;

		for (size_t k = 0; a->instead && k < i; k++) {
			const struct history_op *b = z->v[k].write;

			if (a->instead == b->instead && was_acked_in(a, e) &&
			    was_acked_in(b, e))
				return (struct history_fault){
					.verdict = HISTORY_REPLACED_TWICE,
					.value = a->value,
					.other = b->value,
					.first = { a, b },
				};
		}
	}
	return good();
}

/* ---- all checks ---- */

/*
 * Forward zones (f < s) must not overlap: their value was there the whole time.
 * A backward zone (all its operations overlap) must not lie inside a forward
 * one.
 */
static struct history_fault judge(struct zones *z)
{
	const struct zone *forward = NULL;

	qsort(z->v, z->cnt, sizeof(*z->v), by_f);
	for (size_t i = 0; i < z->cnt; i++) {
		const struct zone *zone = &z->v[i];

		if (forward && contradict(forward, zone))
			return contradiction(forward, zone);
		if (zone->f < zone->s && (!forward || zone->s > forward->s))
			forward = zone;
	}
	return good();
}

static struct history_fault check_epoch(const struct history *h,
					const struct epoch *e)
{
	struct zones z = zones_of_writes(h, e);
	struct history_fault fault = add_reads(h, e, &z);

	if (fault.verdict == HISTORY_GOOD)
		fault = check_replaced_once(e, &z);
	if (fault.verdict == HISTORY_GOOD)
		fault = join_replaced(e, &z);
	if (fault.verdict == HISTORY_GOOD) {
		drop_unseen(e, &z);
		fault = judge(&z);
	}
	free(z.v);
	return fault;
}

/* ---- mixed blocks ---- */

static bool is_being_written(const struct history *h,
			     const struct history_op *read)
{
	for (size_t i = 0; i < h->cnt; i++) {
		const struct history_op *op = &h->ops[i];

		if (op->is_write && op->start < read->end &&
		    op->end > read->start)
			return true;
	}
	return false;
}

static struct history_fault check_mixed(const struct history *h)
{
	for (size_t i = 0; i < h->cnt; i++) {
		const struct history_op *op = &h->ops[i];

		if (op->value == HISTORY_MIXED && !is_being_written(h, op))
			return (struct history_fault){
				.verdict = HISTORY_TORN,
				.value = HISTORY_MIXED,
				.seen = op,
			};
	}
	return good();
}

struct history_fault history_check(const struct history *h)
{
	struct history_fault mixed = check_mixed(h);
	struct epoch e = { 0 };

	if (mixed.verdict != HISTORY_GOOD)
		return mixed;

	for (size_t i = 0; i <= h->cut_cnt; i++) {
		bool last = i == h->cut_cnt;
		struct history_fault fault;

		e.cut_begin = last ? OPEN : h->cuts[i].begin;
		e.cut_end = last ? OPEN : h->cuts[i].end;
		fault = check_epoch(h, &e);
		if (fault.verdict != HISTORY_GOOD)
			return fault;
		e.begin = e.cut_end;
	}
	return good();
}

const char *history_verdict_text(enum history_verdict verdict)
{
	switch (verdict) {
	case HISTORY_GOOD:
		return "is right";
	case HISTORY_TORN:
		return "was torn, though nobody was writing to it";
	case HISTORY_UNWRITTEN:
		return "held what nobody had written there by then, or what "
		       "had been overwritten before";
	case HISTORY_CONTRADICTION:
		return "lost an acknowledged write, or got an old one back";
	case HISTORY_LOST:
		return "lost a write that was acknowledged and flushed";
	case HISTORY_TWO_SURVIVORS:
		return "changed though nobody wrote to it";
	case HISTORY_NOT_FOUND:
		return "was compared with what was no longer there";
	case HISTORY_REPLACED_TWICE:
		return "was replaced twice by COMPARE AND WRITE";
	}
	return "?";
}

bool history_allows(const struct history *h, const struct history_op *op,
		    uint64_t value)
{
	struct history other = *h;
	struct history_fault fault;

	other.ops = must_alloc(h->cnt, sizeof(*other.ops));
	memcpy(other.ops, h->ops, h->cnt * sizeof(*other.ops));
	other.ops[op - h->ops].value = value;
	fault = history_check(&other);
	free(other.ops);
	return fault.verdict == HISTORY_GOOD;
}
