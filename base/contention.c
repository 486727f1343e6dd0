/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/contention.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void contention_init(struct contention *c)
{
	int online = (int)sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	*c = (struct contention){
		.fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC),
		.processors = online,
	};
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		c->on_some = CPU_COUNT(&set) < online;
}

void contention_close(struct contention *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

/* ---- the load of the machine ---- */

/* Reads "READY/ALL" and a PID behind three averages. Return: READY, or 0 if the
 * text is another. 0 threads are impossible: the caller runs. */
static int contention_parse_ready(const char *text)
{
	for (unsigned int i = 0; i < 3; i++) {
		text = strchr(text, ' ');
		if (!text)
			return 0;
		text++;
	}
	return (int)strtol(text, NULL, 10);
}

static void contention_read_load(struct contention *c)
{
	char text[80];
	ssize_t len;
	int ready;

	if (c->fd < 0)
		return;
	len = pread(c->fd, text, sizeof(text) - 1, 0);
	if (len <= 0)
		return;
	text[len] = '\0';
	ready = contention_parse_ready(text);
	if (ready > 0)
		contention_add(c, ready);
}

static int contention_slack(const struct contention *c)
{
	if (c->is)
		return CONTENTION_SLACK_IS;
	return c->helped ? CONTENTION_SLACK_HELPED : CONTENTION_SLACK;
}

void contention_add(struct contention *c, int ready)
{
	c->excess += 10 * (ready - c->processors) - contention_slack(c);
	c->helped = false;
	if (c->excess >= CONTENTION_LIMIT) {
		c->excess = CONTENTION_LIMIT;
		c->is = true;
	} else if (c->excess <= -CONTENTION_LIMIT) {
		c->excess = -CONTENTION_LIMIT;
		c->is = false;
	}
}

/* ---- the CPU time that the thread lacks ---- */

static uint64_t contention_clock_us(clockid_t clock)
{
	struct timespec ts = { 0 };

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* Ends the current span, if there is one, and begins the next. */
static void contention_next_span(struct contention *c)
{
	/* In this order: a preemption between the two belongs to the next
	 * span. */
	uint64_t wall = contention_clock_us(CLOCK_MONOTONIC);
	uint64_t cpu = contention_clock_us(CLOCK_THREAD_CPUTIME_ID);

	if (c->wall_us)
		contention_add_span(c, wall, wall - c->wall_us,
				    cpu - c->cpu_us);
	c->wall_us = wall;
	c->cpu_us = cpu;
}

void contention_add_span(struct contention *c, uint64_t now_us,
			 uint64_t wall_us, uint64_t cpu_us)
{
	uint64_t lack = wall_us > cpu_us ? wall_us - cpu_us : 0;
	uint64_t slack = cpu_us / CONTENTION_LACK_SLACK;

	if (c->is)
		return;
	if (lack > CONTENTION_LACK_US / 2)
		lack = CONTENTION_LACK_US / 2;
	c->lack_us += lack;
	c->lack_us -= slack < c->lack_us ? slack : c->lack_us;
	if (c->lack_us < CONTENTION_LACK_US)
		return;
	c->lack_us = 0;
	c->is = true;
	c->until_us = now_us + CONTENTION_HOLD_MS * 1000;
}

void contention_expire(struct contention *c, uint64_t now_us)
{
	if (now_us >= c->until_us)
		c->is = false;
}

/* ---- both ---- */

void contention_look(struct contention *c)
{
	if (c->on_some && c->is)
		contention_expire(c, contention_clock_us(CLOCK_MONOTONIC));
	if (++c->times % CONTENTION_SAMPLE != 0)
		return;
	if (c->on_some)
		contention_next_span(c);
	else
		contention_read_load(c);
}

void contention_sleep(struct contention *c)
{
	if (!c->wall_us)
		return;
	contention_next_span(c);
	c->wall_us = 0;
}
