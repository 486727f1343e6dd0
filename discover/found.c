/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/found.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "transport/xport.h"

/* ---- addresses ---- */

static bool is_wildcard(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *sin = (const void *)addr;
	const struct sockaddr_in6 *sin6 = (const void *)addr;

	if (addr->ss_family == AF_INET)
		return sin->sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&sin6->sin6_addr);
}

/* Converts an IPv4 address that came through an IPv6 socket. */
static void address_unmap(struct found_address *a)
{
	const struct sockaddr_in6 sin6 = *(struct sockaddr_in6 *)&a->addr;
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = sin6.sin6_port };

	if (a->addr.ss_family != AF_INET6 ||
	    !IN6_IS_ADDR_V4MAPPED(&sin6.sin6_addr))
		return;
	memcpy(&sin.sin_addr, &sin6.sin6_addr.s6_addr[12], 4);
	memcpy(&a->addr, &sin, sizeof(sin));
	a->addr_len = sizeof(sin);
}

/* Sets @a to the host of @peer with the port of @a. */
static bool address_of_peer(struct found_address *a,
			    const struct dgram_peer *peer)
{
	if (peer->addr.ss_family == AF_UNSPEC)
		return false;
	a->addr = peer->addr;
	a->addr_len = peer->addr_len;
	/* The port has the same place in both families. */
	((struct sockaddr_in *)&a->addr)->sin_port = htons(a->uri.port);
	return true;
}

/* A link-local address is one of the link that the message came by. */
static bool address_set_link(struct sockaddr_in6 *own,
			     const struct dgram_peer *peer)
{
	const struct sockaddr_in6 *sin6 = (const void *)&peer->addr;

	if (peer->addr.ss_family != AF_INET6)
		return false;
	own->sin6_scope_id = sin6->sin6_scope_id;
	return own->sin6_scope_id;
}

/* Numbers only: nobody else decides what this machine asks its name servers. */
static bool address_resolve(struct found_address *a,
			    const struct dgram_peer *peer)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				  .ai_socktype = SOCK_STREAM };
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&a->addr;
	struct addrinfo *list;
	char host[XP_URI_HOST_SIZE];
	char port[8];

	snprintf(host, sizeof(host), "%s", a->uri.host);
	host[strcspn(host, "%")] = '\0';
	snprintf(port, sizeof(port), "%u", a->uri.port);
	if (getaddrinfo(host, port, &hints, &list))
		return false;
	memcpy(&a->addr, list->ai_addr, list->ai_addrlen);
	a->addr_len = list->ai_addrlen;
	freeaddrinfo(list);
	if (is_wildcard(&a->addr))
		return address_of_peer(a, peer);
	if (a->addr.ss_family == AF_INET6 &&
	    IN6_IS_ADDR_LINKLOCAL(&sin6->sin6_addr))
		return address_set_link(sin6, peer);
	return true;
}

static void address_set_text(struct found_address *a)
{
	char host_port[96];

	xp_addr_text((struct sockaddr *)&a->addr, host_port, sizeof(host_port));
	snprintf(a->text, sizeof(a->text), "%s://%s",
		 xp_kind_scheme(a->uri.kind), host_port);
}

static bool address_read(struct found_address *a, const char *text,
			 const struct dgram_peer *peer)
{
	*a = (struct found_address){ .usable = false };
	if (xp_uri_parse(text, &a->uri, NULL) || !a->uri.forced ||
	    a->uri.more_cnt || !address_resolve(a, peer))
		return false;
	address_unmap(a);
	address_set_text(a);
	return true;
}

/* ---- targets ---- */

const struct found_target *found_find(const struct found *f,
				      const struct srp_port_id *id)
{
	for (unsigned int i = 0; i < f->cnt; i++) {
		if (srp_port_id_equal(&f->targets[i]->id, id))
			return f->targets[i];
	}
	return NULL;
}

static void found_count(struct found *f, const struct srp_port_id *id)
{
	for (unsigned int i = 0; i < f->more_cnt; i++) {
		if (srp_port_id_equal(&f->more[i], id))
			return;
	}
	if (f->more_cnt < FOUND_MORE)
		f->more[f->more_cnt++] = *id;
}

void found_warn(const struct found *f)
{
	if (f->more_cnt)
		log_warn(
			"left out: %s%u of the targets that have answered; the "
			"first %d are kept; ask fewer at once, by --interface, "
			"HOST or --key",
			f->more_cnt == FOUND_MORE ? "at least " : "",
			f->more_cnt, FOUND_MAX);
}

static struct found_target *
found_new(struct found *f, const struct srp_port_id *id, const char *instance)
{
	struct found_target *t;

	if (f->cnt == FOUND_MAX) {
		found_count(f, id);
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->id = *id;
	memcpy(t->instance, instance, sizeof(t->instance));
	f->targets[f->cnt++] = t;
	return t;
}

static void target_add(struct found_target *t, const struct found_address *a)
{
	for (unsigned int i = 0; i < t->address_cnt; i++) {
		if (strcmp(t->addresses[i].text, a->text) == 0)
			return;
	}
	if (t->address_cnt < DISCOVERY_URIS_MAX)
		t->addresses[t->address_cnt++] = *a;
}

bool found_add(struct found *f, const struct discovery_msg *msg,
	       const struct dgram_peer *peer, enum dgram_carrier carrier)
{
	struct found_target *t = (struct found_target *)found_find(f, &msg->id);
	struct found_address a;

	for (unsigned int i = 0; i < msg->uri_cnt; i++) {
		if (!address_read(&a, msg->uris[i], peer))
			continue;
		if (!t)
			t = found_new(f, &msg->id, msg->instance);
		if (!t)
			return false;
		target_add(t, &a);
	}
	if (t)
		t->carriers |= 1u << carrier;
	return t;
}

/* ---- between two processes ---- */

void found_pack(const struct found_target *t, struct found_record *ret)
{
	*ret = (struct found_record){ .id = t->id,
				      .carriers = t->carriers,
				      .address_cnt = t->address_cnt };
	memcpy(ret->instance, t->instance, sizeof(ret->instance));
	for (unsigned int i = 0; i < t->address_cnt; i++) {
		ret->addresses[i].kind = t->addresses[i].uri.kind;
		ret->addresses[i].addr = t->addresses[i].addr;
	}
}

static bool address_unpack(struct found_address *a, enum xp_kind kind,
			   const struct sockaddr_storage *addr)
{
	*a = (struct found_address){ .addr = *addr };
	if (addr->ss_family == AF_INET)
		a->addr_len = sizeof(struct sockaddr_in);
	else if (addr->ss_family == AF_INET6)
		a->addr_len = sizeof(struct sockaddr_in6);
	else
		return false;
	if (kind >= XP_KINDS)
		return false;
	a->uri.kind = kind;
	address_set_text(a);
	return true;
}

/* As discovery_decode() lets it pass. */
static bool instance_is_good(const char *text)
{
	size_t len = strnlen(text, DISCOVERY_INSTANCE_SIZE);

	for (size_t i = 0; i < len; i++) {
		if (text[i] < ' ' || text[i] > '~')
			return false;
	}
	return len < DISCOVERY_INSTANCE_SIZE;
}

bool found_unpack(struct found *f, const struct found_record *r)
{
	struct found_address a;
	struct found_target *t;

	if (!instance_is_good(r->instance) || !r->address_cnt ||
	    r->address_cnt > DISCOVERY_URIS_MAX || found_find(f, &r->id))
		return false;
	for (unsigned int i = 0; i < r->address_cnt; i++) {
		if (!address_unpack(&a, r->addresses[i].kind,
				    &r->addresses[i].addr))
			return false;
	}
	t = found_new(f, &r->id, r->instance);
	for (unsigned int i = 0; t && i < r->address_cnt; i++) {
		address_unpack(&a, r->addresses[i].kind, &r->addresses[i].addr);
		target_add(t, &a);
	}
	if (t)
		t->carriers = r->carriers;
	return t;
}

void found_clear(struct found *f)
{
	for (unsigned int i = 0; i < f->cnt; i++)
		free(f->targets[i]);
	f->cnt = 0;
	f->more_cnt = 0;
}

/* ---- usable addresses ---- */

static void address_check(struct found_address *a)
{
	struct error e;

	a->usable = xp_reach(a->uri.kind, (struct sockaddr *)&a->addr,
			     a->addr_len, a->by, sizeof(a->by), &e) == 0;
	if (!a->usable)
		snprintf(a->why_not, sizeof(a->why_not), "%s", e.text);
}

static int by_use(const void *left, const void *right)
{
	const struct found_address *a = left;
	const struct found_address *b = right;

	if (a->usable != b->usable)
		return a->usable ? -1 : 1;
	if (a->uri.kind != b->uri.kind)
		return (int)a->uri.kind - (int)b->uri.kind;
	return strcmp(a->text, b->text);
}

void found_check(struct found *f)
{
	for (unsigned int i = 0; i < f->cnt; i++) {
		struct found_target *t = f->targets[i];

		for (unsigned int k = 0; k < t->address_cnt; k++)
			address_check(&t->addresses[k]);
		qsort(t->addresses, t->address_cnt, sizeof(t->addresses[0]),
		      by_use);
	}
}

static int by_name(const void *left, const void *right)
{
	const struct found_target *a = *(struct found_target *const *)left;
	const struct found_target *b = *(struct found_target *const *)right;
	int order = strcmp(a->instance, b->instance);

	return order ? order : memcmp(&a->id, &b->id, sizeof(a->id));
}

void found_sort(struct found *f)
{
	qsort(f->targets, f->cnt, sizeof(f->targets[0]), by_name);
}

bool found_uri(const struct found_target *t, const char *volume, char *buf)
{
	const struct found_address *first = &t->addresses[0];
	int len;

	if (!t->address_cnt || !first->usable)
		return false;
	len = snprintf(buf, FOUND_URI_SIZE, "%s", first->text);
	for (unsigned int i = 1; i < t->address_cnt; i++) {
		const struct found_address *a = &t->addresses[i];

		if (a->usable && a->uri.kind == first->uri.kind &&
		    i < XP_URI_ADDRESSES_MAX)
			len += snprintf(buf + len, FOUND_URI_SIZE - (size_t)len,
					",%s", strstr(a->text, "://") + 3);
	}
	snprintf(buf + len, FOUND_URI_SIZE - (size_t)len,
		 "%s%s?id_ext=%016" PRIx64 "&ioc_guid=%016" PRIx64,
		 *volume ? "/" : "", volume, srp_port_id_ext(&t->id),
		 srp_port_id_guid(&t->id));
	return true;
}
