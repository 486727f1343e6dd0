/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma-target from start to end: workers, volumes, listeners, the port,
 * readiness, signals, and the end, which undoes the start in reverse order.
 */
#ifndef TARGET_SERVER_H
#define TARGET_SERVER_H

#include "target/configure.h"

/*
 * Serves until SIGTERM or SIGINT. Returns the exit code: 0 after a clean end; 1
 * if it could not start (one line was logged, nothing is left behind), or if
 * volumes could not be flushed at the end. Thread: main.
 */
int server_run(const struct configuration *c);

#endif
