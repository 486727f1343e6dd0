/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells the service manager that the target is alive (WatchdogSec= of systemd),
 * as long as every worker and the thread of the control socket continue. A
 * thread asks each of them to run one turn, HEARTBEAT_PARTS times in the
 * interval. It sends SERVICE_ALIVE when all of them have. If one has not for
 * half the interval, the log says which one, and what it was doing: the service
 * manager ends the target when the interval is over.
 *
 * Without WATCHDOG_USEC in the environment there is no thread. The heartbeat
 * wakes an idle worker, and costs the data path nothing.
 */
#ifndef TARGET_HEARTBEAT_H
#define TARGET_HEARTBEAT_H

#include "target/server_state.h"

#define HEARTBEAT_PARTS 4

/* Call this when the other threads run. Returns 0, or -errno with one line in
 * @e. Thread: main. */
int heartbeat_start(struct server *s, struct error *e);

/* Ends the thread, because a stop of the target may take any time. Thread:
 * worker 0, or main. */
void heartbeat_end(struct server *s);

/* Call this after heartbeat_end(), when no worker runs. Thread: main. */
void heartbeat_free(struct server *s);

#endif
