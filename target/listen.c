/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/listen.h"

#include <assert.h>
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* How long to wait for an address that is in use, and the time between two
 * attempts. */
#define IN_USE_MS 1000
#define STEP_MS	  10

/* State of one request. */
struct listener {
	const struct listen_how *how;
	struct listen_points *points;
	unsigned int tag;
	bool waits; /* for what is not there yet; else that is an error */
	bool tried[XP_KINDS];
	struct error unusable[XP_KINDS]; /* err 0: the transport can be used */
	struct error *e;
	bool warned;
};

const char *listen_point_text(const struct listen_point *p,
			      char buf[LISTEN_TEXT_SIZE])
{
	xp_addr_text((const struct sockaddr *)&p->addr, buf, LISTEN_TEXT_SIZE);
	return buf;
}

/* Prepares a transport once. A failure is remembered. */
static int listen_use_kind(struct listener *l, enum xp_kind kind)
{
	struct error *why = &l->unusable[kind];

	if (!l->tried[kind]) {
		l->tried[kind] = true;
		why->err = l->how->use_kind(l->how->user, kind,
					    /* await= */ false, why);
	}
	return why->err;
}

static void listen_failed(struct listener *l, enum xp_kind kind, int err,
			  const char *at, const char *why)
{
	if (err == -EADDRINUSE)
		error_set(l->e, err,
			  "cannot listen on %s over %s: %s; choose another "
			  "port, or stop the program that has it (see %s)",
			  at, xp_kind_name(kind), why,
			  xp_kind_traits(kind)->show_listeners);
	else
		error_set(l->e, err, "cannot listen on %s over %s: %s%s", at,
			  xp_kind_name(kind), why,
			  err == -EADDRNOTAVAIL ? "; see ip addr" : "");
}

bool listen_point_is_loopback(const struct listen_point *p)
{
	const struct sockaddr_in *sin = (const void *)&p->addr;
	const struct sockaddr_in6 *sin6 = (const void *)&p->addr;

	if (p->addr.ss_family == AF_INET)
		return ntohl(sin->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&sin6->sin6_addr) ||
	       (IN6_IS_ADDR_V4MAPPED(&sin6->sin6_addr) &&
		sin6->sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
}

/* Warns once what serving beyond this machine means, over whatever it is. */
static void warn_of_strangers(struct listener *l, const struct listen_point *at)
{
	char text[LISTEN_TEXT_SIZE];

	if (l->warned || listen_point_is_loopback(at) ||
	    (l->how->has_keys && xp_kind_traits(at->kind)->tls_scheme))
		return;
	l->warned = true;
	if (l->how->has_keys)
		log_warn("listening on %s over %s: it encrypts nothing, and "
			 "no key is proved over it, so it lets in only hosts "
			 "that rules by address name (--allow), and every host "
			 "that can take such an address",
			 listen_point_text(at, text), xp_kind_name(at->kind));
	else
		log_warn("listening on %s over %s: nothing is authenticated or "
			 "encrypted, so every host that can connect, and that "
			 "the rules (--allow) let in, can read and change the "
			 "volumes; do this only on a network where every host "
			 "is trusted, or use --keys (TCP)",
			 listen_point_text(at, text), xp_kind_name(at->kind));
}

/* The sockets of a killed process also belong to its ring. The kernel ends the
 * ring a little later than the process. */
static int listen_soon(struct listener *l, const struct listen_point *at,
		       struct error *why)
{
	for (unsigned int ms = 0; ms < IN_USE_MS; ms += STEP_MS) {
		int err = l->how->listen(l->how->user, at, why);

		if (err != -EADDRINUSE)
			return err;
		usleep(STEP_MS * 1000);
	}
	return -EADDRINUSE;
}

/* Listens when the address, or a device that has it, comes. */
static int listen_later(struct listener *l, enum xp_kind kind,
			const struct listen_point *at, struct error *e)
{
	struct listen_points *points = l->points;
	struct listen_point later = *at;
	int err = l->how->use_kind(l->how->user, kind, /* await= */ true, e);

	later.kind = kind;
	later.tag = l->tag;
	later.waits = true;
	if (!err && points->cnt == PORT_LISTENERS_MAX)
		err = error_set(e, -ENOSPC, "too many addresses to listen on");
	if (!err)
		err = l->how->listen_later(l->how->user, &later, e);
	if (!err)
		points->point[points->cnt++] = later;
	return err;
}

static int listen_wait_for(struct listener *l, enum xp_kind kind,
			   const struct listen_point *at, const char *text,
			   const struct error *why)
{
	struct log_about about = { .event = "listen" };
	struct error e;
	int err = listen_later(l, kind, at, &e);

	if (err) {
		listen_failed(l, kind, err, text, e.text);
		return err;
	}
	log_event(LOG_WARNING, &about,
		  "not listening on %s over %s yet: %s; waiting for it", text,
		  xp_kind_name(kind), why->text);
	warn_of_strangers(l, at);
	return 0;
}

static int listen_at(struct listener *l, enum xp_kind kind,
		     struct listen_point *at)
{
	struct listen_points *points = l->points;
	char text[LISTEN_TEXT_SIZE];
	struct error why = { 0 };
	int err = listen_use_kind(l, kind);

	listen_point_text(at, text);
	at->kind = kind;
	at->tag = l->tag;
	if (err)
		why = l->unusable[kind];
	else if (points->cnt == PORT_LISTENERS_MAX)
		err = error_set(&why, -ENOSPC, "there are too many addresses");
	else
		err = listen_soon(l, at, &why);
	if (l->waits && (err == -EADDRNOTAVAIL || err == -ENODEV))
		return listen_wait_for(l, kind, at, text, &why);
	if (err) {
		listen_failed(l, kind, err, text, why.text);
		return err;
	}
	points->point[points->cnt++] = *at;
	warn_of_strangers(l, at);
	return 0;
}

/* Uses the first transport that can listen there. A notice gives the reason
 * against the others. */
static int listen_auto(struct listener *l, struct listen_point *at,
		       enum xp_kind kind)
{
	bool is_last = kind + 1 == XP_KINDS;
	char text[LISTEN_TEXT_SIZE];
	struct error why;
	int err;

	l->waits = l->how->waits && is_last;
	err = listen_at(l, kind, at);
	if (err == 0 || err == -EADDRINUSE || err == -ENOMEM || is_last)
		return err;
	why = *l->e;
	err = listen_auto(l, at, kind + 1);
	if (err)
		return err;
	log_notice("%s; using %s for %s", why.text, xp_kind_name(kind + 1),
		   listen_point_text(at, text));
	/* A failure changes nothing. */
	if (why.err == -ENODEV || (why.err == -EADDRNOTAVAIL && l->how->waits))
		listen_later(l, kind, at, &why);
	return 0;
}

static int listen_check_numeric(struct listener *l, const struct xp_uri *uri)
{
	if (!l->how->numeric || !strchr(uri->host, '%'))
		return 0;
	return error_set(
		l->e, -EINVAL,
		"cannot listen on '%s' now: the sandbox of the target "
		"looks up no interface; give it to --listen, and start "
		"the target again",
		uri->host);
}

static int listen_uri(struct listener *l, const struct xp_uri *uri)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE };
	struct addrinfo *list;
	char port[8];
	int err = listen_check_numeric(l, uri);

	if (err)
		return err;
	if (l->how->numeric)
		hints.ai_flags |= AI_NUMERICHOST | AI_NUMERICSERV;
	snprintf(port, sizeof(port), "%u", uri->port);
	err = getaddrinfo(uri->host, port, &hints, &list);
	if (err) {
		error_set(l->e, -EADDRNOTAVAIL,
			  "cannot listen on '%s': %s; give an IP address of "
			  "this machine (see ip address)",
			  uri->host,
			  l->how->numeric && err == EAI_NONAME
				  ? "a target that serves looks up no names"
				  : gai_strerror(err));
		return -EADDRNOTAVAIL;
	}
	for (struct addrinfo *ai = list; ai && err == 0; ai = ai->ai_next) {
		struct listen_point at = { .addr_len = ai->ai_addrlen,
					   .route = uri->route };

		memcpy(&at.addr, ai->ai_addr, ai->ai_addrlen);
		l->waits = l->how->waits;
		err = uri->forced ? listen_at(l, uri->kind, &at)
				  : listen_auto(l, &at, uri->kind);
	}
	freeaddrinfo(list);
	if (err == -ENODEV)
		error_add(l->e, "; see rdma-doctor");
	return err;
}

static struct listen_point any_ipv6(void)
{
	struct listen_point at = { .addr_len = sizeof(struct sockaddr_in6) };
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&at.addr;

	sin6->sin6_family = AF_INET6;
	sin6->sin6_port = htons(XP_URI_PORT);
	return at;
}

static struct listen_point ipv4(uint32_t addr)
{
	struct listen_point at = { .addr_len = sizeof(struct sockaddr_in) };
	struct sockaddr_in *sin = (struct sockaddr_in *)&at.addr;

	sin->sin_family = AF_INET;
	sin->sin_port = htons(XP_URI_PORT);
	sin->sin_addr.s_addr = htonl(addr);
	return at;
}

/* The wildcard of IPv6 includes IPv4. Some machines have no IPv6. */
static int listen_any(struct listener *l, enum xp_kind kind)
{
	struct listen_point at = any_ipv6();
	int err = listen_at(l, kind, &at);

	if (err == 0 || err == -EADDRINUSE || l->unusable[kind].err)
		return err;
	at = ipv4(INADDR_ANY);
	return listen_at(l, kind, &at);
}

/* Every address, if there is a device, and this machine, if it has none yet. Otherwise the
 * loopback address alone: a device that comes later opens nothing to the network. */
static int listen_default(struct listener *l)
{
	enum xp_kind kind = XP_KIND_FIRST;
	struct listen_point at = ipv4(INADDR_LOOPBACK);
	int err;

	if (xp_present(kind)) {
		err = listen_any(l, kind);
		if (err || xp_has_address(kind))
			return err;
		log_notice(
			"no RDMA device of this machine has an address: "
			"serving over %s, too, on 127.0.0.1 (see ip address)",
			xp_kind_name(kind + 1));
		return listen_at(l, kind + 1, &at);
	}
	log_notice("no RDMA device on this machine: serving over %s, on "
		   "127.0.0.1 only (--listen %s://ADDR for more)",
		   xp_kind_name(kind + 1), xp_kind_scheme(kind + 1));
	return listen_at(l, kind + 1, &at);
}

/* ---- requests ---- */

static void listen_note(struct listen_points *points, unsigned int tag,
			const struct xp_uri *uri)
{
	struct listen_request *r = &points->request[points->request_cnt++];

	*r = (struct listen_request){ .tag = tag, .is_default = !uri };
	if (uri)
		r->uri = *uri;
}

static struct listener listen_begin(const struct listen_how *how,
				    struct listen_points *points,
				    struct error *e)
{
	return (struct listener){
		.how = how, .points = points, .tag = points->next_tag++, .e = e
	};
}

int listen_all(const struct listen_how *how, const struct target_options *opt,
	       struct listen_points *points, struct error *e)
{
	struct listener l;
	int err = 0;

	*points = (struct listen_points){ .cnt = 0 };
	l = listen_begin(how, points, e);
	if (opt->listen_cnt == 0) {
		listen_note(points, l.tag, NULL);
		return listen_default(&l);
	}
	for (unsigned int i = 0; i < opt->listen_cnt && err == 0; i++) {
		listen_note(points, l.tag, &opt->listens[i]);
		err = listen_uri(&l, &opt->listens[i]);
		l.tag = points->next_tag++;
	}
	return err;
}

int listen_add(const struct listen_how *how, const struct xp_uri *uri,
	       struct listen_points *points, struct error *e)
{
	struct listener l = listen_begin(how, points, e);
	const struct listen_request *found;
	int err;

	/* Without a URI, listen_find() would look for the default. */
	assert(uri);
	found = listen_find(points, uri);
	if (found)
		return error_set(e, -EEXIST,
				 "the target listens there already%s",
				 xp_route_same(&found->uri.route, &uri->route)
					 ? ""
					 : ", with another pkey or sl; remove "
					   "that address first");
	if (points->request_cnt == OPTIONS_LISTENS_MAX)
		return error_set(e, -ENOSPC, "there are %u addresses already",
				 OPTIONS_LISTENS_MAX);
	listen_note(points, l.tag, uri);
	err = listen_uri(&l, uri);
	if (err)
		listen_remove(how, l.tag, points);
	return err;
}

void listen_remove(const struct listen_how *how, unsigned int tag,
		   struct listen_points *points)
{
	unsigned int kept = 0;

	how->unlisten(how->user, tag);
	for (unsigned int i = 0; i < points->cnt; i++) {
		if (points->point[i].tag != tag)
			points->point[kept++] = points->point[i];
	}
	points->cnt = kept;
	kept = 0;
	for (unsigned int i = 0; i < points->request_cnt; i++) {
		if (points->request[i].tag != tag)
			points->request[kept++] = points->request[i];
	}
	points->request_cnt = kept;
}

const struct listen_request *listen_find(const struct listen_points *points,
					 const struct xp_uri *uri)
{
	for (unsigned int i = 0; i < points->request_cnt; i++) {
		const struct listen_request *r = &points->request[i];

		if (!r->is_default && xp_uri_same_address(&r->uri, uri))
			return r;
	}
	return NULL;
}

const struct listen_request *
listen_request_of(const struct listen_points *points, unsigned int tag)
{
	for (unsigned int i = 0; i < points->request_cnt; i++) {
		if (points->request[i].tag == tag)
			return &points->request[i];
	}
	return NULL;
}

/* ---- addresses for clients ---- */

bool listen_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	const struct sockaddr_in *in_a = (const void *)a;
	const struct sockaddr_in *in_b = (const void *)b;
	const struct sockaddr_in6 *in6_a = (const void *)a;
	const struct sockaddr_in6 *in6_b = (const void *)b;

	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return in_a->sin_addr.s_addr == in_b->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       IN6_ARE_ADDR_EQUAL(&in6_a->sin6_addr, &in6_b->sin6_addr) &&
	       in6_a->sin6_scope_id == in6_b->sin6_scope_id;
}

bool listen_point_is_wildcard(const struct listen_point *p)
{
	const struct sockaddr_in *sin = (const void *)&p->addr;
	const struct sockaddr_in6 *sin6 = (const void *)&p->addr;

	if (p->addr.ss_family == AF_INET)
		return sin->sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&sin6->sin6_addr);
}

const struct sockaddr_ll *listen_interface(const struct ifaddrs *list,
					   const char *name)
{
	for (; list; list = list->ifa_next) {
		if (list->ifa_addr && list->ifa_addr->sa_family == AF_PACKET &&
		    strcmp(list->ifa_name, name) == 0)
			return (const void *)list->ifa_addr;
	}
	return NULL;
}

/* A GID of InfiniBand is no address of its interfaces. */
bool listen_is_rdma(const struct ifaddrs *list, const struct ifaddrs *ifa,
		    const struct own_gids *gids)
{
	const struct sockaddr_ll *sll = listen_interface(list, ifa->ifa_name);

	return (sll && sll->sll_hatype == ARPHRD_INFINIBAND) ||
	       own_gids_have(gids, ifa->ifa_addr);
}

/* True if other hosts can reach the wildcard address @p through @ifa, which is
 * link-local or not. */
static bool reaches(const struct listen_point *p, const struct ifaddrs *ifa,
		    bool link_local)
{
	const struct sockaddr_in6 *sin6 = (const void *)ifa->ifa_addr;

	if (!ifa->ifa_addr || !(ifa->ifa_flags & IFF_UP))
		return false;
	if (ifa->ifa_flags & IFF_LOOPBACK)
		return false;
	if (ifa->ifa_addr->sa_family == AF_INET6) {
		return p->addr.ss_family == AF_INET6 &&
		       IN6_IS_ADDR_LINKLOCAL(&sin6->sin6_addr) == link_local;
	}
	return ifa->ifa_addr->sa_family == AF_INET && !link_local;
}

static struct listen_point with_port_of(const struct listen_point *p,
					const struct sockaddr *addr)
{
	/* The port has the same place in both families. */
	in_port_t port = ((const struct sockaddr_in *)&p->addr)->sin_port;
	struct listen_point at = { .kind = p->kind };

	at.addr_len = addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						 : sizeof(struct sockaddr_in6);
	memcpy(&at.addr, addr, at.addr_len);
	((struct sockaddr_in *)&at.addr)->sin_port = port;
	return at;
}

static unsigned int listen_reach(const struct listen_point *p, bool link_local,
				 struct listen_point *ret, unsigned int max)
{
	const struct sockaddr *at = (const struct sockaddr *)&p->addr;
	bool needs_device = xp_kind_traits(p->kind)->needs_device;
	struct own_gids gids = { .cnt = 0 };
	struct ifaddrs *list;
	unsigned int cnt = 0;

	if (!listen_point_is_wildcard(p) && !p->waits) {
		ret[0] = *p;
		return 1;
	}
	if (getifaddrs(&list))
		return 0;
	if (needs_device)
		own_gids_get(&gids);
	for (struct ifaddrs *ifa = list; ifa && cnt < max; ifa = ifa->ifa_next)
		if ((listen_point_is_wildcard(p)
			     ? reaches(p, ifa, link_local)
			     : ifa->ifa_addr &&
				       listen_same_host(at, ifa->ifa_addr)) &&
		    (!needs_device || listen_is_rdma(list, ifa, &gids)))
			ret[cnt++] = with_port_of(p, ifa->ifa_addr);
	freeifaddrs(list);
	return cnt;
}

bool listen_point_is_up(const struct listen_point *p)
{
	struct listen_point ignored;

	return !p->waits || listen_point_reach(p, &ignored, 1) ||
	       listen_point_reach_link(p, &ignored, 1);
}

unsigned int listen_point_reach(const struct listen_point *p,
				struct listen_point *ret, unsigned int max)
{
	return listen_reach(p, /* link_local= */ false, ret, max);
}

unsigned int listen_point_reach_link(const struct listen_point *p,
				     struct listen_point *ret, unsigned int max)
{
	return listen_reach(p, /* link_local= */ true, ret, max);
}
