/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells the service manager that the target is alive (WatchdogSec= of systemd), as long
 * as every worker and the thread of the control socket go on. A thread asks each of
 * them to turn once, HEARTBEAT_PARTS times in the interval. It sends SERVICE_ALIVE when
 * all have turned. If one has not for half the interval, the log says which, and what
 * it was doing: the service manager ends the target when the interval is over.
 *
 * Without WATCHDOG_USEC in the environment there is no thread. An idle worker is woken,
 * and the data path counts nothing.
 */
#ifndef TARGET_HEARTBEAT_H
#define TARGET_HEARTBEAT_H

#include "target/server_state.h"

#define HEARTBEAT_PARTS 4

/* Thread: main, when the other threads run. -errno with one line in @e. */
int heartbeat_start(struct server *s, struct error *e);

/* Ends the thread: the target stops, which takes as long as it takes. Thread: worker
 * 0, or main. */
void heartbeat_end(struct server *s);

/* After heartbeat_end(), when no worker runs any more. Thread: main. */
void heartbeat_free(struct server *s);

#endif
