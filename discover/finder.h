/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asks for targets over every carrier that it may use, and collects the answers
 * (protocol/discovery.h). Thread: main.
 */
#ifndef DISCOVER_FINDER_H
#define DISCOVER_FINDER_H

#include <poll.h>

#include "base/hmac.h"
#include "discover/found.h"

#define FINDER_HOSTS_MAX     64 /* addresses */
#define FINDER_ENDPOINTS_MAX 64

struct finder_options {
	unsigned int carriers;	  /* 1 << enum dgram_carrier */
	const char *interface;	  /* the only one for multicast; NULL: all */
	const char *const *hosts; /* HOST[:PORT]; asked by unicast */
	unsigned int host_cnt;
	struct hmac_key key;
	unsigned int wait_ms; /* for answers */
};

struct finder;

/* Opens all endpoints that it can. Returns 0, or -errno with one line in @e: a
 * host has no address, or no carrier can be used. */
int finder_open(const struct finder_options *o, struct finder **ret,
		struct error *e);
void finder_close(struct finder *f);
/* Warns if the limits leave out interfaces or addresses of hosts. True: they do. */
bool finder_warn(const struct finder *f);

/*
 * Asks several times, in case a datagram is lost, and adds the answers to @ret. Takes wait_ms, or less if it asks only hosts and
 * each has answered.
 */
void finder_ask(struct finder *f, struct found *ret);

/* Also opens members of the groups, which receive announcements of targets that
 * start or stop, for finder_heard(). */
void finder_join(struct finder *f);
/* Stores the descriptors to poll in @ret, at most FINDER_ENDPOINTS_MAX. Returns
 * how many. */
unsigned int finder_poll_list(const struct finder *f, struct pollfd *ret);
/* Takes what has come, and calls bye() for each target that announced its end. True:
 * a target announced its start or end, so ask. */
bool finder_heard(struct finder *f,
		  void (*bye)(void *user, const struct srp_port_id *id),
		  void *user);

#endif
