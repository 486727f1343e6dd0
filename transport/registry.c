/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The providers, from the rows of kind.h. Traits are not here, so that a test with
 * a provider of its own links no other provider.
 */
#include "transport/provider.h"

#define XP_PROVIDER(kind, prefix) [kind] = &prefix##_provider,
static const struct xp_provider *const providers[XP_KINDS] = {
	XP_TRANSPORTS(XP_PROVIDER) /* each row of kind.h */
};

int xp_create(enum xp_kind kind, const struct xp_config *cfg,
	      struct xp **ret_xp, struct error *e)
{
	return providers[kind]->create(cfg, ret_xp, e);
}

bool xp_present(enum xp_kind kind)
{
	return !providers[kind]->present || providers[kind]->present();
}

bool xp_has_address(enum xp_kind kind)
{
	return !providers[kind]->has_address || providers[kind]->has_address();
}

int xp_reach(enum xp_kind kind, const struct sockaddr *addr, socklen_t addr_len,
	     char *ret_by, size_t size, struct error *e)
{
	return providers[kind]->reach(addr, addr_len, ret_by, size, e);
}

int xp_fork_init(void)
{
	int err = 0;

	for (unsigned int k = 0; k < XP_KINDS && !err; k++) {
		if (providers[k]->fork_init)
			err = providers[k]->fork_init();
	}
	return err;
}
