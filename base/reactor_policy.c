/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor_internal.h"

#include <assert.h>
#include <sched.h>

#define POLL_US_DEFAULT 200

/* Measures how long one answer takes. */
static __attribute__((noinline)) void reactor_time_answer(struct reactor *r,
							  int cnt)
{
	if (cnt > 0 && r->awaited == 1)
		r->await_us = reactor_exact_us(r);
	else if (cnt < 0 && r->awaited == 0)
		r->comes_soon = reactor_exact_us(r) - r->await_us <= r->poll_us;
}

void reactor_await(struct reactor *r, int cnt)
{
	assert(cnt >= 0 || r->awaited >= (unsigned int)-cnt);
	r->awaited += (unsigned int)cnt;
	if (r->awaited <= 1 && r->poll_us && !r->polled)
		reactor_time_answer(r, cnt);
}

void reactor_helped(struct reactor *r)
{
	contention_helped(&r->contention);
}

/* Idle turns between two readings of the clock (see reactor_exact_us()). An
 * answer often comes before the first reading. */
#define POLL_TURNS 16

/*
 * If a wake-up takes longer than an answer, a thread that polls for too short a
 * time is late, and makes its peer late, too. So if a longer poll would have
 * avoided the last sleep, the reactor polls this many times as long, until that
 * fails once.
 */
#define POLL_LONG_FACTOR 5

static uint64_t reactor_poll_long_us(const struct reactor *r)
{
	return (uint64_t)r->poll_us * POLL_LONG_FACTOR;
}

static bool reactor_poll_time_is_over(struct reactor *r)
{
	uint64_t now = reactor_exact_us(r);

	if (!r->idle_since_us)
		r->idle_since_us = now;
	return now - r->idle_since_us >=
	       (r->polls_long ? reactor_poll_long_us(r) : r->poll_us);
}

static void reactor_stop_polling(struct reactor *r)
{
	r->polling = false;
	r->polls_long = false;
	r->comes_soon = false;
}

/* Chooses how long to poll from now on. The time without work is known only for
 * a sleep that followed polling. */
static void reactor_judge_sleep(struct reactor *r)
{
	if (r->slept && r->polled && r->idle_since_us)
		r->polls_long = reactor_exact_us(r) - r->idle_since_us <=
				reactor_poll_long_us(r);
	r->slept = false;
	r->idle_since_us = 0;
}

/* The time for polling begins with the first idle turn. */
bool reactor_keep_polling(struct reactor *r)
{
	if (r->busy) {
		r->busy = false;
		if (r->poll_us && !r->polled && r->awaited == 1)
			contention_look(&r->contention);
		reactor_judge_sleep(r);
		r->polling = reactor_worth_polling(r);
		r->idle_turns = 0;
	}
	if (r->polling && ++r->idle_turns % POLL_TURNS == 0 &&
	    reactor_poll_time_is_over(r))
		reactor_stop_polling(r);
	return r->polling;
}

unsigned int reactor_processors(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return (unsigned int)CPU_COUNT(&set);
}

unsigned int reactor_poll_us_default(void)
{
	return reactor_processors() > 1 ? POLL_US_DEFAULT : 0;
}
