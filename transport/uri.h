/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The address of a target:
 *
 *   srp://HOST[:PORT][,HOST[:PORT]]...[/VOLUME][?KEY=VALUE[&KEY=VALUE]...]
 *
 * With the scheme srp, or without a scheme, the program chooses the transport; the
 * scheme of a transport (srp+rdma, srp+tcp) demands that one, and srp+tls demands TLS. HOST is a name, an
 * IPv4 address, or an IPv6 address in brackets. A link-local address has %SCOPE, or
 * %25SCOPE (RFC 6874). Several addresses lead to the same volumes, of one target
 * or of several targets that serve one store in turn. VOLUME is percent-decoded.
 * Keys: id_ext and ioc_guid (hexadecimal) are the target port identifier; if only
 * one is given, it is the value of both. initiator has 32 hexadecimal digits.
 * source, gid, pkey, sl, tos and ack-timeout are demands on the route (route.h). All but
 * source also demand a transport that has them, as its scheme does. key names the file, or by
 * keyring:DESCRIPTION the key of the kernel, by which this side proves its name; it
 * demands TLS, too. It is percent-decoded, as VOLUME is.
 *
 * Thread: any. Nothing here resolves names.
 */
#ifndef TRANSPORT_URI_H
#define TRANSPORT_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "protocol/srp_login.h"
#include "transport/kind.h"
#include "transport/route.h"

#define XP_URI_PORT	 5555 /* SRP has no assigned number; blktests' own */
#define XP_URI_HOST_SIZE 256
#define XP_URI_TEXT_SIZE 4320 /* holds every formatted xp_uri */
#define XP_URI_KEY_SIZE	 256

/* What a URI may name. */
#define XP_URI_ADDRESSES_MAX 8

struct xp_uri_address {
	char host[XP_URI_HOST_SIZE]; /* IPv6 without brackets, with %scope */
	uint16_t port;
};

struct xp_uri {
	enum xp_kind kind; /* XP_KIND_FIRST unless forced */
	/* The first address; host is IPv6 without brackets, with %scope. */
	char host[XP_URI_HOST_SIZE];
	uint16_t port;
	struct xp_uri_address more[XP_URI_ADDRESSES_MAX - 1];
	unsigned int more_cnt;
	char volume[256]; /* empty: none named */
	bool forced; /* the scheme or a key of the route demands the transport */
	bool tls;    /* the scheme or a key demands TLS */
	char key[XP_URI_KEY_SIZE]; /* "": none named */
	bool has_target;
	struct srp_port_id target; /* all zero unless has_target */
	bool has_initiator;
	struct srp_port_id initiator;
	struct xp_route route;
};

/**
 * xp_uri_parse() - take a URI apart
 * @ret: written only on success
 * @e: on failure: what is wrong, as one clause; may be NULL
 *
 * Return: 0, or -EINVAL.
 */
int xp_uri_parse(const char *text, struct xp_uri *ret, struct error *e);

/* Do both name the same first address and transport? */
bool xp_uri_same_address(const struct xp_uri *one, const struct xp_uri *two);

/**
 * xp_uri_format() - the URI that parses to @uri, with port, without defaults
 *
 * Return: the length of the text, or -ENOSPC.
 */
int xp_uri_format(const struct xp_uri *uri, char *buf, size_t size);

#endif
