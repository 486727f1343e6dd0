/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the reactor share. Not for users of reactors.
 *
 *   reactor.c          the loop; create and destroy
 *   reactor_setup.c    make the ring, restrict it
 *   reactor_ring.c     enter the kernel, submission entries, completions
 *   reactor_table.c    tables of fixed buffers and files
 *   reactor_watch.c    file descriptors
 *   reactor_poller.c   sources that are polled
 *   reactor_timer.c    clock and timers
 *   reactor_message.c  messages from other threads, and the wake-up
 *   reactor_policy.c   when to poll and when to sleep
 *
 * Functions that run in each turn and mostly do nothing check that inline.
 */
#ifndef BASE_REACTOR_INTERNAL_H
#define BASE_REACTOR_INTERNAL_H

#include <stdatomic.h>
#include <time.h>

#include "base/contention.h"
#include "base/reactor.h"

#define NO_DEADLINE UINT64_MAX

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

/* ---- reactor_setup.c ---- */

int reactor_ring_init(struct reactor *r, const struct reactor_options *opt);
/* The ring is still disabled; once enabled it takes @opt->ops alone. */
int reactor_ring_restrict(struct reactor *r, const struct reactor_options *opt);

/* ---- reactor_table.c ---- */

int reactor_tables_init(struct reactor *r, const struct reactor_options *opt);

/* ---- reactor_ring.c ---- */

/* Submits what is queued, if there is a reason to enter the kernel. */
int reactor_enter_if_needed(struct reactor *r);
/* Submits, and sleeps until there is a completion or it is @until_us. */
int reactor_enter_and_wait(struct reactor *r, uint64_t until_us);
/* Returns how many completions were work, not housekeeping of the reactor. */
unsigned int reactor_run_completions(struct reactor *r);

/* ---- reactor_poller.c ---- */

unsigned int reactor_poll_all(struct reactor *r);
/* Stops at the first poller that cannot be armed, and returns false. */
bool reactor_arm_all(struct reactor *r);
/* Returns how many of them made work. */
unsigned int reactor_flush_all(struct reactor *r);

/* ---- reactor_timer.c ---- */

uint64_t reactor_tick_us(void);
unsigned int reactor_run_timers(struct reactor *r);
/* Has the ring's descriptor become readable when the first timer is due. */
void reactor_set_alarm(struct reactor *r);
void reactor_alarm_done(struct reactor_op *op, int res, unsigned int cqe_flags);

static inline uint64_t reactor_clock_us(const struct reactor *r,
					clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000 +
	       r->skipped_us;
}

/* Where the kernel has no clock that a program can read, as in many virtual
 * machines, this is a system call and an access to a slow device. */
static inline uint64_t reactor_exact_us(const struct reactor *r)
{
	return reactor_clock_us(r, CLOCK_MONOTONIC);
}

/* The time of the last tick: good enough for all that is counted in
 * milliseconds, and a read from memory everywhere. */
static inline uint64_t reactor_coarse_us(const struct reactor *r)
{
	return reactor_clock_us(r, CLOCK_MONOTONIC_COARSE);
}

static inline void reactor_timespec(struct __kernel_timespec *ts, uint64_t us)
{
	ts->tv_sec = (int64_t)(us / 1000000);
	ts->tv_nsec = (long long)(us % 1000000) * 1000;
}

static inline uint64_t reactor_first_timer_us(const struct reactor *r)
{
	if (list_empty(&r->timers))
		return NO_DEADLINE;
	return list_first(&r->timers, struct reactor_timer, node)->due_us;
}

static inline bool reactor_has_due_timer(struct reactor *r)
{
	return !list_empty(&r->timers) &&
	       reactor_first_timer_us(r) <= reactor_now_us(r);
}

/* ---- reactor_message.c ---- */

void reactor_wake_arm(struct reactor *r);
void reactor_wake_done(struct reactor_op *op, int res, unsigned int cqe_flags);
unsigned int reactor_run_messages(struct reactor *r);
/* Only the exchange in reactor_run_messages() must be ordered after the pushes. */
static inline bool reactor_has_message(const struct reactor *r)
{
	return atomic_load_explicit(&r->msgs, memory_order_relaxed);
}

/* From now on senders wake us; false when there is something already. */
bool reactor_fall_asleep(struct reactor *r);

static inline void reactor_stay_awake(struct reactor *r)
{
	/* Orders nothing: a sender that still saw us asleep writes in vain. */
	if (atomic_load_explicit(&r->asleep, memory_order_relaxed))
		atomic_store_explicit(&r->asleep, false, memory_order_relaxed);
}

/* ---- reactor_policy.c ---- */

/* Nothing is to be done: true to run another turn, false to sleep. */
bool reactor_keep_polling(struct reactor *r);

/*
 * The ring is polled for a single answer, if the last came soon and processors are not
 * contended for. More than one are better slept for: some come at a time, and
 * whoever makes them, or waits for them, has the processor.
 */
static inline bool ring_worth_polling(const struct reactor *r)
{
	return r->awaited == 1 && r->comes_soon && !r->contention.is;
}

static inline bool reactor_worth_polling(const struct reactor *r)
{
	return r->poll_us && (r->polled || ring_worth_polling(r));
}

#endif
