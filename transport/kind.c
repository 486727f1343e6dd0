/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and traits of the transports: see registry.c. */
#include "transport/kind.h"

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
		       { .uri = XP_URI_RDMA,
			 .fabric = "RDMA",
			 .needs_device = true,
			 .ib_srp = true,
			 .fast_channels = 2,
			 .show_listeners = "rdma resource show cm_id" } },
	[XP_TCP] = { "TCP",
		     "srp+tcp",
		     { .uri = XP_URI_TCP,
		       .fabric = "TCP",
		       .fast_channels = 1,
		       .show_listeners = "ss -tlp" } },
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

enum xp_kind xp_kind_of_uri(enum xp_uri_transport uri)
{
	for (unsigned int k = 0; k < XP_KINDS; k++)
		if (kinds[k].traits.uri == uri)
			return (enum xp_kind)k;
	return (enum xp_kind)0;
}
