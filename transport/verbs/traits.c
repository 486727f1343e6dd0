/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/kind.h"

const struct xp_traits xp_verbs_traits = {
	.name = "RDMA (verbs)",
	.scheme = "srp+rdma",
	.fabric = "RDMA",
	.needs_device = true,
	.has_gids = true,
	.ib_srp = true,
	/* Another thread of the target and another engine of the device move the
	 * large data. */
	.fast_channels = 2,
	.show_listeners = "rdma resource show cm_id",
};
