/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "transport/tcp/internal.h"

/* The address of this machine that @fd has. */
static int reach_by(int fd, char *ret_by, size_t size)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	char *colon;

	if (getsockname(fd, (struct sockaddr *)&own, &len))
		return -errno;
	xp_addr_text((struct sockaddr *)&own, ret_by, size);
	colon = strrchr(ret_by, ':');
	if (colon)
		*colon = '\0';
	return 0;
}

/* To connect a socket of UDP sends nothing: it looks for a route. */
int tcp_reach(const struct sockaddr *addr, socklen_t addr_len, char *ret_by,
	      size_t size, struct error *e)
{
	int fd = socket(addr->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = 0;

	if (fd < 0 || connect(fd, addr, addr_len))
		err = -errno;
	else
		err = reach_by(fd, ret_by, size);
	if (fd >= 0)
		close(fd);
	return err ? error_set(e, err, "%s", strerror(-err)) : 0;
}
