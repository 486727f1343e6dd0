/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/range_lock.h"
#include "tests/lib/t_table.h"

#define LOCKS_MAX 6

/* One step of a test, and the locks that are held after it: a bit for each.
 *   "S0 10 20"  lock number 0 shared for 10 ... 20; "X" exclusive; "-0" gone */
struct step {
	char what; /* 'S', 'X', '-'; 0: the end */
	unsigned int lock;
	uint64_t begin;
	uint64_t end;
	unsigned int held;
};

static const struct row {
	const char *name;
	struct step steps[10];
} rows[] = {
	{ "shared ones overlap",
	  { { 'S', 0, 0, 10, 1 }, { 'S', 1, 5, 15, 3 } } },
	{ "exclusive waits for shared",
	  { { 'S', 0, 0, 10, 1 }, { 'X', 1, 5, 15, 1 }, { '-', 0, 0, 0, 2 } } },
	{ "shared waits for exclusive",
	  { { 'X', 0, 0, 10, 1 }, { 'S', 1, 5, 15, 1 }, { '-', 0, 0, 0, 2 } } },
	{ "exclusive waits for exclusive",
	  { { 'X', 0, 0, 10, 1 }, { 'X', 1, 9, 10, 1 }, { '-', 0, 0, 0, 2 } } },
	{ "neighbours do not meet",
	  { { 'X', 0, 0, 10, 1 },
	    { 'X', 1, 10, 20, 3 },
	    { 'S', 2, 20, 30, 7 } } },
	{ "neighbours before do not meet",
	  { { 'X', 0, 10, 20, 1 }, { 'X', 1, 0, 10, 3 } } },
	{ "shared does not overtake a waiting exclusive",
	  { { 'S', 0, 0, 10, 1 },
	    { 'X', 1, 0, 10, 1 },
	    { 'S', 2, 0, 10, 1 },
	    { '-', 0, 0, 0, 2 },
	    { '-', 1, 0, 0, 4 } } },
	{ "elsewhere nobody waits",
	  { { 'S', 0, 0, 10, 1 },
	    { 'X', 1, 0, 10, 1 },
	    { 'S', 2, 50, 60, 5 },
	    { 'X', 3, 70, 80, 13 } } },
	{ "all that waited for one go on",
	  { { 'X', 0, 0, 100, 1 },
	    { 'S', 1, 0, 10, 1 },
	    { 'X', 2, 20, 30, 1 },
	    { 'S', 3, 5, 15, 1 },
	    { '-', 0, 0, 0, 14 } } },
	{ "one that waits for two waits for both",
	  { { 'S', 0, 0, 10, 1 },
	    { 'S', 1, 10, 20, 3 },
	    { 'X', 2, 5, 15, 3 },
	    { '-', 1, 0, 0, 1 },
	    { '-', 0, 0, 0, 4 } } },
};

struct test_lock {
	struct range_lock lock;
	unsigned int granted;
};

static void granted(struct range_lock *lock)
{
	container_of(lock, struct test_lock, lock)->granted++;
}

static void take(struct range_locks *locks, struct test_lock *l,
		 const struct step *s)
{
	l->lock.begin = s->begin;
	l->lock.end = s->end;
	l->lock.exclusive = s->what == 'X';
	l->lock.granted = granted;
	/* A lock that is granted at once counts as granted in the last
	 * assertion. */
	l->granted = range_lock_take(locks, &l->lock);
}

T_ROWS(order, rows)
{
	const struct row *row = *state;
	struct range_locks locks;
	struct test_lock l[LOCKS_MAX] = { 0 };

	range_locks_init(&locks);
	for (const struct step *s = row->steps; s->what; s++) {
		unsigned int held = 0;

		if (s->what == '-')
			range_unlock(&locks, &l[s->lock].lock);
		else
			take(&locks, &l[s->lock], s);
		for (unsigned int i = 0; i < LOCKS_MAX; i++)
			held |= (unsigned int)l[i].lock.held << i;
		assert_int_equal(held, s->held);
	}
	for (unsigned int i = 0; i < LOCKS_MAX; i++)
		assert_int_equal(l[i].granted,
				 l[i].lock.held || l[i].granted == 1);
}

/* A lock whose grant function gives it back at once. */
static struct range_locks chain;
static unsigned int passed;

static void pass_on(struct range_lock *lock)
{
	passed++;
	range_unlock(&chain, lock);
}

T_TEST(granted_may_unlock)
{
	struct range_lock l[5] = { 0 };

	range_locks_init(&chain);
	passed = 0;
	for (int i = 0; i < 5; i++) {
		l[i].end = 10;
		l[i].exclusive = i % 2 == 0;
		l[i].granted = pass_on;
		assert_int_equal(range_lock_take(&chain, &l[i]), i == 0);
	}
	range_unlock(&chain, &l[0]);
	assert_int_equal(passed, 4);
	assert_true(list_empty(&chain.all));
	assert_int_equal(chain.exclusive, 0);
}
