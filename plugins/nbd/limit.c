/* SPDX-License-Identifier: BSD-2-Clause */
#include "limit.h"

#include <errno.h>

#include "volume.h"

#define TICKS 16u

static void limit_set_timer(struct nbdlimit *l)
{
	l->is_ticking = true;
	l->due_ms = nbdlink_now_ms() + l->tick_ms;
	nbd_host->timer_set(l->timer, l->tick_ms);
}

static bool limit_is_late(const struct nbdlimit *l)
{
	return nbdlink_now_ms() >= l->due_ms + l->tick_ms;
}

static void limit_tick(void *user)
{
	struct nbdlimit *l = user;

	l->is_ticking = false;
	if (!l->is_on)
		return;
	if (l->late < TICKS && limit_is_late(l))
		l->late++;
	else
		l->ticks++;
	if (l->ticks < TICKS + 2) {
		limit_set_timer(l);
		return;
	}
	l->is_on = false;
	l->passed(l->user);
}

int nbdlimit_add(struct nbdlimit *l, struct rbp_queue *queue, uint64_t ms,
		 void (*passed)(void *user), void *user)
{
	*l = (struct nbdlimit){
		.timer = nbd_host->timer_add(queue, limit_tick, l),
		.passed = passed,
		.user = user,
		.tick_ms = ms / TICKS + 1,
	};
	return l->timer ? 0 : -ENOMEM;
}

void nbdlimit_del(struct nbdlimit *l)
{
	if (l->timer)
		nbd_host->timer_del(l->timer);
	*l = (struct nbdlimit){ 0 };
}

/* The timer goes on from a limit that has ended to the next one: it is set a few
 * times, not for each request. */
void nbdlimit_begin(struct nbdlimit *l)
{
	l->ticks = 0;
	l->late = 0;
	l->is_on = true;
	if (!l->is_ticking)
		limit_set_timer(l);
}

void nbdlimit_end(struct nbdlimit *l)
{
	l->is_on = false;
}
