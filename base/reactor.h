/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reactor is the event loop of one thread, on one io_uring. Each event is a
 * completion on the ring (storage I/O, /dev/fuse reads, polls of file
 * descriptors), a timer, a message from another thread, or work that a poller
 * finds (a completion queue of the fabric). Handlers run to completion, one at
 * a time, on the reactor's thread. The data path takes no lock. An object
 * belongs to one reactor for life.
 *
 * One turn of the loop handles completions, messages, timers and pollers, and
 * calls the flush hooks, which post in one batch what the handlers queued. One
 * io_uring_enter then submits and, if there is nothing to do, waits.
 *
 * After work, the reactor polls the pollers for poll_us before it sleeps. If
 * the last wait was at most five times poll_us long, it polls for that long. It
 * also polls the ring where that pays (reactor_await()). Then it arms the
 * pollers, polls them once more, and sleeps in the kernel. With nothing to poll
 * it submits and sleeps by one system call. An idle reactor costs no CPU.
 *
 * Thread: "reactor" is the thread that runs the reactor; before reactor_run()
 * it is the thread that created it (setup). Every function is for that thread
 * unless it says "any".
 */
#ifndef BASE_REACTOR_H
#define BASE_REACTOR_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"

struct reactor;

/* If the kernel lacks one, the next is used. */
enum reactor_mode {
	REACTOR_DEFER, /* the kernel makes completions on request (Linux 6.1) */
	REACTOR_COOP,  /* completions do not interrupt the thread (5.19) */
	REACTOR_PLAIN, /* needs only IORING_ENTER_EXT_ARG (5.11) */
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
	/* The operations (IORING_OP_*) that the ring takes besides the
	 * reactor's own. It refuses all others for good (-EACCES). Borrowed for
	 * the call. NULL: all. */
	const uint8_t *ops;
	unsigned int op_cnt;
};

/* Counters since reactor_create(), for benchmarks and tests. */
struct reactor_stats {
	uint64_t turns;	      /* of the loop */
	uint64_t enters;      /* calls of io_uring_enter */
	uint64_t sleeps;      /* calls of it that could wait */
	uint64_t completions; /* of operations, watches included */
	uint64_t messages;    /* run */
	uint64_t wakeups;     /* by the eventfd, of a sleeping reactor */
};

/**
 * reactor_create() - make a reactor; it runs when reactor_run() is called
 *
 * Thread: setup. The ring stays disabled until the first reactor_run() or
 * reactor_run_once(). It then belongs to that thread for good, and what was
 * queued before (at most ring_entries) is submitted.
 *
 * Return: 0 or a negative errno (-ENOSYS/-EPERM: the kernel has no io_uring or
 * forbids it; -ENOMEM: also a locked-memory limit on old kernels).
 */
int reactor_create(const struct reactor_options *opt,
		   struct reactor **ret_reactor);

/* What to try after reactor_create() failed with @err, to be appended to the
 * reason: "; raise ...", or "". */
const char *reactor_create_hint(int err);

/*
 * Empties the tables of files and buffers for good. Without this, kernels up to
 * 6.2 keep a removed file or buffer for another second: a block device would
 * still be in use, and memory locked, after the process has ended. Thread: the
 * one that has run the reactor, because the ring takes calls of no other. On
 * that thread, reactor_destroy() does it.
 */
void reactor_let_go(struct reactor *r);

/* Frees a reactor that does not run; NULL is fine. Nothing may be in flight;
 * messages that did not run are dropped. Thread: any, nobody else using it. */
void reactor_destroy(struct reactor *r);

/* CPUs that the calling thread may run on; 1 if that is not known. Thread:
 * any. */
unsigned int reactor_processors(void);

/*
 * The default for poll_us, in microseconds. It is about as long as the answer
 * to a command takes, so that a program that sends one command after the other
 * is not woken for each. 0 with one CPU, because the peer needs it. Thread:
 * any.
 */
unsigned int reactor_poll_us_default(void);

/*
 * The program waits for @cnt more (or fewer) answers that arrive through the
 * ring. The reactor polls the ring before it sleeps while it waits for one
 * answer, if the last one came within poll_us and there is no contention
 * (contention.h).
 */
void reactor_await(struct reactor *r, int cnt);

/* The program has sent or begun a command that another thread of the machine
 * may execute, such as the kernel's io-wq. That thread is no contention. */
void reactor_helped(struct reactor *r);

/* Runs until reactor_stop(); returns 0, or a negative errno of the ring. */
int reactor_run(struct reactor *r);

/*
 * Runs one turn. Waits at most @timeout_ms for something to do (0 = not at all,
 * -1 = without limit). Returns 1 if something was done or is to be done, 0 if
 * not, or -errno. Everything that was queued has been submitted then.
 */
int reactor_run_once(struct reactor *r, int timeout_ms);

/* Ends reactor_run() after the present turn; if none runs yet, the next one.
 * Ends the waiting of reactor_run_once(). Thread: any. */
void reactor_stop(struct reactor *r);

/*
 * A descriptor for poll() in the program's own loop: readable when
 * reactor_run_once() has something to do, a timer included. Only for a reactor
 * that was made pollable (which excludes REACTOR_DEFER). Call
 * reactor_run_once(r, 0) until it returns 0 before each poll(): only that arms
 * the pollers and lets messages make the descriptor readable. The kernel
 * interrupts the thread to make completions. System calls that are not
 * restarted, such as epoll_wait(), then fail with EINTR.
 */
int reactor_fd(const struct reactor *r);

/* True on the thread that runs @r, or when none does. For assertions.
 * Thread: any. */
bool reactor_is_mine(const struct reactor *r);

/*
 * Monotonic clock, read once a turn. It and the timers are exact to a tick of
 * the kernel (1 to 10 ms). Time in which the thread did not run (the process
 * was stopped, or a handler took long) does not count: if the first timer is
 * more than half a second late, the clock goes on from before, so that what has
 * arrived meanwhile is handled before a timer calls it late. The clocks of two
 * reactors differ.
 */
uint64_t reactor_now_us(struct reactor *r);

/*
 * The same, but time in which the thread did not run counts, too: the time of this
 * turn, and the time of the call. For what happens outside of the thread meanwhile.
 */
uint64_t reactor_turn_us(struct reactor *r);
uint64_t reactor_real_us(const struct reactor *r);

/* Moves the clock of this reactor on, so that tests need not sleep. */
void reactor_skip(struct reactor *r, uint64_t ms);

void reactor_stats(const struct reactor *r, struct reactor_stats *ret_stats);

/* ---- operations on the ring ---- */

/*
 * One submission in flight; embed it. done() runs for each completion. That is
 * one, or for a multishot operation all up to the first without
 * IORING_CQE_F_MORE. @res is as in struct io_uring_cqe.
 */
struct reactor_op {
	void (*done)(struct reactor_op *op, int res, unsigned int cqe_flags);
};

/*
 * The next free submission entry. The caller prepares it at once, before any
 * other call on @r: first by an io_uring_prep_*(), then by
 * reactor_prep_done(sqe, op), because some versions of the former reset the
 * user data. Without user data the completion is dropped. Never NULL: if the
 * queue is full it is submitted first. The entry is submitted at the end of the
 * turn.
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

/* Asks the kernel to cancel @op. Its done() still runs, with -ECANCELED if that
 * was in time. */
void reactor_cancel(struct reactor *r, struct reactor_op *op);

/* Submits what is queued now instead of at the end of the turn. After this, a
 * cancelled operation on a socket no longer touches memory. */
void reactor_submit(struct reactor *r);

/* True when the kernel knows IORING_RECVSEND_POLL_FIRST (5.19). */
bool reactor_polls_first(const struct reactor *r);

/* Fixed buffers: *ret_index is for io_uring_prep_read_fixed() and the like.
 * -ENOMEM: the locked-memory limit is too low; -EFBIG: above 1 GiB (the
 * kernel's limit for one); -ENOSPC: no slot is left, or the kernel has no such
 * table (before 5.19). The caller then uses plain operations. A buffer may be
 * removed while operations on it are in flight. */
int reactor_buffer_add(struct reactor *r, void *addr, size_t len,
		       int *ret_index);
void reactor_buffer_remove(struct reactor *r, int index);

/* Fixed files: *ret_index is for IOSQE_FIXED_FILE. -ENOSPC as above, -EBADF.
 * The file stays open until it is removed, also after @fd is closed. */
int reactor_file_add(struct reactor *r, int fd, int *ret_index);
void reactor_file_remove(struct reactor *r, int index);

/* ---- file descriptors ---- */

/*
 * Watches a file descriptor until reactor_watch_stop(). The watch is
 * edge-triggered: ready() must read until EAGAIN. It is also called if the
 * descriptor is ready when the watch starts. If the kernel cannot watch the
 * descriptor, for example because it is closed, ready() gets POLLERR | POLLNVAL
 * once.
 *
 * After reactor_watch_stop() ready() is not called again. The memory must live
 * until stopped() is called, which is never from within reactor_watch_stop()
 * (NULL: until the reactor is destroyed). Close the descriptor after stopped(),
 * or at least after reactor_watch_stop().
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

/* A source that is polled, such as a completion queue; or, with poll and arm
 * NULL, one that only needs the end of each turn. Any handler may add and
 * remove pollers, and free a removed one. */
struct reactor_poller {
	struct list node; /* private */
	/* Does a limited amount of work; returns how much. */
	unsigned int (*poll)(struct reactor_poller *p);
	/*
	 * Called before sleeping. Asks the source to wake the reactor, through
	 * a file descriptor that is watched. Returns true if it is armed, false
	 * if there is work already, so that the reactor must not sleep.
	 */
	bool (*arm)(struct reactor_poller *p);
	/* Called at the end of a turn: posts in one batch what the handlers
	 * queued. May be NULL. Returns true if another turn must follow. */
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
/* Starts the timer, or starts it again. It fires once, at the earliest
 * @delay_ms after the turn began; 0: in the next turn. Timers fire in the order
 * in which they are due. They are in a sorted list: use one for many requests,
 * not one for each. */
void reactor_timer_set(struct reactor *r, struct reactor_timer *t,
		       uint64_t delay_ms);
/* fire() is not called any more. A stopped timer may be stopped again. */
void reactor_timer_stop(struct reactor_timer *t);

/* ---- messages ---- */

/* Owned by the receiver from reactor_send() until run() is called. */
struct reactor_msg {
	struct reactor_msg *next; /* private */
	void (*run)(struct reactor_msg *msg);
};

/* Runs @msg on the thread of @to, soon. Messages of one sender keep their
 * order. Thread: any, that of @to included (then the message runs in the next
 * turn). */
void reactor_send(struct reactor *to, struct reactor_msg *msg);

#endif
