/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/contention.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void contention_init(struct contention *c)
{
	*c = (struct contention){
		.fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC),
		.processors = (int)sysconf(_SC_NPROCESSORS_ONLN),
	};
}

void contention_close(struct contention *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

void contention_look(struct contention *c)
{
	char text[80]; /* three averages, "READY/ALL", a PID */
	ssize_t len;
	int ready;

	if (c->fd < 0 || ++c->times % CONTENTION_SAMPLE != 0)
		return;
	len = pread(c->fd, text, sizeof(text) - 1, 0);
	if (len <= 0)
		return;
	text[len] = '\0';
	if (sscanf(text, "%*s %*s %*s %d", &ready) == 1)
		contention_add(c, ready);
}

void contention_add(struct contention *c, int ready)
{
	c->excess += 10 * (ready - c->processors) -
		     (c->is ? CONTENTION_SLACK_IS : CONTENTION_SLACK);
	if (c->excess >= CONTENTION_LIMIT) {
		c->excess = CONTENTION_LIMIT;
		c->is = true;
	} else if (c->excess <= -CONTENTION_LIMIT) {
		c->excess = -CONTENTION_LIMIT;
		c->is = false;
	}
}
