/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How connections of the tcp provider come about: from addresses to endpoints.
 *
 * What libfabric's provider does (1.17), and what follows:
 *  - Private data travels both ways with connect, accept and reject, unpadded;
 *    that of a reject arrives with the error event of the connecting side.
 *  - A refused connect and a reject without private data look the same.
 *  - A request does not tell which of our addresses it came to: on a wildcard
 *    address xp_conn_request.local is the wildcard. The channel knows it.
 *  - A TCP connection to a listener that has not yet said what it wants holds
 *    a pointer to the listener inside the provider. So that nothing follows it
 *    after xp_unlisten(), each listener has an event queue of its own, which
 *    goes with it. The connection itself is then forgotten, not closed.
 *  - The wake-up of an event queue stays set until fi_trywait() looks, and what
 *    waits at its sockets is not all handled by reading it once: see
 *    ofi_eq_run().
 *  - When a peer hangs up instead of answering, the provider takes its reason
 *    from errno, whatever that holds: it is cleared before.
 */
#include "transport/ofi_internal.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/tcp_socket.h"

#define CONNECT_TIMEOUT_MS 5000
/* How long the answer to a READ may take to end once its socket is shut. */
#define CUT_TIMEOUT_MS 1000
/* A connection that asks for nothing is ended after this time, and twice that
 * at most; a login that waits to be let in takes less. */
#define HALF_OPEN_MS 15000
/* Looks at an event queue in one turn. */
#define EQ_ROUNDS 64

/* ---- event queues ---- */

union cm_event {
	struct fi_eq_cm_entry cm;
	uint8_t room[sizeof(struct fi_eq_cm_entry) + XP_PDATA_MAX];
};

int ofi_eq_open(struct ofi_xp *xp, struct ofi_eq *eq)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_FD };
	int err;

	err = fi_eq_open(ofi_fabric(), &attr, &eq->fid, NULL);
	if (err)
		return err;
	err = fi_control(&eq->fid->fid, FI_GETWAIT, &eq->fd);
	if (!err) {
		eq->watch = ofi_watch_start(xp->base.cfg.reactor, eq->fd,
					    &eq->ready);
		err = eq->watch ? 0 : -ENOMEM;
	}
	if (err) {
		fi_close(&eq->fid->fid);
		return err;
	}
	eq->xp = xp;
	list_add_tail(&xp->eqs, &eq->node);
	return 0;
}

/* Of a listener by whichever thread answers its last request; its watch has
 * then been stopped before, by the thread that it belongs to. */
void ofi_eq_close(struct ofi_eq *eq)
{
	if (eq->watch) {
		ofi_watch_stop(eq->watch);
		list_del(&eq->node);
	}
	fi_close(&eq->fid->fid);
}

static void keep_alive(struct ofi_chan *ch)
{
	int fd = ofi_socket_of(ch->ep);

	if (fd >= 0)
		tcp_keep_alive(fd, ch->base.xp->cfg.keepalive_ms);
}

static void connected(struct ofi_chan *ch, const void *pdata, size_t len)
{
	size_t addr_len = sizeof(struct sockaddr_storage);
	struct sockaddr_storage addr;

	reactor_timer_stop(&ch->timer);
	/* An accepted socket has it from the one that listens. */
	if (ch->timeout_ms)
		keep_alive(ch);
	if (fi_getname(&ch->ep->fid, &addr, &addr_len) == 0)
		xp_core_addr_text((struct sockaddr *)&addr, ch->base.local,
				  sizeof(ch->base.local));
	xp_core_established(&ch->base, pdata, len);
}

/* Ends when everything has been received that the peer sent before. */
static void peer_left(struct ofi_chan *ch)
{
	if (ch->base.state < XP_CHAN_CLOSING && list_empty(&ch->node))
		list_add_tail(&ofi_xp(ch->base.xp)->lost, &ch->node);
}

static void connect_failed(struct ofi_chan *ch, int err, size_t pdata_len)
{
	struct xp_chan *base = &ch->base;

	if (err == ECONNREFUSED && pdata_len > 0) {
		xp_core_fail(base, -err, "%s rejected the login", base->peer);
	} else if (err == ECONNREFUSED) {
		xp_core_fail(base, -err,
			     "%s refused the connection: nothing listens "
			     "there, or it gave no reason",
			     base->peer);
	} else if (err == ENOPROTOOPT) {
		xp_core_fail(base, -err,
			     "what listens on %s does not speak libfabric's "
			     "tcp",
			     base->peer);
	} else if (err == EIO || err == ENOTCONN || err == EPIPE ||
		   err == EAGAIN || err == ECONNRESET) {
		xp_core_fail(base, -ECONNRESET,
			     "%s closed the connection before it answered",
			     base->peer);
	} else {
		xp_core_fail(base, -err, "connecting to %s failed: %s",
			     base->peer, strerror(err));
	}
}

static unsigned int eq_error(struct ofi_eq *eq)
{
	uint8_t pdata[XP_PDATA_MAX];
	struct fi_eq_err_entry err = {
		.err_data = pdata,
		.err_data_size = sizeof(pdata),
	};
	struct ofi_chan *ch;
	size_t len = 0;

	if (fi_eq_readerr(eq->fid, &err, 0) <= 0)
		return 0;
	if (!err.fid || err.fid->fclass != FI_CLASS_EP)
		return 1;
	ch = err.fid->context;
	if (ch->base.state != XP_CHAN_CONNECTING) {
		peer_left(ch);
		return 1;
	}
	/* Without data the provider leaves, or clears, what was given. */
	if (err.err_data == pdata && err.err_data_size <= sizeof(pdata) &&
	    err.err == ECONNREFUSED)
		len = err.err_data_size;
	memcpy(ch->base.why.pdata, pdata, len);
	ch->base.why.pdata_len = len;
	connect_failed(ch, err.err, len);
	return 1;
}

static void conn_request(struct ofi_listener *l, struct fi_info *info,
			 const void *pdata, size_t len);

static unsigned int eq_event(uint32_t event, const union cm_event *ev,
			     size_t len)
{
	struct fid *fid = ev->cm.fid;

	len -= sizeof(ev->cm);
	switch (event) {
	case FI_CONNREQ:
		conn_request(fid->context, ev->cm.info, ev->cm.data, len);
		break;
	case FI_CONNECTED:
		connected(fid->context, ev->cm.data, len);
		break;
	case FI_SHUTDOWN:
		peer_left(fid->context);
		break;
	default:
		break;
	}
	return 1;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* True when nothing more is to be had, and the next event will wake us. */
static bool eq_quiet(struct ofi_eq *eq)
{
	struct fid *fids[] = { &eq->fid->fid };

	errno = 0;
	return fi_trywait(ofi_fabric(), fids, ARRAY_SIZE(fids)) == 0 &&
	       !readable(eq->fd);
}

/*
 * Reading makes the provider look once at each socket: it may accept one
 * connection, or take one step of a handshake, and have nothing to report. We
 * are told of edges only, so this goes on until no socket has anything left.
 */
unsigned int ofi_eq_run(struct ofi_eq *eq)
{
	unsigned int done = 0;
	union cm_event ev;
	uint32_t event;
	ssize_t n;

	eq->ready = false;
	for (int i = 0; i < EQ_ROUNDS; i++) {
		errno = 0;
		n = fi_eq_read(eq->fid, &event, &ev, sizeof(ev), 0);
		if (n >= (ssize_t)sizeof(ev.cm))
			done += eq_event(event, &ev, (size_t)n);
		else if (n == -FI_EAVAIL)
			done += eq_error(eq);
		else if (eq_quiet(eq))
			return done;
	}
	eq->ready = true;
	return done;
}

/* ---- listening ---- */

static in_port_t listener_port(const struct ofi_listener *l)
{
	struct sockaddr_storage addr = { 0 };
	size_t len = sizeof(addr);

	fi_getname(&l->pep->fid, &addr, &len);
	return ((struct sockaddr_in *)&addr)->sin_port;
}

static void set_look(struct ofi_listener *l)
{
	l->looking = true;
	reactor_timer_set(l->base.xp->cfg.reactor, &l->look, HALF_OPEN_MS);
}

static void look(struct reactor_timer *t)
{
	struct ofi_listener *l = container_of(t, struct ofi_listener, look);

	l->looking = false;
	if (ofi_half_open_look(&l->half_open, listener_port(l)) > 0)
		set_look(l);
}

/* The last reference may be dropped by any thread: nothing here is of the
 * reactor any more. */
static void listener_put(struct ofi_listener *l)
{
	if (atomic_fetch_sub(&l->refs, 1) > 1)
		return;
	fi_close(&l->pep->fid);
	fi_close(&l->eq.fid->fid);
	free(l->half_open.seen);
	free(l);
}

/* From here on no event of it is read. */
static void listener_end(struct ofi_listener *l)
{
	ofi_watch_stop(l->eq.watch);
	list_del(&l->eq.node);
	reactor_timer_stop(&l->look);
	listener_put(l);
}

/* To a listener: maybe somebody who connects and then says nothing. */
static void something_came(struct ofi_eq *eq)
{
	struct ofi_listener *l = container_of(eq, struct ofi_listener, eq);

	if (eq != &eq->xp->eq && !l->closed && !l->looking)
		set_look(l);
}

unsigned int ofi_run_eqs(struct ofi_xp *xp)
{
	unsigned int done = 0;
	struct list *it;
	struct list *tmp;

	xp->running_eqs = true;
	list_for_each(it, &xp->eqs) {
		struct ofi_eq *eq = container_of(it, struct ofi_eq, node);

		if (!eq->ready)
			continue;
		done += ofi_eq_run(eq);
		something_came(eq);
	}
	xp->running_eqs = false;
	if (!done)
		return 0;
	/* Those that were closed by what they were told. */
	list_for_each_safe(it, tmp, &xp->eqs) {
		struct ofi_eq *eq = container_of(it, struct ofi_eq, node);

		if (eq != &xp->eq &&
		    container_of(eq, struct ofi_listener, eq)->closed)
			listener_end(container_of(eq, struct ofi_listener, eq));
	}
	return done;
}

bool ofi_eq_ready(const struct ofi_xp *xp)
{
	struct list *it;

	list_for_each(it, &xp->eqs) {
		if (container_of(it, struct ofi_eq, node)->ready)
			return true;
	}
	return false;
}

/* A copy of @from that takes the place of @to. */
static int set_addr(void **to, size_t *to_len, const void *from, size_t len)
{
	void *copy = malloc(len);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, from, len);
	free(*to);
	*to = copy;
	*to_len = len;
	return 0;
}

/* For those that it accepts; looking for each would cost more. */
static void keep_alive_listener(struct ofi_listener *l, unsigned int ms)
{
	int fd = ofi_listening_socket(l->pep);

	if (fd >= 0)
		tcp_keep_alive(fd, ms);
}

static uint32_t addr_format(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
}

static int pep_open(struct ofi_listener *l, const struct sockaddr *addr,
		    socklen_t addr_len)
{
	struct fi_info *info = ofi_info();
	int err;

	if (!info)
		return -ENOMEM;
	info->addr_format = addr_format(addr);
	err = set_addr(&info->src_addr, &info->src_addrlen, addr, addr_len);
	if (!err)
		err = fi_passive_ep(ofi_fabric(), info, &l->pep, l);
	fi_freeinfo(info);
	if (err)
		return err;
	err = fi_pep_bind(l->pep, &l->eq.fid->fid, 0);
	if (!err)
		err = fi_listen(l->pep);
	if (err)
		fi_close(&l->pep->fid);
	return err;
}

static int listener_open(struct ofi_xp *xp, struct ofi_listener *l,
			 const struct sockaddr *addr, socklen_t addr_len)
{
	int err;

	err = ofi_eq_open(xp, &l->eq);
	if (err)
		return err;
	err = pep_open(l, addr, addr_len);
	if (err)
		ofi_eq_close(&l->eq);
	else
		keep_alive_listener(l, xp->base.cfg.keepalive_ms);
	return err;
}

int ofi_listen(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	       void (*requested)(struct xp_conn_request *req), void *user,
	       struct xp_listener **ret_listener, struct xp_error *e)
{
	struct ofi_listener *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	l->base.xp = xp;
	l->requested = requested;
	l->user = user;
	reactor_timer_init(&l->look, look);
	atomic_init(&l->refs, 1);
	err = listener_open(ofi_xp(xp), l, addr, addr_len);
	if (err) {
		if (err > -FI_ERRNO_OFFSET)
			xp_core_listen_failed(e, err);
		else
			xp_error_set(e, err, "%s", fi_strerror(-err));
		free(l);
		return err;
	}
	*ret_listener = &l->base;
	return 0;
}

void ofi_unlisten(struct xp_listener *base)
{
	struct ofi_listener *l = container_of(base, struct ofi_listener, base);

	l->closed = true;
	if (!ofi_xp(base->xp)->running_eqs)
		listener_end(l);
}

static void conn_request(struct ofi_listener *l, struct fi_info *info,
			 const void *pdata, size_t len)
{
	struct ofi_request *req = l->closed ? NULL : calloc(1, sizeof(*req));

	if (!req) {
		fi_reject(l->pep, info->handle, NULL, 0);
		fi_freeinfo(info);
		return;
	}
	if (len > sizeof(req->pdata))
		len = sizeof(req->pdata);
	memcpy(req->pdata, pdata, len);
	atomic_fetch_add(&l->refs, 1);
	req->listener = l;
	req->info = info;
	req->base.xp = l->base.xp;
	req->base.pdata = req->pdata;
	req->base.pdata_len = len;
	req->base.user = l->user;
	xp_core_addr_text(info->src_addr, req->base.local,
			  sizeof(req->base.local));
	xp_core_addr_text(info->dest_addr, req->base.peer,
			  sizeof(req->base.peer));
	if (info->dest_addrlen <= sizeof(req->base.peer_addr))
		memcpy(&req->base.peer_addr, info->dest_addr,
		       info->dest_addrlen);
	l->requested(&req->base);
}

static void request_free(struct ofi_request *req)
{
	fi_freeinfo(req->info);
	listener_put(req->listener);
	free(req);
}

void ofi_reject(struct xp_conn_request *base, const void *pdata, size_t len)
{
	struct ofi_request *req = container_of(base, struct ofi_request, base);

	fi_reject(req->listener->pep, req->info->handle, pdata, len);
	request_free(req);
}

/* ---- endpoints ---- */

static void timed_out(struct reactor_timer *t)
{
	struct ofi_chan *ch = container_of(t, struct ofi_chan, timer);

	if (ch->base.state == XP_CHAN_CONNECTING)
		xp_core_fail(&ch->base, -ETIMEDOUT,
			     "no answer from %s within %u ms", ch->base.peer,
			     ch->timeout_ms);
	else
		ch->posted_reads = 0; /* do not wait for them any longer */
}

static int ep_open(struct ofi_chan *ch, struct fi_info *info)
{
	struct ofi_xp *xp = ofi_xp(ch->base.xp);
	int err;

	info->tx_attr->size = xp->base.cfg.send_depth;
	info->rx_attr->size = ch->iu_cnt + 1; /* see cut_socket() */
	err = fi_endpoint(xp->domain, info, &ch->ep, ch);
	if (err)
		return err;
	xp->starved++;
	err = fi_ep_bind(ch->ep, &xp->eq.fid->fid, 0);
	if (!err)
		err = fi_ep_bind(ch->ep, &xp->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!err)
		err = fi_enable(ch->ep);
	if (!err)
		err = ofi_recv_post_all(ch);
	return err;
}

/* Also of half of one. The provider has nothing of it any more. */
static void chan_free(struct ofi_chan *ch)
{
	if (ch->base.groups)
		xp_core_chan_fini(&ch->base);
	ofi_recv_free(ch);
	free(ch->late.wrs);
	free(ch);
}

void ofi_chan_free(struct xp_chan *base)
{
	chan_free(ofi_chan(base));
}

static struct ofi_chan *chan_new(struct xp *xp,
				 const struct xp_chan_params *params)
{
	struct ofi_chan *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	list_init(&ch->node);
	list_init(&ch->late_node);
	reactor_timer_init(&ch->timer, timed_out);
	snprintf(ch->base.device, sizeof(ch->base.device), "tcp");
	if (xp_core_chan_init(&ch->base, xp, params, xp->cfg.send_depth) ||
	    ofi_recv_alloc(ch, params->recv_cnt) || ofi_late_alloc(ch)) {
		chan_free(ch);
		return NULL;
	}
	return ch;
}

/* Takes back what failed before the user has heard of it: the receives are
 * flushed, and must be read before the memory goes. */
static void chan_undo(struct ofi_chan *ch)
{
	struct ofi_xp *xp = ofi_xp(ch->base.xp);

	if (!ch->ep) {
		chan_free(ch);
		return;
	}
	ch->base.state = XP_CHAN_CLOSING;
	ch->undone = true;
	fi_close(&ch->ep->fid);
	ch->ep = NULL;
	list_add_tail(&xp->closed, &ch->node);
}

int ofi_accept(struct xp *xp, struct xp_conn_request *base,
	       const struct xp_chan_params *params, struct xp_chan **ret_ch,
	       struct xp_error *e)
{
	struct ofi_request *req = container_of(base, struct ofi_request, base);
	struct ofi_chan *ch = chan_new(xp, params);
	int err = -ENOMEM;

	assert(params->pdata_len <= XP_PDATA_MAX);
	if (ch) {
		memcpy(ch->base.peer, base->peer, sizeof(ch->base.peer));
		memcpy(ch->base.local, base->local, sizeof(ch->base.local));
		err = ep_open(ch, req->info);
	}
	if (!err)
		err = fi_accept(ch->ep, params->pdata, params->pdata_len);
	if (err) {
		xp_error_set(e, err, "accepting %s failed: %s", base->peer,
			     fi_strerror(-err));
		/* When there is an endpoint it has the socket, and this only
		 * frees the handle. */
		fi_reject(req->listener->pep, req->info->handle, NULL, 0);
		if (ch)
			chan_undo(ch);
	} else {
		*ret_ch = &ch->base;
	}
	request_free(req);
	return err;
}

static int start_connect(struct ofi_chan *ch, const struct sockaddr *addr,
			 socklen_t addr_len,
			 const struct xp_chan_params *params)
{
	struct fi_info *info = ofi_info();
	int err;

	if (!info)
		return -ENOMEM;
	info->addr_format = addr_format(addr);
	err = set_addr(&info->dest_addr, &info->dest_addrlen, addr, addr_len);
	if (!err)
		err = ep_open(ch, info);
	fi_freeinfo(info);
	if (err)
		return err;
	return fi_connect(ch->ep, addr, params->pdata, params->pdata_len);
}

int ofi_connect(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
		const struct xp_chan_params *params, struct xp_chan **ret_ch,
		struct xp_error *e)
{
	struct ofi_chan *ch = chan_new(xp, params);
	int err;

	if (!ch)
		return -ENOMEM;
	assert(params->pdata_len <= XP_PDATA_MAX);
	xp_core_addr_text(addr, ch->base.peer, sizeof(ch->base.peer));
	err = start_connect(ch, addr, addr_len, params);
	if (err) {
		xp_error_set(e, err, "connecting to %s failed: %s",
			     ch->base.peer, fi_strerror(-err));
		chan_undo(ch);
		return err;
	}
	ch->timeout_ms =
		params->timeout_ms ? params->timeout_ms : CONNECT_TIMEOUT_MS;
	reactor_timer_set(xp->cfg.reactor, &ch->timer, ch->timeout_ms);
	*ret_ch = &ch->base;
	return 0;
}
