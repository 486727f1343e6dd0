/* SPDX-License-Identifier: BSD-2-Clause */
/* A socket that another process has made and passed. */
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "transport/tcp/socket.h"
#include "transport/xport.h"

/* Newer than some headers. */
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static bool given_has(int fd, int option, int want)
{
	int value;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 &&
	       value == want;
}

static bool given_listens(int fd, const struct sockaddr *addr)
{
	struct sockaddr_storage own = { 0 };
	socklen_t len = sizeof(own);
	char is[64], wanted[64];

	if (getsockname(fd, (struct sockaddr *)&own, &len))
		return false;
	xp_addr_text((struct sockaddr *)&own, is, sizeof(is));
	xp_addr_text(addr, wanted, sizeof(wanted));
	return given_has(fd, SO_DOMAIN, addr->sa_family) &&
	       given_has(fd, SO_TYPE, SOCK_STREAM) &&
	       given_has(fd, SO_PROTOCOL, IPPROTO_TCP) &&
	       given_has(fd, SO_ACCEPTCONN, 1) && strcmp(is, wanted) == 0;
}

/* 0: the kernel does not tell. */
static uint64_t given_namespace(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len);
	return cookie;
}

/* Compares with a socket of the only family that the target may still make. */
static bool given_is_of_this_namespace(int fd)
{
	int own = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	bool same = own >= 0 && given_namespace(own) == given_namespace(fd);

	if (own >= 0)
		close(own);
	return same;
}

int tcp_check_listener(int fd, const struct sockaddr *addr, struct error *e)
{
	if (!given_listens(fd, addr))
		return error_set(e, -EINVAL,
				 "the file that was passed is no socket that "
				 "listens there");
	if (!given_is_of_this_namespace(fd))
		return error_set(e, -EINVAL,
				 "the socket that was passed is in another "
				 "network namespace; run rdma-ctl in that of "
				 "the target");
	return 0;
}
