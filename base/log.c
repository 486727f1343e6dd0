/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/journal.h"

#define LOG_LINE_SIZE 1024
#define LOG_RING_SIZE 256u /* lines */
#define LOG_FLUSH_S   1

enum log_level log_level = LOG_NOTICE;

const char *const log_level_names[] = { "error", "warning", "notice",
					"info",	 "debug",   NULL };

static const char *log_name = "rdma-block";
static int log_daemon = -1;  /* for the next two */
static int log_syslog = -1;  /* -1: not to syslog */
static int log_journal = -1; /* -1: not to the journal */
static _Atomic(log_take *) log_sink;
static _Thread_local const struct log_caller *log_caller;

struct log_line {
	unsigned int lost; /* lines before it that found no room */
	enum log_level level;
	unsigned int lun;
	char nexus[40]; /* empty: none, like the next */
	char volume[192];
	char text[LOG_LINE_SIZE];
};

static struct {
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t changed;
	bool has_thread;
	bool stuck; /* a flush has waited in vain, and nothing was written since */
	unsigned int first; /* the thread writes it */
	unsigned int cnt;
	unsigned int lost;
	struct log_line lines[LOG_RING_SIZE];
} log_ring = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER };

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
	log_open_syslog();
	if (journal_is_there())
		log_journal = log_daemon;
	else
		log_syslog = log_daemon;
}

void log_open_syslog(void)
{
	if (log_daemon < 0)
		log_daemon = journal_socket();
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

void log_set_caller(const struct log_caller *caller)
{
	log_caller = caller;
}

const struct log_caller *log_get_caller(void)
{
	return log_caller;
}

/* ---- writing: this may block ---- */

/* One write(), so that the lines of several threads and processes do not mix. */
static void log_put_stderr(const char *name, enum log_level level,
			   const char *text)
{
	char line[LOG_LINE_SIZE + 64];
	int len = snprintf(line, sizeof(line), "%s%s%s\n", name,
			   prefixes[level], text);
	const char *at = line;

	while (len > 0) {
		ssize_t n = write(STDERR_FILENO, at, (size_t)len);

		if (n < 0 && errno != EINTR)
			return;
		at += n > 0 ? n : 0;
		len -= n > 0 ? (int)n : 0;
	}
}

static void log_put_journal(enum log_level level, const struct log_about *about,
			    const char *text)
{
	const struct journal_entry entry = {
		.severity = severities[level],
		.program = log_name,
		.message = text,
		.nexus = about->nexus,
		.volume = about->volume,
		.lun = about->lun,
	};

	if (log_syslog >= 0)
		syslog_send(log_syslog, &entry);
	/* By the stream, it comes in another order, and without its fields. */
	else if (!journal_send(log_journal, &entry))
		log_put_stderr("", level, text);
}

static void log_put_now(enum log_level level, const struct log_about *about,
			const char *text)
{
	char name[32];

	snprintf(name, sizeof(name), "%s: ", log_name);
	if (log_journal >= 0 || log_syslog >= 0)
		log_put_journal(level, about, text);
	else
		log_put_stderr(name, level, text);
}

static void log_put_lost(unsigned int lost)
{
	char text[80];

	if (!lost)
		return;
	snprintf(text, sizeof(text),
		 "%u lines of the log are lost: nobody read it", lost);
	log_put_now(LOG_WARNING, &(struct log_about){ 0 }, text);
}

static void log_put_line(const struct log_line *l)
{
	const struct log_about about = {
		.nexus = *l->nexus ? l->nexus : NULL,
		.volume = *l->volume ? l->volume : NULL,
		.lun = l->lun,
	};

	log_put_lost(l->lost);
	log_put_now(l->level, &about, l->text);
}

/* ---- the ring, and its thread ---- */

/* The lock is held. */
static void log_add(enum log_level level, const struct log_about *about,
		    const char *text)
{
	struct log_line *l =
		&log_ring.lines[(log_ring.first + log_ring.cnt) % LOG_RING_SIZE];

	if (log_ring.cnt == LOG_RING_SIZE) {
		log_ring.lost++;
		return;
	}
	l->lost = log_ring.lost;
	l->level = level;
	l->lun = about->lun;
	snprintf(l->nexus, sizeof(l->nexus), "%s",
		 about->nexus ? about->nexus : "");
	snprintf(l->volume, sizeof(l->volume), "%s",
		 about->volume ? about->volume : "");
	snprintf(l->text, sizeof(l->text), "%s", text);
	log_ring.lost = 0;
	log_ring.cnt++;
	pthread_cond_broadcast(&log_ring.changed);
}

/* The first line stays in the ring until it is written. The lock is held. */
static void log_put_first(void)
{
	struct log_line *l = &log_ring.lines[log_ring.first];

	pthread_mutex_unlock(&log_ring.lock);
	log_put_line(l);
	pthread_mutex_lock(&log_ring.lock);
	log_ring.first = (log_ring.first + 1) % LOG_RING_SIZE;
	log_ring.cnt--;
	log_ring.stuck = false;
}

/* After the last of the lines, those that found no room. The lock is held. */
static void log_put_rest(void)
{
	unsigned int lost = log_ring.lost;

	log_ring.lost = 0;
	pthread_mutex_unlock(&log_ring.lock);
	log_put_lost(lost);
	pthread_mutex_lock(&log_ring.lock);
}

static void *log_main(void *arg)
{
	pthread_detach(pthread_self());
	pthread_setname_np(pthread_self(), "log");
	pthread_mutex_lock(&log_ring.lock);
	for (;;) {
		if (log_ring.cnt) {
			log_put_first();
		} else if (log_ring.lost) {
			log_put_rest();
		} else {
			pthread_cond_broadcast(&log_ring.changed);
			pthread_cond_wait(&log_ring.changed, &log_ring.lock);
		}
	}
	return NULL;
}

/* It has no thread, and another thread may have held the lock. */
static void log_forked(void)
{
	pthread_mutex_init(&log_ring.lock, NULL);
	log_ring.has_thread = false;
	log_ring.cnt = 0;
	log_ring.lost = 0;
}

void log_start_thread(void)
{
	pthread_t thread;
	int err = 0;

	pthread_mutex_lock(&log_ring.lock);
	if (!log_ring.has_thread) {
		err = pthread_create(&thread, NULL, log_main, NULL);
		log_ring.has_thread = !err;
		if (!err)
			pthread_atfork(NULL, NULL, log_forked);
	}
	pthread_mutex_unlock(&log_ring.lock);
	if (err)
		log_warn("the log has no thread: %s; the program waits for who "
			 "reads it",
			 strerror(err));
}

void log_flush(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LOG_FLUSH_S;
	pthread_mutex_lock(&log_ring.lock);
	while (log_ring.has_thread && log_ring.cnt && !log_ring.stuck)
		log_ring.stuck = pthread_cond_clockwait(
			&log_ring.changed, &log_ring.lock, CLOCK_MONOTONIC,
			&until);
	pthread_mutex_unlock(&log_ring.lock);
}

void log_in_handler(const char *text)
{
	struct pollfd to = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (poll(&to, 1, 0) == 1 && write(to.fd, text, strlen(text)) < 0) {
		/* There is nothing else to do about it. */
	}
}

/* ---- messages ---- */

static void log_put(enum log_level level, const struct log_about *about,
		    const char *text)
{
	bool has_thread;

	if (level <= LOG_WARNING && log_caller)
		log_caller->take(log_caller->user, text);
	if (level > log_level)
		return;
	pthread_mutex_lock(&log_ring.lock);
	has_thread = log_ring.has_thread;
	if (has_thread)
		log_add(level, about, text);
	pthread_mutex_unlock(&log_ring.lock);
	if (!has_thread)
		log_put_now(level, about, text);
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
