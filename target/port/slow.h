/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands that take long: the log, and the event "slow", say where each has spent its
 * time (--slow). At most SLOW_BURST lines of a worker in ten seconds.
 *
 * Thread: the worker.
 */
#ifndef TARGET_PORT_SLOW_H
#define TARGET_PORT_SLOW_H

#include "target/port/request.h"

#define SLOW_BURST 10

/* @ms: commands that take this long are slow; 0: none is. Also sets
 * w->slow_ticks, which is at most the longest time of a histogram, and
 * w->plain_ticks. */
void slow_init(struct worker *w, unsigned int ms);

/* A command has ended at @now, after w->slow_ticks or longer. */
void slow_command(const struct request *req, uint64_t now, bool answered);

#endif
