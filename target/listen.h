/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the target listens: from --listen URIs to addresses and transports.
 * TCP is chosen only where the user asked for it or where RDMA is not possible,
 * and then a notice says why. Where it was chosen for the latter reason, RDMA is
 * added when a device with the address comes. Thread: setup.
 */
#ifndef TARGET_LISTEN_H
#define TARGET_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

#include "target/options.h"
#include "target/port/port.h"

/* One address that is listened on. */
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
 * Listens on all that @opt asks for, or the default. @use_kind is called before
 * a transport is used for the first time; it gives each worker one of that
 * kind, or says in @e why not. With @await a machine without a device is no
 * reason. -errno with one line in @e that names the
 * address.
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
 * The addresses by which @p can be reached, in @ret (at most @max): its own,
 * or, when it is a wildcard, those of this machine's RDMA devices (verbs) or
 * interfaces (tcp) save loopback and link-local ones. Returns how many.
 */
unsigned int listen_point_reach(const struct listen_point *p,
				struct listen_point *ret, unsigned int max);

#endif
