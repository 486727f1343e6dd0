/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the target listens: the addresses and transports of the --listen URIs.
 * TCP is chosen only if the user demands it or if RDMA is not possible; then a
 * notice says why. In the second case, RDMA is added when a device with the
 * address comes. Thread: setup.
 */
#ifndef TARGET_LISTEN_H
#define TARGET_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

#include "target/options.h"
#include "target/port/port.h"

/* One address on which the target listens. */
struct listen_point {
	enum xp_kind kind;
	struct sockaddr_storage addr;
	socklen_t addr_len;
};

struct listen_points {
	struct listen_point point[PORT_LISTENERS_MAX];
	unsigned int cnt;
};

/*
 * Listens on all addresses of @opt, or on the default. It calls @use_kind
 * before it uses a transport for the first time; this gives each worker an
 * instance of it, or says in @e why not. With @await, a machine without a
 * device is not an error. -errno with one line in @e that names the address.
 */
int listen_all(struct port *port, const struct target_options *opt,
	       int (*use_kind)(void *user, enum xp_kind kind, bool await,
			       struct error *e),
	       void *user, struct listen_points *ret, struct error *e);

#define LISTEN_TEXT_SIZE 64

/* "10.0.0.1:5555", "[::1]:5555" */
const char *listen_point_text(const struct listen_point *p,
			      char buf[LISTEN_TEXT_SIZE]);

/*
 * Stores the addresses by which @p can be reached in @ret (at most @max). For a
 * wildcard, these are the addresses of the RDMA devices of this machine (verbs)
 * or of its interfaces (tcp), without loopback and link-local addresses.
 * Returns how many.
 */
unsigned int listen_point_reach(const struct listen_point *p,
				struct listen_point *ret, unsigned int max);

#endif
