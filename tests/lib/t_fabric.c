/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_fabric.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sanitizer.h"
#include "transport/provider.h"

#define CONNECT_TIMEOUT_MS 5000
/* The room for private data in InfiniBand's connection messages. */
#define REQ_ROOM 56
#define REP_ROOM 196
#define REJ_ROOM 148

enum action_kind {
	EXECUTE,   /* the next work request of chan's queue */
	COMPLETE,  /* wr is done; it has a status */
	RECEIVE,   /* iu has arrived */
	REQUESTED, /* chan, of another xp, wants to connect to listener */
	ANSWERED,  /* the acceptor has accepted; it has pdata */
	READY,	   /* the acceptor itself is connected */
	REFUSED,   /* nothing listens, or the peer rejects; it has pdata */
	LEFT,	   /* the peer is gone */
	REMOVED,   /* the device is gone */
	FLUSH,	   /* the end of chan's disconnect */
};

struct action {
	struct list node;    /* in t_fabric.actions or .held */
	struct list at_node; /* in fake_xp.actions; not while it is held */
	enum action_kind kind;
	struct fake_xp *at; /* the xp whose poller runs it */
	struct fake_chan *chan;
	struct fake_wr *wr;
	struct xp_iu *iu;
	struct fake_listener *listener;
	int status;
	uint64_t since_us; /* RECEIVE, COMPLETE: not there earlier */
	uint8_t pdata[XP_PDATA_MAX];
	size_t pdata_len;
};

struct t_fabric {
	struct list xps;
	struct list actions;
	struct list held;
	bool manual;
	bool hold;
	struct xp *still;	/* its thread stands still */
	unsigned int fail_post; /* counts down to the failing one; 0: none */
	unsigned int break_at;
	struct sockaddr_storage silent;
	socklen_t silent_len;
	struct sockaddr_storage closed;
	socklen_t closed_len;
	unsigned int stale; /* connections that are */
	uint32_t next_key;
	uint16_t next_port;
	struct in_addr from; /* address of connecting initiators */
	const char *proved;  /* their name; NULL: none */
	uint64_t rnr;
	uint64_t refused;
	uint64_t executed;
	void (*watch)(void *user, struct xp_chan *owner,
		      const struct xp_wr *wr);
	void *watch_user;
};

struct fake_xp {
	struct xp base;
	struct t_fabric *hub;
	struct list node;
	struct list actions;
	struct list listeners;
	struct list mrs;
	struct list spares;
	struct list chans;  /* by fake_chan.node */
	uint64_t looked_us; /* the last poll began */
	bool unplugged;	    /* the device is removed */
};

/* The receive memory of a channel that has ended, for the next one that needs
 * the same size. malloc() would get it from the kernel each time. */
struct spare {
	struct list node; /* fake_xp.spares */
	size_t len;
};

struct fake_mr {
	struct xp_mr base;
	struct list node;
	enum xp_access access;
	uint32_t key;
};

struct fake_listener {
	struct xp_listener base;
	struct list node;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	void (*requested)(struct xp_conn_request *req);
	void *user;
};

/* A work request in the fabric. */
struct fake_wr {
	struct list node;
	struct xp_wr wr;
};

struct fake_chan {
	struct xp_chan base;
	struct list node;
	struct fake_chan *peer;	      /* NULL: not connected, or no longer */
	struct fake_request *request; /* the request that the listener's user
				       * has */
	struct list queue;	      /* fake_wr, not executed */
	struct list executed;	      /* fake_wr, still to be completed */
	struct list recvs;	      /* xp_iu, posted */
	bool stopped;		      /* the peer no longer answers */
	bool cut;		      /* nothing reaches the peer */
	bool no_receive;	      /* the next SEND waits for a receive */
	unsigned int stalled;	      /* EXECUTEs that were delayed by it */
	struct xp_iu *ius;
	unsigned int iu_cnt;
	void *block;
	size_t block_len;
	struct fake_mr recv_mr;
	struct reactor_timer timer;
	unsigned int timeout_ms;
	uint8_t pdata[XP_PDATA_MAX]; /* private data of the connect */
	size_t pdata_len;
};

struct fake_request {
	struct xp_conn_request base;
	struct fake_chan *from; /* NULL: the peer has gone */
	uint8_t pdata[XP_PDATA_MAX];
};

static struct fake_xp *fake_xp(struct xp *xp)
{
	return container_of(xp, struct fake_xp, base);
}

static struct fake_chan *fake_chan(struct xp_chan *ch)
{
	return container_of(ch, struct fake_chan, base);
}

static struct fake_xp *xp_of(const struct fake_chan *ch)
{
	return fake_xp(ch->base.xp);
}

static struct t_fabric *hub_of(const struct fake_chan *ch)
{
	return xp_of(ch)->hub;
}

static void *zalloc(size_t len)
{
	void *p = calloc(1, len ? len : 1);

	if (!p)
		abort();
	return p;
}

/* ---- actions ---- */

static struct action *cause(struct fake_xp *at, enum action_kind kind,
			    struct fake_chan *ch)
{
	struct action *a = zalloc(sizeof(*a));

	a->kind = kind;
	a->at = at;
	a->chan = ch;
	list_init(&a->at_node);
	if (at->hub->hold && (kind == COMPLETE || kind == FLUSH)) {
		list_add_tail(&at->hub->held, &a->node);
	} else {
		list_add_tail(&at->hub->actions, &a->node);
		list_add_tail(&at->actions, &a->at_node);
	}
	return a;
}

static void action_free(struct action *a)
{
	list_del(&a->node);
	list_del(&a->at_node);
	free(a);
}

/* Private data as the receiver sees it, padded with zeroes. */
static void cause_pdata(struct action *a, const void *pdata, size_t len,
			size_t room)
{
	if (len)
		memcpy(a->pdata, pdata, len);
	a->pdata_len = len > room ? len : room;
}

static void look(struct fake_xp *xp)
{
	xp->looked_us = reactor_turn_us(xp->base.cfg.reactor);
}

/* What the thread of a->at will find: it was not there when the thread last looked. A
 * thread that is driven by steps always looks. */
static void note_time(struct action *a)
{
	if (a->at->hub->manual)
		look(a->at);
	a->since_us = a->at->looked_us;
}

/* Removes the actions of @ch that are of @kind from @actions; -1: of any
 * kind. */
static void take_back(struct list *actions, const struct fake_chan *ch,
		      int kind)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, actions) {
		struct action *a = container_of(it, struct action, node);

		if (a->chan == ch && (kind < 0 || (int)a->kind == kind))
			action_free(a);
	}
}

/* ---- the link between two channels ---- */

static void unpair(struct fake_chan *ch)
{
	if (!ch->peer)
		return;
	if (!ch->cut)
		cause(xp_of(ch->peer), LEFT, ch->peer);
	ch->peer->peer = NULL;
	ch->peer = NULL;
}

static void break_link(struct fake_chan *ch)
{
	if (!ch->peer)
		return;
	unpair(ch);
	cause(xp_of(ch), LEFT, ch);
}

void t_fabric_break(struct xp_chan *base)
{
	break_link(fake_chan(base));
}

void t_fabric_stop(struct xp_chan *base)
{
	fake_chan(base)->stopped = true;
}

void t_fabric_unplug(struct xp *base)
{
	struct fake_xp *xp = fake_xp(base);
	struct list *it;

	xp->unplugged = true;
	list_for_each(it, &xp->chans) {
		struct fake_chan *ch = container_of(it, struct fake_chan, node);

		if (ch->base.state >= XP_CHAN_CLOSING)
			continue;
		unpair(ch);
		cause(xp, REMOVED, ch);
	}
}

void t_fabric_plug(struct xp *base)
{
	fake_xp(base)->unplugged = false;
}

void t_fabric_cut(struct xp_chan *base)
{
	struct fake_chan *ch = fake_chan(base);

	ch->cut = true;
	if (ch->peer)
		ch->peer->cut = true;
}

void t_fabric_watch(struct t_fabric *hub,
		    void (*rdma)(void *user, struct xp_chan *owner,
				 const struct xp_wr *wr),
		    void *user)
{
	hub->watch = rdma;
	hub->watch_user = user;
}

void t_fabric_come_from(struct t_fabric *hub, const char *addr)
{
	if (inet_pton(AF_INET, addr, &hub->from) != 1)
		abort();
}

void t_fabric_prove(struct t_fabric *hub, const char *name)
{
	hub->proved = name;
}

/* ---- executing work requests ---- */

static bool lies_in(const void *ptr, size_t len, const struct xp_mr *mr)
{
	uintptr_t begin = (uintptr_t)mr->addr;
	uintptr_t p = (uintptr_t)ptr;

	return p >= begin && len <= mr->len && p - begin <= mr->len - len;
}

static bool remote_is_allowed(const struct fake_xp *xp, const struct xp_wr *wr)
{
	const void *p = (void *)(uintptr_t)wr->remote_addr;
	struct list *it;

	list_for_each(it, &xp->mrs) {
		struct fake_mr *mr = container_of(it, struct fake_mr, node);

		if (mr->access == XP_REMOTE && mr->key == wr->remote_key)
			return lies_in(p, wr->sge[0].len, &mr->base);
	}
	return false;
}

/* A device would refuse this: it is a mistake of the code under test. */
static void check_local(const struct fake_xp *xp, const struct xp_wr *wr)
{
	for (unsigned int i = 0; i < wr->sge_cnt; i++) {
		const struct xp_sge *s = &wr->sge[i];

		if (!s->mr && wr->op == XP_WR_SEND)
			continue; /* inline */
		if (!s->mr || s->mr->xp != &xp->base ||
		    !lies_in(s->addr, s->len, s->mr)) {
			fprintf(stderr, "t_fabric: local memory of a work "
					"request is not registered\n");
			abort();
		}
	}
}

static int execute_rdma(struct fake_chan *ch, const struct xp_wr *wr)
{
	void *remote = (void *)(uintptr_t)wr->remote_addr;
	void *local = (void *)(uintptr_t)wr->sge[0].addr;

	if (wr->sge_cnt == 0)
		return 0; /* no data: the key is not checked */
	if (hub_of(ch)->watch)
		hub_of(ch)->watch(hub_of(ch)->watch_user, &ch->peer->base, wr);
	if (!remote_is_allowed(xp_of(ch->peer), wr)) {
		hub_of(ch)->refused++;
		return -EREMOTEIO;
	}
	if (wr->op == XP_WR_WRITE)
		memcpy(remote, local, wr->sge[0].len);
	else
		memcpy(local, remote, wr->sge[0].len);
	return 0;
}

static int execute_send(struct fake_chan *ch, const struct xp_wr *wr)
{
	struct fake_chan *peer = ch->peer;
	struct list *it = list_pop(&peer->recvs);
	struct xp_iu *iu;
	uint32_t len = 0;
	struct action *a;

	if (!it)
		return -EAGAIN;
	iu = container_of(it, struct xp_iu, node);
	for (unsigned int i = 0; i < wr->sge_cnt; i++) {
		if (wr->sge[i].len > peer->base.xp->cfg.recv_len - len)
			return -EREMOTEIO;
		memcpy((char *)iu->data + len, wr->sge[i].addr, wr->sge[i].len);
		len += wr->sge[i].len;
	}
	iu->len = len;
	a = cause(xp_of(peer), RECEIVE, peer);
	a->iu = iu;
	note_time(a);
	return 0;
}

static void executed(struct fake_chan *ch, struct fake_wr *fw, int status)
{
	struct action *a;

	list_del(&fw->node);
	if (!fw->wr.signalled && !status) {
		free(fw);
		return;
	}
	list_add_tail(&ch->executed, &fw->node);
	a = cause(xp_of(ch), COMPLETE, ch);
	a->wr = fw;
	a->status = status;
	note_time(a);
}

static void execute(struct fake_chan *ch)
{
	struct t_fabric *hub = hub_of(ch);
	struct fake_wr *fw;
	int status;

	if (!ch->peer || list_empty(&ch->queue) || ch->stopped)
		return;
	if (ch->no_receive) {
		ch->stalled++;
		return;
	}
	if (hub->break_at && --hub->break_at == 0) {
		break_link(ch);
		return;
	}
	fw = list_first(&ch->queue, struct fake_wr, node);
	check_local(xp_of(ch), &fw->wr);
	if (ch->cut)
		status = -ETIMEDOUT;
	else if (fw->wr.op == XP_WR_SEND)
		status = execute_send(ch, &fw->wr);
	else
		status = execute_rdma(ch, &fw->wr);
	if (status == -EAGAIN) {
		hub->rnr++;
		ch->no_receive = true;
		ch->stalled = 1;
		return;
	}
	hub->executed++;
	executed(ch, fw, status);
	if (status)
		unpair(ch);
}

/* Continues a peer that waits for a receive. */
static void receive_is_posted(struct fake_chan *ch)
{
	struct fake_chan *peer = ch->peer;

	if (!peer || !peer->no_receive)
		return;
	peer->no_receive = false;
	for (; peer->stalled; peer->stalled--)
		cause(xp_of(peer), EXECUTE, peer);
}

static void complete(struct fake_chan *ch, struct fake_wr *fw, int status)
{
	struct xp_group *g = fw->wr.group;
	bool signalled = fw->wr.signalled;

	ch->base.xp->stats.cqes++;
	list_del(&fw->node);
	free(fw);
	if (status && status != -ECANCELED)
		xp_core_fail(&ch->base, status,
			     "the peer refused an RDMA operation or an IU");
	if (signalled)
		xp_core_group_done(g, status);
	else
		xp_core_wr_failed(g, status);
}

static void flush_wrs(struct fake_chan *ch, struct list *wrs)
{
	while (!list_empty(wrs))
		complete(ch, list_first(wrs, struct fake_wr, node), -ECANCELED);
}

static void flush_chan(struct fake_chan *ch)
{
	flush_wrs(ch, &ch->executed);
	flush_wrs(ch, &ch->queue);
	while (list_pop(&ch->recvs))
		;
	xp_core_drained(&ch->base);
}

/* ---- running actions ---- */

static void request(struct fake_listener *l, struct fake_chan *from);

static void refused(struct fake_chan *ch, const struct action *a)
{
	if (ch->base.state != XP_CHAN_CONNECTING)
		return;
	xp_core_keep_reject(&ch->base, a->pdata, a->pdata_len);
	if (a->status)
		xp_core_fail(&ch->base, a->status, "stale connection");
	else
		xp_core_fail(&ch->base, -ECONNREFUSED, "%s %s", ch->base.peer,
			     a->pdata_len ? "rejected the login"
					  : "refused the connection");
}

static void established(struct fake_chan *ch, const struct action *a)
{
	reactor_timer_stop(&ch->timer);
	xp_core_established(&ch->base, a->pdata, a->pdata_len);
}

static void run(struct action *a)
{
	struct fake_chan *ch = a->chan;

	list_del(&a->node);
	list_del(&a->at_node);
	switch (a->kind) {
	case EXECUTE:
		execute(ch);
		break;
	case COMPLETE:
		if (!a->status)
			ch->base.heard_us = a->since_us;
		complete(ch, a->wr, a->status);
		break;
	case RECEIVE:
		ch->base.heard_us = a->since_us;
		xp_core_received(&ch->base, a->iu);
		break;
	case REQUESTED:
		if (a->at->unplugged)
			cause(xp_of(ch), REFUSED, ch);
		else
			request(a->listener, ch);
		break;
	case ANSWERED:
	case READY:
		established(ch, a);
		break;
	case REFUSED:
		refused(ch, a);
		break;
	case LEFT:
		xp_core_fail(&ch->base, -ECONNRESET,
			     "the peer closed the connection");
		break;
	case REMOVED:
		xp_core_fail(&ch->base, -ENODEV, "device fake was removed");
		break;
	case FLUSH:
		flush_chan(ch);
		break;
	}
	free(a);
}

static unsigned int fake_poll(struct xp *base)
{
	struct fake_xp *xp = fake_xp(base);
	unsigned int done = 0;

	look(xp);
	while (!xp->hub->manual && done < 256 && !list_empty(&xp->actions)) {
		run(list_first(&xp->actions, struct action, at_node));
		done++;
	}
	return done;
}

static bool fake_arm(struct xp *base)
{
	return fake_xp(base)->hub->manual ||
	       list_empty(&fake_xp(base)->actions);
}

static void flush_all(struct t_fabric *hub)
{
	struct list *it;

	list_for_each(it, &hub->xps) {
		struct reactor_poller *p =
			&container_of(it, struct fake_xp, node)->base.poller;

		while (p->flush(p))
			;
	}
}

bool t_fabric_step(struct t_fabric *hub)
{
	/* Posts what a test has queued since the last step. */
	flush_all(hub);
	if (list_empty(&hub->actions))
		return false;
	run(list_first(&hub->actions, struct action, node));
	flush_all(hub);
	return true;
}

static bool may_run(const struct t_fabric *hub, const struct list *it)
{
	return &container_of(it, struct action, node)->at->base != hub->still;
}

void t_fabric_stand_still(struct t_fabric *hub, struct xp *xp)
{
	hub->still = xp;
}

unsigned int t_fabric_pending(struct t_fabric *hub)
{
	struct list *it;
	unsigned int n = 0;

	flush_all(hub);
	list_for_each(it, &hub->actions)
		n += may_run(hub, it);
	return n;
}

bool t_fabric_step_nth(struct t_fabric *hub, unsigned int nth)
{
	struct action *a = NULL;
	struct list *it;

	flush_all(hub);
	list_for_each(it, &hub->actions) {
		if (!may_run(hub, it))
			continue;
		a = container_of(it, struct action, node);
		if (nth-- == 0)
			break;
	}
	if (!a)
		return false;
	list_for_each(it, &hub->actions) {
		struct action *first = container_of(it, struct action, node);

		if (first->chan == a->chan && may_run(hub, it)) {
			run(first);
			break;
		}
	}
	flush_all(hub);
	return true;
}

unsigned int t_fabric_run(struct t_fabric *hub)
{
	unsigned int n = 0;

	while (t_fabric_step(hub))
		n++;
	return n;
}

void t_fabric_manual(struct t_fabric *hub, bool manual)
{
	hub->manual = manual;
}

void t_fabric_hold_completions(struct t_fabric *hub, bool hold)
{
	hub->hold = hold;
}

unsigned int t_fabric_let_go(struct t_fabric *hub, unsigned int cnt)
{
	unsigned int n = 0;
	struct list *it;

	while (n < cnt && (it = list_pop(&hub->held))) {
		struct action *a = container_of(it, struct action, node);

		list_add_tail(&hub->actions, &a->node);
		list_add_tail(&a->at->actions, &a->at_node);
		n++;
	}
	return n;
}

/* ---- posting ---- */

/* A receive that is given back in a turn must be posted before the sends of
 * that turn. The fabric itself would not notice the wrong order. */
static void check_receives_went_first(const struct xp_chan *ch)
{
	struct list *it;

	list_for_each(it, &ch->xp->released) {
		if (container_of(it, struct xp_iu, node)->ch == ch) {
			fprintf(stderr, "t_fabric: a send was posted before a "
					"receive of the same turn\n");
			abort();
		}
	}
}

static int fake_post_send(struct xp_chan *base, const struct xp_wr *wr,
			  unsigned int n)
{
	struct fake_chan *ch = fake_chan(base);
	struct t_fabric *hub = hub_of(ch);

	assert(base->state == XP_CHAN_OPEN);
	check_receives_went_first(base);
	for (unsigned int i = 0; i < n; i++) {
		struct fake_wr *fw;

		if (hub->fail_post && --hub->fail_post == 0)
			return (int)i;
		fw = zalloc(sizeof(*fw));
		fw->wr = wr[i];
		list_add_tail(&ch->queue, &fw->node);
		cause(xp_of(ch), EXECUTE, ch);
	}
	return (int)n;
}

static void fake_post_recv(struct xp *xp, struct list *ius)
{
	struct list *it;

	while ((it = list_pop(ius))) {
		struct xp_iu *iu = container_of(it, struct xp_iu, node);
		struct fake_chan *ch = fake_chan(iu->ch);

		assert(iu->ch->xp == xp);
		if (ch->base.state != XP_CHAN_OPEN)
			continue;
		/* The buffer belongs to the fabric now. Overwrites it, because
		 * its data may be gone at once. */
		memset(iu->data, 0xdd, iu->len);
		list_add_tail(&ch->recvs, &iu->node);
		receive_is_posted(ch);
	}
}

/* ---- memory ---- */

static void mr_init(struct fake_mr *mr, struct fake_xp *xp, void *addr,
		    size_t len, enum xp_access access)
{
	mr->base.xp = &xp->base;
	mr->base.addr = addr;
	mr->base.len = len;
	mr->access = access;
	mr->key = xp->hub->next_key;
	xp->hub->next_key += 0x101;
	list_add_tail(&xp->mrs, &mr->node);
}

static int fake_mr_register(struct xp *xp, void *addr, size_t len,
			    enum xp_access access, struct xp_mr **ret_mr,
			    struct error *e)
{
	struct fake_mr *mr = zalloc(sizeof(*mr));

	mr_init(mr, fake_xp(xp), addr, len, access);
	*ret_mr = &mr->base;
	return 0;
}

static void fake_mr_free(struct xp_mr *base)
{
	struct fake_mr *mr = container_of(base, struct fake_mr, base);

	list_del(&mr->node);
	free(mr);
}

static void fake_mr_remote(const struct xp_mr *base, const struct xp_chan *ch,
			   const void *ptr, uint64_t *ret_addr,
			   uint32_t *ret_key)
{
	const struct fake_mr *mr = container_of(base, struct fake_mr, base);

	assert(mr->access == XP_REMOTE && ch->xp == base->xp);
	*ret_addr = (uintptr_t)ptr;
	*ret_key = mr->key;
}

/* ---- connections ---- */

static void timed_out(struct reactor_timer *t)
{
	struct fake_chan *ch = container_of(t, struct fake_chan, timer);

	xp_core_fail(&ch->base, -ETIMEDOUT, "no answer from %s within %u ms",
		     ch->base.peer, ch->timeout_ms);
}

/* Only the members that make it a spare may be accessed. */
static void block_free(struct fake_xp *xp, void *block, size_t len)
{
	struct spare *spare = block;

	spare->len = len;
	list_add_tail(&xp->spares, &spare->node);
	ASAN_POISON_MEMORY_REGION(spare + 1, len - sizeof(*spare));
}

static void *block_alloc(struct fake_xp *xp, size_t len)
{
	struct list *it;
	void *block;

	list_for_each(it, &xp->spares) {
		struct spare *spare = container_of(it, struct spare, node);

		if (spare->len != len)
			continue;
		list_del(&spare->node);
		ASAN_UNPOISON_MEMORY_REGION(spare, len);
		return spare;
	}
	block = aligned_alloc(512, len);
	if (!block)
		abort();
	return block;
}

static void spares_free(struct fake_xp *xp)
{
	while (!list_empty(&xp->spares)) {
		struct spare *spare =
			container_of(list_pop(&xp->spares), struct spare, node);

		ASAN_UNPOISON_MEMORY_REGION(spare, spare->len);
		free(spare);
	}
}

static void recvs_init(struct fake_chan *ch, unsigned int cnt)
{
	struct xp *xp = ch->base.xp;
	size_t stride;
	size_t first;

	xp_core_recv_layout(&xp->cfg, &stride, &first);
	ch->iu_cnt = cnt;
	ch->ius = zalloc(cnt * sizeof(*ch->ius));
	ch->block_len = (first + stride * cnt) / 512 * 512 + 512;
	ch->block = block_alloc(xp_of(ch), ch->block_len);
	mr_init(&ch->recv_mr, xp_of(ch), ch->block, first + stride * cnt,
		XP_LOCAL);
	for (unsigned int i = 0; i < cnt; i++) {
		ch->ius[i].data = (char *)ch->block + first + i * stride;
		ch->ius[i].ch = &ch->base;
		ch->ius[i].mr = &ch->recv_mr.base;
		list_add_tail(&ch->recvs, &ch->ius[i].node);
	}
}

static struct fake_chan *chan_new(struct xp *xp,
				  const struct xp_chan_params *params)
{
	struct fake_chan *ch = zalloc(sizeof(*ch));

	if (xp_core_chan_init(&ch->base, xp, params, xp->cfg.send_depth))
		abort();
	list_add_tail(&fake_xp(xp)->chans, &ch->node);
	list_init(&ch->queue);
	list_init(&ch->executed);
	list_init(&ch->recvs);
	reactor_timer_init(&ch->timer, timed_out);
	recvs_init(ch, params->recv_cnt);
	snprintf(ch->base.device, sizeof(ch->base.device), "fake");
	return ch;
}

static void fake_chan_free(struct xp_chan *base)
{
	struct fake_chan *ch = fake_chan(base);

	take_back(&hub_of(ch)->actions, ch, -1);
	take_back(&hub_of(ch)->held, ch, -1);
	for (unsigned int i = 0; i < ch->iu_cnt; i++)
		list_del(&ch->ius[i].node);
	list_del(&ch->recv_mr.node);
	list_del(&ch->node);
	xp_core_chan_fini(base);
	block_free(xp_of(ch), ch->block, ch->block_len);
	free(ch->ius);
	free(ch);
}

static void fake_disconnect(struct xp_chan *base)
{
	struct fake_chan *ch = fake_chan(base);
	struct t_fabric *hub = hub_of(ch);

	reactor_timer_stop(&ch->timer);
	take_back(&hub->actions, ch, EXECUTE);
	take_back(&hub->actions, ch, REQUESTED);
	if (ch->request)
		ch->request->from = NULL;
	unpair(ch);
	cause(xp_of(ch), FLUSH, ch);
}

static bool same_addr(const struct sockaddr_storage *a, socklen_t a_len,
		      const void *b, socklen_t b_len)
{
	return a_len == b_len && memcmp(a, b, b_len) == 0;
}

static struct fake_listener *
find_listener(struct t_fabric *hub, const struct sockaddr *addr, socklen_t len)
{
	struct list *x;
	struct list *it;

	list_for_each(x, &hub->xps) {
		struct fake_xp *xp = container_of(x, struct fake_xp, node);

		list_for_each(it, &xp->listeners) {
			struct fake_listener *l =
				container_of(it, struct fake_listener, node);

			if (same_addr(&l->addr, l->addr_len, addr, len))
				return l;
		}
	}
	return NULL;
}

static int fake_listen(struct xp *base, const struct sockaddr *addr,
		       socklen_t addr_len,
		       void (*requested)(struct xp_conn_request *req),
		       void *user, struct xp_listener **ret_listener,
		       struct error *e)
{
	struct fake_xp *xp = fake_xp(base);
	struct fake_listener *l;

	if (find_listener(xp->hub, addr, addr_len)) {
		error_set(e, -EADDRINUSE, "somebody listens there already");
		return -EADDRINUSE;
	}
	l = zalloc(sizeof(*l));
	l->base.xp = base;
	memcpy(&l->addr, addr, addr_len);
	l->addr_len = addr_len;
	l->requested = requested;
	l->user = user;
	list_add_tail(&xp->listeners, &l->node);
	*ret_listener = &l->base;
	return 0;
}

static void fake_unlisten(struct xp_listener *base)
{
	struct fake_listener *l =
		container_of(base, struct fake_listener, base);
	struct fake_xp *xp = fake_xp(base->xp);
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &xp->actions) {
		struct action *a = container_of(it, struct action, at_node);

		if (a->kind == REQUESTED && a->listener == l) {
			cause(xp_of(a->chan), REFUSED, a->chan);
			action_free(a);
		}
	}
	list_del(&l->node);
	free(l);
}

static int fake_connect(struct xp *xp, const struct sockaddr *addr,
			socklen_t addr_len, const struct xp_chan_params *params,
			struct xp_chan **ret_ch, struct error *e)
{
	struct t_fabric *hub = fake_xp(xp)->hub;
	struct fake_listener *l = find_listener(hub, addr, addr_len);
	struct fake_chan *ch;

	if (fake_xp(xp)->unplugged ||
	    (hub->closed_len &&
	     same_addr(&hub->closed, hub->closed_len, addr, addr_len))) {
		error_set(e, -ENODEV, "no RDMA device has a way there");
		return -ENODEV;
	}
	ch = chan_new(xp, params);

	assert(params->pdata_len <= REQ_ROOM);
	if (params->pdata_len)
		memcpy(ch->pdata, params->pdata, params->pdata_len);
	ch->pdata_len = REQ_ROOM;
	xp_addr_text(addr, ch->base.peer, sizeof(ch->base.peer));
	snprintf(ch->base.local, sizeof(ch->base.local), "fake:%d",
		 hub->next_port++);
	if (hub->silent_len &&
	    same_addr(&hub->silent, hub->silent_len, addr, addr_len))
		; /* the timer reports it */
	else if (hub->stale && hub->stale--)
		cause(fake_xp(xp), REFUSED, ch)->status = -EISCONN;
	else if (l)
		cause(fake_xp(l->base.xp), REQUESTED, ch)->listener = l;
	else
		cause(fake_xp(xp), REFUSED, ch);
	ch->timeout_ms =
		params->timeout_ms ? params->timeout_ms : CONNECT_TIMEOUT_MS;
	reactor_timer_set(xp->cfg.reactor, &ch->timer, ch->timeout_ms);
	*ret_ch = &ch->base;
	return 0;
}

static void request(struct fake_listener *l, struct fake_chan *from)
{
	struct fake_request *req = zalloc(sizeof(*req));

	from->request = req;
	req->from = from;
	memcpy(req->pdata, from->pdata, from->pdata_len);
	req->base.xp = l->base.xp;
	req->base.pdata = req->pdata;
	req->base.pdata_len = from->pdata_len;
	req->base.user = l->user;
	xp_addr_text((struct sockaddr *)&l->addr, req->base.local,
		     sizeof(req->base.local));
	memcpy(req->base.peer, from->base.local, sizeof(req->base.peer));
	req->base.proved = xp_of(from)->hub->proved;
	req->base.encrypted = req->base.proved;
	*(struct sockaddr_in *)&req->base.peer_addr = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr = xp_of(from)->hub->from,
	};
	l->requested(&req->base);
}

static void answered(struct fake_request *req)
{
	if (req->from)
		req->from->request = NULL;
	free(req);
}

static void fake_reject(struct xp_conn_request *base, const void *pdata,
			size_t len)
{
	struct fake_request *req =
		container_of(base, struct fake_request, base);

	assert(len <= REJ_ROOM);
	if (req->from)
		cause_pdata(cause(xp_of(req->from), REFUSED, req->from), pdata,
			    len, len ? REJ_ROOM : 0);
	answered(req);
}

static int fake_accept(struct xp *xp, struct xp_conn_request *base,
		       const struct xp_chan_params *params,
		       struct xp_chan **ret_ch, struct error *e)
{
	struct fake_request *req =
		container_of(base, struct fake_request, base);
	struct fake_chan *ch;

	if (fake_xp(xp)->unplugged) {
		error_set(e, -ENODEV, "the RDMA device cannot be used");
		fake_reject(base, NULL, 0);
		return -ENODEV;
	}
	ch = chan_new(xp, params);
	assert(params->pdata_len <= REP_ROOM);
	ch->base.probes = true;
	memcpy(ch->base.local, base->local, sizeof(ch->base.local));
	memcpy(ch->base.peer, base->peer, sizeof(ch->base.peer));
	if (req->from) {
		ch->peer = req->from;
		req->from->peer = ch;
		cause_pdata(cause(xp_of(req->from), ANSWERED, req->from),
			    params->pdata, params->pdata_len, REP_ROOM);
	}
	cause(fake_xp(xp), READY, ch);
	if (!req->from)
		cause(fake_xp(xp), LEFT, ch);
	answered(req);
	*ret_ch = &ch->base;
	return 0;
}

/* ---- hubs and xps ---- */

static void fake_destroy(struct xp *base)
{
	struct fake_xp *xp = fake_xp(base);

	xp_core_fini(base);
	assert(list_empty(&xp->listeners) && list_empty(&xp->mrs) &&
	       list_empty(&xp->actions));
	list_del(&xp->node);
	spares_free(xp);
	free(xp);
}

static const struct xp_ops ops = {
	.kind = XP_VERBS,
	.selective = true,
	.poll = fake_poll,
	.arm = fake_arm,
	.destroy = fake_destroy,
	.listen = fake_listen,
	.unlisten = fake_unlisten,
	.accept = fake_accept,
	.reject = fake_reject,
	.connect = fake_connect,
	.post_send = fake_post_send,
	.post_recv = fake_post_recv,
	.disconnect = fake_disconnect,
	.chan_free = fake_chan_free,
	.mr_register = fake_mr_register,
	.mr_free = fake_mr_free,
	.mr_remote = fake_mr_remote,
};

int t_xp_create(struct t_fabric *hub, const struct xp_config *cfg,
		struct xp **ret_xp)
{
	struct fake_xp *xp = zalloc(sizeof(*xp));

	xp->hub = hub;
	list_init(&xp->actions);
	list_init(&xp->listeners);
	list_init(&xp->mrs);
	list_init(&xp->spares);
	list_init(&xp->chans);
	list_add_tail(&hub->xps, &xp->node);
	xp_core_init(&xp->base, &ops, cfg);
	*ret_xp = &xp->base;
	return 0;
}

struct t_fabric *t_fabric_create(void)
{
	struct t_fabric *hub = zalloc(sizeof(*hub));

	list_init(&hub->xps);
	list_init(&hub->actions);
	list_init(&hub->held);
	hub->next_key = 0x1000;
	hub->next_port = 1;
	return hub;
}

void t_fabric_destroy(struct t_fabric *hub)
{
	assert(list_empty(&hub->xps));
	free(hub);
}

void t_fabric_fail_post(struct t_fabric *hub, unsigned int nth)
{
	hub->fail_post = nth;
}

void t_fabric_break_at(struct t_fabric *hub, unsigned int nth)
{
	hub->break_at = nth;
}

void t_fabric_make_stale(struct t_fabric *hub, unsigned int cnt)
{
	hub->stale = cnt;
}

void t_fabric_close_way(struct t_fabric *hub, const struct sockaddr *addr,
			socklen_t len)
{
	hub->closed_len = addr ? len : 0;
	if (addr)
		memcpy(&hub->closed, addr, len);
}

void t_fabric_silence(struct t_fabric *hub, const struct sockaddr *addr,
		      socklen_t len)
{
	hub->silent_len = addr ? len : 0;
	if (addr)
		memcpy(&hub->silent, addr, len);
}

uint64_t t_fabric_rnr(const struct t_fabric *hub)
{
	return hub->rnr;
}

uint64_t t_fabric_executed(const struct t_fabric *hub)
{
	return hub->executed;
}

int t_fabric_receives(struct xp_chan *base)
{
	const struct fake_chan *ch = fake_chan(base);
	struct list *it;
	int n = 0;

	if (!ch->peer)
		return INT_MAX;
	list_for_each(it, &ch->peer->recvs)
		n++;
	list_for_each(it, &ch->queue)
		n--;
	for (it = base->unposted; it != &base->chains; it = it->next)
		n--;
	return n;
}

uint64_t t_fabric_refused(const struct t_fabric *hub)
{
	return hub->refused;
}
