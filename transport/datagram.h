/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams by which targets are found (protocol/discovery.h), over three carriers:
 *
 *   unicast    UDP to a port of a host
 *   multicast  UDP to a group, one hop far, on one interface: IPv4 or IPv6
 *   RDMA       a multicast group of the fabric, joined by RDMA CM, with a UD queue pair;
 *              for fabrics that carry no multicast of IP
 *
 * Nothing here blocks but dgram_await().
 *
 * Thread: any; each endpoint has one.
 */
#ifndef TRANSPORT_DATAGRAM_H
#define TRANSPORT_DATAGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

/* Of the group of each carrier, at this port: administratively scoped (RFC 2365), and
 * link-local, transient (RFC 4291). */
#define DGRAM_GROUP_IPV4 "239.255.83.82"
#define DGRAM_GROUP_IPV6 "ff12::5352:5044"
#define DGRAM_GROUP_PORT 5555

enum dgram_carrier {
	DGRAM_UNICAST,
	DGRAM_MULTICAST,
	DGRAM_RDMA,
};

#define DGRAM_HOST_LEN 16

/* Where a datagram has come from. */
struct dgram_peer {
	/* AF_UNSPEC: the carrier does not tell. */
	struct sockaddr_storage addr;
	socklen_t addr_len;
	/* The same for all that one host sends: its address as one of IPv6, or its GID. */
	uint8_t host[DGRAM_HOST_LEN];
	/* Unicast: the address of this machine that it came to, like host. An answer leaves
	 * from there: a firewall on the way lets nothing else pass. */
	uint8_t local[DGRAM_HOST_LEN];
};

struct dgram;

struct dgram_ops {
	int (*receive)(struct dgram *d, void *buf, size_t size,
		       struct dgram_peer *ret_peer);
	int (*send)(struct dgram *d, const struct dgram_peer *to,
		    const void *data, size_t len);
	int (*join)(struct dgram *d); /* NULL: it never has to */
	void (*close)(struct dgram *d);
};

/* Embedded first in a carrier's own. */
struct dgram {
	const struct dgram_ops *ops;
	enum dgram_carrier carrier;
	int fd;	      /* readable when there is something to receive */
	bool joining; /* RDMA: the fabric has not answered yet */
};

/*
 * Opens an endpoint. Each returns 0, or -errno with one clause in @e.
 *
 * A socket of UDP at @addr; port 0: any.
 */
int dgram_open_unicast(const struct sockaddr *addr, socklen_t addr_len,
		       struct dgram **ret, struct error *e);
/*
 * A member of the group of @family, AF_INET or AF_INET6, on the interface @ifindex. It
 * hears what is sent to the group. @asks: it is no member; it sends to the group, and
 * hears what is sent to itself. An answer leaves by the interface, too: a route may lead by
 * another one, with an address that is not the one that the host can reach.
 */
int dgram_open_multicast(int family, unsigned int ifindex, bool asks,
			 struct dgram **ret, struct error *e);
/*
 * A member of the RDMA group on the device that has the address @local. -ENODEV: there is
 * no such device.
 *
 * It is still joining. A fabric without a subnet manager takes seconds to refuse, so call
 * dgram_join() when it is readable, and send and receive afterwards.
 */
int dgram_open_rdma(const struct sockaddr *local, struct dgram **ret,
		    struct error *e);
/* Takes the answer of the fabric. Return: 0: @d has joined; -EAGAIN: not yet; another
 * -errno: the fabric refuses it, or the device is being removed, so close @d. */
int dgram_join(struct dgram *d);
/* Waits for that, at most @ms. 0, or -errno: close @d. */
int dgram_await(struct dgram *d, int ms);

/* Takes one datagram. Return: its length; 0: there is none; -ENODEV: the device is being
 * removed, or the endpoint is out of order, so close it at once; another -errno:
 * one of no use was there, such as one of no bytes. */
int dgram_receive(struct dgram *d, void *buf, size_t size,
		  struct dgram_peer *ret_peer);
/* Sends to @to, or, if that is not told, to the group. 0, or -errno. */
int dgram_send(struct dgram *d, const struct dgram_peer *to, const void *data,
	       size_t len);
/* NULL is fine. */
void dgram_close(struct dgram *d);

const char *dgram_carrier_name(enum dgram_carrier carrier);

#endif
