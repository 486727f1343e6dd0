/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor_internal.h"

#include <time.h>

/* A timer that is late by more shows that the thread did not run. */
#define LATE_US 500000u

uint64_t reactor_tick_us(void)
{
	struct timespec ts;

	clock_getres(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_nsec / 1000 + 1;
}

void reactor_skip(struct reactor *r, uint64_t ms)
{
	r->skipped_us += ms * 1000 + r->tick_us; /* see reactor_timer_set() */
	r->now_us = 0;
	r->skips = true;
}

uint64_t reactor_now_us(struct reactor *r)
{
	if (!r->in_turn || !r->now_us)
		r->now_us = reactor_coarse_us(r);
	return r->now_us;
}

uint64_t reactor_turn_us(struct reactor *r)
{
	return reactor_now_us(r) + r->forgiven_us;
}

uint64_t reactor_real_us(const struct reactor *r)
{
	return reactor_coarse_us(r) + r->forgiven_us;
}

/*
 * The clock goes back, but to no time before @seen_us. Then the timers are not
 * due in this turn, and what has arrived is handled before they are. If every
 * turn takes long, each second one fires them.
 */
void reactor_forgive(struct reactor *r, uint64_t seen_us)
{
	uint64_t due_us = reactor_first_timer_us(r);
	uint64_t now = r->now_us;

	if (r->skips || r->forgave || now - due_us <= LATE_US) {
		r->skips = false;
		r->forgave = false;
		return;
	}
	r->forgave = true;
	r->now_us = due_us - LATE_US;
	if (r->now_us < seen_us)
		r->now_us = seen_us;
	r->skipped_us -= now - r->now_us;
	r->forgiven_us += now - r->now_us;
}

void reactor_timer_init(struct reactor_timer *t,
			void (*fire)(struct reactor_timer *t))
{
	list_init(&t->node);
	t->due_us = 0;
	t->fire = fire;
}

void reactor_timer_set(struct reactor *r, struct reactor_timer *t,
		       uint64_t delay_ms)
{
	struct list *after;

	list_del(&t->node);
	t->due_us = reactor_now_us(r) + delay_ms * 1000;
	/* The last tick may be almost one tick old. The timer must not fire
	 * early. */
	if (delay_ms)
		t->due_us += r->tick_us;
	/* Search from the end: a new timer is mostly due later than the
	 * others. */
	for (after = r->timers.prev; after != &r->timers; after = after->prev) {
		if (container_of(after, struct reactor_timer, node)->due_us <=
		    t->due_us)
			break;
	}
	list_add_head(after, &t->node);
}

void reactor_timer_stop(struct reactor_timer *t)
{
	list_del(&t->node);
}

/* Collects the due timers first, so that a timer that is set to fire at once
 * fires in the next turn. Stopping a timer removes it from whichever list it is
 * in. */
unsigned int reactor_run_timers(struct reactor *r)
{
	struct list due = LIST_INIT(due);
	struct reactor_timer *t;
	unsigned int done = 0;

	while (reactor_first_timer_us(r) <= reactor_now_us(r))
		list_add_tail(&due, list_pop(&r->timers));
	while (!list_empty(&due)) {
		t = container_of(list_pop(&due), struct reactor_timer, node);
		t->fire(t);
		done++;
	}
	return done;
}

void reactor_alarm_done(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	container_of(op, struct reactor, alarm)->alarm_us = 0;
}

/* Makes the ring's descriptor readable when the first timer is due. */
void reactor_set_alarm(struct reactor *r)
{
	uint64_t due_us = reactor_first_timer_us(r);
	struct io_uring_sqe *sqe;

	if (due_us == NO_DEADLINE || (r->alarm_us && r->alarm_us <= due_us))
		return;
	sqe = reactor_sqe(r);
	reactor_timespec(&r->alarm_at, due_us + r->tick_us - r->skipped_us);
	if (r->alarm_us) {
		io_uring_prep_timeout_update(sqe, &r->alarm_at,
					     (uintptr_t)&r->alarm,
					     IORING_TIMEOUT_ABS);
	} else {
		io_uring_prep_timeout(sqe, &r->alarm_at, 0, IORING_TIMEOUT_ABS);
		reactor_prep_done(sqe, &r->alarm);
	}
	r->alarm_us = due_us;
}
