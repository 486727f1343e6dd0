/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines for the journal of systemd, with fields by which journalctl finds them (the
 * "Native Journal Protocol" of systemd).
 *
 * Thread: any.
 */
#ifndef BASE_JOURNAL_H
#define BASE_JOURNAL_H

#include <stdbool.h>

struct journal_entry {
	int severity;	     /* of RFC 5424 */
	const char *program; /* its name in the log */
	const char *message;
	const char *nexus;  /* NULL: none */
	const char *volume; /* NULL: none */
	unsigned int lun;   /* only with a volume */
};

/* Is stderr a stream of the journal? */
bool journal_has_stderr(void);

/* A socket for journal_send(), if stderr is a stream of the journal; else -1. A sandbox
 * may forbid this. */
int journal_open(void);

/* For a daemon: is a journal there, whatever stderr is? The socket is for both below. */
bool journal_is_there(void);
int journal_socket(void);

/* Waits while the journal is busy. False: there is no journal. */
bool journal_send(int fd, const struct journal_entry *entry);

/* The same for syslog(3), without the fields. */
bool syslog_send(int fd, const struct journal_entry *entry);

#endif
