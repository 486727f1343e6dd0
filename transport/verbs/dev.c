/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/verbs/verbs.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Completions per call, and calls per look at a queue. */
#define POLL_BATCH  32
#define POLL_ROUNDS 4

/* Channels of the same size that the first pool has room for. Each further pool
 * has room for twice as many as the one before. */
#define POOL_CHANS    4u
#define POOL_DOUBLING 8u

/* Acknowledging an event takes a lock, so many are acknowledged at a time. */
#define ACK_BATCH 64u

const char *vb_dev_name(const struct vb_dev *dev)
{
	return dev->name;
}

/* ---- channels of a device ---- */

static struct list *qpn_bucket(struct vb_dev *dev, uint32_t qpn)
{
	return &dev->by_qpn[qpn % VB_QPN_BUCKETS];
}

struct vb_chan *vb_dev_chan(struct vb_dev *dev, uint32_t qpn)
{
	struct list *bucket = qpn_bucket(dev, qpn);
	struct list *it;

	list_for_each(it, bucket) {
		struct vb_chan *ch = container_of(it, struct vb_chan, qpn_node);

		if (ch->qp->qp_num == qpn)
			return ch;
	}
	return NULL;
}

void vb_dev_add_chan(struct vb_dev *dev, struct vb_chan *ch)
{
	list_add_tail(qpn_bucket(dev, ch->qp->qp_num), &ch->qpn_node);
}

/* Fails the channels of @pool; NULL: of the device. The handlers must not free a
 * channel: closed() comes later. */
static void vb_dev_fail(struct vb_dev *dev, const struct vb_pool *pool, int err,
			const char *text)
{
	for (unsigned int i = 0; i < VB_QPN_BUCKETS; i++) {
		struct list *it;
		struct list *tmp;

		list_for_each_safe(it, tmp, &dev->by_qpn[i]) {
			struct vb_chan *ch =
				container_of(it, struct vb_chan, qpn_node);

			if (!pool || ch->pool == pool)
				xp_core_fail(&ch->base, err, "device %s %s",
					     vb_dev_name(dev), text);
		}
	}
}

/* ---- events ---- */

static void verbs_dev_chan_event(struct vb_chan *ch, enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		vb_chan_last_wqe(ch);
		break;
	case IBV_EVENT_COMM_EST:
		vb_cm_came_early(ch);
		break;
	case IBV_EVENT_QP_ACCESS_ERR:
		xp_core_fail(&ch->base, -EPROTO,
			     "the peer touched memory that it may not");
		break;
	case IBV_EVENT_QP_REQ_ERR:
		xp_core_fail(&ch->base, -EPROTO,
			     "the peer sent an invalid request");
		break;
	default:
		xp_core_fail(&ch->base, -EIO, "the queue pair failed: %s",
			     ibv_event_type_str(type));
	}
}

static void vb_dev_end(struct vb_dev *dev, int err, const char *text);

static void vb_dev_event(struct vb_dev *dev, enum ibv_event_type type)
{
	/* Ports and addresses come and go; connections may live. */
	if (type == IBV_EVENT_GID_CHANGE || type == IBV_EVENT_PORT_ACTIVE)
		vb_listen_follow(dev->vx);
	if (type != IBV_EVENT_DEVICE_FATAL)
		return;
	/* Also when it is unplugged. */
	vb_plug_look(dev->vx, NULL);
	if (dev->state != VB_DEV_SERVING)
		return;
	dev->sick = true;
	vb_plug_failed(dev,
		       "failed: a fatal error: its connections end, and it "
		       "is not used until it is added anew");
	vb_dev_end(dev, -EIO, "failed");
}

static void vb_pool_end(struct vb_pool *p);

/* A queue that has failed delivers nothing more, and no new channel gets it. It is
 * destroyed when its channels have gone. */
static void vb_pool_fail(struct vb_pool *p, const char *why)
{
	char text[128];

	if (p->failed)
		return;
	p->failed = true;
	snprintf(text, sizeof(text),
		 "%s: its connections end, the next ones get a new one", why);
	vb_plug_failed(p->dev, text);
	vb_dev_fail(p->dev, p, -EIO, why);
	vb_chan_hurry_all(p->dev->vx);
	vb_pool_end(p);
}

static bool is_qp_event(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return true;
	default:
		return false;
	}
}

static bool is_queue_error(enum ibv_event_type type)
{
	return type == IBV_EVENT_CQ_ERR || type == IBV_EVENT_SRQ_ERR;
}

static void async_ready(struct reactor_watch *w, uint32_t events)
{
	struct vb_dev *dev = container_of(w, struct vb_watch, base)->owner;
	struct ibv_async_event ev;
	void *owner = NULL;

	while (ibv_get_async_event(dev->ctx, &ev) == 0) {
		if (is_qp_event(ev.event_type))
			owner = ev.element.qp->qp_context;
		else if (ev.event_type == IBV_EVENT_CQ_ERR)
			owner = ev.element.cq->cq_context;
		else if (ev.event_type == IBV_EVENT_SRQ_ERR)
			owner = ev.element.srq->srq_context;
		/* First: a queue with an event that was not acknowledged
		 * cannot be destroyed. */
		ibv_ack_async_event(&ev);
		if (!owner && (is_qp_event(ev.event_type) ||
			       is_queue_error(ev.event_type)))
			continue; /* left behind; see vb_qp_leave() */
		if (is_qp_event(ev.event_type))
			verbs_dev_chan_event(owner, ev.event_type);
		else if (ev.event_type == IBV_EVENT_CQ_ERR)
			vb_pool_fail(owner,
				     "failed: error of a completion queue");
		else if (ev.event_type == IBV_EVENT_SRQ_ERR)
			vb_pool_fail(owner, "failed: error of a receive queue");
		else
			vb_dev_event(dev, ev.event_type);
	}
}

static void comp_ready(struct reactor_watch *w, uint32_t events)
{
	struct vb_dev *dev = container_of(w, struct vb_watch, base)->owner;
	struct ibv_cq *cq;
	void *context;

	/* Each armed queue sends one event. Looking for more costs a system
	 * call. */
	while (dev->armed && !ibv_get_cq_event(dev->comp, &cq, &context)) {
		struct vb_pool *p = context;

		p->armed = false;
		dev->armed--;
		if (++p->unacked < ACK_BATCH)
			continue;
		ibv_ack_cq_events(cq, p->unacked);
		p->unacked = 0;
	}
}

/* ---- opening and closing ---- */

static int verbs_dev_check_limits(const struct vb_dev *dev, struct error *e)
{
	const struct ibv_device_attr *a = &dev->attr;
	unsigned int sends = dev->vx->base.cfg.send_depth + 1;
	const char *what = NULL;
	int have = 0;
	unsigned int want = 0;

	if (a->max_qp_wr < (int)sends) {
		what = "work requests per queue pair";
		have = a->max_qp_wr;
		want = sends;
	} else if (a->max_sge < 2) {
		what = "pieces per work request";
		have = a->max_sge;
		want = 2;
	} else if (a->max_cqe < (int)sends + 1) {
		what = "entries per completion queue";
		have = a->max_cqe;
		want = sends + 1;
	}
	if (!what)
		return 0;
	error_set(e, -EOPNOTSUPP, "device %s has %d %s, fewer than %u",
		  vb_dev_name(dev), have, what, want);
	return -EOPNOTSUPP;
}

static int vb_dev_open_events(struct vb_dev *dev)
{
	int err;

	dev->comp = ibv_create_comp_channel(dev->ctx);
	if (!dev->comp)
		return -errno;
	err = vb_watch_new(dev->vx, dev->comp->fd, dev, comp_ready,
			   &dev->comp_watch);
	if (err)
		return err;
	return vb_watch_new(dev->vx, dev->ctx->async_fd, dev, async_ready,
			    &dev->async_watch);
}

/* Its queues end; its buffers may still be with the users. */
static void vb_pool_close(struct vb_pool *p)
{
	if (!p->cq)
		return;
	p->dev->armed -= p->armed;
	p->armed = false;
	if (p->shared.srq)
		ibv_destroy_srq(p->shared.srq);
	vb_recvq_close(&p->shared);
	ibv_ack_cq_events(p->cq, p->unacked);
	ibv_destroy_cq(p->cq);
	p->cq = NULL;
	p->emptied = true;
}

static void vb_pool_free(struct vb_pool *p)
{
	list_del(&p->node);
	vb_recvq_fini(&p->shared);
	free(p);
}

/* Closes a pool that has failed, if no channel has a share. */
static void vb_pool_end(struct vb_pool *p)
{
	if (p->failed && p->recv_room == p->recv_max)
		vb_pool_close(p);
}

/* Frees those whose last buffer has come back. */
static void vb_pool_free_ended(struct vb_dev *dev)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &dev->pools) {
		struct vb_pool *p = container_of(it, struct vb_pool, node);

		if (!p->cq && !p->shared.going_round)
			vb_pool_free(p);
	}
}

/* Frees everything that the kernel has. No queue pair may be left. */
static void vb_dev_close_context(struct vb_dev *dev)
{
	struct list *it;

	if (!dev->ctx)
		return;
	list_for_each(it, &dev->pools)
		vb_pool_close(container_of(it, struct vb_pool, node));
	vb_mr_leave(dev);
	vb_watch_free(dev->async_watch);
	vb_watch_free(dev->comp_watch);
	if (dev->comp)
		ibv_destroy_comp_channel(dev->comp);
	if (dev->pd)
		ibv_dealloc_pd(dev->pd);
	ibv_close_device(dev->ctx);
	dev->ctx = NULL;
}

void vb_dev_free(struct vb_dev *dev)
{
	vb_dev_close_context(dev);
	while (!list_empty(&dev->pools))
		vb_pool_free(list_first(&dev->pools, struct vb_pool, node));
	vb_cm_unpin(dev);
	if (dev->state != VB_DEV_SERVING)
		dev->vx->leaving--;
	dev->vx->devs[dev->index] = NULL;
	free(dev);
}

static struct vb_dev *vb_dev_new(struct vb_xp *vx, struct ibv_device *ibdev)
{
	struct vb_dev *dev;
	unsigned int slot = 0;

	while (slot < VB_DEVS_MAX && vx->devs[slot])
		slot++;
	if (slot == VB_DEVS_MAX)
		return NULL;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return NULL;
	dev->vx = vx;
	dev->index = slot;
	dev->ibdev = ibdev;
	dev->number = ibv_get_device_index(ibdev);
	dev->iwarp = ibdev->transport_type == IBV_TRANSPORT_IWARP;
	snprintf(dev->name, sizeof(dev->name), "%s",
		 ibv_get_device_name(ibdev));
	list_init(&dev->pools);
	for (unsigned int i = 0; i < VB_QPN_BUCKETS; i++)
		list_init(&dev->by_qpn[i]);
	vx->devs[slot] = dev;
	return dev;
}

/* The context is open. */
static int vb_dev_set_up(struct vb_dev *dev, struct error *e)
{
	int err = vb_errno(ibv_query_device(dev->ctx, &dev->attr));

	if (!err) {
		err = verbs_dev_check_limits(dev, e);
		if (err)
			return err;
		dev->pd = ibv_alloc_pd(dev->ctx);
		err = dev->pd ? vb_dev_open_events(dev) : -errno;
	}
	if (!err)
		return 0;
	error_set(e, err, "cannot set up RDMA device %s: %s", vb_dev_name(dev),
		  strerror(-err));
	return err;
}

int vb_dev_open(struct vb_xp *vx, struct ibv_device *ibdev, struct error *e)
{
	struct vb_dev *dev = vb_dev_new(vx, ibdev);
	int err;

	if (!dev) {
		error_set(e, -ENOMEM,
			  "no room for RDMA device %s: at most %u are used",
			  ibv_get_device_name(ibdev), VB_DEVS_MAX);
		return -ENOMEM;
	}
	dev->ctx = ibv_open_device(ibdev);
	if (dev->ctx) {
		err = vb_dev_set_up(dev, e);
	} else {
		err = errno ? -errno : -EIO;
		error_set(e, err, "cannot open RDMA device %s: %s",
			  vb_dev_name(dev), strerror(-err));
	}
	if (err)
		vb_dev_free(dev);
	return err;
}

/* ---- devices that leave ---- */

static void vb_dev_end(struct vb_dev *dev, int err, const char *text)
{
	struct vb_xp *vx = dev->vx;

	dev->state = VB_DEV_LEAVING;
	vx->leaving++;
	vb_dev_fail(dev, NULL, err, text);
	vb_chan_hurry_all(vx);
}

void vb_dev_leave(struct vb_dev *dev)
{
	vb_dev_end(dev, -ENODEV, "was removed");
}

void vb_dev_removed(struct vb_dev *dev)
{
	dev->sick = false;
	if (dev->state == VB_DEV_GONE)
		vb_cm_cut(dev);
}

/* Have the users freed and released everything of the device? */
static bool vb_dev_is_let_go(const struct vb_dev *dev)
{
	struct list *it;

	list_for_each(it, &dev->pools) {
		if (container_of(it, struct vb_pool, node)->shared.going_round)
			return false;
	}
	return dev->chans == 0 && !dev->sick;
}

void vb_dev_reap(struct vb_xp *vx)
{
	struct vb_dev *dev;

	vb_for_each_dev(dev, vx, slot) {
		if (dev->state == VB_DEV_LEAVING && dev->qps == 0) {
			vb_dev_close_context(dev);
			/* One that is sick still gets requests, with an
			 * answer. */
			if (!dev->sick)
				vb_cm_cut(dev);
			dev->state = VB_DEV_GONE;
		}
		if (dev->state == VB_DEV_GONE && vb_dev_is_let_go(dev))
			vb_dev_free(dev);
	}
}

void vb_dev_bind(struct vb_chan *ch, struct vb_dev *dev)
{
	if (ch->dev)
		ch->dev->chans--;
	if (dev)
		dev->chans++;
	ch->dev = dev;
}

/* ---- the door ---- */

bool vb_dev_is(const struct vb_dev *dev, struct ibv_device *ibdev)
{
	return dev->ibdev == ibdev &&
	       dev->number == ibv_get_device_index(ibdev);
}

int vb_dev_may(const struct vb_dev *dev, bool accepting, struct error *e)
{
	if (dev->sick)
		return error_set(e, -EIO,
				 "device %s has failed, and is not used until "
				 "it is added anew",
				 vb_dev_name(dev));
	if (dev->state != VB_DEV_SERVING)
		return error_set(e, -ENODEV, "device %s was removed",
				 vb_dev_name(dev));
	if (dev->iwarp && accepting)
		return error_set(e, -EOPNOTSUPP,
				 "%s is an iWARP device: RDMA READ there needs "
				 "memory that the peer may write, which a "
				 "target does not grant",
				 vb_dev_name(dev));
	return 0;
}

/* The one in use, if there is one, else one that was. */
static struct vb_dev *verbs_dev_find(const struct vb_xp *vx,
				     struct ibv_device *ibdev)
{
	struct vb_dev *found = NULL;
	struct vb_dev *dev;

	vb_for_each_dev(dev, vx, slot) {
		if (vb_dev_is(dev, ibdev) &&
		    (!found || dev->state == VB_DEV_SERVING))
			found = dev;
	}
	return found;
}

struct vb_dev *vb_dev_for(struct vb_xp *vx, const struct rdma_cm_id *id,
			  bool accepting, struct error *e)
{
	struct ibv_device *ibdev = id->verbs ? id->verbs->device : NULL;
	struct vb_dev *dev;

	if (!ibdev) {
		error_set(e, -ENODEV,
			  "librdmacm does not find the device (versions before "
			  "52 may lose one): try again, or start this program "
			  "again");
		return NULL;
	}
	dev = verbs_dev_find(vx, ibdev);
	if (!dev || dev->state != VB_DEV_SERVING) {
		/* The connection manager may be quicker than the uevent. */
		vb_plug_look(vx, e);
		dev = verbs_dev_find(vx, ibdev);
	}
	if (dev)
		return vb_dev_may(dev, accepting, e) ? NULL : dev;
	if (strcmp(vx->unusable, ibv_get_device_name(ibdev)) != 0)
		error_set(e, -ENODEV, "device %s was removed",
			  ibv_get_device_name(ibdev));
	return NULL;
}

/* ---- pools ---- */

static bool vb_pool_fits(const struct vb_dev *dev, unsigned int sends,
			 unsigned int recvs)
{
	if ((uint64_t)sends + recvs > (unsigned int)dev->attr.max_cqe)
		return false;
	return dev->attr.max_srq <= 0 ||
	       recvs <= (unsigned int)dev->attr.max_srq_wr;
}

static unsigned int vb_pool_cnt(const struct vb_dev *dev)
{
	unsigned int n = 0;
	struct list *it;

	list_for_each(it, &dev->pools)
		n++;
	return n;
}

static struct ibv_cq *pool_cq(struct vb_pool *p, unsigned int entries)
{
	/* Over the reactors of a process, so that the interrupts of their
	 * queues go to different processors. */
	static atomic_uint next_vector;
	struct ibv_context *ctx = p->dev->ctx;
	unsigned int vector = atomic_fetch_add(&next_vector, 1);
	int vectors = ctx->num_comp_vectors > 0 ? ctx->num_comp_vectors : 1;

	return ibv_create_cq(ctx, (int)entries, p, p->dev->comp,
			     (int)(vector % (unsigned int)vectors));
}

static int vb_pool_new(struct vb_dev *dev, unsigned int sends,
		       unsigned int recvs, struct vb_pool **ret_pool,
		       struct error *e)
{
	struct vb_pool *p = calloc(1, sizeof(*p));
	unsigned int doubled;
	unsigned int chans;
	int err = -ENOMEM;

	if (!p)
		goto err;
	vb_pool_free_ended(dev);
	doubled = vb_pool_cnt(dev);
	if (doubled > POOL_DOUBLING)
		doubled = POOL_DOUBLING;
	chans = POOL_CHANS << doubled;
	while (chans > 1 && !vb_pool_fits(dev, chans * sends, chans * recvs))
		chans /= 2;
	p->dev = dev;
	p->send_room = chans * sends;
	p->recv_max = p->recv_room = chans * recvs;
	if (vb_pool_fits(dev, p->send_room, p->recv_max + VB_SPARE_RECVS))
		p->spare = VB_SPARE_RECVS;
	vb_recvq_init(&p->shared, dev);
	p->shared.spare = p->spare;
	p->cq = pool_cq(p, p->send_room + p->recv_room + p->spare);
	if (!p->cq) {
		err = -errno;
		goto err;
	}
	list_add_tail(&dev->pools, &p->node);
	*ret_pool = p;
	return 0;

err:
	free(p);
	error_set(e, err,
		  "cannot make a completion queue of %u entries on %s "
		  "(which has at most %d): %s",
		  sends + recvs, vb_dev_name(dev), dev->attr.max_cqe,
		  strerror(-err));
	return err;
}

/* False: if another channel failed, a buffer could be lost that has no
 * replacement. */
static bool vb_dev_can_share(const struct vb_pool *p)
{
	return p->spare == 0 || vb_recvq_doubts_left(&p->shared) > 0;
}

int vb_pool_get(struct vb_dev *dev, unsigned int sends, unsigned int recvs,
		struct vb_pool **ret_pool, struct error *e)
{
	struct vb_pool *p = NULL;
	struct list *it;
	int err;

	list_for_each(it, &dev->pools) {
		p = container_of(it, struct vb_pool, node);
		if (!p->failed && p->send_room >= sends &&
		    p->recv_room >= recvs && vb_dev_can_share(p))
			break;
		p = NULL;
	}
	if (!p) {
		err = vb_pool_new(dev, sends, recvs, &p, e);
		if (err)
			return err;
	}
	/* vb_pool_new() that fails does not return 0: errno is set then. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	p->send_room -= sends;
	p->recv_room -= recvs;
	*ret_pool = p;
	return 0;
}

/* No queue pair uses it: a new one has all the buffers, also those lost. */
static void vb_pool_renew(struct vb_pool *p)
{
	if (vb_recvq_doubts_left(&p->shared) == p->spare &&
	    list_empty(&p->shared.missing))
		return;
	ibv_destroy_srq(p->shared.srq);
	vb_recvq_close(&p->shared);
}

void vb_pool_put(struct vb_pool *p, unsigned int sends, unsigned int recvs)
{
	p->send_room += sends;
	p->recv_room += recvs;
	if (p->failed)
		vb_pool_end(p);
	else if (p->recv_room == p->recv_max && p->shared.srq)
		vb_pool_renew(p);
}

void vb_pool_share(struct vb_pool *p)
{
	struct ibv_srq_init_attr attr = {
		.srq_context = p,
		.attr = { .max_wr = p->recv_max + p->spare, .max_sge = 1 },
	};

	if (p->shared.srq || p->no_srq)
		return;
	if (p->dev->attr.max_srq > 0)
		p->shared.srq = ibv_create_srq(p->dev->pd, &attr);
	p->no_srq = !p->shared.srq;
}

unsigned int vb_pool_poll(struct vb_pool *p)
{
	uint64_t now = reactor_turn_us(p->dev->vx->base.cfg.reactor);
	struct ibv_wc wcs[POLL_BATCH];
	unsigned int done = 0;
	int n;

	if (!p->cq || p->failed) {
		p->emptied = true;
		return 0;
	}
	p->emptied = false;
	for (int round = 0; round < POLL_ROUNDS && !p->emptied; round++) {
		n = ibv_poll_cq(p->cq, POLL_BATCH, wcs);
		if (n < 0) {
			vb_pool_fail(
				p,
				"failed: a completion queue cannot be polled");
			return done;
		}
		for (int i = 0; i < n; i++)
			vb_chan_completed(p, &wcs[i]);
		p->emptied = n < POLL_BATCH;
		done += (unsigned int)n;
	}
	if (p->emptied)
		p->emptied_us = now;
	p->dev->vx->base.stats.cqes += done;
	return done;
}
