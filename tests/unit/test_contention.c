/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rule by rows of what was seen; then a reactor beside threads that never
 * rest.
 */
#include "base/contention.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/lib/t_table.h"
#include "base/reactor.h"

/* ---- the rule ---- */

struct rule_row {
	const char *name;
	struct {
		unsigned int cnt;
		int ready; /* so many times */
	} seen[3];
	bool is; /* with four processors */
};

static const struct rule_row rule_rows[] = {
	{ "nothing seen", { { 0, 0 } }, false },
	{ "as many as processors, for ever", { { 100000, 4 } }, false },
	{ "one more, once", { { 1, 5 } }, false },
	{ "one more, for ever", { { 100, 5 } }, true },
	{ "many more, at once", { { 1, 11 } }, true },
	{ "one more now and then, after a rest",
	  { { 100, 4 }, { 14, 5 }, { 1, 4 } },
	  false },
	{ "one more all the time, after a rest",
	  { { 100, 4 }, { 100, 5 } },
	  true },
	{ "one more all the time, after a long rest",
	  { { 100000, 1 }, { 100, 5 } },
	  true },
	{ "not any more", { { 100, 5 }, { 100, 4 } }, false },
	{ "not any more, for a moment", { { 100, 5 }, { 5, 4 } }, true },
	{ "not any more, after a long time",
	  { { 100000, 9 }, { 100, 4 } },
	  false },
	{ "and again", { { 100, 5 }, { 100, 4 }, { 100, 5 } }, true },
};

static void by_the_rule(void **state)
{
	const struct rule_row *row = *state;
	struct contention c;

	contention_init(&c);
	c.processors = 4;
	for (size_t i = 0; i < ARRAY_SIZE(row->seen); i++) {
		for (unsigned int k = 0; k < row->seen[i].cnt; k++)
			contention_add(&c, row->seen[i].ready);
	}
	assert_int_equal(c.is, row->is);
	contention_close(&c);
}

/* Whether processors are contended for at last, when @more of ten times one more is
 * ready than there are. */
static bool is_after(struct contention *c, unsigned int more)
{
	for (unsigned int i = 0; i < 10000; i++)
		contention_add(c, i % 10 < more ? 5 : 4);
	return c->is;
}

static void once_it_is_more_are_ready_for_a_moment(void **state)
{
	struct contention c;

	(void)state;
	contention_init(&c);
	c.processors = 4;
	assert_false(is_after(&c, 1));
	assert_true(is_after(&c, 7));
	assert_false(is_after(&c, 1));
	assert_true(is_after(&c, 10));
	assert_true(is_after(&c, 8));
	assert_false(is_after(&c, 1));
	/* Not enough to remain, but enough to begin, over and over. */
	c.is = true;
	for (unsigned int i = 0; c.is; i++)
		contention_add(&c, i % 10 < 4 ? 5 : 4);
	for (unsigned int i = 0; !c.is; i++)
		contention_add(&c, i % 10 < 4 ? 5 : 4);
	contention_close(&c);
}

/* ---- beside threads that never rest ---- */

#define RIVALS_MAX 256

struct rivals {
	pthread_t threads[RIVALS_MAX];
	long cnt;
	atomic_bool stop;
};

static void *never_rest(void *arg)
{
	struct rivals *v = arg;

	while (!atomic_load(&v->stop))
		;
	return NULL;
}

/* One for each processor. */
static void start_rivals(struct rivals *v)
{
	long cnt = sysconf(_SC_NPROCESSORS_ONLN);

	atomic_init(&v->stop, false);
	for (v->cnt = 0; v->cnt < cnt && v->cnt < RIVALS_MAX; v->cnt++)
		assert_int_equal(pthread_create(&v->threads[v->cnt], NULL,
						never_rest, v),
				 0);
}

static void stop_rivals(struct rivals *v)
{
	atomic_store(&v->stop, true);
	while (v->cnt > 0)
		pthread_join(v->threads[--v->cnt], NULL);
}

static void nop_done(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	(void)op;
	(void)cqe_flags;
	assert_int_equal(res, 0);
}

/* Something comes at once, and then, for a millisecond, what is waited for
 * does not. Returns whether it slept. */
static bool sleeps_between(struct reactor *r)
{
	struct reactor_op op = { .done = nop_done };
	struct io_uring_sqe *sqe = reactor_sqe(r);
	struct reactor_stats before, after;

	io_uring_prep_nop(sqe);
	reactor_prep_done(sqe, &op);
	assert_int_equal(reactor_run_once(r, -1), 1);
	reactor_stats(r, &before);
	reactor_await(r, 1);
	assert_int_equal(reactor_run_once(r, 1), 0);
	reactor_await(r, -1);
	reactor_stats(r, &after);
	return after.sleeps > before.sleeps;
}

static void a_reactor_beside_them_does_not_poll(void **state)
{
	struct reactor_options opt = { .poll_us = 60000000 };
	static struct rivals v;
	struct reactor *r;

	(void)state;
	assert_int_equal(reactor_create(&opt, &r), 0);
	/* How soon what is waited for comes is known from then on. */
	sleeps_between(r);
	assert_false(sleeps_between(r));
	start_rivals(&v);
	while (!sleeps_between(r))
		;
	stop_rivals(&v);
	reactor_destroy(r);
}

/* Where io_uring is forbidden, or it is not told how many are ready to run, there
 * is nothing to find. */
static bool can_be_found(void)
{
	struct reactor_options opt = { .ring_entries = 4 };
	struct reactor *r;

	if (access("/proc/loadavg", R_OK) || reactor_create(&opt, &r))
		return false;
	reactor_destroy(r);
	return true;
}

int main(void)
{
	static struct t_table t;

	T_ADD_ROWS(&t, rule_rows, by_the_rule);
	T_ADD(&t, once_it_is_more_are_ready_for_a_moment);
	if (can_be_found())
		T_ADD(&t, a_reactor_beside_them_does_not_poll);
	return t_run(&t);
}
