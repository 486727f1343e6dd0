/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the target listens: the addresses and transports of the --listen URIs.
 * TCP is chosen only if the user demands it or if RDMA is not possible; then a
 * notice says why. In the second case, RDMA is added when a device with the
 * address comes, unless the address is the default: that does not change. A start may wait
 * for an address that this machine does not have yet (docs/waiting.md). Where other hosts
 * can connect, a warning says what that means. Thread: setup, or a thread that changes the target.
 */
#ifndef TARGET_LISTEN_H
#define TARGET_LISTEN_H

#include <ifaddrs.h>
#include <netpacket/packet.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "config/options.h"
#include "target/port/port.h"
#include "transport/own_gids.h"

/* What was asked for: a URI, or the default. */
struct listen_request {
	unsigned int tag;
	bool is_default;
	struct xp_uri uri;
};

/* Those that wait for a device are among them. */
struct listen_points {
	struct listen_point point[PORT_LISTENERS_MAX];
	unsigned int cnt;
	struct listen_request request[OPTIONS_LISTENS_MAX];
	unsigned int request_cnt;
	unsigned int next_tag;
};

/*
 * How to listen: directly before the workers run, by message later. Each returns 0,
 * or -errno with a reason in @e.
 */
struct listen_how {
	/* Called before a transport is used: gives each worker one of that
	 * kind. With @await, a machine without a device is not an error. */
	int (*use_kind)(void *user, enum xp_kind kind, bool await,
			struct error *e);
	int (*listen)(void *user, const struct listen_point *at,
		      struct error *e);
	int (*listen_later)(void *user, const struct listen_point *at,
			    struct error *e);
	void (*unlisten)(void *user, unsigned int tag);
	void *user;
	/* Neither names nor interfaces: the sandbox forbids looking them up. */
	bool numeric;
	bool has_keys; /* of the initiators */
	/* An address, or a device, that is not there yet is no error. */
	bool waits;
};

/*
 * Listens on all addresses of @opt, or on the default. Returns 0, or -errno
 * with one line in @e that names the address. After an error, the addresses
 * added before stay.
 */
int listen_all(const struct listen_how *how, const struct target_options *opt,
	       struct listen_points *points, struct error *e);

/* Listens on one more, completely or not at all. Returns the same errors, and
 * -EEXIST if the target already listens there. */
int listen_add(const struct listen_how *how, const struct xp_uri *uri,
	       struct listen_points *points, struct error *e);
void listen_remove(const struct listen_how *how, unsigned int tag,
		   struct listen_points *points);

/* Finds the request for @uri, or the one with @tag; NULL: there is none. */
const struct listen_request *listen_find(const struct listen_points *points,
					 const struct xp_uri *uri);
const struct listen_request *
listen_request_of(const struct listen_points *points, unsigned int tag);

/* True if the address leads only to this machine. */
bool listen_point_is_loopback(const struct listen_point *p);
/* False: it waits for a device. Asks all devices only for that. */
bool listen_point_is_up(const struct listen_point *p);
/* True if it stands for every address of its family. */
bool listen_point_is_wildcard(const struct listen_point *p);
/* True if both have the same IP address. */
bool listen_same_host(const struct sockaddr *a, const struct sockaddr *b);
/* What @list, of getifaddrs(), has about interface @name; or NULL. */
const struct sockaddr_ll *listen_interface(const struct ifaddrs *list,
					   const char *name);
/* True if @ifa, of @list, is an address of an RDMA device. */
bool listen_is_rdma(const struct ifaddrs *list, const struct ifaddrs *ifa,
		    const struct own_gids *gids);

#define LISTEN_TEXT_SIZE 64

/* "10.0.0.1:5555", "[::1]:5555" */
const char *listen_point_text(const struct listen_point *p,
			      char buf[LISTEN_TEXT_SIZE]);

/*
 * Stores the addresses by which @p can be reached in @ret (at most @max). For a
 * wildcard, these are the addresses of the RDMA devices of this machine (verbs)
 * or of its interfaces (tcp), without loopback and link-local addresses. None, if @p
 * waits for a device. Returns how many.
 */
unsigned int listen_point_reach(const struct listen_point *p,
				struct listen_point *ret, unsigned int max);
/* The same, with the link-local addresses alone. */
unsigned int listen_point_reach_link(const struct listen_point *p,
				     struct listen_point *ret,
				     unsigned int max);

#endif
