/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes one line for each message, to stderr, or for a daemon to syslog or to the
 * journal of systemd. A line of more than 1023 bytes is cut. After log_start_thread(),
 * no message waits for who reads the log. The code that decides what to do about an
 * error logs it, once:
 *   error   something that was asked for did not happen
 *   warn    the program carries on, and the line says so
 *   notice  start, stop, login, logout
 *   info    negotiated values
 *   debug   per request
 * Thread: any.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

enum log_level {
	LOG_ERROR,
	LOG_WARNING,
	LOG_NOTICE,
	LOG_INFO,
	LOG_DEBUG,
};

/* Messages above this level are dropped. Default LOG_NOTICE. */
extern enum log_level log_level;

/* "error", "warning" and so on, by enum log_level; ends with NULL. */
extern const char *const log_level_names[];

/* @name is the start of each line; borrowed for the life of the process. */
void log_init(const char *name, enum log_level level);

/* Log to the journal of systemd or, without it, to syslog from now on (stderr of a daemon
 * is /dev/null). Lines have their fields in the journal. A sandbox may forbid to open the
 * socket for it: log_open_syslog() does it before. */
void log_to_syslog(void);
void log_open_syslog(void);

/* If stderr is a stream of systemd's journal, send lines to the journal with their
 * severity and what they are about, as fields, from now on. A line that the journal does
 * not take goes to stderr. Thread: main, before others. */
void log_to_journal(void);

/*
 * From now on, a thread writes the lines, in their order. Messages only put them into a
 * ring of 256 lines. A line that finds no room is lost; the log says later how many are.
 * A process that is forked writes its lines itself. If the process can have no more
 * threads, a line says so and nothing changes. Thread: setup, with the rights that the
 * thread shall have.
 */
void log_start_thread(void);

/* Waits until all lines are written, at most 1 s, and not at all if that was in vain
 * and nothing was written since. */
void log_flush(void);

/* _exit() after log_flush(). */
static inline _Noreturn void log_exit(int status)
{
	log_flush();
	_exit(status);
}

/* For a handler of signals: writes @text to stderr at once, unless that would block. */
void log_in_handler(const char *text);

/* Call log_at() and those below. */
void log_write(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Who has asked for what a thread does: it is told each error and warning of that thread,
 * also those above log_level. A line has no prefix. @take must not log.
 */
struct log_caller {
	void (*take)(void *user, const char *line);
	void *user;
};

/* Of this thread; NULL: nobody. A thread that works for another one, which waits for it,
 * has the caller of that one meanwhile. */
void log_set_caller(const struct log_caller *caller);
const struct log_caller *log_get_caller(void);

static inline bool log_is_wanted(enum log_level level)
{
	return level <= log_level || (level <= LOG_WARNING && log_get_caller());
}

#define log_at(level, ...)                             \
	do {                                           \
		if (log_is_wanted(level))              \
			log_write(level, __VA_ARGS__); \
	} while (0)

#define log_error(...)	log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)	log_at(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_at(LOG_NOTICE, __VA_ARGS__)
#define log_info(...)	log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...)	log_at(LOG_DEBUG, __VA_ARGS__)

/*
 * What a message is about, for programs that read messages. Everything may be NULL;
 * the texts are borrowed for the call.
 */
struct log_about {
	const char *event;  /* "login": what has happened; NULL: no event */
	const char *nexus;  /* the initiator's port */
	const char *volume; /* its name */
	unsigned int lun;   /* only with a volume */
};

/* A message of @about, a struct log_about *. The sink gets it at every level. */
#define log_event(level, about, ...)                                \
	do {                                                        \
		if (log_is_wanted(level) || log_has_sink())         \
			log_write_about(level, about, __VA_ARGS__); \
	} while (0)

void log_write_about(enum log_level level, const struct log_about *about,
		     const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Takes each message that is about something, also those above log_level, with its
 * line, which has no prefix. It must not log. NULL: none. It may be called once more
 * on another thread meanwhile.
 */
typedef void log_take(enum log_level level, const struct log_about *about,
		      const char *line);
void log_set_sink(log_take *sink);
bool log_has_sink(void);

/*
 * Passes @burst messages in ten seconds, then drops and counts them: for lines
 * that a peer can cause. Returns true if the line may be logged. *ret_dropped
 * is the number of lines that were dropped before it.
 */
struct log_limit {
	uint64_t window_start_ms;
	unsigned int cnt;
	unsigned int dropped;
};

bool log_limit_pass(struct log_limit *l, unsigned int burst,
		    unsigned int *ret_dropped);

#endif
