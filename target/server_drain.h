/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the end of rdma-target still waits for (server_stop.h): flushes of volumes, and
 * the commands of initiators. The log says it from time to time, and rdma-ctl status
 * says it at any time.
 *
 * Thread: worker 0.
 */
#ifndef TARGET_SERVER_DRAIN_H
#define TARGET_SERVER_DRAIN_H

#include "target/server_state.h"

/* The log has a line about it so often. */
#define SERVER_DRAIN_LOG_S 10

struct server_drain_facts {
	bool stopping; /* else all are 0 */
	unsigned int seconds;
	unsigned int flushes;  /* of volumes */
	unsigned int sessions; /* initiators that are logged in */
	unsigned int commands; /* that have not ended; at most a second old */
	/* Until all commands have ended, if they go on as until now; 0: not
	 * known. */
	unsigned int seconds_left;
};

void server_drain_begin(struct server *s);
/* False: the last look on each worker, a second ago, has found no command of @vol. */
bool server_drain_is_busy(const struct server *s, const struct volume *vol);
/* No new commands come. */
void server_drain_closed(struct server *s);
/* Also if the target has failed to start. */
void server_drain_end(struct server *s);

void server_drain_look(struct server *s, struct server_drain_facts *ret);

#endif
