/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stands in for the ofi provider in a build without libfabric.
 */
#include "transport/xport.h"

#include <errno.h>

int xp_ofi_create(const struct xp_config *cfg, struct xp **ret_xp,
		  struct xp_error *e)
{
	xp_error_set(e, -ENOTSUP,
		     "this build was made without libfabric; srp+tcp:// does "
		     "without it");
	return -ENOTSUP;
}
