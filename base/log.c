/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/journal.h"

/* syslog.h defines LOG_INFO and LOG_DEBUG, too, so it cannot be included. */
void syslog(int priority, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void openlog(const char *ident, int option, int facility);

#define LOG_LINE_SIZE 1024

enum log_level log_level = LOG_NOTICE;

static const char *log_name = "rdma-block";
static bool log_syslog;
static int log_journal = -1;	 /* -1: not to the journal */
static atomic_uint log_lost_cnt; /* lines that the journal did not take */
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

void log_to_journal(void)
{
	log_journal = journal_open();
}

void log_set_sink(log_take *sink)
{
	atomic_store(&log_sink, sink);
}

bool log_has_sink(void)
{
	return atomic_load_explicit(&log_sink, memory_order_relaxed);
}

/* By the stream, it comes in another order, and without its fields. */
static bool log_put_journal(enum log_level level, const struct log_about *about,
			    const char *line)
{
	char plain[LOG_LINE_SIZE + 32];

	if (journal_send(log_journal, &(struct journal_entry){
					      .severity = severities[level],
					      .program = log_name,
					      .message = line,
					      .nexus = about->nexus,
					      .volume = about->volume,
					      .lun = about->lun,
				      }))
		return true;
	snprintf(plain, sizeof(plain), "%s%s\n", prefixes[level], line);
	return journal_send_stderr(plain);
}

/* False: this is not told now. */
static bool log_tell_lost(void)
{
	unsigned int lost = atomic_exchange(&log_lost_cnt, 0);
	char line[80];

	if (!lost)
		return true;
	snprintf(line, sizeof(line),
		 "%u lines of the log are lost: the journal was busy", lost);
	if (log_put_journal(LOG_WARNING, &(struct log_about){ 0 }, line))
		return true;
	atomic_fetch_add(&log_lost_cnt, lost);
	return false;
}

static void log_put(enum log_level level, const struct log_about *about,
		    const char *line)
{
	if (log_journal >= 0) {
		/* A worker never waits for the journal. */
		if (!log_tell_lost() || !log_put_journal(level, about, line))
			atomic_fetch_add(&log_lost_cnt, 1);
	} else if (log_syslog) {
		syslog(severities[level], "%s", line);
	} else {
		fprintf(stderr, "%s: %s%s\n", log_name, prefixes[level], line);
	}
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char line[LOG_LINE_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	log_put(level, &(struct log_about){ 0 }, line);
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
		log_put(level, about, line);
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
