/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

/* InfiniBand Architecture, volume 1, "Partition Keys": the highest bit says whether
 * the member is a full one. */
#define PKEY_PARTITION 0x7fffu

const char *xp_route_fabric_key(const struct xp_route *want)
{
	if (want->has_gid)
		return "gid";
	if (want->has_pkey)
		return "pkey";
	if (want->has_sl)
		return "sl";
	if (want->has_tos)
		return "tos";
	return want->ack_timeout ? "ack-timeout" : NULL;
}

bool xp_route_same(const struct xp_route *one, const struct xp_route *two)
{
	return one->has_pkey == two->has_pkey && one->pkey == two->pkey &&
	       one->has_sl == two->has_sl && one->sl == two->sl;
}

bool xp_pkey_same(uint16_t one, uint16_t two)
{
	return (one & PKEY_PARTITION) == (two & PKEY_PARTITION);
}

int xp_route_source(const struct xp_route *want, const struct sockaddr *peer,
		    struct sockaddr_storage *ret, socklen_t *ret_len,
		    struct error *e)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICHOST };
	struct addrinfo *list;
	int err = getaddrinfo(want->source, NULL, &hints, &list);

	if (err)
		return error_set(e, -EINVAL, "source=%s: %s", want->source,
				 err == EAI_NONAME
					 ? "this machine has no such interface"
					 : gai_strerror(err));
	if (list->ai_family == peer->sa_family) {
		memset(ret, 0, sizeof(*ret));
		memcpy(ret, list->ai_addr, list->ai_addrlen);
		*ret_len = list->ai_addrlen;
	} else {
		err = error_set(e, -EAFNOSUPPORT,
				"source=%s is an address of %s, that of the "
				"target is not",
				want->source,
				list->ai_family == AF_INET ? "IPv4" : "IPv6");
	}
	freeaddrinfo(list);
	return err;
}

int xp_route_check(const struct xp_route *want, const struct xp_negotiated *has,
		   struct error *e)
{
	char gid[2][XP_GID_TEXT_SIZE];

	if (want->has_gid && memcmp(want->gid, has->gid, XP_GID_LEN) != 0)
		return error_set(e, -EPROTONOSUPPORT,
				 "the route has GID %s, not %s",
				 xp_gid_text(has->gid, gid[0]),
				 xp_gid_text(want->gid, gid[1]));
	if (want->has_pkey && !xp_pkey_same(want->pkey, has->pkey))
		return error_set(e, -EPROTONOSUPPORT,
				 "the route has P_Key 0x%04x, not 0x%04x",
				 has->pkey, want->pkey);
	if (want->has_sl && want->sl != has->sl)
		return error_set(e, -EPROTONOSUPPORT,
				 "the route has service level %u, not %u",
				 has->sl, want->sl);
	return 0;
}

const char *xp_gid_text(const uint8_t gid[XP_GID_LEN],
			char buf[XP_GID_TEXT_SIZE])
{
	return inet_ntop(AF_INET6, gid, buf, XP_GID_TEXT_SIZE);
}

const char *xp_negotiated_text(const struct xp_negotiated *n,
			       char buf[XP_NEGOTIATED_TEXT_SIZE])
{
	char gid[XP_GID_TEXT_SIZE];
	char tos[16] = "";

	if (n->tos)
		snprintf(tos, sizeof(tos), ", ToS %u", n->tos);
	snprintf(buf, XP_NEGOTIATED_TEXT_SIZE,
		 "MTU %u of %u, READ depth %u, P_Key 0x%04x, SL %u%s, GID %s",
		 n->mtu, n->port_mtu, n->read_depth, n->pkey, n->sl, tos,
		 xp_gid_text(n->gid, gid));
	return buf;
}
