/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port identifier that outlives the program. A program that was killed may have
 * left a write in the target, stuck in a slow disk. The program that is started
 * again repeats it for its own clients, then sends newer writes. With another
 * identifier it would be another initiator for the target, and the first write
 * could reach the disk last. With the same one, the target ends the old session
 * before it accepts the new one.
 *
 * Two sessions that run must not share an identifier: each would end the other
 * one. So a session locks its identifier, by a name in the abstract name space of
 * Unix sockets, which the kernel removes with the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "initiator/session.h"

/* Sessions of a machine for the same purpose; further ones are random. */
#define NUMBER_MAX 16u

/* The kernel takes the name of a process that was killed back after its
 * memory. */
#define WAIT_MS 2000
#define ASK_MS	20

/* "" if the machine has none. */
static void purpose_read_machine(char *buf, size_t len)
{
	_cleanup_close_ int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, len - 1);

	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

static int purpose_make_id(const char *purpose, const char *machine,
			   unsigned int number, struct srp_port_id *ret)
{
	_cleanup_free_ char *text = NULL;
	char host[65] = "";

	gethostname(host, sizeof(host) - 1);
	if (asprintf(&text, "%s:%s:%u:%s", machine, host, number, purpose) <
	    0) {
		text = NULL;
		return -ENOMEM;
	}
	scsi_text_digest(text, (uint8_t *)ret);
	return 0;
}

/* The lock, or -EADDRINUSE, or another negative errno. */
static int purpose_lock(const struct srp_port_id *id)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char port[SRPI_PORT_SIZE];
	int fd, err, len;

	srp_port_id_format(id, port);
	len = snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1,
		       "rdma-block/initiator/%s", port);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (!bind(fd, (const struct sockaddr *)&sun,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			      (size_t)len)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int purpose_await_lock(const struct srp_port_id *id, int ms)
{
	int lock;

	while ((lock = purpose_lock(id)) == -EADDRINUSE && ms > 0) {
		poll(NULL, 0, ASK_MS);
		ms -= ASK_MS;
	}
	return lock;
}

/* Why @number is not 0, or -1: no identifier is locked. */
static const char *purpose_fault(int number, int lock)
{
	if (number == 0)
		return "";
	if (number > 0)
		return "another session of this machine has the identifier";
	return lock == -EADDRINUSE
		       ? "other sessions of this machine have all identifiers"
		       : "the system refuses the Unix socket that locks it";
}

bool ini_purpose_claim(struct srpi_session *s)
{
	char machine[65];
	int lock = -EADDRINUSE;
	unsigned int n = 0;

	purpose_read_machine(machine, sizeof(machine));
	if (!*machine) {
		s->purpose_fault = "this machine has no /etc/machine-id";
		return false;
	}
	for (; n < NUMBER_MAX && lock == -EADDRINUSE; n++) {
		if (purpose_make_id(s->options.purpose, machine, n,
				    &s->initiator)) {
			s->purpose_fault = "out of memory";
			return false;
		}
		lock = purpose_await_lock(&s->initiator, n ? 0 : WAIT_MS);
	}
	s->purpose_lock = lock < 0 ? -1 : lock;
	s->purpose_fault = purpose_fault(lock < 0 ? -1 : (int)n - 1, lock);
	return lock >= 0;
}

void ini_purpose_release(struct srpi_session *s)
{
	if (s->purpose_lock >= 0)
		close(s->purpose_lock);
	s->purpose_lock = -1;
}
