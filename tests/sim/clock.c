/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/ring.h"
#include "base/reactor_level.h"

#define RING_ENTRIES 512

struct reactor {
	int awaited;
	struct list node; /* reactors */
	struct list pollers;
	struct list timers; /* in the order they are due */
	struct reactor_msg *first;
	struct reactor_msg **last;
	unsigned int msg_cnt;
	struct io_uring_sqe sqes[RING_ENTRIES];
	unsigned int sqe_cnt;
};

static struct list reactors = LIST_INIT(reactors);
static const struct reactor *still;
static uint64_t now_us = 1000000;

uint64_t clock_now(void)
{
	return now_us;
}

void clock_reset(void)
{
	assert(list_empty(&reactors));
	now_us = 1000000;
}

const char *reactor_create_hint(int err)
{
	return "";
}

int reactor_create(const struct reactor_options *opt, struct reactor **ret)
{
	struct reactor *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	list_init(&r->pollers);
	list_init(&r->timers);
	r->last = &r->first;
	list_add_tail(&reactors, &r->node);
	*ret = r;
	return 0;
}

void reactor_destroy(struct reactor *r)
{
	if (!r)
		return;
	assert(list_empty(&r->timers) && !r->first && !r->sqe_cnt);
	list_del(&r->node);
	free(r);
}

void reactor_let_go(struct reactor *r)
{
}

unsigned int reactor_processors(void)
{
	return 1;
}

/* There are never more answers than the reactor waited for. */
void reactor_await(struct reactor *r, int cnt)
{
	r->awaited += cnt;
	assert(r->awaited >= 0);
}

void reactor_helped(struct reactor *r)
{
}

bool reactor_is_mine(const struct reactor *r)
{
	return true;
}

uint64_t reactor_now_us(struct reactor *r)
{
	return now_us;
}

uint64_t reactor_turn_us(struct reactor *r)
{
	return now_us;
}

uint64_t reactor_real_us(const struct reactor *r)
{
	return now_us;
}

/* ---- operations ---- */

struct io_uring_sqe *reactor_sqe(struct reactor *r)
{
	assert(r->sqe_cnt < RING_ENTRIES);
	return memset(&r->sqes[r->sqe_cnt++], 0, sizeof(r->sqes[0]));
}

/* The first @cnt. Operations that are added meanwhile wait for the next turn. */
static unsigned int run_operations(struct reactor *r, unsigned int cnt)
{
	for (unsigned int i = 0; i < cnt; i++) {
		struct reactor_op *op = (void *)(uintptr_t)r->sqes[i].user_data;

		op->done(op, ring_carry_out(&r->sqes[i]), /* cqe_flags= */ 0);
	}
	r->sqe_cnt -= cnt;
	memmove(r->sqes, r->sqes + cnt, r->sqe_cnt * sizeof(r->sqes[0]));
	return cnt;
}

/* ---- messages ---- */

void reactor_send(struct reactor *to, struct reactor_msg *msg)
{
	msg->next = NULL;
	*to->last = msg;
	to->last = &msg->next;
	to->msg_cnt++;
}

static void run_first(struct reactor *r)
{
	struct reactor_msg *msg = r->first;

	r->first = msg->next;
	if (!r->first)
		r->last = &r->first;
	r->msg_cnt--;
	msg->run(msg);
}

void clock_stand_still(const struct reactor *r)
{
	still = r;
}

static unsigned int messages_of(const struct reactor *r)
{
	return r == still ? 0 : r->msg_cnt + r->sqe_cnt;
}

unsigned int clock_messages(void)
{
	unsigned int n = 0;
	struct list *it;

	list_for_each(it, &reactors)
		n += messages_of(container_of(it, struct reactor, node));
	return n;
}

void clock_run_message(unsigned int nth)
{
	struct list *it;

	list_for_each(it, &reactors) {
		struct reactor *r = container_of(it, struct reactor, node);

		if (nth < messages_of(r)) {
			if (nth < r->msg_cnt)
				run_first(r);
			else
				run_operations(r, 1);
			return;
		}
		nth -= messages_of(r);
	}
}

/* ---- timers ---- */

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
	t->due_us = now_us + delay_ms * 1000;
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

static struct reactor_timer *first_timer(const struct reactor *r)
{
	if (list_empty(&r->timers))
		return NULL;
	return list_first(&r->timers, struct reactor_timer, node);
}

/* Timers that are set by timers that fire wait for the next time. */
static unsigned int fire_due(struct reactor *r)
{
	struct list due = LIST_INIT(due);
	struct reactor_timer *t;
	unsigned int n = 0;

	while ((t = first_timer(r)) && t->due_us <= now_us)
		list_add_tail(&due, list_pop(&r->timers));
	while (!list_empty(&due)) {
		t = container_of(list_pop(&due), struct reactor_timer, node);
		t->fire(t);
		n++;
	}
	return n;
}

bool clock_advance(void)
{
	uint64_t due = UINT64_MAX;
	struct list *it;

	list_for_each(it, &reactors) {
		struct reactor_timer *t =
			first_timer(container_of(it, struct reactor, node));

		if (t && t->due_us < due)
			due = t->due_us;
	}
	if (due == UINT64_MAX)
		return false;
	if (due > now_us)
		now_us = due;
	list_for_each(it, &reactors)
		fire_due(container_of(it, struct reactor, node));
	return true;
}

void clock_skip(uint64_t ms)
{
	now_us += ms * 1000;
}

/* ---- pollers, turns ---- */

void reactor_poller_add(struct reactor *r, struct reactor_poller *p)
{
	list_add_tail(&r->pollers, &p->node);
}

void reactor_poller_remove(struct reactor *r, struct reactor_poller *p)
{
	list_del(&p->node);
}

int reactor_run_once(struct reactor *r, int timeout_ms)
{
	unsigned int done = run_operations(r, r->sqe_cnt);
	struct list *it;
	struct list *tmp;

	while (r->first) {
		run_first(r);
		done++;
	}
	done += fire_due(r);
	list_for_each_safe(it, tmp, &r->pollers) {
		struct reactor_poller *p =
			container_of(it, struct reactor_poller, node);

		done += p->poll(p);
		if (p->flush)
			done += p->flush(p);
		done += !p->arm(p);
	}
	return done > 0;
}

/* ---- functions that need a kernel ---- */

int reactor_fd(const struct reactor *r)
{
	abort();
}

void reactor_sqe_reserve(struct reactor *r, unsigned int cnt)
{
}

void reactor_submit(struct reactor *r)
{
}

bool reactor_polls_first(const struct reactor *r)
{
	return false;
}

void reactor_cancel(struct reactor *r, struct reactor_op *op)
{
	abort();
}

int reactor_run(struct reactor *r)
{
	abort();
}

void reactor_stop(struct reactor *r)
{
}

int reactor_buffer_add(struct reactor *r, void *addr, size_t len,
		       int *ret_index)
{
	return -ENOSPC;
}

void reactor_buffer_remove(struct reactor *r, int index)
{
}

int reactor_file_add(struct reactor *r, int fd, int *ret_index)
{
	return -ENOSPC;
}

void reactor_file_remove(struct reactor *r, int index)
{
}

struct list *reactor_levels(struct reactor *r)
{
	abort();
}

void reactor_watch_start(struct reactor *r, struct reactor_watch *w)
{
	abort();
}

void reactor_watch_stop(struct reactor_watch *w)
{
	abort();
}
