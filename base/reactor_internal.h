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
 * Functions that run in each turn and mostly do nothing are checked inline.
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
	bool busy;	 /* the last turn did something */
	bool polling;	 /* instead of sleeping */
	bool polls_long; /* for POLL_LONG_FACTOR times as long */
	bool slept;	 /* since the last turn that did something */
	unsigned int poll_us;
	unsigned int idle_turns; /* polling */
	uint64_t idle_since_us;	 /* 0: not yet known */
	unsigned int awaited;	 /* answers that are awaited: reactor_await() */
	uint64_t await_us;	 /* since when an answer is awaited */
	bool comes_soon;	 /* the last ones came within poll_us */
	struct contention contention;
	uint64_t now_us; /* the last reading; in a turn, 0: to be read */
	uint64_t tick_us;
	uint64_t skipped_us;  /* added to the kernel's clock, maybe negative */
	uint64_t forgiven_us; /* what reactor_forgive() has taken back */
	bool skips;	      /* reactor_skip() made the timers late */
	bool forgave; /* reactor_forgive() did; then not at once again */
	struct slots buffers;
	struct slots files;

	struct list pollers;
	unsigned int polled;	  /* number of pollers with poll() */
	bool more;		  /* a flush() made work */
	struct list *next_poller; /* of the current walk over them */
	struct list timers;	  /* in the order in which they are due */
	struct list levels;	  /* reactor_level.h */

	/* Makes reactor_fd() readable for the timers. */
	struct reactor_op alarm;
	struct __kernel_timespec alarm_at;
	uint64_t alarm_us; /* when it completes; 0: not in flight */

	struct reactor_op wake; /* multishot poll of wake_fd */
	int wake_fd;
	struct reactor_stats stats;

	/* Any thread may use the members from here on. They are on another
	 * cache line. */
	_Alignas(64) _Atomic(struct reactor_msg *) msgs; /* newest first */
	atomic_bool asleep; /* a thread that clears it must write to wake_fd */
	atomic_bool stop;
	_Atomic(const char *) owner; /* thread_mark of its thread, or NULL */
};

/* ---- reactor_setup.c ---- */

int reactor_ring_init(struct reactor *r, const struct reactor_options *opt);
/* The ring is still disabled. Once enabled, it takes only @opt->ops. */
int reactor_ring_restrict(struct reactor *r, const struct reactor_options *opt);

/* ---- reactor_table.c ---- */

int reactor_tables_init(struct reactor *r, const struct reactor_options *opt);

/* ---- reactor_ring.c ---- */

/* Submits queued entries, if there is a reason to enter the kernel. */
int reactor_enter_if_needed(struct reactor *r);
/* Submits, then sleeps until there is a completion or until @until_us. */
int reactor_enter_and_wait(struct reactor *r, uint64_t until_us);
/* Returns the number of completions, without those of the reactor itself. */
unsigned int reactor_run_completions(struct reactor *r);

/* ---- reactor_poller.c ---- */

unsigned int reactor_poll_all(struct reactor *r);
/* Stops at the first poller that cannot be armed, and returns false. */
bool reactor_arm_all(struct reactor *r);
/* Returns how many pollers made work. */
unsigned int reactor_flush_all(struct reactor *r);

/* ---- reactor_timer.c ---- */

uint64_t reactor_tick_us(void);
unsigned int reactor_run_timers(struct reactor *r);
/* A timer is due. If it is late, takes back the time in which the thread did
 * not run. The last turn, or the user after it, read @seen_us from the
 * clock. */
void reactor_forgive(struct reactor *r, uint64_t seen_us);
/* Makes the ring's descriptor readable when the first timer is due. */
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

/* If the kernel has no clock that a program can read, as in many virtual
 * machines, this costs a system call and an access to a slow device. */
static inline uint64_t reactor_exact_us(const struct reactor *r)
{
	return reactor_clock_us(r, CLOCK_MONOTONIC);
}

/* The time of the last tick: exact enough for milliseconds, and everywhere only
 * a read from memory. */
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
/* Only the exchange in reactor_run_messages() must be ordered after the
 * pushes. */
static inline bool reactor_has_message(const struct reactor *r)
{
	return atomic_load_explicit(&r->msgs, memory_order_relaxed);
}

/* From now on senders wake the reactor. False: there is a message already. */
bool reactor_fall_asleep(struct reactor *r);

static inline void reactor_stay_awake(struct reactor *r)
{
	/* No order is needed: a sender that still sees the reactor asleep
	 * causes one needless wake-up. */
	if (atomic_load_explicit(&r->asleep, memory_order_relaxed))
		atomic_store_explicit(&r->asleep, false, memory_order_relaxed);
}

/* ---- reactor_policy.c ---- */

/* There is nothing to do. True: run another turn; false: sleep. */
bool reactor_keep_polling(struct reactor *r);

/*
 * The ring is polled for a single answer, if the last one came soon and there
 * is no contention. To wait for several, sleeping is better: some arrive
 * together, and the threads that make them or wait for them get the CPU.
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
