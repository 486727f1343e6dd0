/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/responder_set.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/log.h"

#define INTERFACES_MAX 64

/* An address of an interface. */
struct own_address {
	unsigned int ifindex;
	const struct sockaddr *addr;
	socklen_t addr_len;
	bool is_rdma;
	bool is_loopback;
};

struct own_addresses {
	struct ifaddrs *list; /* owns the names and addresses */
	struct own_address all[INTERFACES_MAX];
	unsigned int cnt;
	unsigned int left_out;
};

/* ---- the addresses of this machine ---- */

/* True if @name is in @names, NAME,NAME. */
static bool is_among(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = names; p && *p; p += strcspn(p, ",")) {
		p += *p == ',';
		if (strncmp(p, name, len) == 0 &&
		    (p[len] == ',' || p[len] == '\0'))
			return true;
	}
	return false;
}

/* if_nametoindex() needs a call that the sandbox does not allow. */
static void own_add(struct own_addresses *own, const struct ifaddrs *ifa,
		    const struct own_gids *gids)
{
	struct own_address *a = &own->all[own->cnt];
	const struct sockaddr_ll *sll =
		listen_interface(own->list, ifa->ifa_name);

	*a = (struct own_address){
		.ifindex = sll ? (unsigned int)sll->sll_ifindex : 0,
		.addr = ifa->ifa_addr,
		.addr_len = ifa->ifa_addr->sa_family == AF_INET
				    ? sizeof(struct sockaddr_in)
				    : sizeof(struct sockaddr_in6),
		.is_loopback = ifa->ifa_flags & IFF_LOOPBACK,
		.is_rdma = listen_is_rdma(own->list, ifa, gids),
	};
	own->cnt += a->ifindex != 0;
}

static void own_get(struct own_addresses *own, const char *interfaces)
{
	struct own_gids gids;

	own->cnt = 0;
	own->left_out = 0;
	if (getifaddrs(&own->list)) {
		own->list = NULL;
		return;
	}
	own_gids_get(&gids);
	for (struct ifaddrs *ifa = own->list; ifa; ifa = ifa->ifa_next) {
		if (!ifa->ifa_addr || !(ifa->ifa_flags & IFF_UP) ||
		    (ifa->ifa_addr->sa_family != AF_INET &&
		     ifa->ifa_addr->sa_family != AF_INET6))
			continue;
		if (interfaces && !is_among(interfaces, ifa->ifa_name))
			continue;
		if (own->cnt < INTERFACES_MAX)
			own_add(own, ifa, &gids);
		else
			own->left_out++;
	}
}

static void own_free(struct own_addresses *own)
{
	if (own->list)
		freeifaddrs(own->list);
}

/* ---- endpoints that are needed ---- */

static in_port_t port_of(const void *addr)
{
	/* The port has the same place in both families. */
	return ((const struct sockaddr_in *)addr)->sin_port;
}

static bool same_endpoint(const struct responder_endpoint *a,
			  const struct responder_endpoint *b)
{
	return a->carrier == b->carrier && a->ifindex == b->ifindex &&
	       port_of(&a->addr) == port_of(&b->addr) &&
	       listen_same_host((const struct sockaddr *)&a->addr,
				(const struct sockaddr *)&b->addr);
}

static void set_want(struct responder_set *set,
		     const struct responder_endpoint *want)
{
	for (unsigned int i = 0; i < set->cnt; i++) {
		if (same_endpoint(&set->endpoints[i], want)) {
			set->endpoints[i].wanted = true;
			return;
		}
	}
	if (set->cnt == RESPONDER_ENDPOINTS_MAX) {
		set->left_out++;
		return;
	}
	set->endpoints[set->cnt] = *want;
	set->endpoints[set->cnt++].wanted = true;
}

static struct responder_endpoint endpoint_at(enum dgram_carrier carrier,
					     const void *addr,
					     socklen_t addr_len, in_port_t port)
{
	struct responder_endpoint ep = { .carrier = carrier,
					 .addr_len = addr_len };

	memcpy(&ep.addr, addr, addr_len);
	((struct sockaddr_in *)&ep.addr)->sin_port = port;
	return ep;
}

static void want_unicast(struct responder_set *set, const void *addr,
			 socklen_t addr_len, in_port_t port)
{
	struct responder_endpoint ep =
		endpoint_at(DGRAM_UNICAST, addr, addr_len, port);

	set_want(set, &ep);
}

/* The address only selects the family. */
static void want_multicast(struct responder_set *set,
			   const struct own_address *a)
{
	struct responder_endpoint ep = { .carrier = DGRAM_MULTICAST,
					 .ifindex = a->ifindex,
					 .addr_len = a->addr_len };

	ep.addr.ss_family = a->addr->sa_family;
	set_want(set, &ep);
}

/* One endpoint for each device is enough; each one has a queue pair. */
static void want_rdma(struct responder_set *set, const struct own_address *a)
{
	struct responder_endpoint ep =
		endpoint_at(DGRAM_RDMA, a->addr, a->addr_len, 0);

	ep.ifindex = a->ifindex;
	for (unsigned int i = 0; i < set->cnt; i++) {
		struct responder_endpoint *other = &set->endpoints[i];

		if (other->carrier == DGRAM_RDMA && other->wanted &&
		    other->ifindex == a->ifindex)
			return;
	}
	set_want(set, &ep);
}

static bool point_has(const struct listen_point *p, const struct own_address *a)
{
	const struct sockaddr *addr = (const struct sockaddr *)&p->addr;

	/* The loopback interface has more addresses than it lists. */
	if (a->is_loopback && listen_point_is_loopback(p))
		return addr->sa_family == a->addr->sa_family;
	if (!listen_point_is_wildcard(p))
		return listen_same_host(addr, a->addr);
	return addr->sa_family == AF_INET6 || a->addr->sa_family == AF_INET;
}

/* On some kernels, the RDMA CM cannot use link-local addresses of IPv6. Each
 * interface with one also has another address. */
static bool is_for_rdma(const struct own_address *a)
{
	const struct sockaddr_in6 *sin6 = (const void *)a->addr;

	return a->is_rdma && (a->addr->sa_family == AF_INET ||
			      !IN6_IS_ADDR_LINKLOCAL(&sin6->sin6_addr));
}

static void want_for_address(struct responder_set *set,
			     const struct listen_point *p,
			     const struct own_address *a)
{
	if (!point_has(p, a))
		return;
	if (listen_point_is_wildcard(p) && set->interfaces)
		want_unicast(set, a->addr, a->addr_len, port_of(&p->addr));
	want_multicast(set, a);
	if (is_for_rdma(a))
		want_rdma(set, a);
}

static void set_want_all(struct responder_set *set,
			 const struct listen_points *points,
			 const struct own_addresses *own)
{
	for (unsigned int i = 0; i < points->cnt; i++) {
		const struct listen_point *p = &points->point[i];

		if (!listen_point_is_wildcard(p) || !set->interfaces)
			want_unicast(set, &p->addr, p->addr_len,
				     port_of(&p->addr));
		for (unsigned int k = 0; k < own->cnt; k++)
			want_for_address(set, p, &own->all[k]);
	}
}

/* ---- open and close ---- */

static int endpoint_open(struct responder_endpoint *ep, struct error *e)
{
	const struct sockaddr *addr = (const struct sockaddr *)&ep->addr;

	switch (ep->carrier) {
	case DGRAM_UNICAST:
		return dgram_open_unicast(addr, ep->addr_len, &ep->dgram, e);
	case DGRAM_MULTICAST:
		return dgram_open_multicast(addr->sa_family, ep->ifindex,
					    /* asks= */ false, &ep->dgram, e);
	case DGRAM_RDMA:
		return dgram_open_rdma(addr, &ep->dgram, e);
	}
	return -EINVAL;
}

/* Tries again at each refresh. Logs the reason if it has changed. An endpoint that is
 * joining may fail for the same reason as before. */
static bool endpoint_try(struct responder_endpoint *ep, bool is_first)
{
	struct error e;
	int err = endpoint_open(ep, &e);

	if (err && err != ep->err)
		log_at(is_first && err != -ENODEV ? LOG_NOTICE : LOG_INFO,
		       "discovery: %s", e.text);
	if (!err && ep->dgram && ep->dgram->joining)
		return false;
	ep->err = err;
	return !err;
}

bool responder_set_join(struct responder_set *set,
			struct responder_endpoint *ep)
{
	int err = dgram_join(ep->dgram);
	char text[64];

	if (err == -EAGAIN)
		return false;
	xp_addr_text((const struct sockaddr *)&ep->addr, text, sizeof(text));
	if (err && err != ep->err)
		log_at(err == -ENODEV ? LOG_INFO : LOG_NOTICE,
		       "discovery: cannot join the multicast group of RDMA at "
		       "%s: %s",
		       text, strerror(-err));
	ep->err = err;
	if (err)
		responder_set_drop(set, ep);
	return !err;
}

void responder_set_drop(struct responder_set *set,
			struct responder_endpoint *ep)
{
	dgram_close(ep->dgram);
	ep->dgram = NULL;
}

void responder_set_drop_rdma(struct responder_set *set)
{
	for (unsigned int i = 0; i < set->cnt; i++) {
		if (set->endpoints[i].carrier == DGRAM_RDMA)
			responder_set_drop(set, &set->endpoints[i]);
	}
}

static void set_close_unwanted(struct responder_set *set)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < set->cnt; i++) {
		struct responder_endpoint *ep = &set->endpoints[i];

		if (ep->wanted)
			set->endpoints[kept++] = *ep;
		else
			dgram_close(ep->dgram);
	}
	set->cnt = kept;
}

static void set_say_left_out(struct responder_set *set)
{
	if (set->left_out && !set->said_left_out)
		log_warn("discovery: this machine has too many addresses: "
			 "clients that ask at some of them get no answer; "
			 "choose interfaces by --discovery NAME,NAME (limits: "
			 "%d addresses, %d endpoints)",
			 INTERFACES_MAX, RESPONDER_ENDPOINTS_MAX);
	set->said_left_out = set->left_out;
}

bool responder_set_refresh(struct responder_set *set,
			   const struct listen_points *points, bool is_first)
{
	struct own_addresses own;
	bool opened = false;

	for (unsigned int i = 0; i < set->cnt; i++)
		set->endpoints[i].wanted = false;
	own_get(&own, set->interfaces);
	set->left_out = own.left_out;
	set_want_all(set, points, &own);
	own_free(&own);
	set_close_unwanted(set);
	set_say_left_out(set);
	for (unsigned int i = 0; i < set->cnt; i++) {
		if (!set->endpoints[i].dgram)
			opened |= endpoint_try(&set->endpoints[i], is_first);
	}
	return opened;
}

void responder_set_close(struct responder_set *set)
{
	for (unsigned int i = 0; i < set->cnt; i++)
		dgram_close(set->endpoints[i].dgram);
	set->cnt = 0;
}
