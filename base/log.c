/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

/* syslog.h defines LOG_INFO and LOG_DEBUG, too, so it cannot be included. */
void syslog(int priority, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void openlog(const char *ident, int option, int facility);

#define LOG_LINE_SIZE 1024

enum log_level log_level = LOG_NOTICE;

static const char *log_name = "rdma-block";
static bool log_syslog;
static _Atomic(log_take *) log_sink;

/* RFC 5424 severities, in the order of enum log_level. */
static const int severities[] = { 3, 4, 5, 6, 7 };

static const char *const prefixes[] = { "error: ", "warning: ", "", "",
					"debug: " };

void log_init(const char *name, enum log_level level)
{
	log_name = name;
	log_level = level;
}

void log_to_syslog(void)
{
	openlog(log_name, /* LOG_PID */ 1, /* LOG_DAEMON */ 3 << 3);
	log_syslog = true;
}

void log_set_sink(log_take *sink)
{
	atomic_store(&log_sink, sink);
}

bool log_has_sink(void)
{
	return atomic_load_explicit(&log_sink, memory_order_relaxed);
}

static void log_put(enum log_level level, const char *line)
{
	if (log_syslog)
		syslog(severities[level], "%s", line);
	else
		fprintf(stderr, "%s: %s%s\n", log_name, prefixes[level], line);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char line[LOG_LINE_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	log_put(level, line);
}

void log_write_about(enum log_level level, const struct log_about *about,
		     const char *fmt, ...)
{
	log_take *sink = atomic_load(&log_sink);
	char line[LOG_LINE_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (level <= log_level)
		log_put(level, line);
	if (sink)
		sink(level, about, line);
}

bool log_limit_pass(struct log_limit *l, unsigned int burst,
		    unsigned int *ret_dropped)
{
	struct timespec ts;
	uint64_t now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	now = (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
	if (l->window_start_ms == 0 || now - l->window_start_ms >= 10000) {
		l->window_start_ms = now;
		l->cnt = 0;
	}
	if (l->cnt >= burst) {
		l->dropped++;
		return false;
	}
	l->cnt++;
	*ret_dropped = l->dropped;
	l->dropped = 0;
	return true;
}
