/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/verbs/grh.h"

#include <string.h>

/* Offsets in the headers: IBA 8.3, RFC 8200, RFC 791. */
#define GRH_SOURCE  8
#define IPV4	    20 /* where the header begins */
#define IPV4_SOURCE (IPV4 + 12)

void grh_clear(uint8_t grh[GRH_LEN])
{
	memset(grh, 0, GRH_LEN);
}

void grh_source(const uint8_t grh[GRH_LEN], uint8_t ret_gid[GRH_GID_LEN])
{
	/* A GRH has version 6, too. */
	if (grh[0] >> 4 == 6 || grh[IPV4] >> 4 != 4) {
		memcpy(ret_gid, &grh[GRH_SOURCE], GRH_GID_LEN);
		return;
	}
	memset(ret_gid, 0, 10);
	memset(&ret_gid[10], 0xff, 2);
	memcpy(&ret_gid[12], &grh[IPV4_SOURCE], 4);
}
