/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/login_quota.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct login_quota *login_quota_find(struct list *quotas,
				     const struct in6_addr *addr)
{
	struct list *it;

	list_for_each(it, quotas) {
		struct login_quota *quota =
			container_of(it, struct login_quota, node);

		if (!memcmp(&quota->addr, addr, sizeof(*addr)))
			return quota;
	}
	return NULL;
}

struct login_quota *login_quota_take(struct list *quotas,
				     const struct in6_addr *addr)
{
	struct login_quota *quota = login_quota_find(quotas, addr);

	if (!quota) {
		quota = calloc(1, sizeof(*quota));
		if (!quota)
			return NULL;
		quota->addr = *addr;
		list_add_tail(quotas, &quota->node);
	}
	quota->login_cnt++;
	quota->half_open_cnt++;
	return quota;
}

void login_quota_opened(struct login_quota *quota)
{
	assert(quota->half_open_cnt > 0);
	quota->half_open_cnt--;
}

void login_quota_put(struct login_quota *quota, bool was_half_open)
{
	if (was_half_open)
		login_quota_opened(quota);
	assert(quota->login_cnt > 0);
	if (--quota->login_cnt > 0)
		return;
	list_del(&quota->node);
	free(quota);
}
