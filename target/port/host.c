/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/host.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct host *host_find(struct list *hosts, const struct in6_addr *addr)
{
	struct list *it;

	list_for_each(it, hosts) {
		struct host *host = container_of(it, struct host, node);

		if (!memcmp(&host->addr, addr, sizeof(*addr)))
			return host;
	}
	return NULL;
}

struct host *host_take(struct list *hosts, const struct in6_addr *addr)
{
	struct host *host = host_find(hosts, addr);

	if (!host) {
		host = calloc(1, sizeof(*host));
		if (!host)
			return NULL;
		host->addr = *addr;
		list_add_tail(hosts, &host->node);
	}
	host->login_cnt++;
	host->half_open_cnt++;
	return host;
}

void host_opened(struct host *host)
{
	assert(host->half_open_cnt > 0);
	host->half_open_cnt--;
}

void host_put(struct host *host, bool was_half_open)
{
	if (was_half_open)
		host_opened(host);
	assert(host->login_cnt > 0);
	if (--host->login_cnt > 0)
		return;
	list_del(&host->node);
	free(host);
}
