/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/own_gids.h"

#include <netinet/in.h>
#include <string.h>

#include "transport/verbs/verbs.h"

/* Of one call; a device may have more. */
#define OWN_GIDS_OF_DEVICE 256u

static void own_gids_add(struct own_gids *g, struct ibv_device *dev)
{
	struct ibv_gid_entry entries[OWN_GIDS_OF_DEVICE];
	struct ibv_context *ctx = ibv_open_device(dev);
	ssize_t cnt;

	if (!ctx)
		return;
	cnt = ibv_query_gid_table(ctx, entries, OWN_GIDS_OF_DEVICE, 0);
	for (ssize_t i = 0; i < cnt && g->cnt < OWN_GIDS_MAX; i++)
		memcpy(g->gid[g->cnt++], entries[i].gid.raw, 16);
	ibv_close_device(ctx);
}

void own_gids_get(struct own_gids *ret)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	ret->cnt = 0;
	for (unsigned int i = 0; list && list[i]; i++)
		own_gids_add(ret, list[i]);
	if (list)
		ibv_free_device_list(list);
}

/* IPv4 is mapped. */
bool own_gids_have(const struct own_gids *g, const struct sockaddr *addr)
{
	const struct sockaddr_in *sin = (const void *)addr;
	const struct sockaddr_in6 *sin6 = (const void *)addr;
	uint8_t gid[16] = { [10] = 0xff, [11] = 0xff };

	if (addr->sa_family == AF_INET6)
		memcpy(gid, &sin6->sin6_addr, sizeof(gid));
	else
		memcpy(&gid[12], &sin->sin_addr, 4);
	for (unsigned int i = 0; i < g->cnt; i++) {
		if (memcmp(g->gid[i], gid, sizeof(gid)) == 0)
			return true;
	}
	return false;
}
