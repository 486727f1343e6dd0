/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The providers. A new one is a room beside verbs/ and tcp/, a value of enum
 * xp_kind, a row here and one in kind.c. The names are there, so that a program
 * which brings a provider of its own, such as a test, links no other.
 */
#include "transport/provider.h"

static const struct xp_provider *const providers[XP_KINDS] = {
	[XP_VERBS] = &xp_verbs_provider,
	[XP_TCP] = &xp_tcp_provider,
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

int xp_fork_init(void)
{
	int err = 0;

	for (unsigned int k = 0; k < XP_KINDS && !err; k++) {
		if (providers[k]->fork_init)
			err = providers[k]->fork_init();
	}
	return err;
}
