/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/service_notify.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

/* For a service manager that does not read. */
#define SERVICE_WAIT_MS 2000

int service_notify_open(void)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = name ? strlen(name) : 0;
	int fd;

	if (len == 0 || len >= sizeof(addr.sun_path))
		return -1;
	memcpy(addr.sun_path, name, len);
	/* An abstract address begins with a zero byte. */
	if (name[0] == '@')
		addr.sun_path[0] = '\0';
	len += offsetof(struct sockaddr_un, sun_path);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (const void *)&addr, (socklen_t)len) == 0)
		return fd;
	log_warn("cannot reach the service manager at %s: %s", name,
		 strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool service_send(int fd, const char *state)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	if (write(fd, state, strlen(state)) >= 0)
		return true;
	return errno == EAGAIN && poll(&p, 1, SERVICE_WAIT_MS) > 0 &&
	       write(fd, state, strlen(state)) >= 0;
}

void service_notify(int fd, const char *state)
{
	if (fd >= 0 && !service_send(fd, state))
		log_warn("cannot send %s to the service manager: %s", state,
			 strerror(errno));
}

uint64_t service_watchdog_us(void)
{
	const char *us = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");

	if (!us || (pid && strtol(pid, NULL, 10) != getpid()))
		return 0;
	return strtoull(us, NULL, 10);
}
