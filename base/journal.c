/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define SYSLOG_SOCKET  "/dev/log"
#define SYSLOG_DAEMON  3 /* the facility */

/* More than a line of the log (base/log.c) with its fields. */
#define JOURNAL_DATAGRAM_SIZE 4096

struct journal_datagram {
	size_t len;
	unsigned char bytes[JOURNAL_DATAGRAM_SIZE];
};

/* ---- finding it ---- */

/* JOURNAL_STREAM of systemd.exec(5): "DEVICE:INODE". A program that has redirected
 * stderr does not log to the journal. */
bool journal_has_stderr(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char ours[48];
	struct stat st;

	if (!stream || fstat(STDERR_FILENO, &st) < 0)
		return false;
	snprintf(ours, sizeof(ours), "%ju:%ju", (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino);
	return strcmp(stream, ours) == 0;
}

int journal_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

int journal_open(void)
{
	return journal_has_stderr() ? journal_socket() : -1;
}

bool journal_is_there(void)
{
	return access(JOURNAL_SOCKET, W_OK) == 0;
}

/* ---- sending ---- */

static void journal_put_bytes(struct journal_datagram *d, const void *bytes,
			      size_t len)
{
	memcpy(d->bytes + d->len, bytes, len);
	d->len += len;
}

/* In the form with a length, which allows a line feed in the value. A field that does
 * not fit is left out. */
static void journal_put(struct journal_datagram *d, const char *name,
			const char *value)
{
	size_t name_len = strlen(name);
	size_t value_len = strlen(value);
	unsigned char le64[8];

	if (name_len + 1 + sizeof(le64) + value_len + 1 >
	    sizeof(d->bytes) - d->len)
		return;
	for (size_t i = 0; i < sizeof(le64); i++)
		le64[i] = (unsigned char)((uint64_t)value_len >> 8 * i);
	journal_put_bytes(d, name, name_len);
	journal_put_bytes(d, "\n", 1);
	journal_put_bytes(d, le64, sizeof(le64));
	journal_put_bytes(d, value, value_len);
	journal_put_bytes(d, "\n", 1);
}

static void journal_put_number(struct journal_datagram *d, const char *name,
			       unsigned int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	journal_put(d, name, text);
}

bool journal_send(int fd, const struct journal_entry *entry)
{
	static const struct sockaddr_un to = { AF_UNIX, JOURNAL_SOCKET };
	struct journal_datagram d = { 0 };

	journal_put(&d, "MESSAGE", entry->message);
	journal_put_number(&d, "PRIORITY", (unsigned int)entry->severity);
	journal_put(&d, "SYSLOG_IDENTIFIER", entry->program);
	if (entry->nexus)
		journal_put(&d, "NEXUS", entry->nexus);
	if (entry->volume) {
		journal_put(&d, "VOLUME", entry->volume);
		journal_put_number(&d, "LUN", entry->lun);
	}
	/* To its name each time: the socket of a journal that was started again is
	 * another one. */
	return sendto(fd, d.bytes, d.len, MSG_NOSIGNAL, (const void *)&to,
		      sizeof(to)) >= 0;
}

/* As syslog(3) does: RFC 3164 without the time and the host. */
bool syslog_send(int fd, const struct journal_entry *entry)
{
	static const struct sockaddr_un to = { AF_UNIX, SYSLOG_SOCKET };
	char line[JOURNAL_DATAGRAM_SIZE];
	int len = snprintf(line, sizeof(line), "<%d>%s[%d]: %s",
			   SYSLOG_DAEMON << 3 | entry->severity, entry->program,
			   getpid(), entry->message);

	if (len >= (int)sizeof(line))
		len = sizeof(line) - 1;
	return sendto(fd, line, (size_t)len, MSG_NOSIGNAL, (const void *)&to,
		      sizeof(to)) >= 0;
}
