/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/kind.h"

#define XP_TRAITS(kind, prefix) [kind] = &prefix##_traits,
static const struct xp_traits *const xp_kinds[XP_KINDS] = {
	XP_TRANSPORTS(XP_TRAITS) /* each row of kind.h */
};

const struct xp_traits *xp_kind_traits(enum xp_kind kind)
{
	return xp_kinds[kind];
}

const char *xp_kind_name(enum xp_kind kind)
{
	return xp_kinds[kind]->name;
}

const char *xp_kind_scheme(enum xp_kind kind)
{
	return xp_kinds[kind]->scheme;
}
