/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "transport/verbs/verbs.h"

/* Without an event channel, librdmacm waits for the event itself. */
int vb_reach(const struct sockaddr *addr, socklen_t addr_len, char *ret_by,
	     size_t size, struct error *e)
{
	struct rdma_cm_id *id;
	int err = 0;

	if (!xp_verbs_provider.present())
		return error_set(e, -ENODEV, "this machine has no RDMA device");
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return error_set(e, -errno, "no connection manager: %s",
				 strerror(errno));
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)addr, XP_REACH_MS))
		err = -errno;
	else
		snprintf(ret_by, size, "%s",
			 ibv_get_device_name(id->verbs->device));
	rdma_destroy_id(id);
	if (!err)
		return 0;
	return error_set(e, err, "%s",
			 vb_cm_text(RDMA_CM_EVENT_ADDR_ERROR, err));
}

/* Loopback and link-local addresses are for this machine, and for who knows it. */
static bool reach_is_for_others(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;

	if (addr->sa_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
	return addr->sa_family == AF_INET6 &&
	       !IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) &&
	       !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

static bool reach_is_on_device(struct sockaddr *addr)
{
	struct rdma_cm_id *id;
	bool found;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return false;
	found = rdma_bind_addr(id, addr) == 0 && id->verbs;
	rdma_destroy_id(id);
	return found;
}

bool vb_has_address(void)
{
	struct ifaddrs *list = NULL;
	bool found = false;

	getifaddrs(&list);
	for (struct ifaddrs *i = list; i && !found; i = i->ifa_next)
		found = i->ifa_addr && reach_is_for_others(i->ifa_addr) &&
			reach_is_on_device(i->ifa_addr);
	if (list)
		freeifaddrs(list);
	return found;
}
