/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives the metrics of the target (collect.h) to Prometheus: over HTTP (--metrics), and as a
 * file for the textfile collector of node_exporter (--metrics-file). One thread does both.
 *
 * Clients cannot slow the workers down: one collection answers all requests for
 * EXPORT_FRESH_MS. The number of connections, their memory and their idle time
 * are limited (metrics_http.h).
 *
 * Thread: main.
 */
#ifndef TARGET_EXPORT_H
#define TARGET_EXPORT_H

#include "target/server_state.h"

#define EXPORT_FRESH_MS 200
/* Time between two writes of the file. */
#define EXPORT_FILE_MS 10000

/* Listens, before the sandbox forbids it. Does nothing without the options.
 * Returns 0, or -errno with one line in @e that names the address. */
int export_open(struct server *s, struct error *e);
/* Call this when the target serves. Starts the thread. */
int export_start(struct server *s, struct error *e);
/* Ends the thread and frees everything, also if only some of it was made. */
void export_close(struct server *s);

#endif
