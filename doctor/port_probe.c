/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/port_probe.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netdb.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* A host answers with a reset of TCP where nobody listens. "Port unreachable" to a segment
 * of TCP, and "prohibited", are a firewall's (RFC 1122 3.2.2.1, RFC 1812 5.2.7.1, RFC 4443
 * 3.1). */
static bool is_rejection(const struct sock_extended_err *e)
{
	if (e->ee_origin == SO_EE_ORIGIN_ICMP)
		return e->ee_type == ICMP_DEST_UNREACH &&
		       (e->ee_code == ICMP_PORT_UNREACH ||
			e->ee_code == ICMP_NET_ANO ||
			e->ee_code == ICMP_HOST_ANO ||
			e->ee_code == ICMP_PKT_FILTERED);
	return e->ee_origin == SO_EE_ORIGIN_ICMP6 &&
	       e->ee_type == ICMP6_DST_UNREACH &&
	       (e->ee_code == ICMP6_DST_UNREACH_NOPORT ||
		e->ee_code == ICMP6_DST_UNREACH_ADMIN);
}

static void note_rejection(const struct sock_extended_err *e,
			   struct port_answer *ret)
{
	const struct sockaddr *from = SO_EE_OFFENDER(e);
	socklen_t len = from->sa_family == AF_INET6
				? sizeof(struct sockaddr_in6)
				: sizeof(struct sockaddr_in);

	if (!is_rejection(e) ||
	    getnameinfo(from, len, ret->from, sizeof(ret->from), NULL, 0,
			NI_NUMERICHOST))
		return;
	ret->is_firewall = true;
}

/* What ICMP has told about the connection. */
static void read_errors(int fd, struct port_answer *ret)
{
	union {
		struct cmsghdr align;
		char bytes[512];
	} control;
	char data[64];
	struct iovec iov = { .iov_base = data, .iov_len = sizeof(data) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };

	if (recvmsg(fd, &msg, MSG_ERRQUEUE) < 0)
		return;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c;
	     c = CMSG_NXTHDR(&msg, c)) {
		if ((c->cmsg_level == IPPROTO_IP &&
		     c->cmsg_type == IP_RECVERR) ||
		    (c->cmsg_level == IPPROTO_IPV6 &&
		     c->cmsg_type == IPV6_RECVERR))
			note_rejection((const void *)CMSG_DATA(c), ret);
	}
}

/* 0, or the errno of connecting. */
static int connect_within(int fd, const struct sockaddr *addr,
			  socklen_t addr_len, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int err;

	if (connect(fd, addr, addr_len) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return errno;
	if (poll(&p, 1, timeout_ms) != 1)
		return ETIMEDOUT;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? errno : err;
}

void port_probe(const struct sockaddr *addr, socklen_t addr_len, int timeout_ms,
		struct port_answer *ret)
{
	const int on = 1;
	int fd = socket(addr->sa_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*ret = (struct port_answer){ .err = fd < 0 ? errno : 0 };
	if (fd < 0)
		return;
	if (addr->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on));
	else
		setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
	ret->err = connect_within(fd, addr, addr_len, timeout_ms);
	if (ret->err)
		read_errors(fd, ret);
	close(fd);
}
