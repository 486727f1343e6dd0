/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The route of a connection: what a user demands of it, and what both sides have
 * agreed on. A demand is met, or the connection is refused.
 *
 *   source   the address of this side. With RDMA CM it chooses the device, the port
 *            and the GID.
 *   gid      the GID of this side; without a source, it chooses the source
 *   pkey     the partition. RDMA CM takes it from the interface of the source.
 *   sl       the service level
 *   tos      the type of service: the traffic class of RoCE v2, whose upper six bits
 *            are the DSCP. The target sends with that of the request.
 *   ack_timeout  how long a packet of this side waits for its acknowledgement
 *
 * Thread: any.
 */
#ifndef TRANSPORT_ROUTE_H
#define TRANSPORT_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

#define XP_GID_LEN 16u

struct xp_route {
	char source[64]; /* IPv6 without brackets, with %scope; "": any */
	bool has_gid;
	uint8_t gid[XP_GID_LEN];
	bool has_pkey;
	uint16_t pkey;
	bool has_sl;
	uint8_t sl; /* 0 to 15 */
	bool has_tos;
	uint8_t tos;
	uint8_t ack_timeout; /* 4.096 us * 2^N; 0: the fabric decides */
};

/* What both sides have agreed on, for RDMA. */
struct xp_negotiated {
	unsigned int mtu;	 /* bytes; 0: the transport has none of this */
	unsigned int port_mtu;	 /* bytes; the active MTU of our port */
	unsigned int read_depth; /* READs of the target at a time */
	uint8_t gid[XP_GID_LEN]; /* ours */
	uint16_t pkey;
	uint8_t sl;  /* with which this side sends */
	uint8_t tos; /* the same; 0 on a fabric whose packets have none */
	uint8_t ack_timeout;
};

/* Which of the keys is set that only fabrics with GIDs have, all but source; NULL:
 * none. */
const char *xp_route_fabric_key(const struct xp_route *want);

/* Does @one demand the same pkey and sl as @two? */
bool xp_route_same(const struct xp_route *one, const struct xp_route *two);

/* Do both P_Keys name one partition? The highest bit is the membership. */
bool xp_pkey_same(uint16_t one, uint16_t two);

/*
 * Stores the address @want->source, which is not empty, without a port. Return: 0;
 * -EAFNOSUPPORT: the peer @peer has an address of another family; -EINVAL.
 */
int xp_route_source(const struct xp_route *want, const struct sockaddr *peer,
		    struct sockaddr_storage *ret, socklen_t *ret_len,
		    struct error *e);

/* Are gid, pkey and sl of @has what @want demands? 0, or -EPROTONOSUPPORT and @e. */
int xp_route_check(const struct xp_route *want, const struct xp_negotiated *has,
		   struct error *e);

#define XP_GID_TEXT_SIZE 46

/* "fe80::1", "::ffff:10.0.0.1" */
const char *xp_gid_text(const uint8_t gid[XP_GID_LEN],
			char buf[XP_GID_TEXT_SIZE]);

#define XP_NEGOTIATED_TEXT_SIZE 160

/* "MTU 1024 of 4096, READ depth 4, P_Key 0xffff, SL 0, GID ::ffff:10.0.0.1" */
const char *xp_negotiated_text(const struct xp_negotiated *n,
			       char buf[XP_NEGOTIATED_TEXT_SIZE]);

#endif
