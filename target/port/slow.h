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

/* @ms: commands that take as long are slow; 0: none is. Sets w->slow_ticks, too, which
 * is at most as much as histograms can take. */
void slow_init(struct worker *w, unsigned int ms);

/* A command that has ended took w->slow_ticks or longer, until @now. */
void slow_command(const struct request *req, uint64_t now, bool answered);

#endif
