/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/verbs/verbs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/memlock.h"

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
 * The only place where memory is registered. No peer can access XP_LOCAL
 * memory, whatever it sends. A target has no other memory.
 */
static struct ibv_mr *register_memory(struct vb_dev *dev, void *addr,
				      size_t len, enum xp_access access)
{
	int flags = IBV_ACCESS_LOCAL_WRITE;

	if (access == XP_REMOTE)
		flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	return ibv_reg_mr(dev->pd, addr, len, flags);
}

/* Whether a device will lock it that is not in use yet: then it is too late to say
 * that the limit is too low. */
static void mr_promise(struct vb_mr *mr, bool promised)
{
	if (promised && !mr->promised)
		memlock_promise(mr->base.len);
	else if (!promised && mr->promised)
		memlock_unpromise(mr->base.len);
	mr->promised = promised;
}

/* Registers with @dev, if that is not done. On failure nothing has changed. */
static int mr_add(struct vb_mr *mr, struct vb_dev *dev, struct error *e)
{
	int err;

	if (mr->mrs[dev->index])
		return 0;
	mr->mrs[dev->index] =
		register_memory(dev, mr->base.addr, mr->base.len, mr->access);
	if (mr->mrs[dev->index]) {
		mr_promise(mr, false);
		return 0;
	}
	err = errno ? -errno : -ENOMEM;
	vb_mr_error(e, err, mr->base.len, vb_dev_name(dev));
	return err;
}

static void mr_remove(struct vb_mr *mr, const struct vb_dev *dev)
{
	if (mr->mrs[dev->index])
		ibv_dereg_mr(mr->mrs[dev->index]);
	mr->mrs[dev->index] = NULL;
}

static bool mr_is_in_use(const struct vb_dev *dev)
{
	return dev->state == VB_DEV_SERVING && dev->qps > 0;
}

/* May it be locked, by each device in use, or by the first one that will be? */
static int mr_check_limit(const struct vb_xp *vx, size_t len, struct error *e)
{
	struct vb_dev *dev;
	uint64_t cnt = 0;

	vb_for_each_dev(dev, vx, slot)
		cnt += mr_is_in_use(dev);
	if (len <= memlock_left() / (cnt ? cnt : 1))
		return 0;
	vb_mr_error(e, -ENOMEM, len, "RDMA devices");
	return -ENOMEM;
}

/* Registers with the devices in use. Fails if none of them takes it. */
static int mr_add_in_use(struct vb_mr *mr, struct vb_xp *vx, struct error *e)
{
	unsigned int taken = 0;
	struct vb_dev *dev;
	int err = mr_check_limit(vx, mr->base.len, e);

	if (err)
		return err;
	vb_for_each_dev(dev, vx, slot) {
		if (!mr_is_in_use(dev))
			continue;
		if (mr_add(mr, dev, e))
			err = e->err;
		else
			taken++;
	}
	if (!taken && !err)
		mr_promise(mr, true);
	return taken ? 0 : err;
}

int vb_mr_new(struct vb_xp *vx, struct vb_dev *only, void *addr, size_t len,
	      enum xp_access access, struct xp_mr **ret_mr, struct error *e)
{
	struct vb_mr *mr;
	int err;

	mr = calloc(1, sizeof(*mr));
	if (!mr) {
		error_set(e, -ENOMEM, "no memory for a memory region");
		return -ENOMEM;
	}
	mr->base = (struct xp_mr){ .xp = &vx->base, .addr = addr, .len = len };
	mr->access = access;
	mr->everywhere = !only;
	list_add_tail(&vx->mrs, &mr->node);
	err = only ? mr_add(mr, only, e) : mr_add_in_use(mr, vx, e);
	if (err) {
		vb_mr_free(&mr->base);
		return err;
	}
	*ret_mr = &mr->base;
	return 0;
}

static void mr_leave(struct vb_dev *dev, bool everywhere)
{
	struct list *it;

	list_for_each(it, &dev->vx->mrs) {
		struct vb_mr *mr = container_of(it, struct vb_mr, node);

		if (everywhere <= mr->everywhere)
			mr_remove(mr, dev);
	}
}

int vb_mr_join(struct vb_dev *dev, struct error *e)
{
	struct list *it;
	int err = 0;

	list_for_each(it, &dev->vx->mrs) {
		struct vb_mr *mr = container_of(it, struct vb_mr, node);

		if (!err && mr->everywhere)
			err = mr_add(mr, dev, e);
	}
	/* What is locked for nothing may be what another device lacks. */
	if (err && !dev->qps)
		mr_leave(dev, /* everywhere= */ true);
	return err;
}

void vb_mr_leave(struct vb_dev *dev)
{
	mr_leave(dev, /* everywhere= */ false);
}

static int verbs_mr_register(struct xp *xp, void *addr, size_t len,
			     enum xp_access access, struct xp_mr **ret_mr,
			     struct error *e)
{
	return vb_mr_new(container_of(xp, struct vb_xp, base), NULL, addr, len,
			 access, ret_mr, e);
}

void vb_mr_free(struct xp_mr *base)
{
	struct vb_mr *mr = container_of(base, struct vb_mr, base);
	struct vb_xp *vx = container_of(base->xp, struct vb_xp, base);
	struct vb_dev *dev;

	vb_for_each_dev(dev, vx, slot)
		mr_remove(mr, dev);
	mr_promise(mr, false);
	list_del(&mr->node);
	free(mr);
}

static void verbs_mr_remote(const struct xp_mr *base, const struct xp_chan *ch,
			    const void *ptr, uint64_t *ret_addr,
			    uint32_t *ret_key)
{
	const struct vb_mr *mr = (const void *)base;
	const struct vb_chan *vc = (const void *)ch;
	const struct ibv_mr *on_dev;

	assert(vc->dev);
	on_dev = mr->mrs[vc->dev->index];
	*ret_addr = (uintptr_t)ptr;
	/* A device that did not take the memory, while another one did: the
	 * peer's access fails, and with it the channel. */
	*ret_key = on_dev ? on_dev->rkey : 0;
}

/* ---- polling ---- */

static unsigned int verbs_poll_all(struct vb_xp *vx)
{
	unsigned int done = 0;
	struct vb_dev *dev;
	struct list *it;

	vb_for_each_dev(dev, vx, slot) {
		list_for_each(it, &dev->pools)
			done += vb_pool_poll(
				container_of(it, struct vb_pool, node));
	}
	done += vb_chan_reap(vx);
	if (vx->leaving)
		vb_dev_reap(vx);
	return done;
}

static unsigned int poll_xp(struct xp *xp)
{
	return verbs_poll_all(container_of(xp, struct vb_xp, base));
}

/* A completion queue stays armed until it has sent its event; a request for
 * another is a system call with some devices. */
static void arm_pool(struct vb_pool *p)
{
	if (p->armed || !p->cq)
		return;
	p->armed = ibv_req_notify_cq(p->cq, /* solicited_only= */ 0) == 0;
	p->dev->armed += p->armed;
}

static bool arm_xp(struct xp *xp)
{
	struct vb_xp *vx = container_of(xp, struct vb_xp, base);
	struct vb_dev *dev;
	struct list *it;

	vb_for_each_dev(dev, vx, slot) {
		list_for_each(it, &dev->pools)
			arm_pool(container_of(it, struct vb_pool, node));
	}
	/* A completion between the last poll and the request sends no event. */
	return verbs_poll_all(vx) == 0;
}

/* ---- instances ---- */

static void verbs_close_all(struct vb_xp *vx)
{
	struct vb_dev *dev;

	vb_plug_close(vx);
	vb_cm_close(vx);
	vb_for_each_dev(dev, vx, slot)
		vb_dev_free(dev);
}

static void destroy_xp(struct xp *xp)
{
	struct vb_xp *vx = container_of(xp, struct vb_xp, base);

	assert(list_empty(&vx->closing));
	xp_core_fini(xp);
	verbs_close_all(vx);
	free(vx);
}

static const struct xp_ops verbs_ops = {
	.kind = XP_VERBS,
	.selective = true,
	.poll = poll_xp,
	.arm = arm_xp,
	.destroy = destroy_xp,
	.listen = vb_listen,
	.listen_later = vb_listen_later,
	.unlisten = vb_unlisten,
	.demand = vb_demand,
	.accept = vb_accept,
	.reject = vb_reject,
	.connect = vb_connect,
	.post_send = vb_post_send,
	.post_recv = vb_post_recv,
	.disconnect = vb_disconnect,
	.chan_free = vb_chan_free,
	.mr_register = verbs_mr_register,
	.mr_free = vb_mr_free,
	.mr_remote = verbs_mr_remote,
};

static int vb_create(const struct xp_config *cfg, struct xp **ret_xp,
		     struct error *e)
{
	struct vb_xp *vx;
	int err = 0;

	vx = calloc(1, sizeof(*vx));
	if (!vx) {
		error_set(e, -ENOMEM, "no memory for the RDMA transport");
		return -ENOMEM;
	}
	list_init(&vx->closing);
	list_init(&vx->lingering);
	list_init(&vx->mrs);
	list_init(&vx->listeners);
	xp_core_init(&vx->base, &verbs_ops, cfg);
	/* In this order, so that no device is missed. */
	vb_plug_open(vx);
	if (vb_plug_look(vx, e) == 0 && !cfg->await_devices)
		err = e->err;
	if (err) {
		destroy_xp(&vx->base);
		return err;
	}
	vx->created = true;
	*ret_xp = &vx->base;
	return 0;
}

static int vb_fork_init(void)
{
	return vb_errno(ibv_fork_init());
}

static bool vb_present(void)
{
	int cnt = 0;
	struct ibv_device **list = ibv_get_device_list(&cnt);

	if (list)
		ibv_free_device_list(list);
	return list && cnt > 0;
}

const struct xp_provider xp_verbs_provider = {
	.reach = vb_reach,
	.create = vb_create,
	.present = vb_present,
	.has_address = vb_has_address,
	.fork_init = vb_fork_init,
};
