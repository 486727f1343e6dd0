/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers clients that look for targets (protocol/discovery.h), on the
 * interfaces where the target listens, over every carrier of
 * transport/datagram.h. It announces the start and the end of the target.
 *
 * One thread does this. Each endpoint has a budget of datagrams and answers
 * (responder_budget.h), so that a flood at one endpoint silences no other. The
 * kernel drops datagrams beyond the budget. With a key, the target answers only
 * clients that have the key.
 *
 * An interface or a device that is added later is used after RESPONDER_LOOK_MS.
 *
 * Thread: main, except where a comment says otherwise.
 */
#ifndef TARGET_RESPONDER_H
#define TARGET_RESPONDER_H

#include "target/server_state.h"

#define RESPONDER_LOOK_MS 5000

/* Opens the endpoints, before the sandbox forbids it. If an endpoint cannot be
 * opened, this is logged and is no error. Returns 0, or -errno with one line in
 * @e. */
int responder_open(struct server *s, struct error *e);
/* Call this when the target serves. Starts the thread, and announces the
 * target. */
int responder_start(struct server *s, struct error *e);
/* Announces the end of the target, and frees everything, also if only some of
 * it was made. */
void responder_close(struct server *s);

/* The addresses where the target listens, s->points, have changed. Thread: the
 * one that has changed them. */
void responder_points_changed(struct server *s);

#endif
