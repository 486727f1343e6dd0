/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/contention.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

void contention_init(struct contention *c)
{
	*c = (struct contention){ .fd = -1 };
}

void contention_close(struct contention *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->looking = false;
}

/* The file has the time run as well, but only as of the last tick. */
static uint64_t ran_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static bool look(struct contention *c, struct cpu_use *ret_use)
{
	char text[80]; /* three numbers */
	ssize_t len;

	if (c->fd < 0)
		c->fd = open("/proc/thread-self/schedstat",
			     O_RDONLY | O_CLOEXEC);
	len = c->fd < 0 ? -1 : pread(c->fd, text, sizeof(text) - 1, 0);
	if (len <= 0)
		return false;
	text[len] = '\0';
	ret_use->ran = ran_ns();
	return sscanf(text, "%*u %" SCNu64, &ret_use->waited) == 1;
}

static void end_span(struct contention *c, uint64_t now_us)
{
	struct cpu_use use;

	c->looking = false;
	if (!look(c, &use))
		return;
	use.ran -= c->begin.ran;
	use.waited -= c->begin.waited;
	contention_add(c, use, now_us);
}

void contention_span(struct contention *c, uint64_t now_us)
{
	if (c->looking)
		end_span(c, now_us);
	if (contention_is(c, now_us))
		return;
	if (c->found || ++c->spans % CONTENTION_SAMPLE == 0)
		c->looking = look(c, &c->begin);
}

void contention_add(struct contention *c, struct cpu_use use, uint64_t now_us)
{
	c->sum.ran += use.ran;
	if (use.waited >= CONTENTION_LONG_NS)
		c->sum.waited += use.waited;
	if (c->sum.ran + c->sum.waited < CONTENTION_KNOWN_NS)
		return;
	c->found = c->sum.waited > c->sum.ran / 3;
	c->until_us = c->found ? now_us + CONTENTION_HOLD_US : 0;
	c->sum = (struct cpu_use){ 0 };
}

bool contention_is(const struct contention *c, uint64_t now_us)
{
	return now_us < c->until_us;
}
