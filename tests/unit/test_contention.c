/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rule, by rows of observations; then a reactor beside threads that never
 * sleep.
 */
#include "base/contention.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/lib/t_table.h"
#include "base/reactor.h"

/* ---- the rule ---- */

static const struct rule_row {
	const char *name;
	struct {
		unsigned int cnt;
		int ready; /* this many times */
	} seen[3];
	bool is; /* contention, with four processors */
} rule_rows[] = {
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

T_ROWS(by_the_rule, rule_rows)
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

/* Observes one ready thread more than CPUs, @more of ten times. True if the
 * CPUs are contended for in the end. */
static bool is_after(struct contention *c, unsigned int more)
{
	for (unsigned int i = 0; i < 10000; i++)
		contention_add(c, i % 10 < more ? 5 : 4);
	return c->is;
}

/* If io_uring is forbidden, or the kernel does not say how many threads are
 * ready to run, the test cannot observe contention. */
static bool can_be_found(void)
{
	struct reactor_options opt = { .ring_entries = 4 };
	struct reactor *r;

	if (access("/proc/loadavg", R_OK) || reactor_create(&opt, &r))
		return false;
	reactor_destroy(r);
	return true;
}

T_TEST(once_it_is_more_are_ready_for_a_moment)
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
	/* Not enough to stay contended, but enough to become contended,
	 * repeatedly. */
	c.is = true;
	for (unsigned int i = 0; c.is; i++)
		contention_add(&c, i % 10 < 4 ? 5 : 4);
	for (unsigned int i = 0; !c.is; i++)
		contention_add(&c, i % 10 < 4 ? 5 : 4);
	contention_close(&c);
}

/* As is_after(), but each check follows a command for a helper. */
static bool is_after_help(struct contention *c, unsigned int more)
{
	for (unsigned int i = 0; i < 10000; i++) {
		contention_helped(c);
		contention_add(c, i % 10 < more ? 5 : 4);
	}
	return c->is;
}

T_TEST(a_helper_does_not_count)
{
	struct contention c;

	(void)state;
	contention_init(&c);
	c.processors = 4;
	assert_false(is_after_help(&c, 7));
	assert_true(is_after_help(&c, 10));
	c.is = false;
	/* A command counts for one check. */
	assert_true(is_after(&c, 7));
	contention_close(&c);
}

/* ---- the rule for some CPUs ---- */

#define START_US 1000000000

static const struct span_row {
	const char *name;
	struct {
		unsigned int cnt; /* this many such spans */
		uint64_t wall_us;
		uint64_t cpu_us;
	} seen[3];
	bool is;
} span_rows[] = {
	{ "no span", { { 0, 0, 0 } }, false },
	{ "all the time is CPU time", { { 100000, 1000, 1000 } }, false },
	{ "a little is lacking, for ever", { { 100000, 1000, 950 } }, false },
	{ "half is lacking, for a moment", { { 8, 1000, 500 } }, false },
	{ "half is lacking", { { 20, 1000, 500 } }, true },
	{ "a third is lacking", { { 30, 900, 600 } }, true },
	{ "all is lacking, once", { { 1, 1000000, 10 } }, false },
	{ "all is lacking, twice at once", { { 2, 1000000, 0 } }, true },
	{ "one preemption, a rest, and one more",
	  { { 1, 4000, 1000 }, { 50, 1000, 1000 }, { 1, 4000, 1000 } },
	  false },
	{ "one preemption after the other",
	  { { 1, 4000, 1000 }, { 1, 3000, 3000 }, { 2, 4000, 1000 } },
	  true },
	{ "more CPU time than time, by rounding", { { 100000, 9, 10 } }, false },
};

T_ROWS(by_the_spans, span_rows)
{
	const struct span_row *row = *state;
	struct contention c = { .on_some = true };

	for (size_t i = 0; i < ARRAY_SIZE(row->seen); i++) {
		for (unsigned int k = 0; k < row->seen[i].cnt; k++)
			contention_add_span(&c, START_US, row->seen[i].wall_us,
					    row->seen[i].cpu_us);
	}
	assert_int_equal(c.is, row->is);
}

T_TEST(contention_on_some_holds_for_a_while)
{
	const uint64_t hold_us = CONTENTION_HOLD_MS * 1000;
	struct contention c = { .on_some = true };

	for (unsigned int i = 0; i < 20; i++)
		contention_add_span(&c, START_US, 1000, 500);
	assert_true(c.is);
	contention_expire(&c, START_US + hold_us - 1);
	assert_true(c.is);
	contention_expire(&c, START_US + hold_us);
	assert_false(c.is);
	/* CPU time that was missing before does not count again. */
	contention_add_span(&c, START_US + hold_us, 4000, 1000);
	assert_false(c.is);
}

/* Binds this thread, and the threads that it creates, to the first CPU that it
 * may use. */
static void stay_on_one_cpu(cpu_set_t *ret_before)
{
	cpu_set_t one;
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(*ret_before), ret_before),
			 0);
	while (!CPU_ISSET(cpu, ret_before))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

static bool is_on_some(void)
{
	struct contention c;

	contention_init(&c);
	contention_close(&c);
	return c.on_some;
}

T_TEST(the_cpus_of_the_process_choose_the_rule)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t before;

	stay_on_one_cpu(&before);
	assert_int_equal(is_on_some(), online > 1);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(is_on_some(), CPU_COUNT(&before) < online);
}

/* ---- beside threads that never sleep ---- */

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

static void start_rivals(struct rivals *v, long cnt)
{
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

/* One event comes at once. The next one does not come for a millisecond.
 * Returns true if the reactor slept. */
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

static struct reactor *polling_reactor(void)
{
	struct reactor_options opt = { .poll_us = 60000000 };
	struct reactor *r;

	assert_int_equal(reactor_create(&opt, &r), 0);
	/* From then on the reactor knows how soon the event comes. */
	sleeps_between(r);
	assert_false(sleeps_between(r));
	return r;
}

/* One such thread for each CPU. */
T_TEST_IF(can_be_found(), a_reactor_beside_them_does_not_poll)
{
	struct reactor *r = polling_reactor();
	static struct rivals v;

	start_rivals(&v, sysconf(_SC_NPROCESSORS_ONLN));
	while (!sleeps_between(r))
		;
	stop_rivals(&v);
	reactor_destroy(r);
}

/* Other CPUs may be idle: only the CPUs that the reactor may use count. */
T_TEST_IF(can_be_found(), one_on_its_only_cpu_is_enough)
{
	static struct rivals v;
	struct reactor *r;
	cpu_set_t before;

	stay_on_one_cpu(&before);
	r = polling_reactor();
	start_rivals(&v, 1);
	while (!sleeps_between(r))
		;
	stop_rivals(&v);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	reactor_destroy(r);
}
