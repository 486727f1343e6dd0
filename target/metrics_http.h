/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A web server with one page, /metrics, on libmicrohttpd. It has no thread of its own.
 * Only in builds with HAVE_HTTP.
 *
 * Limits: METRICS_HTTP_CONNS connections, half of them from one address,
 * METRICS_HTTP_MEMORY bytes for each, and METRICS_HTTP_IDLE_S without progress.
 *
 * Thread: setup for metrics_http_open(); then one.
 */
#ifndef TARGET_METRICS_HTTP_H
#define TARGET_METRICS_HTTP_H

#include <stddef.h>

#include "base/error.h"

#define METRICS_HTTP_CONNS  16
#define METRICS_HTTP_MEMORY 16384
#define METRICS_HTTP_IDLE_S 10

struct metrics_http;

/*
 * Listens on @addr: ADDR:PORT, [ADDR]:PORT, or PORT of the loopback address.
 * For each request, calls page(@user), which returns the text, which is copied,
 * and its length; NULL: there is no text now.
 */
int metrics_http_open(const char *addr,
		      const char *(*page)(void *user, size_t *ret_len),
		      void *user, struct metrics_http **ret, struct error *e);
/* Readable when metrics_http_run() has work. */
int metrics_http_fd(const struct metrics_http *h);
/* Milliseconds after which metrics_http_run() must be called in any case; -1:
 * none. */
int metrics_http_timeout_ms(struct metrics_http *h);
void metrics_http_run(struct metrics_http *h);
/* @h may be NULL. */
void metrics_http_close(struct metrics_http *h);

#endif
