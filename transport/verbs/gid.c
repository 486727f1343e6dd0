/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a GID of this machine to the IP address that stands for it: RDMA CM takes
 * addresses. On RoCE, a GID is an IP address of an interface. On InfiniBand, it is that
 * of a port, and the interfaces of IP over InfiniBand have it in their hardware address.
 * They differ in the partition.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/verbs/verbs.h"

/* Bytes of a hardware address of IP over InfiniBand (RFC 4391): flags, queue pair,
 * GID. */
#define GID_HARDWARE_LEN 20u

#define GID_PATH_SIZE 512

/* Reads the first line of file DIRECTORY/NAME, without its end. */
static bool gid_read_line(const char *directory, const char *name, char *line,
			  int size)
{
	char path[GID_PATH_SIZE];
	FILE *f;
	bool good;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	good = fgets(line, size, f);
	fclose(f);
	line[good ? strcspn(line, "\n") : 0] = '\0';
	return good;
}

/* Calls @match for each path of @pattern, up to the first that it takes. */
static bool gid_search(const char *pattern, struct vb_gid_search *s,
		       bool (*match)(struct vb_gid_search *s, char *path))
{
	bool found = false;
	glob_t g;

	if (glob(pattern, 0, NULL, &g))
		return false;
	for (size_t i = 0; i < g.gl_pathc && !found; i++)
		found = match(s, g.gl_pathv[i]);
	globfree(&g);
	return found;
}

/* ---- the port ---- */

/* @path: of one GID, ".../infiniband/rxe0/ports/1/gids/3" */
static bool gid_is_entry(struct vb_gid_search *s, char *path)
{
	char *index = strrchr(path, '/') + 1;
	char line[XP_GID_TEXT_SIZE + 1];
	char name[64];
	uint8_t gid[XP_GID_LEN];

	/* DIRECTORY/gids/INDEX */
	index[-1] = '\0';
	if (!gid_read_line(path, index, line, sizeof(line)) ||
	    inet_pton(AF_INET6, line, gid) != 1 ||
	    memcmp(gid, s->want->gid, sizeof(gid)) != 0)
		return false;
	*strrchr(path, '/') = '\0';
	snprintf(name, sizeof(name), "gid_attrs/ndevs/%s", index);
	gid_read_line(path, "link_layer", line, sizeof(line));
	s->is_roce = strcmp(line, "Ethernet") == 0;
	if (s->is_roce)
		gid_read_line(path, name, s->netdev, sizeof(s->netdev));
	return true;
}

/* ---- the interface, on InfiniBand ---- */

/* "80:00:02:08:fe:80:...", 20 bytes */
static bool gid_is_in_hardware(const char *text, const uint8_t *gid)
{
	uint8_t bytes[GID_HARDWARE_LEN];
	char *end;

	for (unsigned int i = 0; i < GID_HARDWARE_LEN; i++) {
		bytes[i] = (uint8_t)strtoul(text, &end, 16);
		if (end != text + 2)
			return false;
		text = end + (*end == ':');
	}
	return memcmp(bytes + GID_HARDWARE_LEN - XP_GID_LEN, gid, XP_GID_LEN) ==
	       0;
}

/* @path: of one interface, ".../net/ib0" */
static bool gid_is_interface(struct vb_gid_search *s, char *path)
{
	char line[80];

	if (!gid_read_line(path, "type", line, sizeof(line)) ||
	    strtoul(line, NULL, 10) != ARPHRD_INFINIBAND ||
	    !gid_read_line(path, "address", line, sizeof(line)) ||
	    !gid_is_in_hardware(line, s->want->gid))
		return false;
	if (s->want->has_pkey &&
	    (!gid_read_line(path, "pkey", line, sizeof(line)) ||
	     !xp_pkey_same((uint16_t)strtoul(line, NULL, 16), s->want->pkey)))
		return false;
	snprintf(s->netdev, sizeof(s->netdev), "%s", strrchr(path, '/') + 1);
	return true;
}

int vb_gid_find(const char *root, struct vb_gid_search *s, struct error *e)
{
	char text[XP_GID_TEXT_SIZE];
	char pattern[GID_PATH_SIZE];

	s->netdev[0] = '\0';
	xp_gid_text(s->want->gid, text);
	snprintf(pattern, sizeof(pattern),
		 "%s/sys/class/infiniband/*/ports/*/gids/*", root);
	if (!gid_search(pattern, s, gid_is_entry))
		return error_set(e, -EADDRNOTAVAIL,
				 "no RDMA device of this machine has GID %s; "
				 "rdma-doctor lists the GIDs",
				 text);
	snprintf(pattern, sizeof(pattern), "%s/sys/class/net/*", root);
	if (s->is_roce || gid_search(pattern, s, gid_is_interface))
		return 0;
	return error_set(e, -EADDRNOTAVAIL,
			 "the port with GID %s has no interface of IP over "
			 "InfiniBand%s, which RDMA CM needs; see ip link",
			 text, s->want->has_pkey ? " in that partition" : "");
}

/* ---- the address ---- */

static int gid_source_roce(const struct vb_gid_search *s,
			   const struct sockaddr *peer,
			   struct sockaddr_storage *ret, struct error *e)
{
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in sin = { .sin_family = AF_INET };
	char text[XP_GID_TEXT_SIZE];
	bool is_ipv4;

	memcpy(&sin6.sin6_addr, s->want->gid, XP_GID_LEN);
	memcpy(&sin.sin_addr, s->want->gid + XP_GID_LEN - 4, 4);
	is_ipv4 = IN6_IS_ADDR_V4MAPPED(&sin6.sin6_addr);
	if (peer->sa_family != (is_ipv4 ? AF_INET : AF_INET6))
		return error_set(e, -EAFNOSUPPORT,
				 "GID %s is an address of %s, that of the "
				 "target is not",
				 xp_gid_text(s->want->gid, text),
				 is_ipv4 ? "IPv4" : "IPv6");
	if (IN6_IS_ADDR_LINKLOCAL(&sin6.sin6_addr))
		sin6.sin6_scope_id = if_nametoindex(s->netdev);
	if (is_ipv4)
		memcpy(ret, &sin, sizeof(sin));
	else
		memcpy(ret, &sin6, sizeof(sin6));
	return 0;
}

/* A target with a link-local address is reached from such an address only. */
static bool gid_is_usable(const struct sockaddr *own,
			  const struct sockaddr *peer)
{
	const struct sockaddr_in6 *a = (const void *)own;
	const struct sockaddr_in6 *b = (const void *)peer;

	if (!own || own->sa_family != peer->sa_family)
		return false;
	return own->sa_family == AF_INET ||
	       (own->sa_family == AF_INET6 &&
		!IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr) ==
			!IN6_IS_ADDR_LINKLOCAL(&b->sin6_addr));
}

static int gid_source_ib(const struct vb_gid_search *s,
			 const struct sockaddr *peer,
			 struct sockaddr_storage *ret, struct error *e)
{
	struct ifaddrs *list = NULL;
	bool found = false;

	getifaddrs(&list);
	for (struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
		if (strcmp(i->ifa_name, s->netdev) != 0 ||
		    !gid_is_usable(i->ifa_addr, peer))
			continue;
		found = true;
		memcpy(ret, i->ifa_addr,
		       peer->sa_family == AF_INET
			       ? sizeof(struct sockaddr_in)
			       : sizeof(struct sockaddr_in6));
	}
	if (list)
		freeifaddrs(list);
	if (found)
		return 0;
	return error_set(e, -EADDRNOTAVAIL,
			 "interface %s, which has that GID, has no address "
			 "for the way to the target; see ip addr",
			 s->netdev);
}

int vb_gid_source(const char *root, const struct xp_route *want,
		  const struct sockaddr *peer, struct sockaddr_storage *ret,
		  struct error *e)
{
	struct vb_gid_search s = { .want = want };
	int err = vb_gid_find(root, &s, e);

	memset(ret, 0, sizeof(*ret));
	if (err)
		return err;
	return s.is_roce ? gid_source_roce(&s, peer, ret, e)
			 : gid_source_ib(&s, peer, ret, e);
}
