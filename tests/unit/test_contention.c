/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rule by rows of spans; then with a thread that never rests on the only
 * processor there is, and a reactor beside it.
 */
#include "transport/contention.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/t_table.h"
#include "transport/reactor.h"

#define KNOWN CONTENTION_KNOWN_NS
#define LONG  CONTENTION_LONG_NS

/* ---- the rule ---- */

struct rule_row {
	const char *name;
	struct {
		unsigned int cnt;
		struct cpu_use use;
	} spans[3];
	bool is;
};

static const struct rule_row rule_rows[] = {
	{ "none yet", { { 0, { 0, 0 } } }, false },
	{ "never waited", { { 1, { KNOWN, 0 } } }, false },
	{ "a quarter of the time",
	  { { 1, { 9 * LONG, 3 * LONG } }, { 1, { KNOWN, KNOWN / 3 } } },
	  false },
	{ "more than a quarter", { { 1, { KNOWN, KNOWN / 3 + 1 } } }, true },
	{ "nothing else", { { 1, { 0, KNOWN } } }, true },
	{ "too little to tell", { { 1, { 0, KNOWN - 1 } } }, false },
	{ "in many spans", { { KNOWN / LONG, { LONG, LONG } } }, true },
	{ "each for a short time", { { KNOWN, { 1, LONG - 1 } } }, false },
	{ "not any more", { { 1, { 0, KNOWN } }, { 1, { KNOWN, 0 } } }, false },
	{ "not any more, too little to tell",
	  { { 1, { 0, KNOWN } }, { 1, { KNOWN - 1, 0 } } },
	  true },
	{ "what was known is not counted again",
	  { { 1, { 0, 2 * KNOWN } }, { 1, { KNOWN, 0 } } },
	  false },
};

static void by_the_rule(void **state)
{
	const struct rule_row *row = *state;
	struct contention c;

	contention_init(&c);
	for (size_t i = 0; i < ARRAY_SIZE(row->spans); i++) {
		for (unsigned int k = 0; k < row->spans[i].cnt; k++)
			contention_add(&c, row->spans[i].use, 1000);
	}
	assert_int_equal(contention_is(&c, 1000), row->is);
	contention_close(&c);
}

static void it_is_taken_to_last_for_a_while(void **state)
{
	static const struct cpu_use waited = { .waited = KNOWN };
	struct contention c;

	contention_init(&c);
	contention_add(&c, waited, 5);
	assert_true(contention_is(&c, 5));
	assert_true(contention_is(&c, 5 + CONTENTION_HOLD_US - 1));
	assert_false(contention_is(&c, 5 + CONTENTION_HOLD_US));
	contention_add(&c, waited, 5 + CONTENTION_HOLD_US);
	assert_true(contention_is(&c, 5 + CONTENTION_HOLD_US));
	contention_close(&c);
}

/* ---- beside a thread that never rests ---- */

struct rival {
	pthread_t thread;
	atomic_bool stop;
	cpu_set_t before;
};

static void *never_rest(void *arg)
{
	struct rival *v = arg;

	while (!atomic_load(&v->stop))
		;
	return NULL;
}

/* From here on there is one processor for the two. */
static int start_rival(void **state)
{
	static struct rival v;
	cpu_set_t one;
	int cpu = 0;

	*state = &v;
	atomic_store(&v.stop, false);
	if (sched_getaffinity(0, sizeof(v.before), &v.before))
		return -1;
	while (!CPU_ISSET(cpu, &v.before))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return -1;
	return pthread_create(&v.thread, NULL, never_rest, &v);
}

static int stop_rival(void **state)
{
	struct rival *v = *state;

	atomic_store(&v->stop, true);
	pthread_join(v->thread, NULL);
	return sched_setaffinity(0, sizeof(v->before), &v->before);
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void work_until(uint64_t until_us)
{
	while (now_us() < until_us)
		;
}

static void a_busy_thread_beside_is_found(void **state)
{
	struct contention c;

	(void)state;
	contention_init(&c);
	while (!contention_is(&c, now_us())) {
		contention_span(&c, now_us());
		work_until(now_us() + 100);
	}
	/* Nothing is looked at, nor found to be over, until then. */
	while (contention_is(&c, now_us()))
		contention_span(&c, now_us());
	/* Then it is soon found again: every span is looked at. */
	contention_span(&c, now_us());
	assert_true(c.looking);
	contention_close(&c);
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

static void a_reactor_beside_it_sleeps(void **state)
{
	struct reactor_options opt = { .poll_us = 60000000 };
	struct reactor *r;

	(void)state;
	assert_int_equal(reactor_create(&opt, &r), 0);
	/* Not known yet how soon what is waited for comes. */
	assert_true(sleeps_between(r));
	assert_false(sleeps_between(r));
	while (!sleeps_between(r))
		;
	/* And when it is over, it polls, to see. */
	while (sleeps_between(r))
		;
	reactor_destroy(r);
}

/* Where io_uring is forbidden, or the kernel keeps no such account, there is
 * nothing to find. */
static bool can_be_found(void)
{
	struct reactor_options opt = { .ring_entries = 4 };
	struct reactor *r;

	if (access("/proc/thread-self/schedstat", R_OK) ||
	    reactor_create(&opt, &r))
		return false;
	reactor_destroy(r);
	return true;
}

int main(void)
{
	static struct t_table t;

	T_ADD_ROWS(&t, rule_rows, by_the_rule);
	T_ADD(&t, it_is_taken_to_last_for_a_while);
	if (can_be_found()) {
		T_ADD(&t, a_busy_thread_beside_is_found);
		t.tests[t.cnt - 1].setup_func = start_rival;
		t.tests[t.cnt - 1].teardown_func = stop_rival;
		T_ADD(&t, a_reactor_beside_it_sleeps);
		t.tests[t.cnt - 1].setup_func = start_rival;
		t.tests[t.cnt - 1].teardown_func = stop_rival;
	}
	return t_run(&t);
}
