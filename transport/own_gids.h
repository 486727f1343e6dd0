/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GIDs of all RDMA devices of this machine. On RoCE these are the addresses of the
 * interfaces that belong to devices. Thread: any.
 */
#ifndef TRANSPORT_OWN_GIDS_H
#define TRANSPORT_OWN_GIDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define OWN_GIDS_MAX 1024 /* the first ones */

struct own_gids {
	unsigned int cnt;
	uint8_t gid[OWN_GIDS_MAX][16];
};

/* Opens each device for a moment. */
void own_gids_get(struct own_gids *ret);
bool own_gids_have(const struct own_gids *g, const struct sockaddr *addr);

#endif
