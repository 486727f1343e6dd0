/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happens in the target, for those who follow it: the messages of the log that
 * are about something (base/log.h). The last EVENTS_KEPT are kept while somebody
 * follows, so that a slow reader keeps nobody from anything: it hears how many it
 * has lost.
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

/* One who follows. */
struct events_reader {
	struct list node; /* the module's, as the next two */
	uint64_t next;
	bool has_begun;
	/* Readable when there is something for events_next(): an eventfd, which
	 * events_next() reads. */
	int fd;
};

/* From now on; the first event is "begin". 0, -ENOMEM or -errno of eventfd(). */
int events_follow(struct events_reader *r);
void events_leave(struct events_reader *r);

/*
 * The next event, to be freed: "event", "time_ms" since 1970, "level", "text", and
 * where it has them "nexus", "volume" and "lun". NULL: there is none now.
 */
json_t *events_next(struct events_reader *r);

#endif
