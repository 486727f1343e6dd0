/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
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
