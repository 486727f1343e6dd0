/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the server that changes it while it runs: the configuration and the
 * control socket. Without jansson there is neither. Thread: main.
 */
#ifndef TARGET_SERVER_MANAGE_H
#define TARGET_SERVER_MANAGE_H

#include "target/server_state.h"

/* Makes the socket, if s->opt wants one. -errno with one line in @e. */
int server_manage_open(struct server *s, struct error *e);
/* The target serves: takes calls, and SIGHUP. */
int server_manage_start(struct server *s, struct error *e);
/* Worker 0 has ended: awaits what is under way. */
void server_manage_stop(struct server *s);
/* Frees everything, whatever there is of it. */
void server_manage_close(struct server *s);

#endif
