/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stands in for the tcp provider in a build without libfabric.
 */
#include "transport/xport.h"

#include <errno.h>

int xp_tcp_create(const struct xp_config *cfg, struct xp **ret_xp,
		  struct xp_error *e)
{
	xp_error_set(e, -ENOTSUP,
		     "this build has no TCP transport (it was made without "
		     "libfabric)");
	return -ENOTSUP;
}
