/* SPDX-License-Identifier: BSD-2-Clause */
/* By itself: whoever has a provider of their own need not link all others. */
#include "transport/xport.h"

int xp_create(enum xp_kind kind, const struct xp_config *cfg,
	      struct xp **ret_xp, struct error *e)
{
	static int (*const create[])(const struct xp_config *, struct xp **,
				     struct error *) = {
		[XP_VERBS] = xp_verbs_create,
		[XP_TCP] = xp_tcp_create,
	};

	return create[kind](cfg, ret_xp, e);
}
