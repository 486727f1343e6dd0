/* SPDX-License-Identifier: BSD-2-Clause */
/* The carriers of datagrams that are UDP: unicast and multicast. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "transport/datagram.h"
#include "transport/xport.h"

struct udp {
	struct dgram base;
	struct sockaddr_storage group; /* AF_UNSPEC: unicast */
	socklen_t group_len;
	unsigned int ifindex; /* multicast: all comes and leaves by it */
};

/* What IP_PKTINFO or IPV6_PKTINFO takes. */
union udp_control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/* IPv4 is mapped, as in a socket of IPv6. */
static void udp_note_host(struct dgram_peer *peer)
{
	const struct sockaddr_in *sin = (const void *)&peer->addr;
	const struct sockaddr_in6 *sin6 = (const void *)&peer->addr;

	if (peer->addr.ss_family == AF_INET6) {
		memcpy(peer->host, &sin6->sin6_addr, DGRAM_HOST_LEN);
		return;
	}
	memset(&peer->host[10], 0xff, 2);
	memcpy(&peer->host[12], &sin->sin_addr, 4);
}

/* For a broadcast, ipi_spec_dst is the address to answer from. */
static void udp_note_local(struct dgram_peer *peer, struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct in6_pktinfo in6;
	struct in_pktinfo in;

	if (!c)
		return;
	if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		memcpy(&in6, CMSG_DATA(c), sizeof(in6));
		memcpy(peer->local, &in6.ipi6_addr, DGRAM_HOST_LEN);
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
		memcpy(&in, CMSG_DATA(c), sizeof(in));
		memset(&peer->local[10], 0xff, 2);
		memcpy(&peer->local[12], &in.ipi_spec_dst, 4);
	}
}

static int udp_receive(struct dgram *d, void *buf, size_t size,
		       struct dgram_peer *ret_peer)
{
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	union udp_control control;
	struct msghdr msg = { .msg_name = &ret_peer->addr,
			      .msg_namelen = sizeof(ret_peer->addr),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t len;

	*ret_peer = (struct dgram_peer){ .addr_len = 0 };
	len = recvmsg(d->fd, &msg, MSG_DONTWAIT | MSG_TRUNC);
	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	ret_peer->addr_len = msg.msg_namelen;
	udp_note_host(ret_peer);
	udp_note_local(ret_peer, &msg);
	if (len == 0)
		return -ENOMSG;
	return (size_t)len > size ? -EMSGSIZE : (int)len;
}

/* Sets in @control from which address, and by which interface, @msg answers @peer. */
static void udp_set_source(const struct udp *u, struct msghdr *msg,
			   union udp_control *control,
			   const struct dgram_peer *peer)
{
	struct in6_pktinfo in6 = { .ipi6_ifindex = u->ifindex };
	struct in_pktinfo in = { .ipi_ifindex = (int)u->ifindex };
	struct cmsghdr *c = &control->header;
	bool is_ipv6 = peer->addr.ss_family == AF_INET6;

	memset(control, 0, sizeof(*control));
	msg->msg_control = control;
	if (is_ipv6) {
		memcpy(&in6.ipi6_addr, peer->local, DGRAM_HOST_LEN);
		c->cmsg_level = IPPROTO_IPV6;
		c->cmsg_type = IPV6_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(in6));
		msg->msg_controllen = CMSG_SPACE(sizeof(in6));
		memcpy(CMSG_DATA(c), &in6, sizeof(in6));
	} else {
		memcpy(&in.ipi_spec_dst, &peer->local[12], 4);
		c->cmsg_level = IPPROTO_IP;
		c->cmsg_type = IP_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(in));
		msg->msg_controllen = CMSG_SPACE(sizeof(in));
		memcpy(CMSG_DATA(c), &in, sizeof(in));
	}
}

/* From the address that the question came to, or by its interface, if that is possible:
 * the address may have been removed since, or be a broadcast. */
static int udp_answer(const struct udp *u, const struct dgram_peer *peer,
		      const void *data, size_t len)
{
	struct iovec iov = { .iov_base = (void *)data, .iov_len = len };
	union udp_control control;
	struct msghdr msg = { .msg_name = (void *)&peer->addr,
			      .msg_namelen = peer->addr_len,
			      .msg_iov = &iov,
			      .msg_iovlen = 1 };

	udp_set_source(u, &msg, &control, peer);
	if (sendmsg(u->base.fd, &msg, MSG_DONTWAIT) >= 0)
		return 0;
	msg.msg_control = NULL;
	msg.msg_controllen = 0;
	return sendmsg(u->base.fd, &msg, MSG_DONTWAIT) < 0 ? -errno : 0;
}

static bool udp_knows_source(const struct dgram_peer *peer)
{
	static const uint8_t unknown[DGRAM_HOST_LEN];

	return memcmp(peer->local, unknown, DGRAM_HOST_LEN) != 0;
}

static int udp_send(struct dgram *d, const struct dgram_peer *to,
		    const void *data, size_t len)
{
	struct udp *u = container_of(d, struct udp, base);
	const struct sockaddr *addr = (struct sockaddr *)&u->group;
	socklen_t addr_len = u->group_len;

	if (to && to->addr.ss_family != AF_UNSPEC) {
		if (u->ifindex || udp_knows_source(to))
			return udp_answer(u, to, data, len);
		addr = (const struct sockaddr *)&to->addr;
		addr_len = to->addr_len;
	}
	if (!addr_len)
		return -EDESTADDRREQ;
	return sendto(d->fd, data, len, MSG_DONTWAIT, addr, addr_len) < 0
		       ? -errno
		       : 0;
}

static void udp_free(struct udp *u)
{
	close(u->base.fd);
	free(u);
}

static void udp_close(struct dgram *d)
{
	udp_free(container_of(d, struct udp, base));
}

static const struct dgram_ops udp_ops = {
	.receive = udp_receive,
	.send = udp_send,
	.close = udp_close,
};

/* NULL, and -errno in @ret_err, if there is none. */
static struct udp *udp_new(int family, enum dgram_carrier carrier, int *ret_err)
{
	struct udp *u = calloc(1, sizeof(*u));

	*ret_err = -ENOMEM;
	if (!u)
		return NULL;
	u->base.ops = &udp_ops;
	u->base.carrier = carrier;
	u->base.fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	*ret_err = u->base.fd < 0 ? -errno : 0;
	if (u->base.fd >= 0)
		return u;
	free(u);
	return NULL;
}

static int udp_set(const struct udp *u, int level, int name, const void *value,
		   socklen_t len)
{
	return setsockopt(u->base.fd, level, name, value, len) ? -errno : 0;
}

static int udp_set_int(const struct udp *u, int level, int name, int value)
{
	return udp_set(u, level, name, &value, sizeof(value));
}

/* The wildcard of IPv6 includes IPv4, as for listeners. At the port of the group, a
 * wildcard shares it with the members of the group, and leaves to them what is sent to the
 * group. */
static int udp_bind(struct udp *u, const struct sockaddr *addr,
		    socklen_t addr_len)
{
	const struct sockaddr_in *sin = (const void *)addr;

	if (addr->sa_family == AF_INET6) {
		udp_set_int(u, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
		udp_set_int(u, IPPROTO_IPV6, IPV6_V6ONLY, 0);
		udp_set_int(u, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	} else {
		udp_set_int(u, IPPROTO_IP, IP_PKTINFO, 1);
	}
	udp_set_int(u, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	/* The port has the same place in both families. */
	if (ntohs(sin->sin_port) == DGRAM_GROUP_PORT)
		udp_set_int(u, SOL_SOCKET, SO_REUSEADDR, 1);
	return bind(u->base.fd, addr, addr_len) ? -errno : 0;
}

int dgram_open_unicast(const struct sockaddr *addr, socklen_t addr_len,
		       struct dgram **ret, struct error *e)
{
	char text[64];
	int err;
	struct udp *u = udp_new(addr->sa_family, DGRAM_UNICAST, &err);

	if (u) {
		err = udp_bind(u, addr, addr_len);
		if (!err) {
			*ret = &u->base;
			return 0;
		}
		udp_free(u);
	}
	xp_addr_text(addr, text, sizeof(text));
	return error_set(e, err, "cannot use UDP at %s: %s", text,
			 strerror(-err));
}

/* ---- multicast ---- */

static void udp_set_group(struct udp *u, int family, unsigned int ifindex)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)&u->group;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&u->group;

	u->ifindex = ifindex;
	u->group.ss_family = (sa_family_t)family;
	/* The port has the same place in both families. */
	sin->sin_port = htons(DGRAM_GROUP_PORT);
	if (family == AF_INET) {
		inet_pton(AF_INET, DGRAM_GROUP_IPV4, &sin->sin_addr);
		u->group_len = sizeof(*sin);
		return;
	}
	inet_pton(AF_INET6, DGRAM_GROUP_IPV6, &sin6->sin6_addr);
	sin6->sin6_scope_id = ifindex;
	u->group_len = sizeof(*sin6);
}

/* What is sent to the group leaves by @ifindex, for the next hop, and is heard here, too. */
static int udp_send_by(const struct udp *u, unsigned int ifindex)
{
	const struct ip_mreqn by = { .imr_ifindex = (int)ifindex };
	int err;

	if (u->group.ss_family == AF_INET6) {
		err = udp_set_int(u, IPPROTO_IPV6, IPV6_MULTICAST_IF,
				  (int)ifindex);
		return err ? err
			   : udp_set_int(u, IPPROTO_IPV6, IPV6_MULTICAST_HOPS,
					 1);
	}
	err = udp_set(u, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof(by));
	return err ? err : udp_set_int(u, IPPROTO_IP, IP_MULTICAST_TTL, 1);
}

static int udp_join(const struct udp *u, unsigned int ifindex)
{
	const struct sockaddr_in *sin = (const struct sockaddr_in *)&u->group;
	const struct sockaddr_in6 *sin6 =
		(const struct sockaddr_in6 *)&u->group;
	const struct ip_mreqn in = { .imr_multiaddr = sin->sin_addr,
				     .imr_ifindex = (int)ifindex };
	const struct ipv6_mreq in6 = { .ipv6mr_multiaddr = sin6->sin6_addr,
				       .ipv6mr_interface = ifindex };

	if (u->group.ss_family == AF_INET6)
		return udp_set(u, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &in6,
			       sizeof(in6));
	return udp_set(u, IPPROTO_IP, IP_ADD_MEMBERSHIP, &in, sizeof(in));
}

/* Several programs of a machine are members, and each has several interfaces: a socket
 * hears only what comes by its own. */
static int udp_be_member(const struct udp *u, unsigned int ifindex)
{
	bool is_ipv6 = u->group.ss_family == AF_INET6;
	int err = udp_set_int(u, SOL_SOCKET, SO_REUSEADDR, 1);

	if (!err)
		err = is_ipv6 ? udp_set_int(u, IPPROTO_IPV6, IPV6_MULTICAST_ALL,
					    0)
			      : udp_set_int(u, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	if (!err &&
	    bind(u->base.fd, (const struct sockaddr *)&u->group, u->group_len))
		err = -errno;
	return err ? err : udp_join(u, ifindex);
}

int dgram_open_multicast(int family, unsigned int ifindex, bool asks,
			 struct dgram **ret, struct error *e)
{
	int err;
	struct udp *u = udp_new(family, DGRAM_MULTICAST, &err);

	if (u) {
		udp_set_group(u, family, ifindex);
		err = udp_send_by(u, ifindex);
		if (!err && !asks)
			err = udp_be_member(u, ifindex);
		if (!err) {
			*ret = &u->base;
			return 0;
		}
		udp_free(u);
	}
	return error_set(
		e, err, "cannot use multicast of %s on interface %u: %s",
		family == AF_INET6 ? "IPv6" : "IPv4", ifindex, strerror(-err));
}
