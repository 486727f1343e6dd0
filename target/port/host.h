/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses that logins come from, and how much each has: so that one host
 * cannot take what is there for all. Thread: worker 0.
 */
#ifndef TARGET_PORT_HOST_H
#define TARGET_PORT_HOST_H

#include <netinet/in.h>
#include <stdbool.h>

#include "base/list.h"

struct host {
	struct list node; /* port->hosts */
	struct in6_addr addr;
	unsigned int login_cnt;	    /* channels and waiting logins */
	unsigned int half_open_cnt; /* of these, not yet established */
};

/* NULL: @hosts has none of that address. */
struct host *host_find(struct list *hosts, const struct in6_addr *addr);

/* Counts a login, which is half open at first. NULL: no memory. */
struct host *host_take(struct list *hosts, const struct in6_addr *addr);
/* One of its logins is established. */
void host_opened(struct host *host);
/* One of its logins is gone; frees the last one's host. */
void host_put(struct host *host, bool was_half_open);

#endif
