/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core of the transport: the part that is the same for every fabric.
 * provider.h describes the calls between core and providers.
 */
#include "transport/provider.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/srp_iu.h"

/* Work requests handed to the fabric with one call. */
#define XP_BATCH 64

/* "%eth0", or "%2". Not by if_indextoname(): it opens a socket, which the sandbox of
 * the target forbids, whereas this asks by netlink. */
static void xp_scope_text(unsigned int scope, char *buf, size_t len)
{
	struct if_nameindex *all = if_nameindex();

	snprintf(buf, len, "%%%u", scope);
	for (struct if_nameindex *i = all; i && i->if_index; i++) {
		if (i->if_index == scope)
			snprintf(buf, len, "%%%s", i->if_name);
	}
	if (all)
		if_freenameindex(all);
}

void xp_addr_text(const struct sockaddr *sa, char *buf, size_t len)
{
	const struct sockaddr_in *in = (const void *)sa;
	const struct sockaddr_in6 *in6 = (const void *)sa;
	char host[INET6_ADDRSTRLEN] = "?";
	char scope[IF_NAMESIZE + 1] = "";

	if (sa->sa_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(buf, len, "%s:%u", host, ntohs(in->sin_port));
	} else if (sa->sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		if (in6->sin6_scope_id)
			xp_scope_text(in6->sin6_scope_id, scope, sizeof(scope));
		snprintf(buf, len, "[%s%s]:%u", host, scope,
			 ntohs(in6->sin6_port));
	} else {
		snprintf(buf, len, "?");
	}
}

void xp_core_recv_layout(const struct xp_config *cfg, size_t *ret_stride,
			 size_t *ret_first)
{
	const size_t align = 512;
	size_t first = (align - cfg->recv_aligned_at % align) % align;

	*ret_first = first;
	*ret_stride = (cfg->recv_len + align - 1) / align * align;
}

/* ---- posting ---- */

static void chan_mark_dirty(struct xp_chan *ch)
{
	if (list_empty(&ch->dirty_node))
		list_add_tail(&ch->xp->dirty, &ch->dirty_node);
}

static bool chan_has_unposted(const struct xp_chan *ch)
{
	return ch->unposted != &ch->chains;
}

static bool chain_has_data_left(const struct xp_chain *c)
{
	return c->moved < c->len;
}

/* The next RDMA operation: one descriptor, or its wanted part. */
static void chain_next_rdma(struct xp_chain *c, struct xp_wr *wr)
{
	const struct srp_desc *d = &c->remote[c->next_desc++];
	uint32_t len = c->len - c->moved;

	while (d->len == 0)
		d = &c->remote[c->next_desc++];
	if (len > d->len)
		len = d->len;
	wr->op = c->dir == XP_RDMA_WRITE ? XP_WR_WRITE : XP_WR_READ;
	wr->sge[0].addr = (char *)c->local + c->moved;
	wr->sge[0].len = len;
	wr->sge[0].mr = c->local_mr;
	wr->sge_cnt = 1;
	wr->remote_addr = d->addr;
	wr->remote_key = d->key;
	c->moved += len;
	c->all_posted = !chain_has_data_left(c) && c->send_cnt == 0;
}

static void chain_next_send(struct xp_chain *c, struct xp_wr *wr)
{
	wr->op = XP_WR_SEND;
	memcpy(wr->sge, c->send, sizeof(wr->sge));
	wr->sge_cnt = c->send_cnt;
	c->all_posted = true;
}

static void chain_next_probe(struct xp_chain *c, struct xp_wr *wr)
{
	wr->op = XP_WR_WRITE;
	wr->sge_cnt = 0;
	wr->remote_addr = 0;
	wr->remote_key = 0;
	c->all_posted = true;
}

/* Fills in the next work request of @c; sets all_posted with the last. */
static void chain_next_wr(struct xp_chain *c, struct xp_wr *wr)
{
	if (chain_has_data_left(c))
		chain_next_rdma(c, wr);
	else if (c->send_cnt > 0)
		chain_next_send(c, wr);
	else
		chain_next_probe(c, wr);
}

static struct xp_group *group_get(struct xp_chan *ch, struct xp_chain *c)
{
	struct xp_group *g = ch->free_groups;

	if (g)
		ch->free_groups = g->next_free;
	else
		g = &ch->groups[ch->used_groups++];
	g->ch = ch;
	g->chain = c;
	g->wr_cnt = 0;
	c->groups++;
	return g;
}

/*
 * Builds work requests from the queued chains, at most XP_BATCH and as many as
 * there are free send-queue entries. A group ends with its chain, with the
 * batch, or (without selective signalling) at once.
 */
static unsigned int chan_build_batch(struct xp_chan *ch, struct xp_wr *wrs)
{
	bool selective = ch->xp->ops->selective;
	unsigned int max = ch->slots < XP_BATCH ? ch->slots : XP_BATCH;
	struct xp_group *g = NULL;
	unsigned int n = 0;

	while (n < max && chan_has_unposted(ch)) {
		struct xp_chain *c =
			container_of(ch->unposted, struct xp_chain, node);
		struct xp_wr *wr = &wrs[n++];

		chain_next_wr(c, wr);
		if (!g)
			g = group_get(ch, c);
		wr->group = g;
		g->wr_cnt++;
		wr->signalled = c->all_posted || !selective || n == max;
		if (wr->signalled)
			g = NULL;
		if (c->all_posted)
			ch->unposted = c->node.next;
	}
	ch->slots -= n;
	return n;
}

static void chan_post_queued(struct xp_chan *ch)
{
	struct xp_wr wrs[XP_BATCH];
	unsigned int n;
	int taken;

	while (ch->state == XP_CHAN_OPEN &&
	       (n = chan_build_batch(ch, wrs)) > 0) {
		ch->xp->stats.posts++;
		ch->xp->stats.wrs += n;
		taken = ch->xp->ops->post_send(ch, wrs, n);
		if (taken != (int)n)
			xp_core_fail(ch, taken < 0 ? taken : -EIO,
				     "posting to the send queue failed: %s",
				     strerror(taken < 0 ? -taken : EIO));
	}
}

static void xp_post_chain(struct xp_chan *ch, struct xp_chain *c)
{
	c->next_desc = 0;
	/* Without a direction no byte is left to move, whatever len says. */
	c->moved = c->dir == XP_NO_DATA ? c->len : 0;
	c->groups = 0;
	c->all_posted = false;
	c->status = 0;
	assert(ch->state != XP_CHAN_CLOSED);
	if (ch->state != XP_CHAN_OPEN) {
		list_add_tail(&ch->xp->undone, &c->node);
		return;
	}
	list_add_tail(&ch->chains, &c->node);
	if (!chan_has_unposted(ch))
		ch->unposted = &c->node;
	chan_mark_dirty(ch);
}

void xp_post(struct xp_chan *ch, struct xp_chain *c)
{
	assert(c->send_cnt > 0 || (c->dir != XP_NO_DATA && c->len > 0));
	xp_post_chain(ch, c);
}

static void chain_done(struct xp_chain *c, int status)
{
	list_del(&c->node);
	c->done(c, status);
}

/* Completes the chains that were posted on closing channels. */
static bool xp_finish_undone(struct xp *xp)
{
	struct list todo;
	struct list *it;

	list_init(&todo);
	list_splice_tail(&todo, &xp->undone);
	if (list_empty(&todo))
		return false;
	while ((it = list_pop(&todo))) {
		struct xp_chain *c = container_of(it, struct xp_chain, node);

		c->done(c, -ECANCELED);
	}
	return true;
}

static bool xp_flush(struct reactor_poller *p)
{
	struct xp *xp = container_of(p, struct xp, poller);
	bool more = false;
	struct list *it;

	if (!list_empty(&xp->released)) {
		xp->stats.recv_posts++;
		xp->ops->post_recv(xp, &xp->released);
	}
	while ((it = list_pop(&xp->dirty)))
		chan_post_queued(container_of(it, struct xp_chan, dirty_node));
	if (xp->ops->flush)
		more = xp->ops->flush(xp);
	return xp_finish_undone(xp) || more;
}

static unsigned int xp_poll(struct reactor_poller *p)
{
	struct xp *xp = container_of(p, struct xp, poller);

	return xp->ops->poll(xp);
}

static bool xp_arm(struct reactor_poller *p)
{
	struct xp *xp = container_of(p, struct xp, poller);

	xp->stats.arms++;
	return xp->ops->arm(xp);
}

/* ---- silent peers ---- */

static void chan_probe(struct xp_chan *ch);

static void chan_probe_done(struct xp_chain *c, int status)
{
	struct xp_chan *ch = container_of(c, struct xp_chan, probe);

	ch->probing = false;
	if (status)
		return;
	if (ch->probe_again)
		chan_probe(ch);
	else
		xp_core_heard(ch);
}

static void chan_probe(struct xp_chan *ch)
{
	ch->probing = true;
	ch->probe_again = false;
	ch->probe = (struct xp_chain){ .dir = XP_RDMA_WRITE,
				       .done = chan_probe_done };
	xp_post_chain(ch, &ch->probe);
}

/* While something is under way no probe is needed: it is acknowledged, or
 * fails. */
static void chan_probe_if_silent(struct xp_chan *ch)
{
	if (ch->heard_us == ch->looked_us && !ch->probing &&
	    list_empty(&ch->chains))
		chan_probe(ch);
	ch->looked_us = ch->heard_us;
}

static void xp_set_probe_timer(struct xp *xp)
{
	reactor_timer_set(xp->cfg.reactor, &xp->probe_timer,
			  xp->cfg.keepalive_ms);
}

/* One timer serves all channels. It runs only while there are some. */
static void xp_probe_all(struct reactor_timer *t)
{
	struct xp *xp = container_of(t, struct xp, probe_timer);
	struct list *it;

	list_for_each(it, &xp->probed)
		chan_probe_if_silent(
			container_of(it, struct xp_chan, probed_node));
	xp_set_probe_timer(xp);
}

static void chan_start_probing(struct xp_chan *ch)
{
	if (!ch->probes)
		return;
	if (list_empty(&ch->xp->probed))
		xp_set_probe_timer(ch->xp);
	list_add_tail(&ch->xp->probed, &ch->probed_node);
	ch->looked_us = UINT64_MAX;
}

static void chan_stop_probing(struct xp_chan *ch)
{
	list_del(&ch->probed_node);
	if (list_empty(&ch->xp->probed))
		reactor_timer_stop(&ch->xp->probe_timer);
}

/* ---- signs of life ---- */

static bool chan_has_sign(const struct xp_chan *ch)
{
	return reactor_real_us(ch->xp->cfg.reactor) - ch->heard_us <=
	       XP_SIGN_MS * 1000;
}

/* The shortest way is that of writes. */
bool xp_chan_lives(struct xp_chan *ch)
{
	const struct xp_ops *ops = ch->xp->ops;

	if (ch->state != XP_CHAN_OPEN)
		return false;
	return chan_has_sign(ch) || (ops->lives && ops->lives(ch));
}

bool xp_chan_has_unread(struct xp_chan *ch)
{
	const struct xp_ops *ops = ch->xp->ops;

	return ch->state == XP_CHAN_OPEN && ops->has_unread &&
	       ops->has_unread(ch);
}

/* What is under way may have been acknowledged long ago. */
static void chan_probe_from_now(struct xp_chan *ch)
{
	if (ch->probing)
		ch->probe_again = true;
	else
		chan_probe(ch);
}

void xp_chan_ask(struct xp_chan *ch)
{
	bool first = !ch->asked;

	if (ch->state != XP_CHAN_OPEN)
		return;
	ch->asked = true;
	if (!ch->xp->ops->ask)
		chan_probe_from_now(ch);
	else if (first)
		ch->xp->ops->ask(ch);
}

void xp_core_heard(struct xp_chan *ch)
{
	if (!ch->asked || ch->state != XP_CHAN_OPEN)
		return;
	ch->asked = false;
	ch->handler->heard(ch);
}

/* ---- completions ---- */

void xp_core_wr_failed(struct xp_group *g, int status)
{
	if (g->chain->status == 0)
		g->chain->status = status;
}

void xp_core_group_done(struct xp_group *g, int status)
{
	struct xp_chain *c = g->chain;
	struct xp_chan *ch = g->ch;

	if (status < 0)
		xp_core_wr_failed(g, status);
	ch->slots += g->wr_cnt;
	g->next_free = ch->free_groups;
	ch->free_groups = g;
	assert(c->groups > 0);
	c->groups--;
	if (chan_has_unposted(ch))
		chan_mark_dirty(ch);
	/* A chain cut in two by a failure stays until the channel is drained:
	 * the fabric may still hold the part that was posted. */
	if (c->all_posted && c->groups == 0)
		chain_done(c, c->status);
}

void xp_core_received(struct xp_chan *ch, struct xp_iu *iu)
{
	iu->ch = ch;
	ch->ius_held++;
	if (ch->state != XP_CHAN_OPEN) {
		xp_iu_release(iu);
		return;
	}
	ch->xp->stats.recvs++;
	ch->handler->received(ch, iu);
}

void xp_iu_release(struct xp_iu *iu)
{
	assert(iu->ch->ius_held > 0);
	iu->ch->ius_held--;
	list_add_tail(&iu->ch->xp->released, &iu->node);
}

/* ---- the life of a channel ---- */

int xp_core_chan_init(struct xp_chan *ch, struct xp *xp,
		      const struct xp_chan_params *params, unsigned int slots)
{
	ch->xp = xp;
	ch->handler = params->handler;
	ch->user = params->user;
	ch->state = XP_CHAN_CONNECTING;
	list_init(&ch->chains);
	ch->unposted = &ch->chains;
	list_init(&ch->dirty_node);
	list_init(&ch->probed_node);
	ch->slots = slots;
	/* At most one group for each send-queue entry. */
	ch->groups = calloc(slots, sizeof(*ch->groups));
	return ch->groups ? 0 : -ENOMEM;
}

void xp_core_chan_fini(struct xp_chan *ch)
{
	list_del(&ch->dirty_node);
	free(ch->groups);
	ch->groups = NULL;
}

void xp_core_established(struct xp_chan *ch, const void *pdata, size_t len)
{
	if (ch->state != XP_CHAN_CONNECTING)
		return;
	ch->state = XP_CHAN_OPEN;
	chan_start_probing(ch);
	ch->handler->established(ch, pdata, len);
}

/* Every way out of CONNECTING and OPEN leads here. */
static void chan_begin_close(struct xp_chan *ch)
{
	assert(ch->state < XP_CHAN_CLOSING);
	ch->state = XP_CHAN_CLOSING;
	chan_stop_probing(ch);
	if (ch->handler->closing)
		ch->handler->closing(ch);
	ch->xp->ops->disconnect(ch);
}

void xp_close(struct xp_chan *ch)
{
	if (ch->state >= XP_CHAN_CLOSING)
		return;
	error_set(&ch->why, 0, "closed by this side");
	chan_begin_close(ch);
}

void xp_core_keep_reject(struct xp_chan *ch, const void *data, size_t len)
{
	assert(len <= sizeof(ch->reject_data));
	if (!len || ch->state >= XP_CHAN_CLOSING)
		return;
	memcpy(ch->reject_data, data, len);
	ch->reject_len = len;
}

void xp_core_fail(struct xp_chan *ch, int err, const char *fmt, ...)
{
	va_list ap;

	if (ch->state >= XP_CHAN_CLOSING)
		return;
	ch->why.err = err;
	va_start(ap, fmt);
	vsnprintf(ch->why.text, sizeof(ch->why.text), fmt, ap);
	va_end(ap);
	chan_begin_close(ch);
}

static void chains_flush(struct list *chains)
{
	struct list todo;
	struct list *it;

	list_init(&todo);
	list_splice_tail(&todo, chains);
	while ((it = list_pop(&todo))) {
		struct xp_chain *c = container_of(it, struct xp_chain, node);

		c->done(c, c->status ? c->status : -ECANCELED);
	}
}

void xp_core_drained(struct xp_chan *ch)
{
	assert(ch->state == XP_CHAN_CLOSING);
	ch->unposted = &ch->chains;
	chains_flush(&ch->chains);
	/* Some were posted when the channel was already closing, maybe just
	 * now by the done() of another. */
	while (xp_finish_undone(ch->xp))
		;
	list_del(&ch->dirty_node);
	ch->state = XP_CHAN_CLOSED;
	ch->handler->closed(ch, &ch->why);
}

void xp_chan_free(struct xp_chan *ch)
{
	assert(ch->state == XP_CHAN_CLOSED && ch->ius_held == 0);
	ch->xp->ops->chan_free(ch);
}

/* ---- instances ---- */

void xp_core_init(struct xp *xp, const struct xp_ops *ops,
		  const struct xp_config *cfg)
{
	xp->ops = ops;
	xp->cfg = *cfg;
	if (xp->cfg.send_depth == 0)
		xp->cfg.send_depth = XP_SEND_DEPTH;
	list_init(&xp->dirty);
	list_init(&xp->released);
	if (xp->cfg.keepalive_ms == 0)
		xp->cfg.keepalive_ms = XP_KEEPALIVE_MS;
	list_init(&xp->undone);
	list_init(&xp->probed);
	reactor_timer_init(&xp->probe_timer, xp_probe_all);
	xp->poller.poll = ops->poll ? xp_poll : NULL;
	xp->poller.arm = ops->poll ? xp_arm : NULL;
	xp->poller.flush = xp_flush;
	reactor_poller_add(cfg->reactor, &xp->poller);
}

void xp_core_fini(struct xp *xp)
{
	assert(list_empty(&xp->undone) && list_empty(&xp->dirty));
	reactor_poller_remove(xp->cfg.reactor, &xp->poller);
}

void xp_destroy(struct xp *xp)
{
	if (xp)
		xp->ops->destroy(xp);
}

/* ---- straight through ---- */

enum xp_kind xp_kind(const struct xp *xp)
{
	return xp->ops->kind;
}

const struct xp_stats *xp_get_stats(const struct xp *xp)
{
	return &xp->stats;
}

int xp_mr_register(struct xp *xp, void *addr, size_t len, enum xp_access access,
		   struct xp_mr **ret_mr, struct error *e)
{
	return xp->ops->mr_register(xp, addr, len, access, ret_mr, e);
}

void xp_mr_free(struct xp_mr *mr)
{
	if (mr)
		mr->xp->ops->mr_free(mr);
}

void xp_mr_remote(const struct xp_mr *mr, const struct xp_chan *ch,
		  const void *ptr, uint64_t *ret_addr, uint32_t *ret_key)
{
	mr->xp->ops->mr_remote(mr, ch, ptr, ret_addr, ret_key);
}

/* A URI says so earlier; it may name no transport, though. */
static int xp_route_suits(const struct xp *xp, const struct xp_route *want,
			  struct error *e)
{
	const char *key = xp_route_fabric_key(want);

	if (!key || xp_kind_traits(xp->ops->kind)->has_gids)
		return 0;
	return error_set(e, -EPROTONOSUPPORT,
			 "%s has no GIDs, P_Keys and service levels (%s=)",
			 xp_kind_name(xp->ops->kind), key);
}

int xp_connect(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	       const struct xp_chan_params *params, struct xp_chan **ret_ch,
	       struct error *e)
{
	int err = params->route ? xp_route_suits(xp, params->route, e) : 0;

	if (!err && params->key && !xp->ops->set_keys)
		err = error_set(e, -EOPNOTSUPP,
				"%s encrypts nothing, and proves no key",
				xp_kind_name(xp->ops->kind));
	return err ? err
		   : xp->ops->connect(xp, addr, addr_len, params, ret_ch, e);
}

int xp_listen(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	      void (*requested)(struct xp_conn_request *req), void *user,
	      struct xp_listener **ret_listener, struct error *e)
{
	return xp->ops->listen(xp, addr, addr_len, requested, user,
			       ret_listener, e);
}

int xp_listen_on(struct xp *xp, int fd, const struct sockaddr *addr,
		 void (*requested)(struct xp_conn_request *req), void *user,
		 struct xp_listener **ret_listener, struct error *e)
{
	if (!xp->ops->listen_on)
		return error_set(e, -EOPNOTSUPP, "%s has no sockets",
				 xp_kind_name(xp->ops->kind));
	return xp->ops->listen_on(xp, fd, addr, requested, user, ret_listener,
				  e);
}

int xp_listen_later(struct xp *xp, const struct sockaddr *addr,
		    socklen_t addr_len,
		    void (*requested)(struct xp_conn_request *req), void *user,
		    struct xp_listener **ret_listener, struct error *e)
{
	if (!xp->ops->listen_later) {
		error_set(e, -EOPNOTSUPP, "%s cannot wait for an address",
			  xp_kind_name(xp->ops->kind));
		return -EOPNOTSUPP;
	}
	return xp->ops->listen_later(xp, addr, addr_len, requested, user,
				     ret_listener, e);
}

int xp_demand(struct xp_listener *l, const struct xp_route *want,
	      struct error *e)
{
	int err = xp_route_suits(l->xp, want, e);

	if (err || !l->xp->ops->demand)
		return err;
	return l->xp->ops->demand(l, want, e);
}

void xp_listener_set_keys(struct xp_listener *l, const struct xp_keyring *keys)
{
	if (l->xp->ops->set_keys)
		l->xp->ops->set_keys(l, keys);
}

void xp_unlisten(struct xp_listener *l)
{
	if (l)
		l->xp->ops->unlisten(l);
}

int xp_accept(struct xp *xp, struct xp_conn_request *req,
	      const struct xp_chan_params *params, struct xp_chan **ret_ch,
	      struct error *e)
{
	return xp->ops->accept(xp, req, params, ret_ch, e);
}

void xp_reject(struct xp_conn_request *req, const void *pdata, size_t len)
{
	req->xp->ops->reject(req, pdata, len);
}

void *xp_chan_user(const struct xp_chan *ch)
{
	return ch->user;
}

struct xp *xp_chan_xp(const struct xp_chan *ch)
{
	return ch->xp;
}

bool xp_chan_is_open(const struct xp_chan *ch)
{
	return ch->state == XP_CHAN_OPEN;
}

const char *xp_chan_local(const struct xp_chan *ch)
{
	return ch->local;
}

const char *xp_chan_peer(const struct xp_chan *ch)
{
	return ch->peer;
}

const char *xp_chan_device(const struct xp_chan *ch)
{
	return ch->device;
}

const char *xp_chan_proved(const struct xp_chan *ch)
{
	return ch->proved;
}

bool xp_chan_is_encrypted(const struct xp_chan *ch)
{
	return ch->encrypted;
}

const struct xp_negotiated *xp_chan_negotiated(const struct xp_chan *ch)
{
	return &ch->negotiated;
}

const void *xp_chan_reject_data(const struct xp_chan *ch, size_t *ret_len)
{
	*ret_len = ch->reject_len;
	return ch->reject_data;
}
