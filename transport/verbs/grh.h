/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network header in front of a datagram of a UD queue pair: a GRH, a header of IPv6,
 * or, on RoCE v2 over IPv4, 20 bytes that mean nothing and a header of IPv4. Thread: any.
 */
#ifndef TRANSPORT_VERBS_GRH_H
#define TRANSPORT_VERBS_GRH_H

#include <stdint.h>

#define GRH_LEN	    40u
#define GRH_GID_LEN 16u

/* Before the receive: a device may leave the 20 bytes as they are. */
void grh_clear(uint8_t grh[GRH_LEN]);
/* The GID of the sender; that of an address of IPv4 is the address, mapped to IPv6. */
void grh_source(const uint8_t grh[GRH_LEN], uint8_t ret_gid[GRH_GID_LEN]);

#endif
