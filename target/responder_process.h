/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process of the responder (responder.h), a child of the target. It is made
 * before the target opens anything, so it has no volume, no connection and no data.
 * It gives up its rights, and has its own filter of system calls and of files: it
 * can make sockets of UDP, which the target cannot. It is told what it must know of
 * the target, and tells nothing but how much it has answered.
 *
 * It ends with the target. If it ends before, the target goes on without discovery.
 *
 * Thread: main, except where a comment says otherwise.
 */
#ifndef TARGET_RESPONDER_PROCESS_H
#define TARGET_RESPONDER_PROCESS_H

#include "target/responder.h"
#include "target/server_state.h"

/* Makes the process, unless discovery is off. No other thread may run. Returns 0, or
 * -errno with one line in @e. */
int responder_process_fork(struct server *s, struct error *e);
/* Call this when the target listens: the responder opens its endpoints. */
int responder_process_open(struct server *s, struct error *e);
/* Call this when the target serves: the responder announces it. */
int responder_process_start(struct server *s, struct error *e);
/* A child of the target has ended. */
void responder_process_ended(struct server *s);
/* Lets it announce the end of the target, and frees everything, also if only some of
 * it was made. */
void responder_process_close(struct server *s);

/* The addresses where the target listens, s->points, have changed. Thread: the one that
 * has changed them, before the end of its change: the target does not end before. */
void responder_process_tell(struct server *s);
/* log_level has changed. Thread: any that the end of the target waits for. */
void responder_process_tell_level(struct server *s);

struct responder_facts {
	struct discovery_counts counts;
	int64_t ended_ms; /* since 1970; 0: it has not ended */
	char why[32];	  /* "signal 9" */
};

/* What ends that. */
#define RESPONDER_PROCESS_END "until the target is started again"

/* All 0 without discovery. Thread: any. */
void responder_process_facts(const struct server *s,
			     struct responder_facts *ret);

#endif
