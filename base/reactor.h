/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reactor is one thread's event loop on one io_uring. Everything that ends
 * asynchronously is a completion on that ring (storage I/O, /dev/fuse reads,
 * polls of file descriptors), a timer, a message from another thread, or work
 * that a poller finds (a completion queue of the fabric). Handlers run to
 * completion, one at a time, on the reactor's thread; nothing on the data path
 * takes a lock. An object belongs to one reactor for life.
 *
 * One turn of the loop: completions, messages, timers, pollers, then the
 * flush hooks (which post what the handlers queued, in one batch), then one
 * io_uring_enter that submits and, when there is nothing to do, waits.
 *
 * Waiting is adaptive: after work the pollers are polled for poll_us longer, or five
 * times that where the last wait was a little longer than poll_us, and so is the
 * ring when it pays (reactor_await()); then the pollers are armed, polled once more,
 * and the thread sleeps in the kernel. With nothing to poll it submits and sleeps by
 * one system call. An idle reactor costs no CPU.
 *
 * Thread: "reactor" below means the thread that runs the reactor; before
 * reactor_run() it is the thread that created it (setup). Every function is
 * for that thread unless it says "any".
 */
#ifndef BASE_REACTOR_H
#define BASE_REACTOR_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"

struct reactor;

/* Each falls back on the next when the kernel lacks it. */
enum reactor_mode {
	REACTOR_DEFER, /* completions are made when we ask (Linux 6.1) */
	REACTOR_COOP,  /* completions do not interrupt us (5.19) */
	REACTOR_PLAIN, /* anything with IORING_ENTER_EXT_ARG (5.11) */
};

struct reactor_options {
	unsigned int ring_entries; /* submission queue entries; 0 = 256 */
	unsigned int poll_us;	   /* how long to poll after work; 0 = never */
	unsigned int max_buffers;  /* slots for fixed buffers; 0 = none */
	unsigned int max_files;	   /* slots for fixed files; 0 = none */
	enum reactor_mode mode;	   /* what the ring may use of the kernel */
	bool pollable;		   /* reactor_fd() will be used */
	bool wide;		   /* 128 bytes per entry (IORING_SETUP_SQE128,
				    * Linux 5.19), for commands to devices */
	/* The operations (IORING_OP_*) that the kernel is to take from the ring
	 * besides the reactor's own, all others it refuses for good (-EACCES);
	 * borrowed for the call. NULL: all. */
	const uint8_t *ops;
	unsigned int op_cnt;
};

/* Counters since reactor_create(), for benchmarks and tests. */
struct reactor_stats {
	uint64_t turns;	      /* of the loop */
	uint64_t enters;      /* calls of io_uring_enter */
	uint64_t sleeps;      /* of these: could wait */
	uint64_t completions; /* of operations, watches included */
	uint64_t messages;    /* run */
	uint64_t wakeups;     /* by the eventfd: a sender found us asleep */
};

/**
 * reactor_create() - make a reactor; it runs when reactor_run() is called
 *
 * Thread: setup. The ring stays disabled until the first reactor_run() or
 * reactor_run_once(), whose thread it then belongs to for good; what is queued
 * before that (at most ring_entries) is submitted then.
 *
 * Return: 0 or a negative errno (-ENOSYS/-EPERM: the kernel has no io_uring or
 * forbids it; -ENOMEM: also a locked-memory limit on old kernels).
 */
int reactor_create(const struct reactor_options *opt,
		   struct reactor **ret_reactor);

/* What to try when reactor_create() has failed with @err, to stand behind the
 * reason: "; raise ...", or nothing. */
const char *reactor_create_hint(int err);

/*
 * Empties the tables of files and buffers for good. Kernels up to 6.2 hold what was
 * removed from one for a second more, but for this: a block device would be in use,
 * and memory locked, when the process is gone. Thread: the one that has run the
 * reactor, which others' rings do not listen to; on that of reactor_destroy(), that
 * does it.
 */
void reactor_let_go(struct reactor *r);

/* Frees a reactor that does not run; NULL is fine. Nothing may be in flight;
 * messages that did not run are dropped. Thread: any, nobody else using it. */
void reactor_destroy(struct reactor *r);

/* Processors that the calling thread may run on; 1 when that is not known.
 * Thread: any. */
unsigned int reactor_processors(void);

/*
 * How long to poll where nothing else is asked for, in microseconds: about as long as
 * the answer to a command takes, so that who sends one command after the other
 * need not be woken for each; not at all with one processor, which whom we wait
 * for needs. Thread: any.
 */
unsigned int reactor_poll_us_default(void);

/*
 * @cnt more (or less) answers of others are waited for, which arrive through the
 * ring. While it is one, the last came within poll_us, and processors are not
 * contended for (contention.h), the ring is polled for it before sleeping.
 */
void reactor_await(struct reactor *r, int cnt);

/* Runs until reactor_stop(); returns 0, or a negative errno of the ring. */
int reactor_run(struct reactor *r);

/*
 * One turn; waits at most @timeout_ms for something to do (0 = not at all,
 * -1 = for ever). Returns 1 when something was or is to be done, 0 when not,
 * or -errno. All that was queued has been submitted then.
 */
int reactor_run_once(struct reactor *r, int timeout_ms);

/* Ends reactor_run() after the present turn (of the next reactor_run() when
 * none runs yet), or the waiting of reactor_run_once(). Thread: any. */
void reactor_stop(struct reactor *r);

/*
 * For poll() in a loop that is not ours: readable when reactor_run_once() has
 * something to do, a timer included. Only for a reactor that was made
 * pollable (which excludes REACTOR_DEFER). Call reactor_run_once(r, 0) until it
 * returns 0 before each poll(): only that arms the pollers and lets messages
 * make the descriptor readable. The kernel makes completions by interrupting
 * the thread: system calls that are not restarted, such as epoll_wait(), then
 * fail with EINTR.
 */
int reactor_fd(const struct reactor *r);

/* True on the thread that runs @r, or when none does. For assertions.
 * Thread: any. */
bool reactor_is_mine(const struct reactor *r);

/* Monotonic clock, read once a turn; exact to a tick of the kernel (1 to 10 ms),
 * and so are the timers. */
uint64_t reactor_now_us(struct reactor *r);

/* Moves the clock of this reactor on, so that tests need not sleep. */
void reactor_skip(struct reactor *r, uint64_t ms);

void reactor_stats(const struct reactor *r, struct reactor_stats *ret_stats);

/* ---- operations on the ring ---- */

/*
 * One submission in flight; embed it. done() runs once per completion: once in
 * all, or, for multishot operations, until a completion without
 * IORING_CQE_F_MORE. @res is as in struct io_uring_cqe.
 */
struct reactor_op {
	void (*done)(struct reactor_op *op, int res, unsigned int cqe_flags);
};

/*
 * The next free submission entry, to be prepared by the caller at once (before
 * any other call on @r) with an io_uring_prep_*() and then
 * reactor_prep_done(sqe, op), in this order, as some versions of the former
 * reset the user data. Without user data the completion is dropped. Never NULL: when the queue is full it is
 * submitted first. It is submitted at the end of the turn.
 */
struct io_uring_sqe *reactor_sqe(struct reactor *r);

/* Makes room for @cnt entries (at most ring_entries), so that a chain of
 * IOSQE_IO_LINK entries is not cut in two by a submission. */
void reactor_sqe_reserve(struct reactor *r, unsigned int cnt);

static inline void reactor_prep_done(struct io_uring_sqe *sqe,
				     struct reactor_op *op)
{
	io_uring_sqe_set_data(sqe, op);
}

/* Asks for @op to be cancelled; its done() still runs, with -ECANCELED when
 * it was cancelled in time. */
void reactor_cancel(struct reactor *r, struct reactor_op *op);

/* Submits what is queued now, and not at the end of the turn. An operation on a
 * socket that was cancelled does not touch memory any more then. */
void reactor_submit(struct reactor *r);

/* True when the kernel knows IORING_RECVSEND_POLL_FIRST (5.19). */
bool reactor_polls_first(const struct reactor *r);

/* Fixed buffers: *ret_index serves io_uring_prep_read_fixed() and friends.
 * -ENOMEM when the locked-memory limit is too low, -EFBIG above 1 GiB (the
 * kernel's limit for one), -ENOSPC when no slot is left or the kernel has no
 * such table (before 5.19); the caller then uses plain operations. Removing
 * does not disturb operations in flight. */
int reactor_buffer_add(struct reactor *r, void *addr, size_t len,
		       int *ret_index);
void reactor_buffer_remove(struct reactor *r, int index);

/* Fixed files: *ret_index for use with IOSQE_FIXED_FILE. -ENOSPC as above,
 * -EBADF. The file stays open until removed, whatever becomes of @fd. */
int reactor_file_add(struct reactor *r, int fd, int *ret_index);
void reactor_file_remove(struct reactor *r, int index);

/* ---- file descriptors ---- */

/*
 * Watches a file descriptor for as long as wanted. ready() must read until
 * EAGAIN: it is told of edges, the first one being that the descriptor is
 * ready when the watch starts. When the kernel cannot watch it (closed, say)
 * ready() is told POLLERR | POLLNVAL, once. After reactor_watch_stop() ready()
 * is not called again, but the memory must live until stopped() has been
 * called, which is never from within reactor_watch_stop() (NULL: until the
 * reactor is destroyed). Close the descriptor after stopped(), or at least
 * after reactor_watch_stop().
 */
struct reactor_watch {
	struct reactor_op op; /* private, as the next three */
	struct reactor *reactor;
	bool armed;
	bool stopping;
	int fd;
	uint32_t events; /* POLLIN, ... */
	void (*ready)(struct reactor_watch *w, uint32_t events);
	void (*stopped)(struct reactor_watch *w);
};

/* Set fd, events, ready and stopped first. */
void reactor_watch_start(struct reactor *r, struct reactor_watch *w);
void reactor_watch_stop(struct reactor_watch *w);

/* ---- pollers ---- */

/* A source that is polled, such as a completion queue, or (poll and arm NULL)
 * one that only wants the end of turns. It may be removed (and freed) or others
 * added and removed from within any handler. */
struct reactor_poller {
	struct list node; /* private */
	/* Does what there is to do, bounded; returns how much it did. */
	unsigned int (*poll)(struct reactor_poller *p);
	/*
	 * Before sleeping: asks the source to wake the reactor (through a file
	 * descriptor that is watched). Returns true when it is armed, false
	 * when there is work already, so that sleeping would be wrong.
	 */
	bool (*arm)(struct reactor_poller *p);
	/* End of a turn: post in one batch what the handlers queued. May be
	 * NULL. Returns true when it made more work (run another turn). */
	bool (*flush)(struct reactor_poller *p);
};

void reactor_poller_add(struct reactor *r, struct reactor_poller *p);
void reactor_poller_remove(struct reactor *r, struct reactor_poller *p);

/* ---- timers ---- */

struct reactor_timer {
	struct list node; /* private, as the next */
	uint64_t due_us;
	void (*fire)(struct reactor_timer *t);
};

void reactor_timer_init(struct reactor_timer *t,
			void (*fire)(struct reactor_timer *t));
/* (Re)starts the timer; it fires once, not before @delay_ms have passed since
 * the turn began, and those due first fire first. A delay of 0 means the next
 * turn. Timers are kept in a sorted list: have one for many requests rather
 * than one for each. */
void reactor_timer_set(struct reactor *r, struct reactor_timer *t,
		       uint64_t delay_ms);
/* After this fire() is not called; a stopped timer may be stopped again. */
void reactor_timer_stop(struct reactor_timer *t);

/* ---- messages ---- */

/* Owned by the receiver from reactor_send() until run() is called. */
struct reactor_msg {
	struct reactor_msg *next; /* private */
	void (*run)(struct reactor_msg *msg);
};

/* Has @msg run on @to's thread, soon. Messages of one sender keep their
 * order. Thread: any, @to itself included (it then runs next turn). */
void reactor_send(struct reactor *to, struct reactor_msg *msg);

#endif
