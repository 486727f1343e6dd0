/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a target is:
 *
 *   srp://HOST[:PORT][,HOST[:PORT]]...[/VOLUME][?KEY=VALUE[&KEY=VALUE]...]
 *
 * Scheme srp lets the program choose the transport, srp+rdma and srp+tcp force
 * it; without any scheme it is srp. HOST is a name, an IPv4 address, or an IPv6
 * address in brackets, with %SCOPE (or %25SCOPE, RFC 6874) when
 * link-local. Several addresses lead to the same volumes: of one target, or of
 * several that serve one store in turn. VOLUME is percent-decoded. Keys: id_ext, ioc_guid (the target
 * port identifier, hexadecimal; one alone stands for both) and initiator (32
 * hexadecimal digits).
 *
 * Thread: any. Resolves nothing.
 */
#ifndef TRANSPORT_URI_H
#define TRANSPORT_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/srp_login.h"

#define XP_URI_PORT	 5555 /* SRP has no assigned number; blktests' own */
#define XP_URI_HOST_SIZE 256
#define XP_URI_TEXT_SIZE 3328 /* holds every formatted xp_uri */
#define XP_URI_MSG_SIZE	 320  /* holds every message */

/* What a URI may name. */
#define XP_URI_ADDRESSES_MAX 8

enum xp_uri_transport {
	XP_URI_AUTO, /* srp:// */
	XP_URI_RDMA, /* srp+rdma:// */
	XP_URI_TCP,  /* srp+tcp:// */
};

struct xp_uri_address {
	char host[XP_URI_HOST_SIZE]; /* IPv6 without brackets, with %scope */
	uint16_t port;
};

struct xp_uri {
	enum xp_uri_transport transport;
	/* The first address; host is IPv6 without brackets, with %scope. */
	char host[XP_URI_HOST_SIZE];
	uint16_t port;
	struct xp_uri_address more[XP_URI_ADDRESSES_MAX - 1];
	unsigned int more_cnt;
	char volume[256]; /* empty: none named */
	bool has_target;
	struct srp_port_id target; /* all zero unless has_target */
	bool has_initiator;
	struct srp_port_id initiator;
};

/**
 * xp_uri_parse() - take a URI apart
 * @ret: written only on success
 * @msg: on failure a sentence without full stop that names what is wrong
 *
 * Return: 0, or -EINVAL.
 */
int xp_uri_parse(const char *text, struct xp_uri *ret, char *msg,
		 size_t msg_size);

/**
 * xp_uri_format() - the URI that parses to @uri, with port, without defaults
 *
 * Return: the length of the text, or -ENOSPC.
 */
int xp_uri_format(const struct xp_uri *uri, char *buf, size_t size);

#endif
