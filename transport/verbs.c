/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/verbs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* ---- watches ---- */

static void watch_stopped(struct reactor_watch *w)
{
	free(container_of(w, struct vb_watch, base));
}

int vb_watch_new(struct vb_xp *vx, int fd, void *owner,
		 void (*ready)(struct reactor_watch *w, uint32_t events),
		 struct vb_watch **ret_watch)
{
	int flags = fcntl(fd, F_GETFL);
	struct vb_watch *w;

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return -errno;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->owner = owner;
	w->base.fd = fd;
	w->base.events = POLLIN;
	w->base.ready = ready;
	w->base.stopped = watch_stopped;
	reactor_watch_start(vx->base.cfg.reactor, &w->base);
	*ret_watch = w;
	return 0;
}

void vb_watch_free(struct vb_watch *w)
{
	if (w)
		reactor_watch_stop(&w->base);
}

/* ---- memory ---- */

/*
 * The one place where memory is registered. Local memory is closed to peers,
 * whatever they send: a target has no other.
 */
static struct ibv_mr *register_memory(struct vb_dev *dev, void *addr,
				      size_t len, enum xp_access access)
{
	int flags = IBV_ACCESS_LOCAL_WRITE;

	if (access == XP_REMOTE)
		flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	return ibv_reg_mr(dev->pd, addr, len, flags);
}

int vb_mr_new(struct vb_xp *vx, struct vb_dev *only, void *addr, size_t len,
	      enum xp_access access, struct xp_mr **ret_mr, struct xp_error *e)
{
	struct vb_mr *mr;
	int err;

	mr = calloc(1, sizeof(*mr) + vx->dev_cnt * sizeof(mr->mrs[0]));
	if (!mr) {
		xp_error_set(e, -ENOMEM, "no memory for a memory region");
		return -ENOMEM;
	}
	mr->base = (struct xp_mr){ .xp = &vx->base, .addr = addr, .len = len };
	for (unsigned int i = 0; i < vx->dev_cnt; i++) {
		struct vb_dev *dev = &vx->devs[i];

		if (only && dev != only)
			continue;
		mr->mrs[i] = register_memory(dev, addr, len, access);
		if (mr->mrs[i])
			continue;
		err = errno ? -errno : -ENOMEM;
		vb_mr_error(e, err, len, vb_dev_name(dev));
		vb_mr_free(&mr->base);
		return err;
	}
	*ret_mr = &mr->base;
	return 0;
}

static int mr_register(struct xp *xp, void *addr, size_t len,
		       enum xp_access access, struct xp_mr **ret_mr,
		       struct xp_error *e)
{
	return vb_mr_new(container_of(xp, struct vb_xp, base), NULL, addr, len,
			 access, ret_mr, e);
}

void vb_mr_free(struct xp_mr *base)
{
	struct vb_mr *mr = container_of(base, struct vb_mr, base);
	struct vb_xp *vx = container_of(base->xp, struct vb_xp, base);

	for (unsigned int i = 0; i < vx->dev_cnt; i++) {
		if (mr->mrs[i])
			ibv_dereg_mr(mr->mrs[i]);
	}
	free(mr);
}

static void mr_remote(const struct xp_mr *base, const struct xp_chan *ch,
		      const void *ptr, uint64_t *ret_addr, uint32_t *ret_key)
{
	const struct vb_mr *mr = (const void *)base;
	const struct vb_chan *vc = (const void *)ch;

	assert(vc->dev && mr->mrs[vc->dev->index]);
	*ret_addr = (uintptr_t)ptr;
	*ret_key = mr->mrs[vc->dev->index]->rkey;
}

/* ---- polling ---- */

static unsigned int poll_all(struct vb_xp *vx)
{
	unsigned int done = 0;
	struct list *it;

	for (unsigned int i = 0; i < vx->dev_cnt; i++) {
		list_for_each(it, &vx->devs[i].pools)
			done += vb_pool_poll(
				container_of(it, struct vb_pool, node));
	}
	return done + vb_chan_reap(vx);
}

static unsigned int poll_xp(struct xp *xp)
{
	return poll_all(container_of(xp, struct vb_xp, base));
}

/* A completion queue stays armed until it has sent its event; a request for
 * another is a system call with some devices. */
static void arm_pool(struct vb_pool *p)
{
	if (p->armed)
		return;
	p->armed = ibv_req_notify_cq(p->cq, /* solicited_only= */ 0) == 0;
	p->dev->armed += p->armed;
}

static bool arm_xp(struct xp *xp)
{
	struct vb_xp *vx = container_of(xp, struct vb_xp, base);
	struct list *it;

	for (unsigned int i = 0; i < vx->dev_cnt; i++) {
		list_for_each(it, &vx->devs[i].pools)
			arm_pool(container_of(it, struct vb_pool, node));
	}
	/* What came between the last look and the request sends no event. */
	return poll_all(vx) == 0;
}

/* ---- instances ---- */

static void close_all(struct vb_xp *vx)
{
	vb_cm_close(vx);
	for (unsigned int i = 0; i < vx->dev_cnt; i++)
		vb_dev_close(&vx->devs[i]);
	free(vx->devs);
}

static void destroy_xp(struct xp *xp)
{
	struct vb_xp *vx = container_of(xp, struct vb_xp, base);

	assert(list_empty(&vx->closing));
	xp_core_fini(xp);
	close_all(vx);
	free(vx);
}

static const struct xp_ops verbs_ops = {
	.kind = XP_VERBS,
	.selective = true,
	.poll = poll_xp,
	.arm = arm_xp,
	.destroy = destroy_xp,
	.listen = vb_listen,
	.unlisten = vb_unlisten,
	.accept = vb_accept,
	.reject = vb_reject,
	.connect = vb_connect,
	.post_send = vb_post_send,
	.post_recv = vb_post_recv,
	.disconnect = vb_disconnect,
	.chan_free = vb_chan_free,
	.mr_register = mr_register,
	.mr_free = vb_mr_free,
	.mr_remote = mr_remote,
};

/* Opens those devices that can be used. When none can, @e says why of the
 * last. */
static int open_devices(struct vb_xp *vx, struct ibv_device **list, int cnt,
			struct xp_error *e)
{
	int err = -ENODEV;

	xp_error_set(e, err, "this machine has no RDMA device");
	if (cnt <= 0)
		return err;
	vx->devs = calloc((size_t)cnt, sizeof(*vx->devs));
	if (!vx->devs) {
		xp_error_set(e, -ENOMEM, "no memory for RDMA devices");
		return -ENOMEM;
	}
	for (int i = 0; i < cnt; i++) {
		int ret = vb_dev_open(&vx->devs[vx->dev_cnt], vx, vx->dev_cnt,
				      list[i], e);

		if (ret == 0)
			vx->dev_cnt++;
		else
			err = ret;
	}
	return vx->dev_cnt ? 0 : err;
}

int xp_verbs_create(const struct xp_config *cfg, struct xp **ret_xp,
		    struct xp_error *e)
{
	struct ibv_device **list;
	struct vb_xp *vx;
	int cnt = 0;
	int err;

	vx = calloc(1, sizeof(*vx));
	if (!vx) {
		xp_error_set(e, -ENOMEM, "no memory for the RDMA transport");
		return -ENOMEM;
	}
	list_init(&vx->closing);
	list_init(&vx->lingering);
	xp_core_init(&vx->base, &verbs_ops, cfg);
	list = ibv_get_device_list(&cnt);
	err = open_devices(vx, list, list ? cnt : 0, e);
	if (list)
		ibv_free_device_list(list);
	if (!err)
		err = vb_cm_open(vx, e);
	if (err) {
		destroy_xp(&vx->base);
		return err;
	}
	*ret_xp = &vx->base;
	return 0;
}

int xp_verbs_fork_init(void)
{
	return -ibv_fork_init();
}

bool xp_verbs_present(void)
{
	int cnt = 0;
	struct ibv_device **list = ibv_get_device_list(&cnt);

	if (list)
		ibv_free_device_list(list);
	return list && cnt > 0;
}
