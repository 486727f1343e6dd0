/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/login_quota.h"

#include <assert.h>
#include <stdlib.h>

struct login_quota *login_quota_find(struct list *quotas,
				     enum login_whose whose, uint64_t id)
{
	struct list *it;

	list_for_each(it, quotas) {
		struct login_quota *quota =
			container_of(it, struct login_quota, node);

		if (quota->whose == whose && quota->id == id)
			return quota;
	}
	return NULL;
}

static struct login_quota *login_quota_take(struct list *quotas,
					    enum login_whose whose, uint64_t id)
{
	struct login_quota *quota = login_quota_find(quotas, whose, id);

	if (!quota) {
		quota = calloc(1, sizeof(*quota));
		if (!quota)
			return NULL;
		quota->whose = whose;
		quota->id = id;
		list_add_tail(quotas, &quota->node);
	}
	quota->login_cnt++;
	quota->half_open_cnt++;
	return quota;
}

static void login_quota_put(struct login_quota *quota, bool was_half_open)
{
	if (was_half_open)
		quota->half_open_cnt--;
	assert(quota->login_cnt > 0);
	if (--quota->login_cnt > 0)
		return;
	list_del(&quota->node);
	free(quota);
}

bool login_quotas_take(struct list *quotas, const uint64_t id[LOGIN_WHOSE],
		       struct login_quotas *ret)
{
	for (int i = 0; i < LOGIN_WHOSE; i++) {
		ret->of[i] =
			login_quota_take(quotas, (enum login_whose)i, id[i]);
		if (ret->of[i])
			continue;
		while (i-- > 0)
			login_quota_put(ret->of[i], /* was_half_open= */ true);
		return false;
	}
	return true;
}

void login_quotas_opened(const struct login_quotas *quotas)
{
	for (int i = 0; i < LOGIN_WHOSE; i++) {
		assert(quotas->of[i]->half_open_cnt > 0);
		quotas->of[i]->half_open_cnt--;
	}
}

void login_quotas_put(const struct login_quotas *quotas, bool was_half_open)
{
	for (int i = 0; i < LOGIN_WHOSE; i++)
		login_quota_put(quotas->of[i], was_half_open);
}
