/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and traits of the transports: see registry.c. */
#include "transport/xport.h"

/*
 * With a second channel over RDMA, another thread of the target and another
 * engine of the device move large data. Over TCP a second one was slower.
 */
static const struct {
	const char *name;
	const char *scheme;
	struct xp_traits traits;
} kinds[XP_KINDS] = {
	[XP_VERBS] = { "RDMA (verbs)",
		       "srp+rdma",
		       { .fabric = "RDMA",
			 .needs_device = true,
			 .fast_channels = 2 } },
	[XP_TCP] = { "TCP", "srp+tcp", { .fabric = "TCP", .fast_channels = 1 } },
};

const char *xp_kind_name(enum xp_kind kind)
{
	return kinds[kind].name;
}

const char *xp_kind_scheme(enum xp_kind kind)
{
	return kinds[kind].scheme;
}

const struct xp_traits *xp_kind_traits(enum xp_kind kind)
{
	return &kinds[kind].traits;
}
