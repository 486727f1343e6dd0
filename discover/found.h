/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Targets that were found: answers with the same port identifier are one
 * target. The data comes from peers and is only a hint; a login proves the port
 * identifier.
 *
 * Thread: main.
 */
#ifndef DISCOVER_FOUND_H
#define DISCOVER_FOUND_H

#include <stdbool.h>

#include "protocol/discovery.h"
#include "transport/datagram.h"
#include "transport/uri.h"

#define FOUND_MAX     256 /* targets; the first ones are kept */
#define FOUND_MORE    256 /* further targets that are counted */
#define FOUND_BY_SIZE 64

/* Where a target listens. */
struct found_address {
	char text[DISCOVERY_URI_SIZE]; /* srp+tcp://10.0.0.1:5555 */
	struct xp_uri uri;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	/* Set by found_check(): true if this machine can use the address, by a
	 * device or address of its own; otherwise the reason. */
	bool usable;
	char by[FOUND_BY_SIZE];
	char why_not[ERROR_TEXT_SIZE];
};

struct found_target {
	struct srp_port_id id;
	char instance[DISCOVERY_INSTANCE_SIZE];
	unsigned int carriers; /* carriers of its answers, 1 << enum
			        * dgram_carrier */
	struct found_address addresses[DISCOVERY_URIS_MAX];
	unsigned int address_cnt;
};

struct found {
	struct found_target *targets[FOUND_MAX];
	unsigned int cnt;
	/* Targets that have answered, and for which there is no place; with FOUND_MORE,
	 * there may be more of them. */
	struct srp_port_id more[FOUND_MORE];
	unsigned int more_cnt;
};

/* A target on its way between two processes. Its only text is the name. */
struct found_record {
	struct srp_port_id id;
	char instance[DISCOVERY_INSTANCE_SIZE];
	unsigned int carriers;
	unsigned int address_cnt;
	struct {
		enum xp_kind kind;
		struct sockaddr_storage addr;
	} addresses[DISCOVERY_URIS_MAX];
};

void found_pack(const struct found_target *t, struct found_record *ret);
/* Adds the target of @r, in which anything may stand. False: it is none, or there is no
 * place. */
bool found_unpack(struct found *f, const struct found_record *r);

/* Warns if some targets have no place. */
void found_warn(const struct found *f);

/* Adds what @msg says, which has come from @peer: a wildcard in it is the address of
 * @peer, and a link-local address is one of the link of @peer. False: there is no place,
 * or no address. */
bool found_add(struct found *f, const struct discovery_msg *msg,
	       const struct dgram_peer *peer, enum dgram_carrier carrier);
/* Finds out which addresses this machine can use, and puts these first, RDMA
 * before TCP. */
void found_check(struct found *f);
/* Sorts by instance, then by identifier. */
void found_sort(struct found *f);
void found_clear(struct found *f);

/* Returns the target @id; NULL: it was not found. */
const struct found_target *found_find(const struct found *f,
				      const struct srp_port_id *id);

#define FOUND_URI_SIZE 1024

/*
 * Writes a URI to @buf of FOUND_URI_SIZE bytes that leads to @volume (may be
 * empty) of @t. The URI has the addresses that this machine can use, all with
 * the transport of the first one, and requires the port identifier of @t.
 * False: no address can be used.
 */
bool found_uri(const struct found_target *t, const char *volume, char *buf);

#endif
