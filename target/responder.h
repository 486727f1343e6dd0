/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers those who look for targets (protocol/discovery.h): on the interfaces where the
 * target listens, over every carrier of transport/datagram.h. It says when the target
 * comes and when it goes.
 *
 * One thread does it. Each endpoint has a budget of datagrams and answers
 * (responder_budget.h), so that a flood at one silences no other. What an endpoint may not
 * read, the kernel drops. With a key, the target answers only those who have it.
 *
 * An interface or a device that comes later is used RESPONDER_LOOK_MS later.
 *
 * Thread: main, except where a comment says otherwise.
 */
#ifndef TARGET_RESPONDER_H
#define TARGET_RESPONDER_H

#include "target/server_state.h"

#define RESPONDER_LOOK_MS 5000

/* Opens the endpoints, before the sandbox forbids it. An endpoint that cannot be opened is
 * a line in the log and no error. -errno with one line in @e. */
int responder_open(struct server *s, struct error *e);
/* The target serves: starts the thread, and says so. */
int responder_start(struct server *s, struct error *e);
/* Says that the target goes, and frees everything, whatever there is of it. */
void responder_close(struct server *s);

/* The addresses where the target listens, s->points, are others. Thread: that which has
 * changed them. */
void responder_points_changed(struct server *s);

#endif
