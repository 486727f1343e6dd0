/* SPDX-License-Identifier: BSD-2-Clause */
/* How people name the transports: see registry.c. */
#include "transport/xport.h"

static const struct {
	const char *name;
	const char *scheme;
} kinds[XP_KINDS] = {
	[XP_VERBS] = { "RDMA (verbs)", "srp+rdma" },
	[XP_TCP] = { "TCP", "srp+tcp" },
};

const char *xp_kind_name(enum xp_kind kind)
{
	return kinds[kind].name;
}

const char *xp_kind_scheme(enum xp_kind kind)
{
	return kinds[kind].scheme;
}
