/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each test runs with each kind of ring, with and without polling. It waits for
 * events only. If nothing should happen, it counts what the reactor did.
 */
#include "base/reactor.h"
#include "base/reactor_level.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/t_table.h"

struct config {
	const char *name;
	enum reactor_mode mode;
	unsigned int poll_us;
	bool restricted; /* to the operations of test_ops */
};

/* Operations that the reactor itself does not need. */
static const uint8_t test_ops[] = {
	IORING_OP_READ,
	IORING_OP_READ_FIXED,
	IORING_OP_WRITE_FIXED,
};

static const struct config configs[] = {
	{ "deferred", REACTOR_DEFER, 0 },
	{ "deferred, polling", REACTOR_DEFER, 20 },
	{ "cooperative", REACTOR_COOP, 0 },
	{ "cooperative, polling", REACTOR_COOP, 20 },
	{ "plain", REACTOR_PLAIN, 0 },
	{ "plain, polling", REACTOR_PLAIN, 20 },
	{ "deferred, restricted", REACTOR_DEFER, 0, true },
	{ "cooperative, restricted", REACTOR_COOP, 0, true },
	{ "plain, restricted", REACTOR_PLAIN, 0, true },
};

static struct reactor *make_with(void **state, unsigned int ring_entries,
				 bool pollable)
{
	const struct config *c = *state;
	struct reactor_options opt = { .ring_entries = ring_entries,
				       .poll_us = c->poll_us,
				       .max_buffers = 2,
				       .max_files = 2,
				       .mode = c->mode,
				       .pollable = pollable,
				       .ops = c->restricted ? test_ops : NULL,
				       .op_cnt = ARRAY_SIZE(test_ops) };
	struct reactor *r = NULL;

	assert_int_equal(reactor_create(&opt, &r), 0);
	return r;
}

static struct reactor *make_sized(void **state, unsigned int ring_entries)
{
	return make_with(state, ring_entries, false);
}

static struct reactor *make_pollable(void **state)
{
	return make_with(state, 0, true);
}

static struct reactor *make(void **state)
{
	return make_with(state, 0, false);
}

static struct reactor_stats stats_of(struct reactor *r)
{
	struct reactor_stats s;

	reactor_stats(r, &s);
	return s;
}

static void *run_thread(void *arg)
{
	return (void *)(intptr_t)reactor_run(arg);
}

static pthread_t start(void *(*run)(void *arg), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
	return thread;
}

static void join(pthread_t thread)
{
	void *ret;

	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_null(ret);
}

static void ring_bell(int fd)
{
	uint64_t one = 1;

	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

/* ---- operations ---- */

struct counted_op {
	struct reactor_op op;
	struct reactor *stop; /* NULL: do not stop it */
	int res;
	unsigned int cnt;
};

static void count_op(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	struct counted_op *c = container_of(op, struct counted_op, op);

	c->res = res;
	c->cnt++;
	if (c->stop)
		reactor_stop(c->stop);
}

static void queue_nop(struct reactor *r, struct counted_op *c)
{
	struct io_uring_sqe *sqe = reactor_sqe(r);

	c->op.done = count_op;
	io_uring_prep_nop(sqe);
	reactor_prep_done(sqe, &c->op);
}

T_ROWS(what_was_queued_before_it_runs_completes, configs)
{
	struct reactor *r = make(state);
	struct counted_op nop = { .stop = r };

	queue_nop(r, &nop);
	assert_int_equal(reactor_run(r), 0);
	assert_int_equal(nop.cnt, 1);
	assert_int_equal(stats_of(r).completions, 1);
	reactor_destroy(r);
}

T_ROWS(an_operation_beside_the_list_is_refused, configs)
{
	const struct config *c = *state;
	struct reactor *r = make(state);
	struct counted_op op = { .stop = r, .op.done = count_op };
	struct io_uring_sqe *sqe = reactor_sqe(r);

	io_uring_prep_close(sqe, -1);
	reactor_prep_done(sqe, &op.op);
	assert_int_equal(reactor_run(r), 0);
	assert_int_equal(op.res, c->restricted ? -EACCES : -EBADF);
	reactor_destroy(r);
}

T_ROWS(a_cancelled_operation_completes_as_such, configs)
{
	struct reactor *r = make(state);
	struct counted_op op = { .op.done = count_op, .stop = r };
	struct io_uring_sqe *sqe;
	int fds[2];
	char byte;

	assert_int_equal(pipe(fds), 0);
	sqe = reactor_sqe(r);
	io_uring_prep_read(sqe, fds[0], &byte, 1, 0);
	reactor_prep_done(sqe, &op.op);
	assert_int_equal(reactor_run_once(r, 0), 0);
	reactor_cancel(r, &op.op);
	assert_int_equal(reactor_run(r), 0);
	assert_int_equal(op.cnt, 1);
	assert_int_equal(op.res, -ECANCELED);
	close(fds[0]);
	close(fds[1]);
	reactor_destroy(r);
}

T_ROWS(completions_come_without_waiting, configs)
{
	struct counted_op op = { .op.done = count_op };
	int fd = eventfd(0, EFD_CLOEXEC);
	struct reactor *r = make(state);
	struct io_uring_sqe *sqe = reactor_sqe(r);

	io_uring_prep_poll_add(sqe, fd, POLLIN);
	reactor_prep_done(sqe, &op.op);
	assert_int_equal(reactor_run_once(r, 0), 0);
	ring_bell(fd);
	/* The kernel is asked at the end of a turn. */
	assert_in_range(reactor_run_once(r, 0), 0, 1);
	assert_in_range(reactor_run_once(r, 0), 0, 1);
	assert_int_equal(op.cnt, 1);
	assert_int_equal(op.res, POLLIN);
	close(fd);
	reactor_destroy(r);
}

/* From a handler, queues many more entries than the submission queue has. Their
 * completions exceed the completion queue as well. */
#define FLOOD 500

struct flood {
	struct reactor_msg msg;
	struct reactor *r;
	struct counted_op nops[FLOOD];
};

static void pour(struct reactor_msg *msg)
{
	struct flood *f = container_of(msg, struct flood, msg);

	for (size_t i = 0; i < FLOOD; i++)
		queue_nop(f->r, &f->nops[i]);
}

T_ROWS(more_than_fits_the_queues_completes_once_each, configs)
{
	static struct flood f;

	memset(&f, 0, sizeof(f));
	f.r = make_sized(state, 4);
	f.msg.run = pour;
	f.nops[FLOOD - 1].stop = f.r;
	reactor_send(f.r, &f.msg);
	assert_int_equal(reactor_run(f.r), 0);
	while (reactor_run_once(f.r, 0) == 1)
		;
	for (size_t i = 0; i < FLOOD; i++)
		assert_int_equal(f.nops[i].cnt, 1);
	reactor_destroy(f.r);
}

/* The first entry of a chain fails, so the others must be cancelled. They would
 * not be cancelled if the chain had been cut. */
T_ROWS(a_chain_with_reserved_room_is_not_cut, configs)
{
	struct reactor *r = make_sized(state, 4);
	struct counted_op filler[3] = { 0 };
	struct counted_op chain[3] = { 0 };
	struct io_uring_sqe *sqe;
	char byte;

	assert_int_equal(reactor_run_once(r, 0), 0);
	for (size_t i = 0; i < ARRAY_SIZE(filler); i++)
		queue_nop(r, &filler[i]);
	reactor_sqe_reserve(r, 3);
	chain[0].op.done = count_op;
	sqe = reactor_sqe(r);
	io_uring_prep_read(sqe, -1, &byte, 1, 0);
	sqe->flags |= IOSQE_IO_LINK;
	reactor_prep_done(sqe, &chain[0].op);
	chain[1].op.done = count_op;
	sqe = reactor_sqe(r);
	io_uring_prep_nop(sqe);
	sqe->flags |= IOSQE_IO_LINK;
	reactor_prep_done(sqe, &chain[1].op);
	chain[2].stop = r;
	queue_nop(r, &chain[2]);
	assert_int_equal(reactor_run(r), 0);
	assert_int_equal(chain[0].res, -EBADF);
	assert_int_equal(chain[1].res, -ECANCELED);
	assert_int_equal(chain[2].res, -ECANCELED);
	reactor_destroy(r);
}

/* ---- fixed buffers and files ---- */

static int rw_fixed(struct reactor *r, bool is_write, int file, int buffer,
		    void *p)
{
	struct counted_op op = { .op.done = count_op, .stop = r };
	struct io_uring_sqe *sqe = reactor_sqe(r);

	if (is_write)
		io_uring_prep_write_fixed(sqe, file, p, 4096, 0, buffer);
	else
		io_uring_prep_read_fixed(sqe, file, p, 4096, 0, buffer);
	sqe->flags |= IOSQE_FIXED_FILE;
	reactor_prep_done(sqe, &op.op);
	assert_int_equal(reactor_run(r), 0);
	return op.res;
}

T_ROWS(fixed_buffers_and_files_serve_until_removed, configs)
{
	struct reactor *r = make(state);
	char *a = aligned_alloc(4096, 4096);
	char *b = aligned_alloc(4096, 4096);
	int fd = memfd_create("fixed", MFD_CLOEXEC);
	int a_index = -1, b_index = -1, c_index = -1;
	int file = -1;

	memset(a, 'a', 4096);
	memset(b, 'b', 4096);
	/* One was registered before it ran, and one after. */
	assert_int_equal(reactor_buffer_add(r, a, 4096, &a_index), 0);
	assert_int_equal(reactor_file_add(r, fd, &file), 0);
	close(fd);
	assert_int_equal(rw_fixed(r, true, file, a_index, a), 4096);
	assert_int_equal(reactor_buffer_add(r, b, 4096, &b_index), 0);
	assert_int_not_equal(a_index, b_index);
	assert_int_equal(rw_fixed(r, false, file, b_index, b), 4096);
	assert_memory_equal(a, b, 4096);

	assert_int_equal(reactor_buffer_add(r, b, 4096, &c_index), -ENOSPC);
	reactor_buffer_remove(r, a_index);
	assert_int_equal(rw_fixed(r, true, file, a_index, a), -EFAULT);
	assert_int_equal(reactor_buffer_add(r, a, 4096, &c_index), 0);
	assert_int_equal(c_index, a_index);
	reactor_file_remove(r, file);
	assert_int_equal(rw_fixed(r, true, file, b_index, b), -EBADF);
	reactor_destroy(r);
	free(a);
	free(b);
}

T_ROWS(bad_buffers_and_files_are_refused, configs)
{
	struct reactor *r = make(state);
	static char buf[4096];
	int index = -7;

	assert_int_equal(reactor_buffer_add(r, NULL, 4096, &index), -EINVAL);
	assert_int_equal(reactor_buffer_add(r, buf, 0, &index), -EINVAL);
	assert_int_equal(
		reactor_buffer_add(r, buf, ((size_t)1 << 30) + 1, &index),
		-EFBIG);
	assert_int_equal(reactor_buffer_add(r, (void *)4096, 4096, &index),
			 -EFAULT);
	assert_int_equal(reactor_file_add(r, -1, &index), -EBADF);
	assert_int_equal(reactor_file_add(r, 1 << 20, &index), -EBADF);
	assert_int_equal(index, -7);
	/* The failed attempts left no slot in use. */
	assert_int_equal(reactor_buffer_add(r, buf, sizeof(buf), &index), 0);
	assert_int_equal(reactor_buffer_add(r, buf, sizeof(buf), &index), 0);
	assert_int_equal(reactor_file_add(r, 0, &index), 0);
	assert_int_equal(reactor_file_add(r, 0, &index), 0);
	assert_int_equal(reactor_file_add(r, 0, &index), -ENOSPC);
	reactor_destroy(r);
}

/* ---- messages ---- */

#define SENDERS	 4
#define PER_SEND 5000u

struct numbered_msg {
	struct reactor_msg msg;
	struct sender *sender;
	unsigned int n;
};

struct storm {
	struct reactor *r;
	unsigned int cnt;
	bool in_order;
	bool mine;
};

struct sender {
	struct storm *storm;
	struct numbered_msg *msgs;
	unsigned int next;
};

static void run_numbered(struct reactor_msg *msg)
{
	struct numbered_msg *m = container_of(msg, struct numbered_msg, msg);
	struct storm *storm = m->sender->storm;

	if (m->n != m->sender->next++)
		storm->in_order = false;
	if (!reactor_is_mine(storm->r))
		storm->mine = false;
	if (++storm->cnt == SENDERS * PER_SEND)
		reactor_stop(storm->r);
}

static void *send_numbered(void *arg)
{
	struct sender *s = arg;

	for (unsigned int i = 0; i < PER_SEND; i++) {
		s->msgs[i] = (struct numbered_msg){ .msg.run = run_numbered,
						    .sender = s,
						    .n = i };
		reactor_send(s->storm->r, &s->msgs[i].msg);
	}
	return NULL;
}

T_ROWS(messages_of_a_sender_keep_their_order, configs)
{
	struct storm storm = { .r = make(state),
			       .in_order = true,
			       .mine = true };
	struct sender senders[SENDERS];
	pthread_t threads[SENDERS];

	for (size_t i = 0; i < SENDERS; i++) {
		senders[i] = (struct sender){ .storm = &storm };
		senders[i].msgs = calloc(PER_SEND, sizeof(*senders[i].msgs));
		threads[i] = start(send_numbered, &senders[i]);
	}
	assert_int_equal(reactor_run(storm.r), 0);
	for (size_t i = 0; i < SENDERS; i++) {
		join(threads[i]);
		assert_int_equal(senders[i].next, PER_SEND);
		free(senders[i].msgs);
	}
	assert_true(storm.in_order);
	assert_true(storm.mine);
	assert_int_equal(stats_of(storm.r).messages, SENDERS * PER_SEND);
	reactor_destroy(storm.r);
}

/* One message goes back and forth. Each reactor sleeps, or is about to sleep,
 * when the other one sends. If a wake-up is lost, the test hangs. */
#define ROUNDS 5000u

struct ball {
	struct reactor_msg msg;
	struct reactor *sides[2];
	unsigned int hits;
};

static void hit(struct reactor_msg *msg)
{
	struct ball *b = container_of(msg, struct ball, msg);

	if (b->hits++ < ROUNDS) {
		reactor_send(b->sides[b->hits % 2], msg);
		return;
	}
	reactor_stop(b->sides[0]);
	reactor_stop(b->sides[1]);
}

T_ROWS(no_wake_up_is_lost_between_reactors, configs)
{
	struct ball b = { .msg.run = hit };
	pthread_t thread;

	b.sides[0] = make(state);
	b.sides[1] = make(state);
	thread = start(run_thread, b.sides[1]);
	reactor_send(b.sides[0], &b.msg);
	assert_int_equal(reactor_run(b.sides[0]), 0);
	join(thread);
	assert_int_equal(b.hits, ROUNDS + 1);
	reactor_destroy(b.sides[0]);
	reactor_destroy(b.sides[1]);
}

struct self_msg {
	struct reactor_msg msg;
	struct reactor *r;
	struct counted_op nop;
	unsigned int left;
};

static void send_again(struct reactor_msg *msg)
{
	struct self_msg *m = container_of(msg, struct self_msg, msg);

	if (m->left-- > 0)
		reactor_send(m->r, msg);
	if (m->left == 0)
		queue_nop(m->r, &m->nop);
}

T_ROWS(a_message_to_oneself_runs_next_turn, configs)
{
	struct self_msg m = { .msg.run = send_again, .left = 3 };
	struct reactor *r = make(state);

	m.r = r;
	reactor_send(r, &m.msg);
	for (unsigned int left = 3; left-- > 0;) {
		assert_int_equal(reactor_run_once(r, 0), 1);
		assert_int_equal(m.left, left);
	}
	assert_int_equal(reactor_run_once(r, 0), 1);
	assert_int_equal(stats_of(r).wakeups, 0);
	while (reactor_run_once(r, 0) == 1)
		;
	assert_int_equal(m.nop.cnt, 1);
	reactor_destroy(r);
}

/* ---- stopping, ownership ---- */

T_ROWS(a_stop_before_the_run_ends_it, configs)
{
	struct reactor *r = make(state);

	reactor_stop(r);
	assert_int_equal(reactor_run(r), 0);
	reactor_stop(r);
	assert_int_equal(reactor_run_once(r, -1), 0);
	reactor_destroy(r);
}

T_ROWS(another_thread_stops_it_asleep_or_not, configs)
{
	for (unsigned int i = 0; i < 200; i++) {
		struct reactor *r = make(state);
		pthread_t thread = start(run_thread, r);

		reactor_stop(r);
		join(thread);
		reactor_destroy(r);
	}
}

struct asked {
	struct reactor_msg msg;
	struct reactor *r;
	_Atomic int is_mine; /* -1: not asked yet */
	int bell;
};

static void ask_is_mine(struct reactor_msg *msg)
{
	struct asked *a = container_of(msg, struct asked, msg);

	a->is_mine = reactor_is_mine(a->r);
	ring_bell(a->bell);
}

T_ROWS(it_belongs_to_the_thread_that_runs_it, configs)
{
	struct asked a = { .msg.run = ask_is_mine, .is_mine = -1 };
	uint64_t cnt;
	pthread_t thread;

	a.r = make(state);
	a.bell = eventfd(0, EFD_CLOEXEC);
	assert_true(reactor_is_mine(a.r));
	thread = start(run_thread, a.r);
	reactor_send(a.r, &a.msg);
	assert_int_equal(read(a.bell, &cnt, sizeof(cnt)), sizeof(cnt));
	assert_int_equal(a.is_mine, 1);
	assert_false(reactor_is_mine(a.r));
	reactor_stop(a.r);
	join(thread);
	assert_true(reactor_is_mine(a.r));
	close(a.bell);
	reactor_destroy(a.r);
	reactor_destroy(NULL);
}

/* ---- timers ---- */

struct test_timer {
	struct reactor_timer timer;
	struct reactor *r;
	unsigned int nth;	  /* 1: fired first */
	uint64_t fired_us;	  /* the time, by the reactor's clock */
	uint64_t fired_turn;	  /* the turn of the last time */
	unsigned int cnt;	  /* how often it fired */
	unsigned int again;	  /* how often it sets itself again at once */
	struct test_timer *stops; /* the timer that it stops */
	bool last;
};

static unsigned int timers_fired;

static void fire(struct reactor_timer *timer)
{
	struct test_timer *t = container_of(timer, struct test_timer, timer);
	uint64_t turn = stats_of(t->r).turns;

	assert_int_not_equal(t->fired_turn, turn);
	t->nth = ++timers_fired;
	t->fired_us = reactor_now_us(t->r);
	t->fired_turn = turn;
	t->cnt++;
	if (t->stops)
		reactor_timer_stop(&t->stops->timer);
	if (t->again) {
		t->again--;
		reactor_timer_set(t->r, timer, 0);
	} else if (t->last) {
		reactor_stop(t->r);
	}
}

static void set_timer(struct reactor *r, struct test_timer *t, uint64_t ms)
{
	t->r = r;
	if (!t->timer.fire)
		reactor_timer_init(&t->timer, fire);
	reactor_timer_set(r, &t->timer, ms);
}

T_ROWS(timers_fire_in_order_and_not_early, configs)
{
	static const uint64_t delays_ms[] = { 9, 3, 12, 3, 0, 6 };
	static const unsigned int order[] = { 5, 2, 6, 3, 1, 4 };
	struct test_timer t[ARRAY_SIZE(order)] = { [2].last = true };
	struct reactor *r = make(state);
	uint64_t from_us = reactor_now_us(r);

	timers_fired = 0;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		set_timer(r, &t[i], delays_ms[i]);
	assert_int_equal(reactor_run(r), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		assert_int_equal(t[i].nth, order[i]);
		assert_true(t[i].fired_us >= from_us + delays_ms[i] * 1000);
	}
	reactor_destroy(r);
}

T_ROWS(a_timer_set_again_fires_once_and_later, configs)
{
	struct test_timer early = { .last = false };
	struct test_timer moved = { .last = true };
	struct reactor *r = make(state);

	timers_fired = 0;
	set_timer(r, &moved, 0);
	set_timer(r, &early, 3);
	set_timer(r, &moved, 6);
	assert_int_equal(reactor_run(r), 0);
	assert_int_equal(early.nth, 1);
	assert_int_equal(moved.nth, 2);
	assert_int_equal(moved.cnt, 1);
	reactor_destroy(r);
}

T_ROWS(a_timer_stops_another_that_is_due_too, configs)
{
	struct test_timer victim = { .last = false };
	struct test_timer killer = { .stops = &victim };
	struct test_timer last = { .last = true };
	struct reactor *r = make(state);

	timers_fired = 0;
	set_timer(r, &killer, 0);
	set_timer(r, &victim, 0);
	set_timer(r, &last, 0);
	assert_int_equal(reactor_run(r), 0);
	assert_int_equal(victim.cnt, 0);
	assert_int_equal(last.nth, 2);
	reactor_timer_stop(&victim.timer);
	reactor_destroy(r);
}

T_ROWS(a_timer_may_set_itself_again_at_once, configs)
{
	struct test_timer t = { .again = 5, .last = true };
	struct reactor *r = make(state);

	set_timer(r, &t, 0);
	assert_int_equal(reactor_run(r), 0);
	assert_int_equal(t.cnt, 6); /* fire() checks that each was in a turn of
				     * its own */
	reactor_destroy(r);
}

/* ---- watches ---- */

struct test_watch {
	struct reactor_watch watch;
	size_t len; /* bytes read */
	size_t stop_at;
	unsigned int ready_cnt;
	unsigned int stopped_cnt;
	uint32_t events; /* all reported events */
	unsigned int ready_after_stop;
};

static void watch_ready(struct reactor_watch *watch, uint32_t events)
{
	struct test_watch *w = container_of(watch, struct test_watch, watch);
	char buf[512];
	ssize_t len;

	w->events |= events;
	w->ready_cnt++;
	if (watch->stopping)
		w->ready_after_stop++;
	while ((len = read(watch->fd, buf, sizeof(buf))) > 0)
		w->len += (size_t)len;
	if (w->len >= w->stop_at) {
		reactor_watch_stop(watch);
		reactor_watch_stop(watch);
	}
}

static void watch_stopped(struct reactor_watch *watch)
{
	struct test_watch *w = container_of(watch, struct test_watch, watch);

	w->stopped_cnt++;
	reactor_stop(watch->reactor);
}

static void watch(struct reactor *r, struct test_watch *w, int fd)
{
	w->watch.fd = fd;
	w->watch.events = POLLIN;
	w->watch.ready = watch_ready;
	w->watch.stopped = watch_stopped;
	reactor_watch_start(r, &w->watch);
}

static void run_until_stopped(struct test_watch *w)
{
	assert_int_equal(reactor_run(w->watch.reactor), 0);
	assert_int_equal(w->stopped_cnt, 1);
	/* A late completion would still find the watch. */
	while (reactor_run_once(w->watch.reactor, 0) == 1)
		;
	assert_int_equal(w->stopped_cnt, 1);
	assert_int_equal(w->ready_after_stop, 0);
}

/* The thread does not run, as if the process was stopped. */
static void be_stopped(void)
{
	const struct timespec ts = { .tv_nsec = 700000000 };

	assert_int_equal(nanosleep(&ts, NULL), 0);
}

static uint64_t real_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* What has arrived during the stop is read first, and its time does not
 * count. */
T_ROWS(a_timer_is_not_due_because_of_a_stop, configs)
{
	const struct config *c = *state;
	struct test_watch w = { .stop_at = 1 };
	struct test_timer t = { .cnt = 0 };
	struct reactor *r;
	uint64_t began_us;
	uint64_t lost_us;
	int fds[2];

	if (c->poll_us || c->restricted)
		return; /* as without */
	r = make(state);
	assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
	watch(r, &w, fds[0]);
	while (reactor_run_once(r, 0) == 1)
		;
	set_timer(r, &t, 10);
	began_us = reactor_now_us(r);
	lost_us = real_us();
	assert_int_equal(write(fds[1], "x", 1), 1);
	be_stopped();
	while (!w.len) {
		assert_true(reactor_run_once(r, -1) >= 0);
		assert_int_equal(t.cnt, 0);
	}
	while (!t.cnt)
		assert_true(reactor_run_once(r, -1) >= 0);
	assert_true(t.fired_us >= began_us + 10000);
	lost_us = real_us() - lost_us - (reactor_now_us(r) - began_us);
	assert_true(lost_us > 500000);
	while (!w.stopped_cnt)
		assert_true(reactor_run_once(r, -1) >= 0);
	reactor_destroy(r);
	close(fds[0]);
	close(fds[1]);
}

T_ROWS(a_timer_fires_though_each_turn_is_late, configs)
{
	const struct config *c = *state;
	struct test_timer t = { .cnt = 0 };
	struct reactor *r;

	if (c->poll_us || c->restricted)
		return; /* as without */
	r = make(state);
	set_timer(r, &t, 10);
	be_stopped();
	assert_true(reactor_run_once(r, 0) >= 0);
	assert_int_equal(t.cnt, 0);
	be_stopped();
	assert_true(reactor_run_once(r, 0) >= 0);
	assert_int_equal(t.cnt, 1);
	reactor_destroy(r);
}

struct writer {
	int fd;
	size_t len;
};

/* Writes in small pieces, to wake the reader often. */
static void *write_slowly(void *arg)
{
	struct writer *w = arg;
	size_t left = w->len;
	ssize_t n;

	while (left) {
		n = write(w->fd, "seven..", left < 7 ? left : 7);
		if (n < 0)
			return w;
		left -= (size_t)n;
		if (left % 5 == 0)
			sched_yield();
	}
	return NULL;
}

T_ROWS(a_watch_sees_every_edge, configs)
{
	struct test_watch w = { .stop_at = 70000 };
	struct reactor *r = make(state);
	struct writer writer;
	pthread_t thread;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	writer = (struct writer){ fds[1], 70000 };
	watch(r, &w, fds[0]);
	thread = start(write_slowly, &writer);
	run_until_stopped(&w);
	join(thread);
	assert_int_equal(w.len, 70000);
	assert_int_equal(w.events, POLLIN);
	close(fds[0]);
	close(fds[1]);
	reactor_destroy(r);
}

/* Events keep coming while the watch ends: the cancellation meets the poll in
 * each of its states. */
T_ROWS(a_watch_stops_amid_events, configs)
{
	struct reactor *r = make(state);

	for (unsigned int i = 0; i < 100; i++) {
		struct test_watch w = { .stop_at = 100 };
		struct writer writer;
		pthread_t thread;
		int fds[2];

		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		fcntl(fds[0], F_SETFL, O_NONBLOCK);
		writer = (struct writer){ fds[1], 3000 };
		watch(r, &w, fds[0]);
		thread = start(write_slowly, &writer);
		run_until_stopped(&w);
		join(thread);
		close(fds[0]);
		close(fds[1]);
	}
	reactor_destroy(r);
}

T_ROWS(a_watch_stopped_at_once_is_stopped, configs)
{
	struct test_watch w = { .stop_at = SIZE_MAX };
	struct reactor *r = make(state);
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

	watch(r, &w, fd);
	reactor_watch_stop(&w.watch);
	assert_int_equal(w.stopped_cnt, 0);
	run_until_stopped(&w);
	assert_int_equal(w.ready_cnt, 0);
	/* It may be started again. */
	w = (struct test_watch){ .stop_at = 8 };
	watch(r, &w, fd);
	run_until_stopped(&w);
	assert_int_equal(w.len, 8);
	close(fd);
	reactor_destroy(r);
}

T_ROWS(a_watch_of_no_file_says_so_once, configs)
{
	struct test_watch w = { .stop_at = SIZE_MAX };
	struct reactor *r = make(state);

	watch(r, &w, 1 << 20);
	while (reactor_run_once(r, 0) == 1)
		;
	assert_int_equal(w.ready_cnt, 1);
	assert_int_equal(w.events, POLLERR | POLLNVAL);
	reactor_watch_stop(&w.watch);
	reactor_watch_stop(&w.watch);
	run_until_stopped(&w);
	assert_int_equal(w.ready_cnt, 1);
	reactor_destroy(r);
}

/* ---- level-triggered watches ---- */

struct test_level {
	struct reactor_level *level;
	int fd;
	unsigned int ready_cnt;
	uint32_t events;     /* all reported events */
	size_t len;	     /* bytes read, one at a time */
	unsigned int remove; /* it is removed after this many calls; 0: never */
	uint32_t then;	     /* watch for this after the first call */
};

static void level_ready(void *user, uint32_t events)
{
	struct test_level *t = user;
	char c;

	t->ready_cnt++;
	t->events |= events;
	if ((events & POLLIN) && read(t->fd, &c, 1) == 1)
		t->len++;
	if (t->then)
		reactor_level_set(t->level, t->then);
	if (t->ready_cnt == t->remove) {
		reactor_level_remove(t->level);
		t->level = NULL;
	}
}

static void level_watch(struct reactor *r, struct test_level *t, int fd,
			uint32_t events)
{
	t->fd = fd;
	assert_int_equal(
		reactor_level_add(r, fd, events, level_ready, t, &t->level), 0);
}

static void run_to_rest(struct reactor *r)
{
	while (reactor_run_once(r, 0) == 1)
		;
}

/* Each time, the reader takes one of ten bytes. */
T_ROWS(a_level_is_told_until_it_falls, configs)
{
	struct reactor *r = make(state);
	struct test_level t = { 0 };
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(write(fds[1], "ten bytes.", 10), 10);
	level_watch(r, &t, fds[0], POLLIN);
	while (t.len < 10)
		assert_true(reactor_run_once(r, -1) >= 0);
	run_to_rest(r);
	assert_int_equal(t.ready_cnt, 10);
	assert_int_equal(t.events, POLLIN);
	close(fds[1]);
	while (!(t.events & POLLHUP))
		assert_true(reactor_run_once(r, -1) >= 0);
	reactor_level_remove(t.level);
	run_to_rest(r);
	close(fds[0]);
	reactor_destroy(r);
}

/* A socket is writable, which is reported at once. After that the watch waits
 * only for readable data. */
T_ROWS(a_level_watches_for_other_events, configs)
{
	struct reactor *r = make(state);
	struct test_level t = { .then = POLLIN };
	int fds[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	level_watch(r, &t, fds[0], POLLIN);
	run_to_rest(r);
	assert_int_equal(t.ready_cnt, 0);
	reactor_level_set(t.level, POLLIN | POLLOUT);
	run_to_rest(r);
	assert_int_equal(t.ready_cnt, 1);
	assert_int_equal(t.events, POLLOUT);
	assert_int_equal(write(fds[1], "x", 1), 1);
	while (!t.len)
		assert_true(reactor_run_once(r, -1) >= 0);
	run_to_rest(r);
	assert_int_equal(t.ready_cnt, 2);
	/* A paused watch reports nothing until it continues. */
	t.then = 0;
	reactor_level_set(t.level, 0);
	assert_int_equal(write(fds[1], "y", 1), 1);
	run_to_rest(r);
	assert_int_equal(t.ready_cnt, 2);
	reactor_level_set(t.level, POLLIN);
	while (t.len < 2)
		assert_true(reactor_run_once(r, -1) >= 0);
	/* reactor_destroy() frees watches that still exist. */
	close(fds[0]);
	close(fds[1]);
	reactor_destroy(r);
}

T_ROWS(a_level_may_be_removed_at_any_time, configs)
{
	struct reactor *r = make(state);
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	struct test_level t = { .remove = 1 };

	level_watch(r, &t, fd, POLLIN);
	while (t.level)
		assert_true(reactor_run_once(r, -1) >= 0);
	run_to_rest(r);
	assert_int_equal(t.ready_cnt, 1);
	/* The descriptor is ready, but the watch is removed before it reports
	 * this. */
	assert_int_equal(eventfd_write(fd, 1), 0);
	level_watch(r, &t, fd, POLLIN);
	reactor_level_remove(t.level);
	run_to_rest(r);
	assert_int_equal(t.ready_cnt, 1);
	/* The watch is paused. */
	level_watch(r, &t, fd, 0);
	reactor_level_remove(t.level);
	run_to_rest(r);
	assert_int_equal(t.ready_cnt, 1);
	close(fd);
	reactor_destroy(r);
}

T_ROWS(a_level_of_no_file_says_so_once, configs)
{
	struct reactor *r = make(state);
	struct test_level t = { 0 };

	level_watch(r, &t, 1 << 20, POLLIN);
	run_to_rest(r);
	assert_int_equal(t.ready_cnt, 1);
	assert_int_equal(t.events, POLLERR | POLLNVAL);
	reactor_level_remove(t.level);
	reactor_destroy(r);
}

static void run_nothing(struct reactor_msg *msg)
{
}

struct remote_send {
	struct reactor *r;
	struct reactor_msg msg;
};

static void *send_remotely(void *arg)
{
	struct remote_send *s = arg;

	reactor_send(s->r, &s->msg);
	return NULL;
}

static void messages_still_wake(struct reactor *r)
{
	struct remote_send s = { .r = r, .msg.run = run_nothing };

	for (unsigned int i = 0; i < 20; i++) {
		uint64_t before = stats_of(r).messages;
		pthread_t thread = start(send_remotely, &s);

		while (stats_of(r).messages == before)
			assert_in_range(reactor_run_once(r, -1), 0, 1);
		join(thread);
	}
}

/* 64 watches and 32 completion entries: the kernel ends some of the polls. One
 * of them is the poll for messages, because it comes last. */
T_ROWS(watches_survive_a_full_completion_queue, configs)
{
	struct reactor *r = make_sized(state, 4);
	struct reactor_msg msg = { .run = run_nothing };
	struct test_watch w[64];
	unsigned int want;

	/* Before it runs, only ring_entries can be queued. */
	assert_int_equal(reactor_run_once(r, 0), 0);
	for (size_t i = 0; i < ARRAY_SIZE(w); i++) {
		w[i] = (struct test_watch){ .stop_at = SIZE_MAX };
		watch(r, &w[i], eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	}
	for (unsigned int round = 1; round <= 3; round++) {
		while (reactor_run_once(r, 0) == 1)
			;
		for (size_t i = 0; i < ARRAY_SIZE(w); i++)
			ring_bell(w[i].watch.fd);
		reactor_send(r, &msg);
		want = round * sizeof(uint64_t);
		for (size_t i = 0; i < ARRAY_SIZE(w); i++) {
			while (w[i].len < want)
				assert_int_not_equal(reactor_run_once(r, -1),
						     -1);
			assert_int_equal(w[i].len, want);
		}
	}
	messages_still_wake(r);
	for (size_t i = 0; i < ARRAY_SIZE(w); i++) {
		reactor_watch_stop(&w[i].watch);
		run_until_stopped(&w[i]);
		close(w[i].watch.fd);
	}
	reactor_destroy(r);
}

/* ---- pollers ---- */

struct test_poller {
	struct reactor_poller poller;
	struct reactor *r;
	unsigned int work;	/* what poll() will find */
	unsigned int late_work; /* comes when it is armed */
	unsigned int late_seen; /* work found after it was armed */
	bool arm_fails;		/* while this is set, there is work */
	bool armed;
	unsigned int polls;
	unsigned int arms;
	unsigned int flushes;
	unsigned int more;	     /* how often flush() makes work */
	struct test_poller *removes; /* removes it in the next poll() */
	struct test_poller *adds;
};

static unsigned int poller_poll(struct reactor_poller *poller)
{
	struct test_poller *p =
		container_of(poller, struct test_poller, poller);
	unsigned int work = p->work;

	p->polls++;
	if (p->armed && work)
		p->late_seen += work;
	p->work = 0;
	if (p->adds)
		reactor_poller_add(p->r, &p->adds->poller);
	p->adds = NULL;
	/* Comes last, because a poller may remove itself. The removed poller is
	 * overwritten, as if it had been freed. */
	if (p->removes) {
		struct test_poller *gone = p->removes;

		p->removes = NULL;
		reactor_poller_remove(p->r, &gone->poller);
		memset(&gone->poller, 0xa5, sizeof(gone->poller));
	}
	return work;
}

static bool poller_arm(struct reactor_poller *poller)
{
	struct test_poller *p =
		container_of(poller, struct test_poller, poller);

	p->arms++;
	if (p->arm_fails) {
		p->arm_fails = false;
		p->work = 1;
		return false;
	}
	p->work += p->late_work;
	p->late_work = 0;
	p->armed = true;
	return true;
}

static bool poller_flush(struct reactor_poller *poller)
{
	struct test_poller *p =
		container_of(poller, struct test_poller, poller);

	p->flushes++;
	if (!p->more)
		return false;
	p->more--;
	p->work++;
	return true;
}

static void add_poller(struct reactor *r, struct test_poller *p)
{
	p->r = r;
	p->poller.poll = poller_poll;
	p->poller.arm = poller_arm;
	p->poller.flush = poller_flush;
	reactor_poller_add(r, &p->poller);
}

/* Runs one turn that waits at most a little. */
static int wait_a_little(struct reactor *r)
{
	return reactor_run_once(r, 2);
}

T_ROWS(a_poller_is_armed_before_sleeping, configs)
{
	struct test_poller p = { .work = 1 };
	struct reactor *r = make(state);

	add_poller(r, &p);
	assert_int_equal(wait_a_little(r), 1);
	assert_int_equal(p.arms, 0);
	/* If the machine stalls, the short wait may pass before the reactor
	 * sleeps. */
	while (stats_of(r).sleeps == 0)
		assert_int_equal(wait_a_little(r), 0);
	assert_true(p.arms > 0);
	reactor_poller_remove(r, &p.poller);
	reactor_destroy(r);
}

T_ROWS(work_found_while_arming_prevents_sleep, configs)
{
	struct test_poller p = { .arm_fails = true };
	struct reactor *r = make(state);

	add_poller(r, &p);
	assert_int_equal(reactor_run_once(r, -1), 1);
	assert_int_equal(p.work, 0);
	assert_int_equal(stats_of(r).sleeps, 0);
	reactor_poller_remove(r, &p.poller);
	reactor_destroy(r);
}

T_ROWS(work_that_came_before_arming_is_found, configs)
{
	struct test_poller p = { .late_work = 3 };
	struct reactor *r = make(state);

	add_poller(r, &p);
	assert_int_equal(reactor_run_once(r, 0), 1);
	assert_int_equal(p.late_seen, 3);
	assert_int_equal(stats_of(r).sleeps, 0);
	reactor_poller_remove(r, &p.poller);
	reactor_destroy(r);
}

/* As by a caller that waits until its command is done, which it is then. */
T_ROWS(work_that_came_before_arming_ends_a_wait, configs)
{
	struct test_poller p = { .late_work = 3 };
	struct reactor *r = make(state);

	add_poller(r, &p);
	assert_int_equal(reactor_run_once(r, 100), 1);
	assert_int_equal(p.late_seen, 3);
	reactor_poller_remove(r, &p.poller);
	reactor_destroy(r);
}

T_ROWS(a_flush_that_makes_work_makes_a_turn, configs)
{
	struct test_poller p = { .more = 3 };
	struct reactor *r = make(state);

	add_poller(r, &p);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(reactor_run_once(r, -1), 1);
	assert_int_equal(p.more, 0);
	assert_int_equal(p.flushes, 3);
	assert_int_equal(stats_of(r).sleeps, 0);
	reactor_poller_remove(r, &p.poller);
	reactor_destroy(r);
}

struct remove_case {
	size_t victim; /* one of three; the second poller removes it */
	unsigned int polls[3];
};

T_ROWS(pollers_may_go_and_come_amid_a_walk, configs)
{
	static const struct remove_case cases[] = {
		{ 0, { 1, 2, 2 } },
		{ 1, { 2, 1, 2 } },
		{ 2, { 2, 2, 0 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct test_poller p[3] = { { .work = 1 } };
		struct test_poller newcomer = { .work = 1 };
		struct reactor *r = make(state);

		p[1].removes = &p[cases[i].victim];
		p[1].adds = &newcomer;
		for (size_t k = 0; k < ARRAY_SIZE(p); k++)
			add_poller(r, &p[k]);
		add_poller(r, &newcomer);
		reactor_poller_remove(r, &newcomer.poller);
		p[0].work = p[2].work = 1;
		assert_int_equal(reactor_run_once(r, 0), 1);
		assert_int_equal(newcomer.polls, 1);
		p[0].work = p[1].work = p[2].work = 1;
		assert_int_equal(reactor_run_once(r, 0), 1);
		for (size_t k = 0; k < ARRAY_SIZE(p); k++)
			assert_int_equal(p[k].polls, cases[i].polls[k]);
		reactor_destroy(r);
	}
}

struct await_case {
	const char *name;
	unsigned int poll_us;
	bool answered;	      /* an earlier answer came ... */
	unsigned int took_ms; /* ... after this long */
	unsigned int awaited; /* answers awaited now */
	bool sleeps;
};

#define LONG_US 60000000u

static void sleeps_while_awaiting(void **state, const struct await_case *c)
{
	const struct config *config = *state;
	struct reactor_options opt = { .poll_us = c->poll_us,
				       .mode = config->mode };
	struct reactor *r = NULL;

	assert_int_equal(reactor_create(&opt, &r), 0);
	if (c->answered) {
		reactor_await(r, 1);
		reactor_skip(r, c->took_ms);
		reactor_await(r, -1);
	}
	for (unsigned int i = 0; i < c->awaited; i++)
		reactor_await(r, 1);
	while (wait_a_little(r) == 1 || (c->sleeps && stats_of(r).sleeps == 0))
		;
	assert_int_equal(stats_of(r).sleeps > 0, c->sleeps);
	reactor_destroy(r);
}

T_ROWS(a_single_answer_that_comes_soon_is_polled_for, configs)
{
	static const struct await_case cases[] = {
		{ "one, as soon as the last", LONG_US, true, 0, 1, false },
		{ "not known how soon", LONG_US, false, 0, 1, true },
		{ "the last took too long", LONG_US, true, 60001, 1, true },
		{ "two", LONG_US, true, 0, 2, true },
		{ "none", LONG_US, true, 0, 0, true },
		{ "never to poll", 0, true, 0, 1, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("# %s\n", cases[i].name);
		sleeps_while_awaiting(state, &cases[i]);
	}
}

struct late_case {
	const char *name;
	unsigned int late_ms; /* from the end of polling to the work */
	bool polls_longer;    /* the next time */
};

#define LONG_MS (LONG_US / 1000)

/* False if the reactor goes to sleep within a number of turns that is large
 * enough for some looks at the clock. */
static bool polls_on(struct reactor *r, const struct test_poller *p)
{
	uint64_t sleeps = stats_of(r).sleeps;
	unsigned int polls = p->polls + 20;

	while (p->polls < polls && stats_of(r).sleeps == sleeps)
		assert_int_equal(wait_a_little(r), 0);
	return stats_of(r).sleeps == sleeps;
}

static void polls_longer(void **state, const struct late_case *c)
{
	const struct config *config = *state;
	struct reactor_options opt = { .poll_us = LONG_US,
				       .mode = config->mode };
	struct test_poller p = { .work = 1 };
	struct reactor *r = NULL;

	assert_int_equal(reactor_create(&opt, &r), 0);
	add_poller(r, &p);
	assert_int_equal(wait_a_little(r), 1);
	assert_true(polls_on(r, &p));
	reactor_skip(r, LONG_MS + 1);
	assert_false(polls_on(r, &p));
	reactor_skip(r, c->late_ms);
	p.work = 1;
	assert_int_equal(wait_a_little(r), 1);
	assert_true(polls_on(r, &p));
	reactor_skip(r, LONG_MS + 1);
	assert_int_equal(polls_on(r, &p), c->polls_longer);
	/* It does not poll for ever, and after a poll without work, it polls
	 * for the usual time. */
	reactor_skip(r, 4 * LONG_MS);
	assert_false(polls_on(r, &p));
	reactor_skip(r, LONG_MS);
	p.work = 1;
	assert_int_equal(wait_a_little(r), 1);
	assert_true(polls_on(r, &p));
	reactor_skip(r, LONG_MS + 1);
	assert_false(polls_on(r, &p));
	reactor_poller_remove(r, &p.poller);
	reactor_destroy(r);
}

T_ROWS(what_came_a_little_late_is_polled_for_longer, configs)
{
	static const struct late_case cases[] = {
		{ "at once", 0, true },
		{ "after three times as long", 2 * LONG_MS, true },
		{ "after more than five times as long", 5 * LONG_MS, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("# %s\n", cases[i].name);
		polls_longer(state, &cases[i]);
	}
}

/* ---- what it costs ---- */

T_ROWS(polling_makes_no_system_calls, configs)
{
	struct test_poller p = { .work = 0 };
	struct reactor *r = make(state);
	struct reactor_stats before;

	add_poller(r, &p);
	while (reactor_run_once(r, 0) == 1)
		;
	before = stats_of(r);
	for (unsigned int i = 0; i < 1000; i++) {
		p.work = 1;
		assert_int_equal(reactor_run_once(r, -1), 1);
	}
	assert_int_equal(p.polls, 1000 + 2);
	assert_int_equal(stats_of(r).enters, before.enters);
	reactor_poller_remove(r, &p.poller);
	reactor_destroy(r);
}

/* Runs until a timer ends the run. */
T_ROWS(idle_means_asleep, configs)
{
	struct test_poller p = { .work = 0 };
	struct test_timer t = { .last = true };
	struct reactor *r = make(state);
	struct reactor_stats s;

	add_poller(r, &p);
	set_timer(r, &t, 200);
	assert_int_equal(reactor_run(r), 0);
	s = stats_of(r);
	/* One sleep, perhaps a second one if the reactor wakes too early, and
	 * one at the end. */
	assert_in_range(s.sleeps, 1, 2);
	assert_in_range(s.enters, 1, 4);
	if (((const struct config *)*state)->poll_us == 0)
		assert_in_range(s.turns, 1, 5);
	reactor_poller_remove(r, &p.poller);
	reactor_destroy(r);
}

/* Each operation is queued by the completion of the one before, and takes a
 * moment. */
struct chained_op {
	struct reactor_op op;
	struct reactor *r;
	struct __kernel_timespec moment;
	unsigned int left;
};

static void queue_next(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	struct chained_op *o = container_of(op, struct chained_op, op);
	struct io_uring_sqe *sqe;

	if (o->left-- == 0) {
		reactor_stop(o->r);
		return;
	}
	sqe = reactor_sqe(o->r);
	io_uring_prep_timeout(sqe, &o->moment, 0, 0);
	reactor_prep_done(sqe, op);
}

T_ROWS(submitting_and_waiting_is_one_system_call, configs)
{
	struct chained_op o = { .op.done = queue_next,
				.moment.tv_nsec = 100000,
				.left = 100 };
	struct reactor *r = make(state);

	o.r = r;
	queue_next(&o.op, 0, 0);
	assert_int_equal(reactor_run(r), 0);
	/* A reactor that polls submits first. */
	if (((const struct config *)*state)->poll_us == 0)
		assert_in_range(stats_of(r).enters, 100, 110);
	reactor_destroy(r);
}

/* ---- the descriptor, for a foreign event loop ---- */

enum trigger {
	BY_MESSAGE,
	BY_WATCH,
	BY_OPERATION,
	BY_STOP
};

struct trigger_thread {
	enum trigger trigger;
	struct reactor *r;
	struct reactor_msg msg;
	int watched; /* eventfd */
	int piped;   /* write end of the pipe that an operation reads */
};

static void *pull(void *arg)
{
	struct trigger_thread *t = arg;

	switch (t->trigger) {
	case BY_MESSAGE:
		reactor_send(t->r, &t->msg);
		break;
	case BY_WATCH:
		ring_bell(t->watched);
		break;
	case BY_OPERATION:
		if (write(t->piped, "x", 1) != 1)
			return t;
		break;
	case BY_STOP:
		reactor_stop(t->r);
		break;
	}
	return NULL;
}

static void settle(struct reactor *r)
{
	while (reactor_run_once(r, 0) == 1)
		;
}

static bool is_readable(struct reactor *r, int timeout_ms)
{
	struct pollfd pfd = { .fd = reactor_fd(r), .events = POLLIN };
	int ret;

	do {
		ret = poll(&pfd, 1, timeout_ms);
	} while (ret < 0 && errno == EINTR);
	return ret == 1;
}

/* It depends on chance whether the trigger comes before poll() or while it
 * waits. */
T_ROWS(the_descriptor_tells_of_what_is_to_do, configs)
{
	struct test_watch w = { .stop_at = SIZE_MAX };
	struct trigger_thread t = { .msg.run = run_nothing };
	struct counted_op op = { .op.done = count_op };
	struct io_uring_sqe *sqe;
	pthread_t thread;
	int fds[2];
	char byte;

	t.r = make_pollable(state);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	t.watched = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t.piped = fds[1];
	watch(t.r, &w, t.watched);
	for (unsigned int i = 0; i < 400; i++) {
		t.trigger = i % 4;
		if (t.trigger == BY_OPERATION) {
			sqe = reactor_sqe(t.r);
			io_uring_prep_read(sqe, fds[0], &byte, 1, 0);
			reactor_prep_done(sqe, &op.op);
		}
		settle(t.r);
		assert_false(is_readable(t.r, 0));
		thread = start(pull, &t);
		assert_true(is_readable(t.r, -1));
		/* The wake-up can be seen before the work that caused it. */
		while (stats_of(t.r).messages + op.cnt +
			       w.len / sizeof(uint64_t) <
		       i - i / 4 + (t.trigger != BY_STOP))
			assert_in_range(reactor_run_once(t.r, -1), 0, 1);
		join(thread);
		settle(t.r);
	}
	assert_int_equal(op.cnt, 100);
	assert_int_equal(stats_of(t.r).messages, 100);
	assert_int_equal(w.len, 100 * sizeof(uint64_t));
	reactor_watch_stop(&w.watch);
	run_until_stopped(&w);
	close(t.watched);
	close(fds[0]);
	close(fds[1]);
	reactor_destroy(t.r);
}

T_ROWS(the_descriptor_tells_of_timers, configs)
{
	struct test_timer late = { .last = false };
	struct test_timer soon = { .last = false };
	struct reactor *r = make_pollable(state);

	set_timer(r, &late, 60000);
	settle(r);
	/* Due earlier than the timeout that the ring already has. */
	set_timer(r, &soon, 5);
	settle(r);
	while (soon.cnt == 0) {
		assert_true(is_readable(r, -1));
		settle(r);
	}
	assert_int_equal(late.cnt, 0);
	set_timer(r, &late, 1);
	settle(r);
	while (late.cnt == 0) {
		assert_true(is_readable(r, -1));
		settle(r);
	}
	assert_int_equal(soon.cnt, 1);
	reactor_destroy(r);
}

T_ROWS(the_descriptor_tells_after_arming, configs)
{
	struct test_poller p = { .work = 0 };
	struct reactor *r = make_pollable(state);

	add_poller(r, &p);
	settle(r);
	assert_true(p.armed);
	reactor_poller_remove(r, &p.poller);
	reactor_destroy(r);
}

T_ROWS(refused_ring_says_what_helps, configs)
{
	assert_non_null(strstr(reactor_create_hint(-EMFILE), "ulimit -n"));
	assert_non_null(strstr(reactor_create_hint(-ENOMEM), "ulimit -l"));
	assert_non_null(strstr(reactor_create_hint(-EPERM), "disabled"));
}

/* ---- main ---- */

/* Where io_uring is forbidden, there is nothing to test. */
static bool have_uring(void)
{
	struct reactor_options opt = { .ring_entries = 4 };
	struct reactor *r;
	int err = reactor_create(&opt, &r);

	if (!err)
		reactor_destroy(r);
	return err != -ENOSYS && err != -EPERM;
}

int main(void)
{
	if (!have_uring()) {
		puts("1..0 # SKIP the kernel has no io_uring or forbids it");
		return 0;
	}
	return t_run();
}
