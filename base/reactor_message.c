/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor_internal.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

/*
 * No wake-up is lost, and no reactor is woken that is awake. The sender first
 * makes its message (or the stop) visible, then reads asleep. The reactor first
 * sets asleep, then looks for messages (reactor_fall_asleep()). All four are
 * sequentially consistent, so at least one of the two sees the other. Of many
 * senders, one clears asleep and makes the system call.
 */
static void reactor_wake_up(struct reactor *r)
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

	/* Publishes what the sender has written into @msg.
	 * reactor_run_messages() acquires it. */
	do {
		msg->next = head;
	} while (!atomic_compare_exchange_weak(&to->msgs, &head, msg));
	reactor_wake_up(to);
}

void reactor_stop(struct reactor *r)
{
	atomic_store(&r->stop, true);
	reactor_wake_up(r);
}

/* Messages are pushed at the head of the list, so the order must be
 * reversed. */
static struct reactor_msg *reactor_oldest_first(struct reactor_msg *msg)
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

unsigned int reactor_run_messages(struct reactor *r)
{
	struct reactor_msg *next;
	struct reactor_msg *msg;
	unsigned int done = 0;

	msg = reactor_oldest_first(atomic_exchange(&r->msgs, NULL));
	for (; msg; msg = next) {
		next = msg->next;
		msg->run(msg);
		done++;
	}
	r->stats.messages += done;
	return done;
}

void reactor_wake_arm(struct reactor *r)
{
	struct io_uring_sqe *sqe = reactor_sqe(r);

	io_uring_prep_poll_multishot(sqe, r->wake_fd, POLLIN);
	reactor_prep_done(sqe, &r->wake);
}

/* Nobody reads the eventfd: each write to it is an edge of its own, and its
 * count never overflows. */
void reactor_wake_done(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	struct reactor *r = container_of(op, struct reactor, wake);

	r->stats.wakeups++;
	if (!(cqe_flags & IORING_CQE_F_MORE) && res >= 0)
		reactor_wake_arm(r);
}

/* From now on senders wake the reactor. False: there is something to do. */
bool reactor_fall_asleep(struct reactor *r)
{
	atomic_store(&r->asleep, true); /* see reactor_wake_up() */
	if (!atomic_load(&r->msgs) && !atomic_load(&r->stop))
		return true;
	atomic_store(&r->asleep, false);
	return false;
}
