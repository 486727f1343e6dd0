/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/contention.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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

/* Of three averages, "READY/ALL" and a PID; 0, which cannot be while we ask, when
 * they are not there. */
static int ready_of(const char *text)
{
	for (unsigned int i = 0; i < 3; i++) {
		text = strchr(text, ' ');
		if (!text)
			return 0;
		text++;
	}
	return (int)strtol(text, NULL, 10);
}

void contention_look(struct contention *c)
{
	char text[80];
	ssize_t len;
	int ready;

	if (c->fd < 0 || ++c->times % CONTENTION_SAMPLE != 0)
		return;
	len = pread(c->fd, text, sizeof(text) - 1, 0);
	if (len <= 0)
		return;
	text[len] = '\0';
	ready = ready_of(text);
	if (ready > 0)
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
