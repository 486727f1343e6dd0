/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of the target: the messages of the log that name an object
 * (base/log.h). While there is a reader, the last EVENTS_KEPT events are kept.
 * A slow reader delays nobody: it is told how many events it has lost.
 *
 * Thread: any.
 */
#ifndef TARGET_EVENTS_H
#define TARGET_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define EVENTS_KEPT 1024

/* A reader of events. */
struct events_reader {
	struct list node; /* private, like the next two */
	uint64_t next;
	bool has_begun;
	/* Readable when events_next() has an event: an eventfd, which
	 * events_next() reads. */
	int fd;
};

/* Starts to read events; the first one is "begin". Returns 0, -ENOMEM or -errno
 * of eventfd(). */
int events_follow(struct events_reader *r);
void events_leave(struct events_reader *r);

/*
 * Returns the next event, which the caller frees: "event", "time_ms" since
 * 1970, "level", "text", and, if it has them, "nexus", "volume" and "lun".
 * NULL: there is none now.
 */
json_t *events_next(struct events_reader *r);

#endif
