/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/proof/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

struct journal *journal_create(void)
{
	void *p = mmap(NULL, sizeof(struct journal), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

uint64_t journal_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

bool lane_has_room(const struct journal *j, const struct lane *l)
{
	/* Reading all blocks may be refused many times before it succeeds. */
	return l->cnt < JOURNAL_RECORDS / 2 &&
	       l->seen_cnt + j->blocks + j->max_blocks < JOURNAL_SEEN;
}

struct journal_record *lane_begin(struct lane *l, enum journal_op op,
				  uint32_t first, uint32_t cnt)
{
	uint32_t n = l->cnt;
	struct journal_record *r = &l->records[n];

	if (n == JOURNAL_RECORDS ||
	    (op == JOURNAL_READ && l->seen_cnt + cnt > JOURNAL_SEEN))
		abort();
	*r = (struct journal_record){ .op = op, .first = first, .cnt = cnt };
	r->what = op == JOURNAL_WRITE ? ++l->seq : l->seen_cnt;
	r->start = journal_now();
	/* From here on, the record counts, whatever happens to its lane. */
	l->cnt = n + 1;
	return r;
}

void lane_end(struct lane *l, struct journal_record *r, int err)
{
	r->end = journal_now();
	r->err = (int16_t)err;
	if (r->op == JOURNAL_READ && !err)
		l->seen_cnt += r->cnt;
	if (err)
		l->errors++;
	else
		l->ops++;
	for (uint32_t i = 0; r->op == JOURNAL_WRITE && !err && i < r->cnt; i++)
		l->newest[r->first + i] = r->what;
	r->state = JOURNAL_DONE;
}

void lane_bury(struct lane *l)
{
	struct journal_record *r = l->cnt ? &l->records[l->cnt - 1] : NULL;

	if (r && r->state == JOURNAL_BEGUN)
		lane_end(l, r, -EOWNERDEAD);
}

void lane_forget(struct lane *l)
{
	l->cnt = 0;
	l->seen_cnt = 0;
}
