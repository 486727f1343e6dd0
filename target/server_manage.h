/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the server that changes the target while it runs: the
 * configuration and the control socket. Only in builds with jansson.
 * Thread: main.
 */
#ifndef TARGET_SERVER_MANAGE_H
#define TARGET_SERVER_MANAGE_H

#include "target/server_state.h"

/* Makes the socket, if s->opt has one. -errno with one line in @e. */
int server_manage_open(struct server *s, struct error *e);
/* Call this when the target serves. It begins to handle calls and SIGHUP. */
int server_manage_start(struct server *s, struct error *e);
/* Call this when worker 0 has ended. It waits for running changes, and frees everything,
 * also if only some of it was made. False: one line was logged; a change does not end, for
 * example as it opens a file of a server that does not answer, and the process cannot go on
 * without it. */
bool server_manage_close(struct server *s);

#endif
