/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/verbs/verbs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Private data in the messages of InfiniBand's connection manager, without the
 * bytes that librdmacm uses. */
#define REQ_PDATA_MAX 56
#define REP_PDATA_MAX 196
#define REJ_PDATA_MAX 148

/* InfiniBand Architecture, volume 1, "Rejection Reason": consumer defined. (On
 * iWARP there are negative errnos instead.) */
#define REJECTED_BY_CONSUMER 28

/* A DREQ that is not answered is repeated after 4.3 s (the connection manager's
 * response timeout), at most twice. */
#define LINGER_MS 10000

struct vb_request {
	struct xp_conn_request base;
	struct vb_cm cm;
	bool dead; /* the peer has given up; set by who reads events */
	uint8_t initiator_depth;
	uint8_t responder_resources;
	uint8_t pdata[XP_PDATA_MAX];
	struct xp_route route; /* of the listener */
};

/* A cm_id whose channel was freed before the peer had answered the DREQ. It is
 * kept for a while, because only the owner of the cm_id repeats a DREQ that is
 * lost. */
struct vb_linger {
	struct vb_cm cm;
	struct list node; /* vx->lingering */
	struct reactor_timer timer;
};

/* A copy of an event. The event itself is acknowledged before it is handled,
 * because a cm_id with an unacknowledged event cannot be destroyed. */
struct vb_event {
	enum rdma_cm_event_type type;
	int status;
	struct vb_cm *cm;
	struct rdma_conn_param param;
	uint8_t pdata[XP_PDATA_MAX];
	size_t pdata_len;
};

/* ---- lingering ---- */

static void cm_linger_end(struct vb_linger *l)
{
	reactor_timer_stop(&l->timer);
	list_del(&l->node);
	rdma_destroy_id(l->cm.id);
	free(l);
}

static void cm_linger_timer(struct reactor_timer *t)
{
	cm_linger_end(container_of(t, struct vb_linger, timer));
}

void vb_cm_release(struct vb_chan *ch)
{
	struct vb_xp *vx = vb_chan_xp(ch);
	struct vb_linger *l = NULL;

	if (ch->dreq_sent && !ch->disconnected)
		l = calloc(1, sizeof(*l));
	if (!l) {
		rdma_destroy_id(ch->cm.id);
		return;
	}
	l->cm.kind = VB_CM_LINGER;
	l->cm.id = ch->cm.id;
	l->cm.id->context = &l->cm;
	list_add_tail(&vx->lingering, &l->node);
	reactor_timer_init(&l->timer, cm_linger_timer);
	reactor_timer_set(vx->base.cfg.reactor, &l->timer, LINGER_MS);
}

/* ---- librdmacm's contexts ---- */

static bool cm_has_pinned(const struct vb_dev *dev,
			  const struct ibv_context *ctx)
{
	for (unsigned int i = 0; i < VB_PINS_MAX && dev->pins[i]; i++) {
		if (dev->pins[i][0] == ctx)
			return true;
	}
	return false;
}

/* Keeps the reference to @ctx, as a list of its own, which rdma_free_devices() takes as
 * it takes theirs. */
static bool cm_keep(struct vb_dev *dev, struct ibv_context *ctx)
{
	unsigned int i = 0;

	while (i < VB_PINS_MAX && dev->pins[i])
		i++;
	if (ctx->device != dev->ibdev || cm_has_pinned(dev, ctx) ||
	    i == VB_PINS_MAX)
		return false;
	dev->pins[i] = calloc(2, sizeof(dev->pins[i][0]));
	if (dev->pins[i])
		dev->pins[i][0] = ctx;
	return dev->pins[i];
}

bool vb_cm_pin(struct vb_dev *dev)
{
	struct ibv_context **all = rdma_get_devices(NULL);
	unsigned int others = 0;
	bool known = false;

	for (unsigned int i = 0; all && all[i]; i++) {
		known = known || all[i]->device == dev->ibdev;
		if (!cm_keep(dev, all[i]))
			all[others++] = all[i];
	}
	if (!all)
		return true; /* it does not say */
	all[others] = NULL;
	rdma_free_devices(all);
	return known;
}

/*
 * Several instances may do this: as long as one has it pinned the descriptors
 * are librdmacm's, which closes them when it frees the context.
 */
void vb_cm_cut_context(const struct ibv_context *ctx)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	dup3(null, ctx->cmd_fd, O_CLOEXEC);
	dup3(null, ctx->async_fd, O_CLOEXEC);
	close(null);
}

void vb_cm_cut(struct vb_dev *dev)
{
	for (unsigned int i = 0; i < VB_PINS_MAX && dev->pins[i]; i++)
		vb_cm_cut_context(dev->pins[i][0]);
}

void vb_cm_unpin(struct vb_dev *dev)
{
	for (unsigned int i = 0; i < VB_PINS_MAX && dev->pins[i]; i++) {
		rdma_free_devices(dev->pins[i]);
		dev->pins[i] = NULL;
	}
}

/* ---- events of a channel ---- */

static void cm_address_resolved(struct vb_chan *ch)
{
	struct rdma_cm_id *id = ch->cm.id;
	struct error e;

	xp_addr_text(rdma_get_local_addr(id), ch->base.local,
		     sizeof(ch->base.local));
	vb_dev_bind(ch, vb_dev_for(vb_chan_xp(ch), id, ch->accepting, &e));
	if (!ch->dev) {
		xp_core_fail(&ch->base, e.err, "%s", e.text);
		return;
	}
	if (ch->has_path
		    ? rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH,
				      &ch->path, sizeof(ch->path))
		    : rdma_resolve_route(id, (int)ch->timeout_ms))
		xp_core_fail(&ch->base, -errno, "%s (%s)",
			     vb_cm_text(RDMA_CM_EVENT_ROUTE_ERROR, -errno),
			     strerror(errno));
}

/* The kernel takes a path only for a cm_id without one. A new cm_id with the same
 * addresses takes the place of the one that has found it. */
static void cm_resolve_again(struct vb_chan *ch)
{
	struct rdma_addr addr = ch->cm.id->route.addr;
	struct rdma_cm_id *id;

	/* It has the same place in both families. */
	addr.src_sin.sin_port = 0;
	if (!rdma_create_id(vb_chan_xp(ch)->cm, &id, &ch->cm, RDMA_PS_TCP)) {
		rdma_destroy_id(ch->cm.id);
		ch->cm.id = id;
		if (!rdma_bind_addr(id, &addr.src_addr) &&
		    !rdma_resolve_addr(id, NULL, &addr.dst_addr,
				       (int)ch->timeout_ms))
			return;
	}
	xp_core_fail(&ch->base, -errno, "cannot choose service level %u: %s",
		     ch->route.sl, strerror(errno));
}

static uint8_t cm_at_most(uint8_t want, int limit)
{
	return limit < want ? (uint8_t)(limit > 0 ? limit : 0) : want;
}

static void cm_route_resolved(struct vb_chan *ch)
{
	struct rdma_conn_param param = {
		.private_data = ch->pdata,
		.private_data_len = (uint8_t)ch->pdata_len,
		/* READs of the target that this side answers. It issues
		 * none. */
		.responder_resources =
			cm_at_most(VB_READ_DEPTH, ch->dev->attr.max_qp_rd_atom),
		.initiator_depth = 0,
		.flow_control = 1,
		.retry_count = ch->retry_cnt,
		.rnr_retry_count = 7,
	};
	struct error e;
	int err = vb_route_check(ch, &e);

	if (!err && vb_route_choose(ch)) {
		cm_resolve_again(ch);
		return;
	}
	if (!err)
		err = vb_chan_open(ch, &e);
	if (err) {
		xp_core_fail(&ch->base, err, "%s", e.text);
		return;
	}
	ch->state = VB_REQUESTED;
	param.qp_num = ch->qp->qp_num;
	if (rdma_connect(ch->cm.id, &param))
		xp_core_fail(&ch->base, -errno,
			     "cannot send the connection request: %s",
			     strerror(errno));
}

/* The REP has come: this side sends the RTU. */
static void cm_responded(struct vb_chan *ch, const struct vb_event *ev)
{
	struct error e;
	int err;

	err = vb_chan_move(ch, IBV_QPS_INIT);
	if (!err)
		err = vb_chan_move(ch, IBV_QPS_RTR);
	/* The queue pair has its values from the connection manager. */
	if (!err && xp_route_check(&ch->route, &ch->base.negotiated, &e)) {
		xp_core_fail(&ch->base, e.err, "%s", e.text);
		return;
	}
	if (!err)
		err = vb_chan_move(ch, IBV_QPS_RTS);
	if (!err && rdma_establish(ch->cm.id))
		err = -errno;
	if (err)
		xp_core_fail(&ch->base, err,
			     "cannot complete the connection: %s",
			     strerror(-err));
	else
		vb_chan_up(ch, ev->pdata, ev->pdata_len);
}

static void cm_rejected(struct vb_chan *ch, const struct vb_event *ev)
{
	/* If no program listens, the connection manager itself rejects, with
	 * private data that is always as long as can be and says nothing. */
	if (ev->status == REJECTED_BY_CONSUMER || ev->status < 0)
		xp_core_keep_reject(&ch->base, ev->pdata, ev->pdata_len);
	xp_core_fail(&ch->base, vb_reject_errno(ev->status),
		     "%s (reject reason %d)", vb_reject_text(ev->status),
		     ev->status);
}

/* What the peer sent before it left lies in the completion queue, which is read
 * less often than the events of the connection manager. */
static void cm_disconnected(struct vb_chan *ch)
{
	if (ch->pool) {
		do
			vb_pool_poll(ch->pool);
		while (!ch->pool->emptied);
	}
	xp_core_fail(&ch->base, -ECONNRESET, "the peer closed the connection");
}

static void cm_chan_event(struct vb_chan *ch, const struct vb_event *ev)
{
	if (ev->type == RDMA_CM_EVENT_DISCONNECTED)
		ch->disconnected = true;
	if (ch->state >= VB_FLUSHING)
		return;
	switch (ev->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		cm_address_resolved(ch);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		cm_route_resolved(ch);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		cm_responded(ch, ev);
		break;
	case RDMA_CM_EVENT_ESTABLISHED: /* RTU; iWARP: the answer, too */
		if (ch->state != VB_UP)
			vb_chan_up(ch, ev->pdata, ev->pdata_len);
		break;
	case RDMA_CM_EVENT_REJECTED:
		cm_rejected(ch, ev);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		cm_disconnected(ch);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		xp_core_fail(&ch->base, -ENODEV, "device %s was removed",
			     ch->dev ? vb_dev_name(ch->dev) : "(unknown)");
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		xp_core_fail(&ch->base, ev->status < 0 ? ev->status : -EIO,
			     "%s (%s, status %d)",
			     vb_cm_text(ev->type, ev->status),
			     rdma_event_str(ev->type), ev->status);
		break;
	default: /* addresses that moved, the end of TIMEWAIT */
		break;
	}
}

/*
 * Tells the kernel, which treats this as the RTU: the event ESTABLISHED follows
 * as usual. If the real RTU has come before, this fails, which does no harm.
 */
void vb_cm_came_early(struct vb_chan *ch)
{
	if (ch->state == VB_ACCEPTED)
		rdma_notify(ch->cm.id, IBV_EVENT_COMM_EST);
}

/* ---- connection requests ---- */

static void cm_request_addresses(struct vb_request *req)
{
	struct sockaddr *peer = rdma_get_peer_addr(req->cm.id);

	xp_addr_text(rdma_get_local_addr(req->cm.id), req->base.local,
		     sizeof(req->base.local));
	xp_addr_text(peer, req->base.peer, sizeof(req->base.peer));
	memcpy(&req->base.peer_addr, peer,
	       peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in));
}

static struct vb_request *cm_request_new(struct vb_listener *l,
					 struct rdma_cm_id *id,
					 const struct vb_event *ev)
{
	struct vb_request *req = calloc(1, sizeof(*req));
	struct error e;

	if (!req)
		return NULL;
	req->cm.kind = VB_CM_REQUEST;
	req->cm.id = id;
	req->initiator_depth = ev->param.initiator_depth;
	req->responder_resources = ev->param.responder_resources;
	memcpy(req->pdata, ev->pdata, ev->pdata_len);
	req->base.xp = l->base.xp;
	req->base.pdata = req->pdata;
	req->base.pdata_len = ev->pdata_len;
	req->base.user = l->user;
	req->route = l->route;
	if (vb_route_check_request(id, &l->route, &e))
		memcpy(req->base.unfit, e.text, sizeof(req->base.unfit));
	cm_request_addresses(req);
	return req;
}

static void cm_requested(struct vb_listener *l, struct rdma_cm_id *id,
			 const struct vb_event *ev)
{
	struct vb_request *req = cm_request_new(l, id, ev);

	if (!req) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return;
	}
	id->context = &req->cm;
	l->requested(&req->base);
}

/* Gives up the cm_id. The peer is told, if it is still there. */
static void cm_request_drop(struct vb_request *req, const void *pdata,
			    size_t len)
{
	assert(len <= REJ_PDATA_MAX);
	rdma_reject(req->cm.id, pdata, (uint8_t)len);
	rdma_destroy_id(req->cm.id);
	free(req);
}

void vb_reject(struct xp_conn_request *base, const void *pdata, size_t len)
{
	cm_request_drop(container_of(base, struct vb_request, base), pdata,
			len);
}

/* ---- reading events ---- */

static void cm_event_copy(struct vb_event *ev, const struct rdma_cm_event *from)
{
	const struct rdma_conn_param *param = &from->param.conn;

	*ev = (struct vb_event){
		.type = from->event,
		.status = from->status,
		.cm = from->listen_id ? from->listen_id->context
				      : from->id->context,
		.param = *param,
	};
	if (!param->private_data)
		return;
	ev->pdata_len = param->private_data_len;
	memcpy(ev->pdata, param->private_data, ev->pdata_len);
}

static void listener_event(struct vb_listener *l, struct rdma_cm_id *id,
			   const struct vb_event *ev)
{
	if (ev->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		cm_requested(l, id, ev);
	/* A bond has gone to another interface, maybe of another device. */
	if (ev->type == RDMA_CM_EVENT_ADDR_CHANGE) {
		vb_listener_renew(l);
		vb_listen_again(container_of(l->base.xp, struct vb_xp, base));
	}
	if (ev->type != RDMA_CM_EVENT_DEVICE_REMOVAL)
		return;
	/* Its address was on that device; a wildcard's is on none. */
	rdma_destroy_id(l->cm.id);
	l->cm.id = NULL;
	/* That device may be back already. */
	vb_listen_again(container_of(l->base.xp, struct vb_xp, base));
}

/* Handles one event, and acknowledges it. */
static void cm_handle_event(struct vb_xp *vx, struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;
	enum vb_cm_kind kind;
	struct vb_event ev;

	cm_event_copy(&ev, event);
	/* A request may be on its way to another reactor, which takes it away
	 * from us only when this event has been acknowledged. */
	kind = ev.cm->kind;
	if (kind == VB_CM_REQUEST && ev.type != RDMA_CM_EVENT_ADDR_CHANGE)
		container_of(ev.cm, struct vb_request, cm)->dead = true;
	rdma_ack_cm_event(event);
	switch (kind) {
	case VB_CM_REQUEST: /* may be freed by now */
		break;
	case VB_CM_LISTENER:
		listener_event(container_of(ev.cm, struct vb_listener, cm), id,
			       &ev);
		break;
	case VB_CM_CHAN:
		cm_chan_event(container_of(ev.cm, struct vb_chan, cm), &ev);
		break;
	case VB_CM_LINGER:
		cm_linger_end(container_of(ev.cm, struct vb_linger, cm));
		break;
	}
	if (ev.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		vb_plug_look(vx, NULL);
}

static void cm_ready(struct reactor_watch *w, uint32_t events)
{
	struct vb_xp *vx = container_of(w, struct vb_watch, base)->owner;
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(vx->cm, &event) == 0)
		cm_handle_event(vx, event);
}

/* ---- instances ---- */

int vb_cm_open(struct vb_xp *vx, struct error *e)
{
	int err;

	vb_listen_init(vx);
	vx->cm = rdma_create_event_channel();
	if (!vx->cm) {
		err = errno ? -errno : -ENODEV;
		error_set(e, err,
			  "cannot open the RDMA connection manager "
			  "(/dev/infiniband/rdma_cm, module rdma_ucm): %s",
			  strerror(-err));
		return err;
	}
	err = vb_watch_new(vx, vx->cm->fd, vx, cm_ready, &vx->cm_watch);
	if (!err)
		return 0;
	error_set(e, err, "cannot watch the RDMA connection manager: %s",
		  strerror(-err));
	rdma_destroy_event_channel(vx->cm);
	vx->cm = NULL;
	return err;
}

void vb_cm_close(struct vb_xp *vx)
{
	while (!list_empty(&vx->lingering))
		cm_linger_end(
			list_first(&vx->lingering, struct vb_linger, node));
	if (!vx->cm)
		return;
	reactor_timer_stop(&vx->listen_timer);
	vb_watch_free(vx->cm_watch);
	rdma_destroy_event_channel(vx->cm);
}

/* ---- accepting ---- */

/* Brings the queue pair to RTS and answers. */
static int cm_accept_answer(struct vb_chan *ch, const struct xp_chan_params *p)
{
	struct rdma_conn_param param = {
		.private_data = p->pdata,
		.private_data_len = (uint8_t)p->pdata_len,
		.responder_resources = ch->answer_depth,
		.initiator_depth = ch->read_depth,
		.flow_control = 1,
		.rnr_retry_count = 7,
		.srq = ch->shared,
		.qp_num = ch->qp->qp_num,
	};
	int err;

	assert(p->pdata_len <= REP_PDATA_MAX);
	err = vb_chan_move(ch, IBV_QPS_RTR);
	if (!err)
		err = vb_chan_move(ch, IBV_QPS_RTS);
	if (!err && rdma_accept(ch->cm.id, &param))
		err = -errno;
	return err;
}

/* How many READs this side may have outstanding: as many as the peer answers.
 * With none, READs would hang for ever without an error. */
static uint8_t cm_accept_depth(const struct vb_request *req,
			       const struct vb_dev *dev)
{
	uint8_t depth =
		cm_at_most(VB_READ_DEPTH, dev->attr.max_qp_init_rd_atom);

	depth = cm_at_most(depth, req->initiator_depth);
	return depth ? depth : 1;
}

static int cm_accept_on(struct vb_chan *ch, struct vb_request *req,
			const struct xp_chan_params *params, struct error *e)
{
	struct reactor *r = ch->base.xp->cfg.reactor;
	int err;

	vb_dev_bind(ch,
		    vb_dev_for(vb_chan_xp(ch), ch->cm.id, ch->accepting, e));
	if (!ch->dev)
		return e->err;
	if (req->dead) {
		vb_chan_doom(ch, -ECONNABORTED);
		return 0;
	}
	ch->read_depth = cm_accept_depth(req, ch->dev);
	ch->answer_depth = cm_at_most(1, req->responder_resources);
	err = vb_chan_open(ch, e);
	if (err && err != -ENOTCONN)
		return err;
	reactor_timer_set(r, &ch->timer, VB_ACCEPT_MS);
	/* Everything of this side is made, so a refusal means that the peer is
	 * gone. */
	if (err || cm_accept_answer(ch, params))
		vb_chan_doom(ch, -ECONNABORTED);
	return 0;
}

int vb_accept(struct xp *xp, struct xp_conn_request *base,
	      const struct xp_chan_params *params, struct xp_chan **ret_ch,
	      struct error *e)
{
	struct vb_request *req = container_of(base, struct vb_request, base);
	struct vb_xp *vx = container_of(xp, struct vb_xp, base);
	struct rdma_cm_id *id = req->cm.id;
	struct vb_chan *ch;
	int err;

	if (base->xp != xp && rdma_migrate_id(id, vx->cm)) {
		err = -errno;
		error_set(e, err, "cannot move a connection: %s",
			  strerror(-err));
		goto err_drop;
	}
	err = vb_chan_new(vx, params, VB_ACCEPTED, &ch, e);
	if (err)
		goto err_drop;
	ch->cm.id = id;
	ch->route = req->route;
	memcpy(ch->base.local, base->local, sizeof(ch->base.local));
	memcpy(ch->base.peer, base->peer, sizeof(ch->base.peer));
	err = cm_accept_on(ch, req, params, e);
	if (err)
		goto err_abandon;
	id->context = &ch->cm;
	free(req);
	*ret_ch = &ch->base;
	return 0;

err_abandon:
	vb_chan_abandon(ch);
err_drop:
	cm_request_drop(req, NULL, 0);
	return err;
}

/* ---- connecting ---- */

int vb_connect(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	       const struct xp_chan_params *params, struct xp_chan **ret_ch,
	       struct error *e)
{
	struct vb_xp *vx = container_of(xp, struct vb_xp, base);
	struct sockaddr_storage to = { 0 };
	struct vb_chan *ch;
	int err;

	if (!vx->cm) {
		error_set(e, -ENODEV, "this machine has no RDMA device");
		return -ENODEV;
	}
	err = vb_chan_new(vx, params, VB_RESOLVING, &ch, e);
	if (err)
		return err;
	assert(params->pdata_len <= REQ_PDATA_MAX);
	if (params->pdata_len)
		memcpy(ch->pdata, params->pdata, params->pdata_len);
	ch->pdata_len = params->pdata_len;
	memcpy(&to, addr, addr_len);
	xp_addr_text(addr, ch->base.peer, sizeof(ch->base.peer));
	if (rdma_create_id(vx->cm, &ch->cm.id, &ch->cm, RDMA_PS_TCP)) {
		err = -errno;
		error_set(e, err, "%s (%s)",
			  vb_cm_text(RDMA_CM_EVENT_ADDR_ERROR, err),
			  strerror(-err));
		goto err_abandon;
	}
	err = vb_route_set_tos(ch->cm.id, &ch->route, e);
	if (!err)
		err = vb_route_bind(ch->cm.id, &ch->route, addr, e);
	if (err)
		goto err_destroy;
	if (rdma_resolve_addr(ch->cm.id, NULL, (struct sockaddr *)&to,
			      (int)ch->timeout_ms)) {
		err = -errno;
		error_set(e, err, "%s (%s)",
			  vb_cm_text(RDMA_CM_EVENT_ADDR_ERROR, err),
			  strerror(-err));
		goto err_destroy;
	}
	reactor_timer_set(xp->cfg.reactor, &ch->timer, ch->timeout_ms);
	*ret_ch = &ch->base;
	return 0;

err_destroy:
	rdma_destroy_id(ch->cm.id);
err_abandon:
	vb_chan_abandon(ch);
	return err;
}
