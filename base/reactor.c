/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/reactor_level.h"

/* Its address identifies the thread. */
static _Thread_local char thread_mark;

static inline void reactor_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static unsigned int reactor_work(struct reactor *r)
{
	uint64_t seen_us = r->now_us;
	unsigned int done;

	r->stats.turns++;
	r->now_us = 0;
	if (reactor_has_due_timer(r))
		reactor_forgive(r, seen_us);
	reactor_stay_awake(r);
	done = reactor_run_completions(r);
	if (reactor_has_message(r))
		done += reactor_run_messages(r);
	if (reactor_has_due_timer(r))
		done += reactor_run_timers(r);
	done += reactor_poll_all(r);
	r->more = reactor_flush_all(r) > 0;
	return done + r->more;
}

/* Arms the pollers and then checks once more: an event between the last check
 * and the arming wakes nobody. Returns true if there is nothing to do. */
static bool reactor_pollers_quiet(struct reactor *r)
{
	unsigned int done;
	bool armed;

	if (!r->polled)
		return true;
	armed = reactor_arm_all(r);
	done = reactor_poll_all(r);
	return done + reactor_flush_all(r) == 0 && armed;
}

/* Sleeps until there is something to do, or @until_us. The pollers are quiet. */
static int reactor_sleep(struct reactor *r, uint64_t until_us)
{
	uint64_t due_us;

	if (!reactor_fall_asleep(r)) {
		r->busy = true;
		return reactor_enter_if_needed(r);
	}
	due_us = reactor_first_timer_us(r);
	r->slept = true;
	contention_sleep(&r->contention);
	return reactor_enter_and_wait(r, due_us < until_us ? due_us : until_us);
}

/* Without pollers, the reactor may sleep after work at once: one system call
 * both submits and waits. */
static int reactor_run_turn(struct reactor *r)
{
	if (reactor_work(r)) {
		r->busy = true;
		if (r->polled || reactor_worth_polling(r) || r->more)
			return reactor_enter_if_needed(r);
	}
	if (reactor_keep_polling(r)) {
		reactor_relax();
		return reactor_enter_if_needed(r);
	}
	if (!reactor_pollers_quiet(r)) {
		r->busy = true;
		return reactor_enter_if_needed(r);
	}
	return reactor_sleep(r, NO_DEADLINE);
}

/* The ring belongs to the thread that calls this first. */
static int reactor_begin(struct reactor *r)
{
	int err;

	assert(!r->in_turn && reactor_is_mine(r));
	atomic_store_explicit(&r->owner, &thread_mark, memory_order_relaxed);
	if (!r->enabled) {
		/* liburing 2.3 does not export io_uring_enable_rings(). */
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
	/* The caller may sleep before the next turn. */
	contention_sleep(&r->contention);
	r->in_turn = false;
}

int reactor_run(struct reactor *r)
{
	bool registered;
	int err;

	err = reactor_begin(r);
	if (err)
		return err;
	/* Saves a reference to the file in each system call. Only the thread
	 * that did this can undo it. */
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

/* One turn without waiting. If it does nothing, then anything to do makes the
 * ring's descriptor readable. */
static int reactor_turn_once(struct reactor *r)
{
	int ret = reactor_work(r) != 0;
	int err;

	if (!ret) {
		ret = !reactor_pollers_quiet(r);
		reactor_set_alarm(r);
	}
	err = reactor_enter_if_needed(r);
	if (err)
		return err;
	/* If the kernel had no memory, something is still to be submitted. */
	if (!ret)
		ret = io_uring_cq_ready(&r->ring) ||
		      io_uring_sq_ready(&r->ring) || !reactor_fall_asleep(r);
	return ret;
}

static int reactor_turns_until(struct reactor *r, uint64_t until_us)
{
	int err;

	for (;;) {
		if (reactor_work(r)) {
			r->busy = true;
			err = reactor_enter_if_needed(r);
			return err ? err : 1;
		}
		if (atomic_load(&r->stop) || reactor_now_us(r) >= until_us)
			return reactor_enter_if_needed(r);
		if (reactor_keep_polling(r)) {
			reactor_relax();
			err = reactor_enter_if_needed(r);
		} else if (!reactor_pollers_quiet(r)) {
			r->busy = true;
			err = reactor_enter_if_needed(r);
			return err ? err : 1;
		} else {
			err = reactor_sleep(r, until_us);
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
		ret = reactor_turn_once(r);
	} else {
		if (timeout_ms > 0)
			until_us = reactor_coarse_us(r) +
				   (uint64_t)timeout_ms * 1000;
		ret = reactor_turns_until(r, until_us);
	}
	atomic_store(&r->stop, false);
	reactor_end(r);
	return ret;
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

struct list *reactor_levels(struct reactor *r)
{
	return &r->levels;
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
		.tick_us = reactor_tick_us(),
		.pollable = opt->pollable,
		.busy = true,
		.alarm.done = reactor_alarm_done,
		.wake.done = reactor_wake_done,
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
	err = reactor_ring_init(r, opt);
	if (err)
		goto err_close;
	err = reactor_tables_init(r, opt);
	if (!err && opt->ops)
		err = reactor_ring_restrict(r, opt);
	if (err)
		goto err_exit;
	contention_init(&r->contention);
	reactor_wake_arm(r);
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
