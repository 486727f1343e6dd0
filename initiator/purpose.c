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
 * Unix sockets, which the kernel removes with the process. A child that is forked
 * must not keep the name when the program that has the session is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
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

/* Sessions that have a lock; on any threads. */
static struct {
	pthread_once_t once;
	pthread_mutex_t mutex;
	struct list sessions;
} purpose_held = { .once = PTHREAD_ONCE_INIT,
		   .mutex = PTHREAD_MUTEX_INITIALIZER };

/* ---- forked children ---- */

static void purpose_before_fork(void)
{
	pthread_mutex_lock(&purpose_held.mutex);
}

static void purpose_in_parent(void)
{
	pthread_mutex_unlock(&purpose_held.mutex);
}

static void purpose_in_child(void)
{
	struct list *it;

	while ((it = list_pop(&purpose_held.sessions))) {
		struct srpi_session *s =
			container_of(it, struct srpi_session, purpose_node);

		close(s->purpose_lock);
		s->purpose_lock = -1;
	}
	pthread_mutex_unlock(&purpose_held.mutex);
}

/* Without memory, children keep the names. */
static void purpose_init(void)
{
	list_init(&purpose_held.sessions);
	pthread_atfork(purpose_before_fork, purpose_in_parent,
		       purpose_in_child);
}

/* ---- identifiers ---- */

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

/* ---- locks ---- */

/* A socket, or -EADDRINUSE, or another negative errno. */
static int purpose_bind(const struct srp_port_id *id)
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

/* 0, or a negative errno. */
static int purpose_lock(struct srpi_session *s)
{
	int fd;

	pthread_mutex_lock(&purpose_held.mutex);
	fd = purpose_bind(&s->initiator);
	if (fd >= 0) {
		s->purpose_lock = fd;
		list_add_tail(&purpose_held.sessions, &s->purpose_node);
	}
	pthread_mutex_unlock(&purpose_held.mutex);
	return fd < 0 ? fd : 0;
}

static int purpose_await_lock(struct srpi_session *s, int ms)
{
	int err;

	while ((err = purpose_lock(s)) == -EADDRINUSE && ms > 0) {
		poll(NULL, 0, ASK_MS);
		ms -= ASK_MS;
	}
	return err;
}

/* Why @number is not 0. @err: why no number is locked. */
static const char *purpose_fault(unsigned int number, int err)
{
	if (err == -EADDRINUSE)
		return "other sessions of this machine have all identifiers";
	if (err == -ENOMEM)
		return "out of memory";
	if (err)
		return "the system refuses the Unix socket that locks it";
	return number ? "another session of this machine has the identifier"
		      : "";
}

bool ini_purpose_claim(struct srpi_session *s)
{
	char machine[65];
	unsigned int n = 0;
	int err;

	purpose_read_machine(machine, sizeof(machine));
	if (!*machine) {
		s->purpose_fault = "this machine has no /etc/machine-id";
		return false;
	}
	pthread_once(&purpose_held.once, purpose_init);
	do {
		err = purpose_make_id(s->options.purpose, machine, n,
				      &s->initiator);
		if (!err)
			err = purpose_await_lock(s, n ? 0 : WAIT_MS);
	} while (err == -EADDRINUSE && ++n < NUMBER_MAX);
	s->purpose_fault = purpose_fault(n, err);
	return !err;
}

void ini_purpose_release(struct srpi_session *s)
{
	if (s->purpose_lock < 0)
		return;
	pthread_mutex_lock(&purpose_held.mutex);
	list_del(&s->purpose_node);
	close(s->purpose_lock);
	s->purpose_lock = -1;
	pthread_mutex_unlock(&purpose_held.mutex);
}
