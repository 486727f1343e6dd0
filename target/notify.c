/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

int notify_open(void)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = name ? strlen(name) : 0;
	int fd;

	if (len == 0 || len >= sizeof(addr.sun_path))
		return -1;
	memcpy(addr.sun_path, name, len);
	/* That of an abstract address, which begins with a zero. */
	if (name[0] == '@')
		addr.sun_path[0] = '\0';
	len += offsetof(struct sockaddr_un, sun_path);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (const void *)&addr, (socklen_t)len) == 0)
		return fd;
	log_warn("cannot tell %s when ready: %s", name, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

void notify_tell(int fd, const char *what)
{
	if (fd >= 0 && write(fd, what, strlen(what)) < 0)
		log_warn("cannot tell the service manager %s: %s", what,
			 strerror(errno));
}
