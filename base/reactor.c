/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/contention.h"
#include "base/reactor_level.h"

/* Completions taken from the ring at a time. */
#define BATCH 32

/* io_uring: io_buffer_validate(), the length of one fixed buffer. */
#define MAX_FIXED_BUFFER ((size_t)1 << 30)

#define NO_DEADLINE UINT64_MAX

#define POLL_US_DEFAULT 200

/* Which slots of a table of fixed buffers or files are taken. */
struct slots {
	bool *taken;
	unsigned int cnt;
};

struct reactor {
	struct io_uring ring;
	bool enabled; /* io_uring_enable_rings() done, or not needed */
	bool pollable;
	bool polls_first;
	bool in_turn;
	bool busy;    /* the last turn did something */
	bool polling; /* instead of sleeping */
	bool patient; /* ... for PATIENCE times as long */
	bool slept;   /* since the last turn that did something */
	unsigned int poll_us;
	unsigned int idle_turns; /* polling */
	uint64_t idle_since_us;	 /* 0: not yet known */
	unsigned int awaited;	 /* answers: reactor_await() */
	uint64_t await_us;	 /* when the first of them began to be */
	bool comes_soon;	 /* the last time they came within poll_us */
	struct contention contention;
	uint64_t now_us; /* 0: to be read */
	uint64_t tick_us;
	uint64_t skipped_us;
	struct slots buffers;
	struct slots files;

	struct list pollers;
	unsigned int polled;	  /* how many of them have poll() */
	bool more;		  /* flush() of one made work */
	struct list *next_poller; /* of the walk under way */
	struct list timers;	  /* due first, first */
	struct list levels;	  /* reactor_level.h */

	/* Wakes who polls reactor_fd() for the timers. */
	struct reactor_op alarm;
	struct __kernel_timespec alarm_at;
	uint64_t alarm_us; /* when it rings; 0: not in flight */

	struct reactor_op wake; /* multishot poll of wake_fd */
	int wake_fd;
	struct reactor_stats stats;

	/* Any thread, from here on; on a cache line that is not the above's. */
	_Alignas(64) _Atomic(struct reactor_msg *) msgs; /* newest first */
	atomic_bool asleep; /* whoever clears it must write to wake_fd */
	atomic_bool stop;
	_Atomic(const char *) owner; /* thread_mark of who runs it, or NULL */
};

/* Its address tells threads apart. */
static _Thread_local char thread_mark;

/* ---- time ---- */

static uint64_t clock_us(const struct reactor *r, clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000 +
	       r->skipped_us;
}

/* Where the kernel has no clock that a program can read, as in many virtual
 * machines, this is a system call and an access to a slow device. */
static uint64_t exact_us(const struct reactor *r)
{
	return clock_us(r, CLOCK_MONOTONIC);
}

/* The time of the last tick: good enough for all that is counted in
 * milliseconds, and a read from memory everywhere. */
static uint64_t coarse_us(const struct reactor *r)
{
	return clock_us(r, CLOCK_MONOTONIC_COARSE);
}

static uint64_t tick_us(void)
{
	struct timespec ts;

	clock_getres(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_nsec / 1000 + 1;
}

void reactor_skip(struct reactor *r, uint64_t ms)
{
	r->skipped_us += ms * 1000 + r->tick_us; /* see reactor_timer_set() */
	r->now_us = 0;
}

uint64_t reactor_now_us(struct reactor *r)
{
	if (!r->in_turn)
		return coarse_us(r);
	if (!r->now_us)
		r->now_us = coarse_us(r);
	return r->now_us;
}

static void timespec_from_us(struct __kernel_timespec *ts, uint64_t us)
{
	ts->tv_sec = (int64_t)(us / 1000000);
	ts->tv_nsec = (long long)(us % 1000000) * 1000;
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* ---- entering the kernel ---- */

/*
 * Submits and, with deferred completions, has them made. -EBUSY and -EAGAIN
 * (completions overflow; no memory for requests) pass: what was not submitted
 * stays queued, and the loop comes back after handling completions.
 */
static int reactor_enter(struct reactor *r)
{
	int ret;

	r->stats.enters++;
	if (io_uring_sq_ready(&r->ring))
		ret = io_uring_submit_and_get_events(&r->ring);
	else
		ret = io_uring_get_events(&r->ring);
	if (ret == -EBUSY || ret == -EAGAIN || ret == -EINTR)
		return 0;
	return ret < 0 ? ret : 0;
}

/* Spares the system call when there is nothing to submit and the kernel holds
 * no completions back (deferred, or more than fit into the ring). */
static int enter_if_needed(struct reactor *r)
{
	unsigned int flags = IO_URING_READ_ONCE(*r->ring.sq.kflags);

	if (io_uring_sq_ready(&r->ring) ||
	    (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)))
		return reactor_enter(r);
	return 0;
}

/* Submits and sleeps until there is a completion. */
static int enter_and_wait(struct reactor *r, uint64_t until_us)
{
	struct __kernel_timespec ts;
	struct io_uring_cqe *cqe;
	uint64_t now;
	int ret;

	/* One tick more: the coarse clock shall have come so far, too. */
	if (until_us != NO_DEADLINE) {
		now = coarse_us(r);
		timespec_from_us(
			&ts, until_us > now ? until_us - now + r->tick_us : 0);
	}
	r->stats.enters++;
	r->stats.sleeps++;
	ret = io_uring_submit_and_wait_timeout(
		&r->ring, &cqe, 1, until_us != NO_DEADLINE ? &ts : NULL, NULL);
	if (ret == -ETIME || ret == -EINTR || ret == -EBUSY || ret == -EAGAIN)
		return 0;
	return ret < 0 ? ret : 0;
}

/* ---- operations ---- */

void reactor_sqe_reserve(struct reactor *r, unsigned int cnt)
{
	int ret;

	assert(cnt <= r->ring.sq.ring_entries);
	while (io_uring_sq_space_left(&r->ring) < cnt) {
		/* Nothing can be submitted before the reactor runs. */
		assert(r->enabled);
		r->stats.enters++;
		ret = io_uring_submit(&r->ring);
		/* No memory for requests: others must give some back. */
		if (ret == -EAGAIN || ret == -EBUSY)
			sched_yield();
		else if (ret < 0 && ret != -EINTR)
			abort(); /* ours: not the owner, or a broken ring */
	}
}

void reactor_submit(struct reactor *r)
{
	if (r->enabled && io_uring_sq_ready(&r->ring))
		reactor_sqe_reserve(r, r->ring.sq.ring_entries);
}

struct io_uring_sqe *reactor_sqe(struct reactor *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	if (!sqe) {
		reactor_sqe_reserve(r, 1);
		sqe = io_uring_get_sqe(&r->ring);
	}
	/* What the entry was last used for; liburing 2.3 leaves it there. */
	io_uring_sqe_set_data(sqe, NULL);
	return sqe;
}

void reactor_cancel(struct reactor *r, struct reactor_op *op)
{
	io_uring_prep_cancel(reactor_sqe(r), op, 0);
}

/* True when it was work: not our own housekeeping. */
static bool run_done(struct reactor *r, const struct io_uring_cqe *cqe)
{
	struct reactor_op *op = io_uring_cqe_get_data(cqe);

	if (!op)
		return false;
	op->done(op, cqe->res, cqe->flags);
	return op != &r->wake && op != &r->alarm;
}

/*
 * The entries are copied and given back before any handler runs, so that a
 * handler which fills the submission queue, and so makes the kernel add
 * completions, finds the ring as it should be. Bounded by the size of the ring
 * so that pollers get their turn.
 */
static unsigned int run_completions(struct reactor *r)
{
	unsigned int ready = io_uring_cq_ready(&r->ring);
	struct io_uring_cqe batch[BATCH];
	struct io_uring_cqe *cqe;
	unsigned int done = 0;
	unsigned int head;
	unsigned int n;

	while (ready) {
		n = 0;
		io_uring_for_each_cqe(&r->ring, head, cqe)
		{
			batch[n++] = *cqe;
			if (n == BATCH || n == ready)
				break;
		}
		io_uring_cq_advance(&r->ring, n);
		ready -= n;
		for (unsigned int i = 0; i < n; i++)
			done += run_done(r, &batch[i]);
	}
	r->stats.completions += done;
	return done;
}

/* ---- tables of fixed buffers and files ---- */

static int slots_init(struct slots *s, unsigned int cnt)
{
	if (!cnt)
		return 0;
	s->taken = calloc(cnt, sizeof(*s->taken));
	if (!s->taken)
		return -ENOMEM;
	s->cnt = cnt;
	return 0;
}

static int reactor_slots_take(struct slots *s)
{
	for (unsigned int i = 0; i < s->cnt; i++) {
		if (!s->taken[i]) {
			s->taken[i] = true;
			return (int)i;
		}
	}
	return -ENOSPC;
}

static void slots_give(struct slots *s, int index)
{
	assert(index >= 0 && (unsigned int)index < s->cnt && s->taken[index]);
	s->taken[index] = false;
}

static int buffer_update(struct reactor *r, int index, void *addr, size_t len)
{
	struct iovec iov = { .iov_base = addr, .iov_len = len };
	__u64 tag = 0;
	int ret;

	ret = io_uring_register_buffers_update_tag(
		&r->ring, (unsigned int)index, &iov, &tag, 1);
	if (ret < 0)
		return ret;
	return ret == 1 ? 0 : -EINVAL;
}

int reactor_buffer_add(struct reactor *r, void *addr, size_t len,
		       int *ret_index)
{
	int index;
	int err;

	if (!addr || !len)
		return -EINVAL;
	if (len > MAX_FIXED_BUFFER)
		return -EFBIG;
	index = reactor_slots_take(&r->buffers);
	if (index < 0)
		return index;
	err = buffer_update(r, index, addr, len);
	if (err) {
		slots_give(&r->buffers, index);
		return err;
	}
	*ret_index = index;
	return 0;
}

void reactor_buffer_remove(struct reactor *r, int index)
{
	slots_give(&r->buffers, index);
	buffer_update(r, index, NULL, 0);
}

int reactor_file_add(struct reactor *r, int fd, int *ret_index)
{
	int index;
	int ret;

	if (fd < 0)
		return -EBADF; /* -1 would mean: empty the slot */
	index = reactor_slots_take(&r->files);
	if (index < 0)
		return index;
	ret = io_uring_register_files_update(&r->ring, (unsigned int)index, &fd,
					     1);
	if (ret != 1) {
		slots_give(&r->files, index);
		return ret < 0 ? ret : -EBADF;
	}
	*ret_index = index;
	return 0;
}

void reactor_file_remove(struct reactor *r, int index)
{
	int none = -1;

	slots_give(&r->files, index);
	io_uring_register_files_update(&r->ring, (unsigned int)index, &none, 1);
}

/* ---- file descriptors ---- */

static void watch_arm(struct reactor_watch *w)
{
	struct io_uring_sqe *sqe = reactor_sqe(w->reactor);

	io_uring_prep_poll_multishot(sqe, w->fd, w->events);
	reactor_prep_done(sqe, &w->op);
	w->armed = true;
}

static void watch_done(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	struct reactor_watch *w = container_of(op, struct reactor_watch, op);

	if (!(cqe_flags & IORING_CQE_F_MORE))
		w->armed = false;
	if (w->stopping) {
		if (!w->armed && w->stopped)
			w->stopped(w);
		return;
	}
	if (res < 0) {
		w->ready(w, POLLERR | POLLNVAL);
		return;
	}
	/* The kernel ends a multishot poll when the completion queue is full.
	 * A new one looks at the file first, so no edge is lost. */
	if (!w->armed)
		watch_arm(w);
	w->ready(w, (uint32_t)res);
}

void reactor_watch_start(struct reactor *r, struct reactor_watch *w)
{
	w->op.done = watch_done;
	w->reactor = r;
	w->stopping = false;
	watch_arm(w);
}

void reactor_watch_stop(struct reactor_watch *w)
{
	struct io_uring_sqe *sqe;

	if (w->stopping)
		return;
	w->stopping = true;
	sqe = reactor_sqe(w->reactor);
	if (!w->armed) {
		/* Nothing will complete by itself: have something do so. */
		io_uring_prep_nop(sqe);
		reactor_prep_done(sqe, &w->op);
		return;
	}
	/* Not POLL_REMOVE: that fails with EALREADY, and leaves the poll as it
	 * was, when an event is just being delivered (Linux 6.1, io_uring/
	 * poll.c, io_poll_disarm()). Cancelling marks it in any case. */
	io_uring_prep_cancel(sqe, &w->op, 0);
}

struct list *reactor_levels(struct reactor *r)
{
	return &r->levels;
}

/* ---- pollers ---- */

void reactor_poller_add(struct reactor *r, struct reactor_poller *p)
{
	assert(!p->poll == !p->arm);
	r->polled += p->poll != NULL;
	list_add_tail(&r->pollers, &p->node);
}

void reactor_poller_remove(struct reactor *r, struct reactor_poller *p)
{
	if (r->next_poller == &p->node)
		r->next_poller = p->node.next;
	r->polled -= p->poll != NULL;
	list_del(&p->node);
}

/*
 * A walk over the pollers during which handlers may remove any of them:
 * reactor_poller_remove() moves r->next_poller on. There is one walk at a time.
 */
static struct reactor_poller *walk_next(struct reactor *r)
{
	struct list *node = r->next_poller;

	if (node == &r->pollers)
		return NULL;
	r->next_poller = node->next;
	return container_of(node, struct reactor_poller, node);
}

static struct reactor_poller *walk_first(struct reactor *r)
{
	r->next_poller = r->pollers.next;
	return walk_next(r);
}

static unsigned int reactor_poll_all(struct reactor *r)
{
	struct reactor_poller *p;
	unsigned int done = 0;

	for (p = walk_first(r); p; p = walk_next(r)) {
		if (p->poll)
			done += p->poll(p);
	}
	return done;
}

static bool arm_all(struct reactor *r)
{
	struct reactor_poller *p;
	bool armed = true;

	for (p = walk_first(r); p && armed; p = walk_next(r)) {
		if (p->arm)
			armed = p->arm(p);
	}
	return armed;
}

/* Returns how many of them made work. */
static unsigned int reactor_flush_all(struct reactor *r)
{
	struct reactor_poller *p;
	unsigned int more = 0;

	for (p = walk_first(r); p; p = walk_next(r)) {
		if (p->flush)
			more += p->flush(p);
	}
	return more;
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
	t->due_us = reactor_now_us(r) + delay_ms * 1000;
	/* The last tick may have been almost one ago: not too early. */
	if (delay_ms)
		t->due_us += r->tick_us;
	/* From the end: most timers are due later than those that are set. */
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

static uint64_t first_timer_us(const struct reactor *r)
{
	if (list_empty(&r->timers))
		return NO_DEADLINE;
	return list_first(&r->timers, struct reactor_timer, node)->due_us;
}

/* Those due are set apart first: one that is set again to fire at once does so
 * in the next turn. Stopping one takes it out of whichever list it is in. */
static unsigned int run_timers(struct reactor *r)
{
	struct list due = LIST_INIT(due);
	struct reactor_timer *t;
	unsigned int done = 0;

	if (list_empty(&r->timers))
		return 0;
	while (first_timer_us(r) <= reactor_now_us(r))
		list_add_tail(&due, list_pop(&r->timers));
	while (!list_empty(&due)) {
		t = container_of(list_pop(&due), struct reactor_timer, node);
		t->fire(t);
		done++;
	}
	return done;
}

static void alarm_done(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	container_of(op, struct reactor, alarm)->alarm_us = 0;
}

/* Has the ring's descriptor become readable when the first timer is due. */
static void set_alarm(struct reactor *r)
{
	uint64_t due_us = first_timer_us(r);
	struct io_uring_sqe *sqe;

	if (due_us == NO_DEADLINE || (r->alarm_us && r->alarm_us <= due_us))
		return;
	sqe = reactor_sqe(r);
	timespec_from_us(&r->alarm_at, due_us + r->tick_us);
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

/* ---- messages ---- */

/*
 * No wake-up is lost, and none is made for a reactor that is awake: the sender
 * first makes its message (or the stop) visible, then looks at asleep; the
 * reactor first sets asleep, then looks for messages (fall_asleep()). All four
 * are sequentially consistent, so at least one of them sees the other. Of many
 * senders one clears asleep and pays for the system call.
 */
static void wake_up(struct reactor *r)
{
	uint64_t one = 1;

	if (!atomic_load(&r->asleep) || !atomic_exchange(&r->asleep, false))
		return;
	while (write(r->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void reactor_send(struct reactor *to, struct reactor_msg *msg)
{
	struct reactor_msg *head = atomic_load(&to->msgs);

	/* Publishes what the sender wrote into @msg before; run_messages()
	 * acquires it. */
	do {
		msg->next = head;
	} while (!atomic_compare_exchange_weak(&to->msgs, &head, msg));
	wake_up(to);
}

void reactor_stop(struct reactor *r)
{
	atomic_store(&r->stop, true);
	wake_up(r);
}

/* The list was built by pushing at its head: turn it, for the order. */
static struct reactor_msg *oldest_first(struct reactor_msg *msg)
{
	struct reactor_msg *first = NULL;
	struct reactor_msg *next;

	for (; msg; msg = next) {
		next = msg->next;
		msg->next = first;
		first = msg;
	}
	return first;
}

static unsigned int run_messages(struct reactor *r)
{
	struct reactor_msg *next;
	struct reactor_msg *msg;
	unsigned int done = 0;

	/* Only the exchange below must be ordered after the pushes. */
	if (!atomic_load_explicit(&r->msgs, memory_order_relaxed))
		return 0;
	msg = oldest_first(atomic_exchange(&r->msgs, NULL));
	for (; msg; msg = next) {
		next = msg->next;
		msg->run(msg);
		done++;
	}
	r->stats.messages += done;
	return done;
}

static void wake_arm(struct reactor *r)
{
	struct io_uring_sqe *sqe = reactor_sqe(r);

	io_uring_prep_poll_multishot(sqe, r->wake_fd, POLLIN);
	reactor_prep_done(sqe, &r->wake);
}

/* The eventfd is never read: each write to it is an edge of its own, and its
 * count does not overflow in our lifetime. */
static void wake_done(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	struct reactor *r = container_of(op, struct reactor, wake);

	r->stats.wakeups++;
	if (!(cqe_flags & IORING_CQE_F_MORE) && res >= 0)
		wake_arm(r);
}

/* From now on senders wake us; false when there is something already. */
static bool fall_asleep(struct reactor *r)
{
	atomic_store(&r->asleep, true); /* see wake_up() */
	if (!atomic_load(&r->msgs) && !atomic_load(&r->stop))
		return true;
	atomic_store(&r->asleep, false);
	return false;
}

static void stay_awake(struct reactor *r)
{
	/* Orders nothing: a sender that still saw us asleep writes in vain. */
	if (atomic_load_explicit(&r->asleep, memory_order_relaxed))
		atomic_store_explicit(&r->asleep, false, memory_order_relaxed);
}

/* ---- the loop ---- */

static unsigned int work(struct reactor *r)
{
	unsigned int done;

	r->stats.turns++;
	r->now_us = 0;
	stay_awake(r);
	done = run_completions(r);
	done += run_messages(r);
	done += run_timers(r);
	done += reactor_poll_all(r);
	r->more = reactor_flush_all(r) > 0;
	return done + r->more;
}

/* Arms the pollers and looks once more; what came between the last look and the
 * arming would wake nobody. Returns true when there is nothing to do. */
static bool pollers_quiet(struct reactor *r)
{
	unsigned int done;

	if (!r->polled)
		return true;
	if (!arm_all(r))
		return false;
	done = reactor_poll_all(r);
	return done + reactor_flush_all(r) == 0;
}

/* Sleeps until there is something to do, or @until_us. */
static int doze(struct reactor *r, uint64_t until_us)
{
	uint64_t due_us;

	if (!pollers_quiet(r) || !fall_asleep(r)) {
		r->busy = true;
		return enter_if_needed(r);
	}
	due_us = first_timer_us(r);
	r->slept = true;
	return enter_and_wait(r, due_us < until_us ? due_us : until_us);
}

/* ---- what is worth polling ---- */

void reactor_await(struct reactor *r, int cnt)
{
	assert(cnt >= 0 || r->awaited >= (unsigned int)-cnt);
	r->awaited += (unsigned int)cnt;
	if (!r->poll_us || r->polled)
		return;
	if (cnt > 0 && r->awaited == 1)
		r->await_us = exact_us(r);
	else if (cnt < 0 && r->awaited == 0)
		r->comes_soon = exact_us(r) - r->await_us <= r->poll_us;
}

/*
 * The ring is polled for a single answer, if the last came soon and processors are not
 * contended for. More than one are better slept for: some come at a time, and
 * whoever makes them, or waits for them, has the processor.
 */
static bool ring_worth_polling(const struct reactor *r)
{
	return r->awaited == 1 && r->comes_soon && !r->contention.is;
}

static bool worth_polling(const struct reactor *r)
{
	return r->poll_us && (r->polled || ring_worth_polling(r));
}

/* Idle turns from one look at the clock to the next: see exact_us(). What is
 * waited for often comes before the first. */
#define POLL_TURNS 16

/*
 * Where a wake-up takes longer than an answer, who polls for too short a time is
 * late for the next, too, and so is its peer. So when what it slept for came
 * within PATIENCE times as long, it polls for that long, until once in vain.
 */
#define PATIENCE 5

static uint64_t patience_us(const struct reactor *r)
{
	return (uint64_t)r->poll_us * PATIENCE;
}

static bool poll_time_is_over(struct reactor *r)
{
	uint64_t now = exact_us(r);

	if (!r->idle_since_us)
		r->idle_since_us = now;
	return now - r->idle_since_us >=
	       (r->patient ? patience_us(r) : r->poll_us);
}

static void stop_polling(struct reactor *r)
{
	r->polling = false;
	r->patient = false;
	r->comes_soon = false;
}

/* After a sleep that followed on polling, which is when it is known since when
 * there was nothing to do. */
static void judge_sleep(struct reactor *r)
{
	if (r->slept && r->polled && r->idle_since_us)
		r->patient = exact_us(r) - r->idle_since_us <= patience_us(r);
	r->slept = false;
	r->idle_since_us = 0;
}

/* The time to poll on begins with the first turns that have nothing to do. */
static bool keep_polling(struct reactor *r)
{
	if (r->busy) {
		r->busy = false;
		if (r->poll_us && !r->polled)
			contention_look(&r->contention);
		judge_sleep(r);
		r->polling = worth_polling(r);
		r->idle_turns = 0;
	}
	if (r->polling && ++r->idle_turns % POLL_TURNS == 0 &&
	    poll_time_is_over(r))
		stop_polling(r);
	return r->polling;
}

/* With nothing to poll, work does not keep us from sleeping at once, and one
 * system call both submits and waits. */
static int reactor_run_turn(struct reactor *r)
{
	if (work(r)) {
		r->busy = true;
		if (r->polled || worth_polling(r) || r->more)
			return enter_if_needed(r);
	}
	if (keep_polling(r)) {
		cpu_relax();
		return enter_if_needed(r);
	}
	return doze(r, NO_DEADLINE);
}

/* The ring belongs to the thread that does this first. */
static int reactor_begin(struct reactor *r)
{
	int err;

	assert(!r->in_turn && reactor_is_mine(r));
	atomic_store_explicit(&r->owner, &thread_mark, memory_order_relaxed);
	if (!r->enabled) {
		/* liburing 2.3 forgets to export io_uring_enable_rings(). */
		err = io_uring_register((unsigned int)r->ring.ring_fd,
					IORING_REGISTER_ENABLE_RINGS, NULL, 0);
		if (err < 0)
			return err;
		r->enabled = true;
	}
	r->in_turn = true;
	return 0;
}

static void reactor_end(struct reactor *r)
{
	r->in_turn = false;
	r->now_us = 0;
}

int reactor_run(struct reactor *r)
{
	bool registered;
	int err;

	err = reactor_begin(r);
	if (err)
		return err;
	/* Spares a reference to the file in each system call. It is of this
	 * thread, which therefore must be the one that undoes it. */
	registered = io_uring_register_ring_fd(&r->ring) == 1;
	do {
		err = reactor_run_turn(r);
	} while (!err && !atomic_load(&r->stop));
	if (registered)
		io_uring_unregister_ring_fd(&r->ring);
	atomic_store(&r->stop, false);
	reactor_end(r);
	atomic_store_explicit(&r->owner, NULL, memory_order_relaxed);
	return err;
}

/* One turn without waiting; when it does nothing, all is left so that
 * something to do makes the ring's descriptor readable. */
static int turn_once(struct reactor *r)
{
	int ret = work(r) != 0;
	int err;

	if (!ret) {
		ret = !pollers_quiet(r);
		set_alarm(r);
	}
	err = enter_if_needed(r);
	if (err)
		return err;
	/* What the kernel had no room for is still to be submitted. */
	if (!ret)
		ret = io_uring_cq_ready(&r->ring) ||
		      io_uring_sq_ready(&r->ring) || !fall_asleep(r);
	return ret;
}

static int turns_until(struct reactor *r, uint64_t until_us)
{
	int err;

	for (;;) {
		if (work(r)) {
			r->busy = true;
			err = enter_if_needed(r);
			return err ? err : 1;
		}
		if (atomic_load(&r->stop) || reactor_now_us(r) >= until_us)
			return enter_if_needed(r);
		if (keep_polling(r)) {
			cpu_relax();
			err = enter_if_needed(r);
		} else {
			err = doze(r, until_us);
		}
		if (err)
			return err;
	}
}

int reactor_run_once(struct reactor *r, int timeout_ms)
{
	uint64_t until_us = NO_DEADLINE;
	int ret;

	ret = reactor_begin(r);
	if (ret)
		return ret;
	if (timeout_ms == 0) {
		ret = turn_once(r);
	} else {
		if (timeout_ms > 0)
			until_us = coarse_us(r) + (uint64_t)timeout_ms * 1000;
		ret = turns_until(r, until_us);
	}
	atomic_store(&r->stop, false);
	reactor_end(r);
	return ret;
}

bool reactor_polls_first(const struct reactor *r)
{
	return r->polls_first;
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

int reactor_fd(const struct reactor *r)
{
	assert(r->pollable);
	return r->ring.ring_fd;
}

bool reactor_is_mine(const struct reactor *r)
{
	const char *owner =
		atomic_load_explicit(&r->owner, memory_order_relaxed);

	return !owner || owner == &thread_mark;
}

void reactor_stats(const struct reactor *r, struct reactor_stats *ret_stats)
{
	*ret_stats = r->stats;
}

/* ---- life ---- */

/* What this file itself asks of the ring. */
static const uint8_t own_ops[] = {
	IORING_OP_NOP,	   IORING_OP_POLL_ADD,	     IORING_OP_ASYNC_CANCEL,
	IORING_OP_TIMEOUT, IORING_OP_TIMEOUT_REMOVE,
};

/* Of io_uring_register(), once the ring is enabled. The last ones first came
 * with Linux 5.13 and 5.18; kernels without them do not know their numbers. */
static const uint8_t register_ops[] = {
	IORING_UNREGISTER_BUFFERS,	IORING_UNREGISTER_FILES,
	IORING_REGISTER_FILES_UPDATE,	IORING_REGISTER_ENABLE_RINGS,
	IORING_REGISTER_BUFFERS_UPDATE, IORING_REGISTER_RING_FDS,
	IORING_UNREGISTER_RING_FDS,
};

/* Links and the like are flags of an entry; they reach no further than it. */
#define ANY_SQE_FLAGS UINT8_MAX

/* The ring is disabled yet; once enabled it takes these operations alone. */
static int ring_restrict(struct reactor *r, const struct reactor_options *opt)
{
	struct io_uring_restriction res[UINT8_MAX];
	unsigned int cnt = 0;
	int err;

	assert(opt->op_cnt <= UINT8_MAX / 2);
	res[cnt++] = (struct io_uring_restriction){
		.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED,
		.sqe_flags = ANY_SQE_FLAGS,
	};
	for (size_t i = 0; i < ARRAY_SIZE(own_ops); i++)
		res[cnt++] = (struct io_uring_restriction){
			.opcode = IORING_RESTRICTION_SQE_OP,
			.sqe_op = own_ops[i],
		};
	for (unsigned int i = 0; i < opt->op_cnt; i++)
		res[cnt++] = (struct io_uring_restriction){
			.opcode = IORING_RESTRICTION_SQE_OP,
			.sqe_op = opt->ops[i],
		};
	for (size_t i = 0; i < ARRAY_SIZE(register_ops); i++)
		res[cnt++] = (struct io_uring_restriction){
			.opcode = IORING_RESTRICTION_REGISTER_OP,
			.register_op = register_ops[i],
		};
	do {
		err = io_uring_register((unsigned int)r->ring.ring_fd,
					IORING_REGISTER_RESTRICTIONS, res, cnt);
	} while (err == -EINVAL &&
		 res[--cnt].register_op >= IORING_REGISTER_BUFFERS_UPDATE);
	return err;
}

static int ring_init(struct reactor *r, const struct reactor_options *opt)
{
	static const unsigned int flags[] = {
		[REACTOR_DEFER] =
			IORING_SETUP_SINGLE_ISSUER |
			IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
			IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL,
		[REACTOR_COOP] = IORING_SETUP_COOP_TASKRUN |
				 IORING_SETUP_TASKRUN_FLAG |
				 IORING_SETUP_SUBMIT_ALL,
		[REACTOR_PLAIN] = 0,
	};
	unsigned int entries = opt->ring_entries ? opt->ring_entries : 256;
	enum reactor_mode mode = opt->mode;
	struct io_uring_params p;
	int err;

	/* A deferred completion does not wake who sleeps in poll() on the ring
	 * (Linux 6.3 and later; poll() only sees it when it comes first). */
	if (opt->pollable && mode == REACTOR_DEFER)
		mode = REACTOR_COOP;
	do {
		/* Room for the completions of many turns: an overflow costs
		 * memory and ends multishot operations. */
		p = (struct io_uring_params){
			.flags = flags[mode] | IORING_SETUP_CQSIZE |
				 IORING_SETUP_CLAMP |
				 (opt->wide ? IORING_SETUP_SQE128 : 0) |
				 (opt->ops ? IORING_SETUP_R_DISABLED : 0),
			.cq_entries = 8 * entries,
		};
		err = io_uring_queue_init_params(entries, &r->ring, &p);
	} while (err == -EINVAL && ++mode < ARRAY_SIZE(flags));
	if (err)
		return err;
	if ((p.features & IORING_FEAT_EXT_ARG) &&
	    (p.features & IORING_FEAT_NODROP)) {
		r->enabled = !(p.flags & IORING_SETUP_R_DISABLED);
		r->polls_first = mode != REACTOR_PLAIN;
		return 0;
	}
	io_uring_queue_exit(&r->ring);
	return -ENOSYS;
}

/* A kernel that does not know sparse tables gets none: adding to them then
 * fails with -ENOSPC. */
static int tables_init(struct reactor *r, const struct reactor_options *opt)
{
	int err = 0;

	if (opt->max_buffers &&
	    !io_uring_register_buffers_sparse(&r->ring, opt->max_buffers))
		err = slots_init(&r->buffers, opt->max_buffers);
	if (!err && opt->max_files &&
	    !io_uring_register_files_sparse(&r->ring, opt->max_files))
		err = slots_init(&r->files, opt->max_files);
	return err;
}

void reactor_let_go(struct reactor *r)
{
	io_uring_unregister_files(&r->ring);
	io_uring_unregister_buffers(&r->ring);
}

const char *reactor_create_hint(int err)
{
	switch (err) {
	case -EMFILE:
		return "; raise the limit of open files (ulimit -n)";
	case -EPERM:
	case -ENOSYS:
		return "; it is forbidden here: see /proc/sys/kernel/"
		       "io_uring_disabled, or what a container may call";
	default:
		return "";
	}
}

int reactor_create(const struct reactor_options *opt,
		   struct reactor **ret_reactor)
{
	struct reactor *r = aligned_alloc(_Alignof(struct reactor), sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	*r = (struct reactor){
		.poll_us = opt->poll_us,
		.tick_us = tick_us(),
		.pollable = opt->pollable,
		.busy = true,
		.alarm.done = alarm_done,
		.wake.done = wake_done,
	};
	list_init(&r->pollers);
	list_init(&r->timers);
	list_init(&r->levels);
	r->next_poller = &r->pollers;
	r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->wake_fd < 0) {
		err = -errno;
		goto err_free;
	}
	err = ring_init(r, opt);
	if (err)
		goto err_close;
	err = tables_init(r, opt);
	if (!err && opt->ops)
		err = ring_restrict(r, opt);
	if (err)
		goto err_exit;
	contention_init(&r->contention);
	wake_arm(r);
	*ret_reactor = r;
	return 0;

err_exit:
	free(r->buffers.taken);
	free(r->files.taken);
	io_uring_queue_exit(&r->ring);
err_close:
	close(r->wake_fd);
err_free:
	free(r);
	return err;
}

void reactor_destroy(struct reactor *r)
{
	if (!r)
		return;
	assert(!r->in_turn);
	reactor_let_go(r);
	io_uring_queue_exit(&r->ring);
	reactor_levels_free(&r->levels);
	contention_close(&r->contention);
	close(r->wake_fd);
	free(r->buffers.taken);
	free(r->files.taken);
	free(r);
}
