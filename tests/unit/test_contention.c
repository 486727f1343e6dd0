/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rule, by rows of spans; then a reactor beside threads that never sleep.
 */
#include "base/contention.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/lib/t_table.h"
#include "base/reactor.h"

/* ---- the rule ---- */

#define START_US 1000000000

struct rule_row {
	const char *name;
	struct {
		unsigned int cnt; /* spans like this */
		uint64_t wall_us;
		uint64_t cpu_us;
	} seen[3];
	bool is;
};

static const struct rule_row rule_rows[] = {
	{ "nothing seen", { { 0, 0, 0 } }, false },
	{ "all the time is CPU time", { { 100000, 1000, 1000 } }, false },
	{ "a little is missing, for ever", { { 100000, 1000, 950 } }, false },
	{ "half is missing, for a moment", { { 8, 1000, 500 } }, false },
	{ "half is missing", { { 20, 1000, 500 } }, true },
	{ "a third is missing", { { 30, 900, 600 } }, true },
	{ "all is missing, once", { { 1, 1000000, 10 } }, false },
	{ "all is missing, twice at once", { { 2, 1000000, 0 } }, true },
	{ "one preemption, a rest, and one more",
	  { { 1, 4000, 1000 }, { 50, 1000, 1000 }, { 1, 4000, 1000 } },
	  false },
	{ "one preemption after the other",
	  { { 1, 4000, 1000 }, { 1, 3000, 3000 }, { 2, 4000, 1000 } },
	  true },
	{ "missing after a long rest",
	  { { 100000, 1000, 1000 }, { 20, 1000, 500 } },
	  true },
	{ "more CPU time than time, by rounding", { { 100000, 9, 10 } }, false },
};

static void by_the_rule(void **state)
{
	const struct rule_row *row = *state;
	struct contention c = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(row->seen); i++) {
		for (unsigned int k = 0; k < row->seen[i].cnt; k++)
			contention_add(&c, START_US, row->seen[i].wall_us,
				       row->seen[i].cpu_us);
	}
	assert_int_equal(c.is, row->is);
}

static void it_is_over_after_a_while(void **state)
{
	const uint64_t hold_us = CONTENTION_HOLD_MS * 1000;
	struct contention c = { 0 };

	for (unsigned int i = 0; i < 20; i++)
		contention_add(&c, START_US, 1000, 500);
	assert_true(c.is);
	contention_expire(&c, START_US + hold_us - 1);
	assert_true(c.is);
	contention_expire(&c, START_US + hold_us);
	assert_false(c.is);
	/* What was missing before does not count again. */
	contention_add(&c, START_US + hold_us, 4000, 1000);
	assert_false(c.is);
}

/* ---- beside threads that never rest ---- */

#define RIVALS_MAX 256

struct rivals {
	pthread_t threads[RIVALS_MAX];
	unsigned int cnt;
	atomic_bool stop;
};

static void *never_rest(void *arg)
{
	struct rivals *v = arg;

	while (!atomic_load(&v->stop))
		;
	return NULL;
}

/* Keeps this thread, and those that it creates, on the first CPU of those that
 * it may use. */
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

static void start_rivals(struct rivals *v, unsigned int cnt)
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

static struct reactor *polling_reactor(void)
{
	struct reactor_options opt = { .poll_us = 60000000 };
	struct reactor *r;

	assert_int_equal(reactor_create(&opt, &r), 0);
	/* From then on the reactor knows how soon an answer comes. */
	sleeps_between(r);
	assert_false(sleeps_between(r));
	return r;
}

static void a_reactor_beside_them_does_not_poll(void **state)
{
	struct reactor *r = polling_reactor();
	static struct rivals v;

	start_rivals(&v, reactor_processors());
	while (!sleeps_between(r))
		;
	stop_rivals(&v);
	reactor_skip(r, CONTENTION_HOLD_MS);
	while (sleeps_between(r))
		;
	reactor_destroy(r);
}

/* Other CPUs may be idle: what counts is the one that the reactor may use. */
static void one_beside_it_on_its_only_cpu_is_enough(void **state)
{
	struct reactor *r = polling_reactor();
	static struct rivals v;
	cpu_set_t before;

	stay_on_one_cpu(&before);
	start_rivals(&v, 1);
	while (!sleeps_between(r))
		;
	stop_rivals(&v);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	reactor_destroy(r);
}

static bool has_io_uring(void)
{
	struct reactor_options opt = { .ring_entries = 4 };
	struct reactor *r;

	if (reactor_create(&opt, &r))
		return false;
	reactor_destroy(r);
	return true;
}

int main(void)
{
	static struct t_table t;

	T_ADD_ROWS(&t, rule_rows, by_the_rule);
	T_ADD(&t, it_is_over_after_a_while);
	if (has_io_uring()) {
		T_ADD(&t, a_reactor_beside_them_does_not_poll);
		T_ADD(&t, one_beside_it_on_its_only_cpu_is_enough);
	}
	return t_run(&t);
}
