/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/verbs/verbs.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* At least as many work requests as the core posts at a time. */
#define SEND_BATCH 64

/* InfiniBand Architecture, volume 1, "RNR NAK Timer": 0.64 ms. What librdmacm
 * would set, 0, means 655 ms. */
#define RNR_TIMER 12

/* ---- making one ---- */

static void vb_chan_timer(struct reactor_timer *t);

int vb_chan_new(struct vb_xp *vx, const struct xp_chan_params *params,
		enum vb_state state, struct vb_chan **ret_ch, struct error *e)
{
	struct vb_chan *ch = calloc(1, sizeof(*ch));
	int err = -ENOMEM;

	if (ch)
		err = xp_core_chan_init(&ch->base, &vx->base, params,
					vx->base.cfg.send_depth);
	if (err) {
		free(ch);
		error_set(e, err, "no memory for a channel");
		return err;
	}
	ch->cm.kind = VB_CM_CHAN;
	ch->state = state;
	ch->accepting = state == VB_ACCEPTED;
	/* Only there: the queue pair of an acceptor takes no RDMA. */
	ch->base.probes = ch->accepting;
	ch->recv_cnt = params->recv_cnt ? params->recv_cnt : 1;
	ch->timeout_ms = params->timeout_ms ? params->timeout_ms : 5000;
	if (params->route)
		ch->route = *params->route;
	ch->retry_cnt = 7;
	if (params->retry_cnt && params->retry_cnt < 7)
		ch->retry_cnt = (uint8_t)params->retry_cnt;
	reactor_timer_init(&ch->timer, vb_chan_timer);
	list_init(&ch->early);
	list_init(&ch->closing_node);
	list_init(&ch->qpn_node);
	vb_recvq_init(&ch->own, NULL);
	*ret_ch = ch;
	return 0;
}

/* Inline data costs room in the send queue; some devices refuse it. */
static int vb_qp_create(struct vb_chan *ch, struct ibv_srq *srq)
{
	unsigned int inline_max = VB_INLINE_MAX;
	struct ibv_qp_init_attr attr;

	for (;;) {
		attr = (struct ibv_qp_init_attr){
			.qp_context = ch,
			.send_cq = ch->pool->cq,
			.recv_cq = ch->pool->cq,
			.srq = srq,
			.qp_type = IBV_QPT_RC,
			.cap = {
				.max_send_wr = ch->sends,
				.max_recv_wr = srq ? 0 : ch->recv_cnt,
				.max_send_sge = 2,
				.max_recv_sge = srq ? 0 : 1,
				.max_inline_data = inline_max,
			},
		};
		ch->qp = ibv_create_qp(ch->dev->pd, &attr);
		if (ch->qp || inline_max == 0)
			break;
		inline_max = inline_max > 64 ? inline_max / 2 : 0;
	}
	if (!ch->qp)
		return -errno;
	ch->dev->qps++;
	ch->inline_max = attr.cap.max_inline_data;
	return 0;
}

int vb_chan_move(struct vb_chan *ch, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0;

	if (rdma_init_qp_attr(ch->cm.id, &attr, &mask))
		return -ENOTCONN;
	if (mask & IBV_QP_ACCESS_FLAGS) {
		/* An acceptor moves the data itself: its peer has no reason
		 * in its memory, and a queue pair that says so is a second
		 * lock beside the memory regions. */
		attr.qp_access_flags &=
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
		if (ch->accepting)
			attr.qp_access_flags = 0;
	}
	/* What a listener demands, in place of what the request has. */
	if (ch->accepting && ch->route.has_sl && (mask & IBV_QP_AV))
		attr.ah_attr.sl = ch->route.sl;
	if (ch->route.ack_timeout && (mask & IBV_QP_TIMEOUT))
		attr.timeout = ch->route.ack_timeout;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		attr.min_rnr_timer = RNR_TIMER;
	if (ch->accepting && (mask & IBV_QP_MAX_DEST_RD_ATOMIC))
		attr.max_dest_rd_atomic = ch->answer_depth;
	if (ch->accepting && (mask & IBV_QP_MAX_QP_RD_ATOMIC))
		attr.max_rd_atomic = ch->read_depth;
	vb_route_note(ch, &attr, mask);
	return vb_errno(ibv_modify_qp(ch->qp, &attr, mask));
}

static int vb_chan_open_recvs(struct vb_chan *ch, struct error *e)
{
	if (ch->shared)
		return vb_recvq_grow(&ch->pool->shared, ch->recv_cnt, e);
	vb_recvq_init(&ch->own, ch->dev);
	ch->own.qp = ch->qp;
	ch->own.ch = ch;
	return vb_recvq_grow(&ch->own, ch->recv_cnt, e);
}

static int vb_qp_destroy(struct vb_chan *ch);
static void vb_qp_leave(struct vb_chan *ch);
static void vb_chan_leave_pool(struct vb_chan *ch);

int vb_chan_open(struct vb_chan *ch, struct error *e)
{
	struct ibv_srq *srq = NULL;
	int err;

	err = vb_dev_may(ch->dev, ch->accepting, e);
	if (err)
		return err;
	strncpy(ch->base.device, vb_dev_name(ch->dev),
		sizeof(ch->base.device) - 1);
	ch->sends = ch->base.xp->cfg.send_depth + /* marker */ 1;
	err = vb_mr_join(ch->dev, e);
	if (err)
		return err;
	err = vb_pool_get(ch->dev, ch->sends, ch->recv_cnt, &ch->pool, e);
	if (err)
		return err;
	if (ch->accepting) {
		vb_pool_share(ch->pool);
		srq = ch->pool->shared.srq;
	}
	err = vb_qp_create(ch, srq);
	if (!err)
		err = vb_chan_move(ch, IBV_QPS_INIT);
	if (err) {
		error_set(e, err, "cannot make a queue pair on %s: %s",
			  vb_dev_name(ch->dev), strerror(-err));
		goto err_leave;
	}
	ch->shared = srq;
	err = vb_chan_open_recvs(ch, e);
	if (err) {
		ch->shared = false; /* it has no share */
		goto err_leave;
	}
	vb_dev_add_chan(ch->dev, ch);
	return 0;

err_leave:
	vb_qp_leave(ch);
	vb_chan_leave_pool(ch);
	return err;
}

/*
 * From now on the device does not touch memory of the channel. On failure it may, and
 * nothing has changed; but a device that leaves touches nothing any more, whatever it
 * answers.
 */
static int vb_qp_destroy(struct vb_chan *ch)
{
	int err = ch->qp ? vb_errno(ibv_destroy_qp(ch->qp)) : 0;

	if (err && (ch->dev->state == VB_DEV_SERVING || ch->dev->sick))
		return err;
	list_del(&ch->qpn_node);
	if (ch->qp) {
		ch->dev->qps--;
		if (ch->shared)
			vb_recvq_doubt(&ch->pool->shared);
	}
	ch->qp = NULL;
	ch->own.qp = NULL;
	ch->own.posted = 0;
	return 0;
}

/* Of a channel that no peer knows: one that cannot be destroyed is left to the end of the
 * device's context. Its memory is deregistered. */
static void vb_qp_leave(struct vb_chan *ch)
{
	if (!vb_qp_destroy(ch))
		return;
	list_del(&ch->qpn_node);
	ch->dev->qps--;
	ch->qp->qp_context = NULL;
	ch->qp = NULL;
	ch->own.qp = NULL;
}

static void vb_chan_leave_pool(struct vb_chan *ch)
{
	struct list *it;

	while ((it = list_pop(&ch->early)))
		vb_iu_put(container_of(it, struct vb_iu, base.node));
	if (!ch->pool)
		return;
	if (ch->shared)
		vb_recvq_shrink(&ch->pool->shared, ch->recv_cnt);
	vb_pool_put(ch->pool, ch->sends, ch->recv_cnt);
	ch->pool = NULL;
}

/* ---- freeing ---- */

/* Takes the IUs that were released but not yet posted out of the core's
 * list. */
static void vb_chan_forget_released(struct vb_chan *ch)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &ch->base.xp->released) {
		if (container_of(it, struct vb_iu, base.node)->slab->rq ==
		    &ch->own)
			list_del(it);
	}
}

static void vb_chan_destroy(struct vb_chan *ch)
{
	vb_chan_forget_released(ch);
	vb_recvq_fini(&ch->own);
	vb_dev_bind(ch, NULL);
	xp_core_chan_fini(&ch->base);
	reactor_timer_stop(&ch->timer);
	free(ch);
}

void vb_chan_abandon(struct vb_chan *ch)
{
	vb_qp_leave(ch);
	vb_chan_leave_pool(ch);
	vb_chan_destroy(ch);
}

void vb_chan_free(struct xp_chan *base)
{
	struct vb_chan *ch = vb_chan(base);

	assert(ch->state == VB_GONE);
	vb_cm_release(ch);
	vb_chan_destroy(ch);
}

/* ---- posting ---- */

/* False: a piece that must be registered is not. */
static bool vb_fill_sges(const struct vb_chan *ch, const struct xp_wr *wr,
			 struct ibv_sge *sges, bool *ret_inline)
{
	bool registered = true;
	uint32_t total = 0;

	for (unsigned int i = 0; i < wr->sge_cnt; i++) {
		const struct xp_sge *sge = &wr->sge[i];
		struct ibv_mr *mr = NULL;

		if (sge->mr)
			mr = container_of(sge->mr, struct vb_mr, base)
				     ->mrs[ch->dev->index];
		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)sge->addr,
			.length = sge->len,
			.lkey = mr ? mr->lkey : 0,
		};
		registered = registered && mr;
		total += sge->len;
	}
	*ret_inline = wr->op == XP_WR_SEND && total <= ch->inline_max;
	return registered || *ret_inline;
}

static enum ibv_wr_opcode opcode(enum xp_wr_op op)
{
	switch (op) {
	case XP_WR_WRITE:
		return IBV_WR_RDMA_WRITE;
	case XP_WR_READ:
		return IBV_WR_RDMA_READ;
	case XP_WR_SEND:
		break;
	}
	return IBV_WR_SEND;
}

/* Returns 0, or -EINVAL for memory that is not registered with the device. */
static int vb_fill_wr(const struct vb_chan *ch, const struct xp_wr *wr,
		      struct ibv_send_wr *out, struct ibv_sge *sges)
{
	bool inlined;

	if (!vb_fill_sges(ch, wr, sges, &inlined))
		return -EINVAL;
	*out = (struct ibv_send_wr){
		.wr_id = (uintptr_t)wr->group |
			 (wr->signalled ? VB_WR_GROUP : VB_WR_MEMBER),
		.sg_list = sges,
		.num_sge = (int)wr->sge_cnt,
		.opcode = opcode(wr->op),
	};
	if (wr->signalled)
		out->send_flags |= IBV_SEND_SIGNALED;
	if (inlined)
		out->send_flags |= IBV_SEND_INLINE;
	/* A SEND may overtake a READ on the wire. In a chain it must not. */
	if (wr->op == XP_WR_SEND && wr->group->chain->dir == XP_RDMA_READ)
		out->send_flags |= IBV_SEND_FENCE;
	if (wr->op != XP_WR_SEND) {
		out->wr.rdma.remote_addr = wr->remote_addr;
		out->wr.rdma.rkey = wr->remote_key;
	}
	return 0;
}

int vb_post_send(struct xp_chan *base, const struct xp_wr *wr, unsigned int n)
{
	struct vb_chan *ch = vb_chan(base);
	struct ibv_send_wr wrs[SEND_BATCH];
	struct ibv_sge sges[SEND_BATCH][2];
	struct ibv_send_wr *bad = NULL;
	unsigned int i;
	int err = 0;

	assert(n > 0 && n <= SEND_BATCH);
	for (i = 0; i < n; i++) {
		err = vb_fill_wr(ch, &wr[i], &wrs[i], sges[i]);
		if (err)
			break;
		if (i > 0)
			wrs[i - 1].next = &wrs[i];
	}
	if (i == 0)
		return err;
	n = i;
	err = ibv_post_send(ch->qp, wrs, &bad);
	if (!err)
		return (int)n;
	n = bad ? (unsigned int)(bad - wrs) : 0;
	return n ? (int)n : vb_errno(err);
}

/* ---- completions ---- */

static void vb_chan_wr_failed(struct vb_chan *ch, const struct ibv_wc *wc,
			      const char *what)
{
	char code[32] = "";

	/* A flush only means that something else failed before. */
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		xp_core_fail(&ch->base, -ECONNABORTED, "%s",
			     vb_wc_text(wc->status));
		return;
	}
	if (wc->vendor_err)
		snprintf(code, sizeof(code), " (vendor code %#x)",
			 wc->vendor_err);
	xp_core_fail(&ch->base, vb_wc_errno(wc->status), "%s failed: %s%s",
		     what, vb_wc_text(wc->status), code);
}

static void vb_chan_send_completed(const struct vb_pool *pool,
				   const struct ibv_wc *wc)
{
	struct xp_group *g =
		(void *)(uintptr_t)(wc->wr_id & ~(uint64_t)VB_WR_MASK);
	int err = vb_wc_errno(wc->status);

	/* Before the user is told, who might close the channel for another
	 * reason. */
	if (err)
		vb_chan_wr_failed(vb_chan(g->ch), wc, "a work request");
	else
		g->ch->heard_us = pool->emptied_us;
	if ((wc->wr_id & VB_WR_MASK) == VB_WR_GROUP)
		xp_core_group_done(g, err);
	else if (err)
		xp_core_wr_failed(g, err);
}

/* True: the device has nothing of the channel any more, except completions that
 * may lie in the completion queue; see enum vb_state. */
static void vb_chan_flush_goes_on(struct vb_chan *ch)
{
	struct reactor *r = ch->base.xp->cfg.reactor;
	enum vb_last_wqe known;

	if (ch->state != VB_FLUSHING || !ch->marker_done || ch->own.posted)
		return;
	reactor_timer_stop(&ch->timer);
	known = ch->dev->last_wqe;
	if (!ch->shared || ch->last_wqe || known == VB_LAST_WQE_NEVER ||
	    ch->dev->state != VB_DEV_SERVING) {
		ch->state = VB_FLUSHED;
		return;
	}
	ch->state = VB_LAST_WQE;
	reactor_timer_set(r, &ch->timer,
			  known == VB_LAST_WQE_SENT ? VB_LAST_WQE_MAX_MS
						    : VB_LAST_WQE_MS);
}

void vb_chan_last_wqe(struct vb_chan *ch)
{
	ch->dev->last_wqe = VB_LAST_WQE_SENT;
	ch->last_wqe = true;
	if (ch->state != VB_LAST_WQE)
		return;
	reactor_timer_stop(&ch->timer);
	ch->state = VB_FLUSHED;
}

static void vb_chan_marker_completed(struct vb_chan *ch)
{
	ch->marker_done = true;
	vb_chan_flush_goes_on(ch);
}

/* The channel of a receive. On a shared queue, it follows from the number of
 * the queue pair; that of a channel that is gone is unknown. */
static struct vb_chan *receiver(const struct vb_pool *pool,
				const struct vb_recvq *rq,
				const struct ibv_wc *wc)
{
	return rq->ch ? rq->ch : vb_dev_chan(pool->dev, wc->qp_num);
}

static void verbs_chan_received(struct vb_chan *ch, struct vb_iu *iu)
{
	if (ch->base.ius_held + ch->early_cnt >= ch->recv_cnt) {
		/* Possible with a shared queue, where it is at the cost of
		 * others. */
		xp_core_fail(&ch->base, -EPROTO,
			     "the peer sent more than the %u IUs that it may",
			     ch->recv_cnt);
		vb_iu_put(iu);
	} else if (ch->state == VB_ACCEPTED || ch->state == VB_REQUESTED) {
		list_add_tail(&ch->early, &iu->base.node);
		ch->early_cnt++;
		vb_cm_came_early(ch);
	} else {
		xp_core_received(&ch->base, &iu->base);
	}
}

/* An RDMA WRITE with immediate data takes a receive and leaves it as it was.
 * byte_len is the length of that data, which may be more than a receive has. */
static void verbs_chan_take_iu(struct vb_chan *ch, struct vb_iu *iu,
			       const struct ibv_wc *wc)
{
	if (wc->opcode == IBV_WC_RECV) {
		iu->base.len = wc->byte_len;
		verbs_chan_received(ch, iu);
		return;
	}
	xp_core_fail(&ch->base, -EPROTO,
		     "the peer sent an RDMA WRITE with immediate data in place "
		     "of an IU");
	vb_iu_put(iu);
}

static void vb_chan_recv_completed(struct vb_pool *pool,
				   const struct ibv_wc *wc)
{
	struct vb_iu *iu =
		(void *)(uintptr_t)(wc->wr_id & ~(uint64_t)VB_WR_MASK);
	struct vb_recvq *rq = iu->slab->rq;
	struct vb_chan *ch = receiver(pool, rq, wc);

	vb_recvq_came_back(iu);
	if (wc->status == IBV_WC_SUCCESS && ch) {
		ch->base.heard_us = pool->emptied_us;
		verbs_chan_take_iu(ch, iu, wc);
	} else {
		vb_iu_put(iu);
		if (ch)
			vb_chan_wr_failed(ch, wc, "a receive");
	}
	if (ch)
		vb_chan_flush_goes_on(ch);
}

void vb_chan_completed(struct vb_pool *pool, struct ibv_wc *wc)
{
	switch ((enum vb_wr)(wc->wr_id & VB_WR_MASK)) {
	case VB_WR_GROUP:
	case VB_WR_MEMBER:
		vb_chan_send_completed(pool, wc);
		break;
	case VB_WR_RECV:
		vb_chan_recv_completed(pool, wc);
		break;
	case VB_WR_MARKER:
		vb_chan_marker_completed(
			(void *)(uintptr_t)(wc->wr_id & ~(uint64_t)VB_WR_MASK));
		break;
	}
}

void vb_chan_up(struct vb_chan *ch, const void *pdata, size_t len)
{
	struct list early = LIST_INIT(early);
	struct list *it;

	reactor_timer_stop(&ch->timer);
	ch->state = VB_UP;
	list_splice_tail(&early, &ch->early);
	ch->early_cnt = 0;
	xp_core_established(&ch->base, pdata, len);
	while ((it = list_pop(&early)))
		xp_core_received(&ch->base,
				 container_of(it, struct xp_iu, node));
}

/* ---- the end ---- */

static int vb_chan_post_marker(struct vb_chan *ch)
{
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)ch | VB_WR_MARKER,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	return vb_errno(ibv_post_send(ch->qp, &wr, &bad));
}

/* Stops posting, and makes the device flush what is posted. */
static int verbs_chan_flush(struct vb_chan *ch)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int err;

	ch->own.qp = NULL; /* post nothing more */
	err = vb_errno(ibv_modify_qp(ch->qp, &attr, IBV_QP_STATE));
	return err ? err : vb_chan_post_marker(ch);
}

void vb_disconnect(struct xp_chan *base)
{
	struct vb_chan *ch = vb_chan(base);
	struct vb_xp *vx = vb_chan_xp(ch);
	struct reactor *r = base->xp->cfg.reactor;
	enum vb_state was = ch->state;

	/* Fails if the peer has disconnected first, which does no harm. */
	if (was == VB_UP || was == VB_ACCEPTED)
		ch->dreq_sent = rdma_disconnect(ch->cm.id) == 0;
	list_add_tail(&vx->closing, &ch->closing_node);
	ch->state = VB_FLUSHED;
	/* The timer also makes sure that there is a next turn. */
	reactor_timer_set(r, &ch->timer, 0);
	if (!ch->qp || verbs_chan_flush(ch) || ch->pool->failed)
		return;
	ch->state = VB_FLUSHING;
	reactor_timer_set(r, &ch->timer,
			  ch->dev->state == VB_DEV_SERVING ? VB_DRAIN_MS
							   : VB_LEAVE_MS);
}

/* A removed device flushes nothing, and the kernel waits until it is closed. Of
 * queues that have failed, nothing more is heard. */
static void vb_chan_hurry(struct vb_chan *ch)
{
	struct reactor *r = ch->base.xp->cfg.reactor;
	bool failed = ch->pool && ch->pool->failed;

	if (!ch->qp || (ch->dev->state == VB_DEV_SERVING && !failed))
		return;
	if (ch->state == VB_FLUSHING)
		reactor_timer_set(r, &ch->timer, failed ? 0 : VB_LEAVE_MS);
	if (ch->state == VB_LAST_WQE || ch->state == VB_STUCK)
		reactor_timer_set(r, &ch->timer, 0);
}

void vb_chan_hurry_all(struct vb_xp *vx)
{
	struct list *it;

	list_for_each(it, &vx->closing)
		vb_chan_hurry(container_of(it, struct vb_chan, closing_node));
}

/* Its memory is nobody else's until that is done. */
static void vb_chan_destroy_qp(struct vb_chan *ch)
{
	int err = vb_qp_destroy(ch);
	char why[96];

	ch->state = err ? VB_STUCK : VB_DESTROYED;
	if (!err)
		return;
	reactor_timer_set(ch->base.xp->cfg.reactor, &ch->timer, VB_STUCK_MS);
	snprintf(why, sizeof(why),
		 "failed: a queue pair cannot be destroyed (%s): trying again",
		 strerror(-err));
	if (!ch->stuck)
		vb_plug_failed(ch->dev, why);
	ch->stuck = true;
}

static void vb_chan_gone(struct vb_chan *ch)
{
	list_del(&ch->closing_node);
	reactor_timer_stop(&ch->timer);
	vb_chan_leave_pool(ch);
	ch->state = VB_GONE;
	xp_core_drained(&ch->base);
}

unsigned int vb_chan_reap(struct vb_xp *vx)
{
	unsigned int done = 0;
	struct list *it;
	struct list *tmp;

	/* closed() may free the channel, and may have others begin to close,
	 * which adds to the end of the list. */
	list_for_each_safe(it, tmp, &vx->closing) {
		struct vb_chan *ch =
			container_of(it, struct vb_chan, closing_node);

		if (ch->pool && !ch->pool->emptied)
			continue;
		if (ch->state == VB_DESTROYED || !ch->pool) {
			vb_chan_gone(ch);
			done++;
		} else if (ch->state == VB_FLUSHED) {
			vb_chan_destroy_qp(ch);
			done++; /* run another turn */
		}
	}
	return done;
}

void vb_chan_doom(struct vb_chan *ch, int err)
{
	ch->doomed = err;
	reactor_timer_set(ch->base.xp->cfg.reactor, &ch->timer, 0);
}

static void vb_chan_connecting_ended(struct vb_chan *ch)
{
	if (ch->doomed)
		xp_core_fail(&ch->base, ch->doomed,
			     "the peer has gone before it was accepted");
	else if (ch->accepting)
		xp_core_fail(&ch->base, -ETIMEDOUT,
			     "the peer did not complete the connection within "
			     "%d s",
			     VB_ACCEPT_MS / 1000);
	else
		xp_core_fail(&ch->base, -ETIMEDOUT,
			     "no answer from that address within %u ms",
			     ch->timeout_ms);
}

static void vb_chan_timer(struct reactor_timer *t)
{
	struct vb_chan *ch = container_of(t, struct vb_chan, timer);

	switch (ch->state) {
	case VB_RESOLVING:
	case VB_REQUESTED:
	case VB_ACCEPTED:
		vb_chan_connecting_ended(ch);
		break;
	case VB_LAST_WQE:
		if (ch->dev->last_wqe == VB_LAST_WQE_UNKNOWN)
			ch->dev->last_wqe = VB_LAST_WQE_NEVER;
		ch->state = VB_FLUSHED;
		break;
	case VB_FLUSHING:
	case VB_STUCK:
		ch->state = VB_FLUSHED;
		break;
	case VB_UP:
	case VB_FLUSHED:
	case VB_DESTROYED:
	case VB_GONE:
		break;
	}
}
