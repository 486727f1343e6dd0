/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fuse/client.h"
#include "initiator/srp_initiator.h"
#include "base/cleanup.h"
#include "base/log.h"

/* Identifiers of one mount point; further ones are random. */
#define NUMBER_MAX 16u

#define PROCESS_SIZE 64

/* How long to wait for the owner of an identifier: umount(8) returns before the
 * process has flushed and logged out. A mount that can take another identifier
 * waits for a shorter time. */
#define NAMED_WAIT_MS 10000
#define OWN_WAIT_MS   2000

/* How often to try the lock when the end of the owner cannot be seen. */
#define ASK_MS 20

/* ---- locks ---- */

/* Longer addresses are cut; two that are then equal count as one target. */
#define ADDRESS_SIZE 128

/* @address: of the target, as a number; "": the identifier is locked for every
 * target. */
static socklen_t identity_lock_name(const char *port, const char *address,
				    struct sockaddr_un *ret)
{
	char text[SRPI_PORT_SIZE + ADDRESS_SIZE];
	char digest[SRPI_PORT_SIZE];
	int len;

	snprintf(text, sizeof(text), "%s %s", port, address);
	srpi_port_of_identity(text, digest); /* short enough for a name */
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	len = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1,
		       "rdma-fuse/initiator/%s", digest);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)len);
}

static void identity_read_line(const char *path, char *buf, size_t len)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, len - 1);

	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

/* "process 123 (rdma-fuse)", or "another process" if this process cannot see it.
 * @fd is connected to it. */
static void identity_name_owner(int fd, char buf[PROCESS_SIZE])
{
	struct ucred cred = { 0 };
	socklen_t cred_len = sizeof(cred);
	char path[32], name[32];

	snprintf(buf, PROCESS_SIZE, "another process");
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) < 0 ||
	    cred.pid == 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)cred.pid);
	identity_read_line(path, name, sizeof(name));
	snprintf(buf, PROCESS_SIZE, "process %d (%s)", (int)cred.pid,
		 *name ? name : "?");
}

/* Returns when the owner may have ended, or after @ms. @owner names it. False:
 * there is a signal, which stays pending. */
static bool identity_await_owner(const struct sockaddr_un *sun, socklen_t len,
				 int ms, char owner[PROCESS_SIZE])
{
	sigset_t set;
	_cleanup_close_ int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	_cleanup_close_ int signals = -1;
	struct pollfd p[2];

	client_signals(&set);
	signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	/* When the owner ends, the kernel closes connections not yet accepted. */
	p[0] = (struct pollfd){ .fd = fd };
	p[1] = (struct pollfd){ .fd = signals, .events = POLLIN };
	if (fd >= 0 && connect(fd, (const struct sockaddr *)sun, len) == 0) {
		identity_name_owner(fd, owner);
	} else {
		p[0].fd = -1;
		ms = ms < ASK_MS ? ms : ASK_MS;
	}
	poll(p, 2, ms);
	return !(p[1].revents & POLLIN);
}

static int64_t identity_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* False: another process has the lock. Where the kernel has no such sockets,
 * there is no lock. */
static bool identity_try_lock(struct identity *id,
			      const struct sockaddr_un *sun, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool taken;

	if (fd < 0)
		return true;
	if (bind(fd, (const struct sockaddr *)sun, len) == 0) {
		/* Connections of processes that wait are never accepted. */
		if (listen(fd, 64) < 0)
			log_debug("listen: %s", strerror(errno));
		id->locks[id->lock_cnt++] = fd;
		return true;
	}
	taken = errno == EADDRINUSE;
	close(fd);
	return !taken;
}

/* Waits for the lock until @end (identity_now_ms()). False: another process still
 * has it; @owner names the process. */
static bool identity_lock(struct identity *id, const char *port,
			  const char *address, int64_t end,
			  char owner[PROCESS_SIZE])
{
	struct sockaddr_un sun;
	socklen_t len = identity_lock_name(port, address, &sun);

	snprintf(owner, PROCESS_SIZE, "another process");
	while (!identity_try_lock(id, &sun, len)) {
		int64_t left = end - identity_now_ms();

		if (!identity_await_owner(&sun, len, left > 0 ? (int)left : 0,
					  owner) ||
		    left <= 0)
			return false;
	}
	return true;
}

/* ---- identifiers that the URI names ---- */

struct target_addresses {
	char text[IDENTITY_LOCKS][ADDRESS_SIZE];
	unsigned int cnt;
};

static void identity_add_address(struct target_addresses *t,
				 const struct addrinfo *ai)
{
	char host[ADDRESS_SIZE - sizeof("[]:65535")] = "", port[8] = "";

	if (t->cnt == IDENTITY_LOCKS ||
	    getnameinfo(ai->ai_addr, ai->ai_addrlen, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		return;
	snprintf(t->text[t->cnt++], ADDRESS_SIZE,
		 strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static int identity_compare_addresses(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void identity_resolve(struct target_addresses *t, const char *host,
			     uint16_t port)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	/* After a failure, srpi_connect() reports it. */
	if (getaddrinfo(host, service, &hints, &list))
		return;
	for (const struct addrinfo *ai = list; ai; ai = ai->ai_next)
		identity_add_address(t, ai);
	freeaddrinfo(list);
}

/* All addresses of @uri, in an order that does not depend on how it is written. */
static void identity_find_addresses(const char *uri,
				    struct target_addresses *ret)
{
	char host[256];
	uint16_t port;

	ret->cnt = 0;
	for (unsigned int n = 0; !srpi_uri_address(uri, n, host, &port); n++)
		identity_resolve(ret, host, port);
	qsort(ret->text, ret->cnt, ADDRESS_SIZE, identity_compare_addresses);
}

static int identity_refuse_named(const char *initiator, const char *owner,
				 const char *address, struct error *e)
{
	return error_set(e, -EADDRINUSE,
			 "initiator=%s is in use: %s has it at %s, and each of "
			 "the two would end the other's session; name another "
			 "one, or none",
			 initiator + 2 /* "0x" */, owner, address);
}

/* Locks the identifier for each address of the URI: another mount may have written
 * the same address as a name, or beside other addresses. With another target the
 * same identifier may be used. */
static int identity_claim_named(struct identity *id, const char *uri,
				const char *initiator, struct error *e)
{
	int64_t end = identity_now_ms() + NAMED_WAIT_MS;
	struct target_addresses t;
	char owner[PROCESS_SIZE];

	identity_find_addresses(uri, &t);
	for (unsigned int i = 0; i < t.cnt; i++) {
		/* We have that lock already. */
		if (i > 0 && !strcmp(t.text[i], t.text[i - 1]))
			continue;
		if (!identity_lock(id, initiator, t.text[i], end, owner))
			return identity_refuse_named(initiator, owner,
						     t.text[i], e);
	}
	return 0;
}

/* ---- identifiers of rdma-fuse ---- */

/* The text of the @n-th identifier of this mount. The URI is no part of it: when a
 * mount was killed, the next one may use another address of the target, which has
 * to end what the first one has left there. */
static void identity_set_text(struct identity *id, const char *machine,
			      const char *mountpoint, unsigned int n)
{
	char host[65] = "", number[16] = "";

	gethostname(host, sizeof(host) - 1);
	if (n > 0)
		snprintf(number, sizeof(number), "#%u", n);
	if (snprintf(id->text, sizeof(id->text), "rdma-fuse:%s:%s:%s%s",
		     machine, host, mountpoint,
		     number) >= (int)sizeof(id->text))
		id->text[0] = '\0';
}

static void identity_claim_own(struct identity *id, const char *machine,
			       const char *mountpoint)
{
	int64_t end = identity_now_ms() + OWN_WAIT_MS;
	char owner[PROCESS_SIZE], first[PROCESS_SIZE] = "";
	char port[SRPI_PORT_SIZE];
	unsigned int n = 0;

	for (;; n++) {
		identity_set_text(id, machine, mountpoint, n);
		srpi_port_of_identity(id->text, port);
		if (n == NUMBER_MAX)
			id->text[0] = '\0';
		if (!*id->text || identity_lock(id, port, /* address= */ "",
						n == 0 ? end : 0, owner))
			break;
		if (n == 0)
			memcpy(first, owner, sizeof(first));
	}
	if (n > 0)
		log_warn("%s still has the port identifier of this mount, as "
			 "after a lazy unmount; the target sees this mount as "
			 "another initiator",
			 first);
}

int identity_claim(struct identity *id, const char *mountpoint, const char *uri,
		   struct error *e)
{
	struct srpi_uri u = { .struct_size = sizeof(u) };
	char machine[65];

	*id = (struct identity){ 0 };
	/* If the URI is wrong, srpi_connect() reports it. */
	if (srpi_uri_parse(uri, &u, NULL))
		return 0;
	if (*u.initiator)
		return identity_claim_named(id, uri, u.initiator, e);
	identity_read_line("/etc/machine-id", machine, sizeof(machine));
	id->no_machine_id = !*machine;
	if (!id->no_machine_id)
		identity_claim_own(id, machine, mountpoint);
	return 0;
}

void identity_release(struct identity *id)
{
	while (id->lock_cnt > 0)
		close(id->locks[--id->lock_cnt]);
}
