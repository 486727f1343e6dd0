/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm closes the context of a removed device when it looks at the list of devices,
 * but never while that list is empty (see vb_cm_pin()). So the contexts are kept from being
 * freed, and the kernel's files in those whose device is not listed any more are closed.
 */
#include "transport/device_watch.h"

#include <unistd.h>

#include "transport/verbs/verbs.h"

static bool context_is_listed(const struct ibv_context *ctx,
			      struct ibv_device **list)
{
	for (; list && *list; list++) {
		if (*list == ctx->device)
			return true;
	}
	return false;
}

static void device_watch_cut(struct device_watch *w)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (struct ibv_context **ctx = w->contexts; list && *ctx; ctx++) {
		if (!context_is_listed(*ctx, list))
			vb_cm_cut_context(*ctx);
	}
	if (list)
		ibv_free_device_list(list);
}

static void device_watch_forget(struct device_watch *w)
{
	if (w->contexts)
		rdma_free_devices(w->contexts);
	w->contexts = NULL;
}

void device_watch_renew(struct device_watch *w)
{
	if (w->contexts)
		device_watch_cut(w);
	device_watch_forget(w);
	/* Without a device, librdmacm would complain. */
	if (xp_verbs_provider.present())
		w->contexts = rdma_get_devices(NULL);
}

bool device_watch_changed(struct device_watch *w)
{
	return w->fd >= 0 && vb_uevents_read(w->fd);
}

void device_watch_open(struct device_watch *w)
{
	*w = (struct device_watch){ .fd = vb_uevents_open() };
	device_watch_renew(w);
}

void device_watch_close(struct device_watch *w)
{
	device_watch_forget(w);
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}
