/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/proof/evidence.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/proof/stamp.h"

/* How many writes of each lane are printed at both ends of a round. Writes of
 * the nexus that wrote the value in question are printed with more detail. */
#define ENDS	     3
#define SUSPECT_ENDS 16

/* A lane's records in one round. */
struct lane_part {
	const struct lane *lane;
	const struct journal_record *records;
	uint32_t cnt;
};

void evidence_note(struct evidence *e, const char *fmt, ...)
{
	struct evidence_note *n = &e->note[e->notes++ % EVIDENCE_NOTES];
	va_list args;

	n->at = journal_now();
	va_start(args, fmt);
	vsnprintf(n->text, sizeof(n->text), fmt, args);
	va_end(args);
}

void evidence_keep(struct evidence *e, const struct journal *j)
{
	struct evidence_round *r = &e->round[e->rounds++ % EVIDENCE_ROUNDS];
	size_t cnt = 0;

	for (unsigned int i = 0; i < j->lane_cnt; i++)
		cnt += j->lanes[i].cnt;
	free(r->records);
	*r = (struct evidence_round){ 0 };
	r->records = calloc(cnt ? cnt : 1, sizeof(*r->records));
	if (!r->records)
		abort();
	for (unsigned int i = 0; i < j->lane_cnt; i++) {
		const struct lane *l = &j->lanes[i];

		memcpy(r->records + r->first[i], l->records,
		       l->cnt * sizeof(*l->records));
		r->first[i + 1] = r->first[i] + l->cnt;
	}
}

void evidence_free(struct evidence *e)
{
	for (unsigned int i = 0; i < EVIDENCE_ROUNDS; i++)
		free(e->round[i].records);
}

/* ---- records ---- */

static struct lane_part evidence_part(const struct evidence_round *r,
				      const struct journal *j, unsigned int i)
{
	return (struct lane_part){
		.lane = &j->lanes[i],
		.records = r->records + r->first[i],
		.cnt = r->first[i + 1] - r->first[i],
	};
}

static struct lane_part journal_part(const struct journal *j, unsigned int i)
{
	return (struct lane_part){
		.lane = &j->lanes[i],
		.records = j->lanes[i].records,
		.cnt = j->lanes[i].cnt,
	};
}

static double evidence_seconds(const struct evidence *e, uint64_t t)
{
	return ((double)t - (double)e->begin) / 1e9;
}

static void print_record(const struct evidence *e, const struct lane *l,
			 const struct journal_record *r)
{
	static const char *const names[] = {
		[JOURNAL_READ] = "read",
		[JOURNAL_WRITE] = "wrote",
		[JOURNAL_FLUSH] = "flushed",
	};

	printf("  %11.6f .. ", evidence_seconds(e, r->start));
	if (r->state == JOURNAL_DONE)
		printf("%11.6f", evidence_seconds(e, r->end));
	else
		printf("%11s", "?");
	printf("  lane %2u (%s) %s", l->number, e->through[l->nexus],
	       names[r->op]);
	if (r->op != JOURNAL_FLUSH)
		printf(" blocks %u to %u", r->first, r->first + r->cnt - 1);
	if (r->op == JOURNAL_WRITE)
		printf(" as write %u", r->what);
	if (r->state != JOURNAL_DONE)
		printf(", no answer");
	else if (r->err)
		printf(", failed: %s", strerror(-r->err));
	printf("\n");
}

static bool touches(const struct journal_record *r, uint32_t block)
{
	return r->op != JOURNAL_FLUSH && block >= r->first &&
	       block - r->first < r->cnt;
}

/* ---- printing one round ---- */

static void print_touching(const struct evidence *e,
			   const struct lane_part *part, uint32_t block)
{
	for (uint32_t i = 0; i < part->cnt; i++) {
		if (touches(&part->records[i], block))
			print_record(e, part->lane, &part->records[i]);
	}
}

static bool changes_or_fails(const struct journal_record *r)
{
	return r->op == JOURNAL_WRITE || r->err || r->state != JOURNAL_DONE;
}

/* Prints the first and the last @ends records of those that change blocks or
 * fail. */
static void print_ends(const struct evidence *e, const struct lane_part *part,
		       uint32_t ends)
{
	uint32_t cnt = 0;
	uint32_t at = 0;

	for (uint32_t i = 0; i < part->cnt; i++)
		cnt += changes_or_fails(&part->records[i]);
	for (uint32_t i = 0; i < part->cnt; i++) {
		if (!changes_or_fails(&part->records[i]))
			continue;
		if (at < ends || at + ends >= cnt)
			print_record(e, part->lane, &part->records[i]);
		else if (at == ends)
			printf("  lane %2u: ... %u more\n", part->lane->number,
			       cnt - 2 * ends);
		at++;
	}
}

static const struct journal_record *find_write_of(const struct lane_part *part,
						  uint64_t value)
{
	for (uint32_t i = 0; i < part->cnt; i++) {
		const struct journal_record *r = &part->records[i];

		if (part->lane->number == stamp_lane(value) &&
		    r->op == JOURNAL_WRITE && r->what == stamp_seq(value))
			return r;
	}
	return NULL;
}

static void tell_round(const struct evidence *e, const struct journal *j,
		       const struct evidence_round *round, uint32_t block,
		       unsigned int suspect)
{
	struct lane_part part[JOURNAL_LANES];

	for (unsigned int i = 0; i < j->lane_cnt; i++)
		part[i] =
			round ? evidence_part(round, j, i) : journal_part(j, i);
	printf("What touched block %u:\n", block);
	for (unsigned int i = 0; i < j->lane_cnt; i++)
		print_touching(e, &part[i], block);
	printf("First and last writes and failures of each lane:\n");
	for (unsigned int i = 0; i < j->lane_cnt; i++)
		print_ends(e, &part[i],
			   part[i].lane->nexus == suspect ? SUSPECT_ENDS
							  : ENDS);
}

/* ---- printing all ---- */

static bool tell_write_in(const struct evidence *e,
			  const struct lane_part *part, uint64_t value,
			  unsigned int rounds_ago)
{
	const struct journal_record *r = find_write_of(part, value);

	if (!r)
		return false;
	printf("Write %u of lane %u is on record, of %u rounds ago:\n",
	       stamp_seq(value), stamp_lane(value), rounds_ago);
	print_record(e, part->lane, r);
	return true;
}

static unsigned int kept_rounds(const struct evidence *e)
{
	return e->rounds < EVIDENCE_ROUNDS ? e->rounds : EVIDENCE_ROUNDS;
}

/* @ago: 1 is the last round that was kept. */
static const struct evidence_round *round_ago(const struct evidence *e,
					      unsigned int ago)
{
	return &e->round[(e->rounds - ago) % EVIDENCE_ROUNDS];
}

static void tell_write(const struct evidence *e, const struct journal *j,
		       uint64_t value)
{
	unsigned int i = stamp_lane(value) - 1;
	struct lane_part part;

	if (i >= j->lane_cnt)
		return;
	part = journal_part(j, i);
	if (tell_write_in(e, &part, value, 0))
		return;
	for (unsigned int ago = 1; ago <= kept_rounds(e); ago++) {
		part = evidence_part(round_ago(e, ago), j, i);
		if (tell_write_in(e, &part, value, ago))
			return;
	}
	printf("Write %u of lane %u is not on record in this round and the %u "
	       "before it. The lane's last write is %u.\n",
	       stamp_seq(value), stamp_lane(value), kept_rounds(e),
	       j->lanes[i].seq);
}

/* This relates the times of logs and of strace to those in the messages. */
static void tell_clock(const struct evidence *e)
{
	struct timespec wall;
	uint64_t since = journal_now() - e->begin;
	uint64_t zero;

	clock_gettime(CLOCK_REALTIME, &wall);
	zero = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec -
	       since;
	printf("Time 0 is %.6f s of CLOCK_REALTIME, %.6f s of "
	       "CLOCK_MONOTONIC.\n",
	       (double)zero / 1e9, (double)e->begin / 1e9);
}

static void tell_notes(const struct evidence *e)
{
	unsigned int cnt =
		e->notes < EVIDENCE_NOTES ? e->notes : EVIDENCE_NOTES;

	printf("What was done:\n");
	for (unsigned int i = e->notes - cnt; i < e->notes; i++) {
		const struct evidence_note *n = &e->note[i % EVIDENCE_NOTES];

		printf("  %11.6f  %s\n", evidence_seconds(e, n->at), n->text);
	}
}

void evidence_tell(const struct evidence *e, const struct journal *j,
		   uint32_t block, uint64_t value)
{
	unsigned int lane = stamp_lane(value);
	unsigned int suspect =
		lane > 0 && lane <= j->lane_cnt ? j->lanes[lane - 1].nexus : 0;

	tell_clock(e);
	tell_write(e, j, value);
	for (unsigned int ago = kept_rounds(e); ago > 0; ago--) {
		printf("-- %u rounds ago\n", ago);
		tell_round(e, j, round_ago(e, ago), block, suspect);
	}
	printf("-- This round\n");
	tell_round(e, j, NULL, block, suspect);
	tell_notes(e);
}
