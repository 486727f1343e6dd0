/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tcp provider: libfabric's "tcp", message endpoints with RMA. It gives
 * SEND, RDMA WRITE and RDMA READ on a machine that has no RDMA device. Here are
 * the instances and the work; ofi_net.c has what they stand on, ofi_cm.c how
 * connections begin and ofi_end.c how they end.
 *
 * What the provider does (1.17) that one would not expect, and what follows:
 *  - It moves data only while somebody reads the completion queue, whatever it
 *    says of automatic progress: the queue is read in every turn.
 *  - Operations complete when the socket has taken them, so a WRITE is done
 *    before the peer has it; the order of the stream is what keeps the promise
 *    that who sees the SEND sees the data. READs complete when the data is
 *    there, later than a SEND that was posted after them. With that, and with
 *    FI_TCP_ZEROCOPY_SIZE, completions are not in posting order: every work
 *    request is signalled.
 *  - A WRITE with a bad key completes well; then the peer's endpoint shuts
 *    down, and ours. On an endpoint that is shut down posting still succeeds.
 *    Therefore any error completion or shutdown fails the channel, and what
 *    was posted is accounted for by closing the endpoint, which flushes, and
 *    reading the queue until it is empty: after that nothing refers to the
 *    channel.
 *  - An endpoint that is closed while the answer to a READ is coming in puts
 *    one of its buffers on the free list twice, and spoils the queue for
 *    everybody. See cut_socket() in ofi_end.c.
 *  - It may stop reading a socket that has more, with nothing to report: its
 *    wait descriptor tells by being readable, not by becoming so. See arm().
 *  - A message that finds no posted receive stays in the socket, which is then
 *    always readable. Only posting a receive helps: see arm() again.
 *  - It trusts the bytes of a connection: headers that no libfabric would send
 *    can crash it. This transport is for networks whose hosts are trusted.
 *  - Memory that only this side touches needs no registration. For what the
 *    peer may access we choose the keys, at random: they hold for every peer
 *    of the instance, and one must not guess what another was given.
 */
#include "transport/ofi_internal.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Completions taken with one call, which is one turn's share. */
#define CQ_BATCH 64

/* How often to look when looking tells nothing: see arm(). */
#define NAP_MS 1

/* The low bits of an operation's context tell what it points to. */
#define CTX_RECV ((uintptr_t)1) /* an xp_iu; otherwise an xp_group */
#define CTX_READ ((uintptr_t)2)
#define CTX_BITS (CTX_RECV | CTX_READ)

/* ---- receiving ---- */

int ofi_recv_alloc(struct ofi_chan *ch, unsigned int cnt)
{
	struct xp *xp = ch->base.xp;
	size_t stride;
	size_t first;
	size_t len;

	cnt++;
	xp_core_recv_layout(&xp->cfg, &stride, &first);
	len = first + stride * cnt;
	ch->ius = calloc(cnt, sizeof(*ch->ius));
	if (!ch->ius || posix_memalign(&ch->recv_block, 4096, len))
		return -ENOMEM;
	ch->recv_mr.base.xp = xp;
	ch->recv_mr.base.addr = ch->recv_block;
	ch->recv_mr.base.len = len;
	for (unsigned int i = 0; i < cnt; i++) {
		list_init(&ch->ius[i].node);
		ch->ius[i].data = (char *)ch->recv_block + first + i * stride;
		ch->ius[i].ch = &ch->base;
		ch->ius[i].mr = &ch->recv_mr.base;
	}
	ch->iu_cnt = cnt;
	return 0;
}

void ofi_recv_free(struct ofi_chan *ch)
{
	/* Some may have been released in this turn and wait to be posted. */
	for (unsigned int i = 0; i < ch->iu_cnt; i++)
		list_del(&ch->ius[i].node);
	free(ch->ius);
	free(ch->recv_block);
}

static int recv_post(struct ofi_chan *ch, struct xp_iu *iu)
{
	ssize_t ret;

	ret = fi_recv(ch->ep, iu->data, ch->base.xp->cfg.recv_len, NULL, 0,
		      (void *)((uintptr_t)iu | CTX_RECV));
	if (ret)
		return (int)ret;
	if (ch->posted_recvs++ == 0)
		ofi_xp(ch->base.xp)->starved--;
	return 0;
}

int ofi_recv_post_all(struct ofi_chan *ch)
{
	int err = 0;

	for (unsigned int i = 0; i < ch->iu_cnt && !err; i++)
		err = recv_post(ch, &ch->ius[i]);
	return err;
}

static void post_recv(struct xp *xp, struct list *ius)
{
	struct list *it;
	int err;

	while ((it = list_pop(ius))) {
		struct xp_iu *iu = container_of(it, struct xp_iu, node);
		struct ofi_chan *ch = ofi_chan(iu->ch);

		if (ch->base.state != XP_CHAN_OPEN)
			continue;
		err = recv_post(ch, iu);
		if (err)
			xp_core_fail(&ch->base, err,
				     "posting a receive failed: %s",
				     fi_strerror(-err));
	}
}

static void recv_done(struct xp_iu *iu, int status, size_t len)
{
	struct ofi_chan *ch = ofi_chan(iu->ch);

	if (--ch->posted_recvs == 0)
		ofi_xp(ch->base.xp)->starved++;
	if (status == -FI_ETRUNC) {
		xp_core_fail(&ch->base, -EMSGSIZE,
			     "the peer sent more than %zu bytes in one IU",
			     ch->base.xp->cfg.recv_len);
	} else if (status) {
		ofi_broke(ch);
	} else {
		/* Data can overtake the event that says we are connected. */
		if (ch->base.state == XP_CHAN_CONNECTING)
			ofi_eq_run(&ofi_xp(ch->base.xp)->eq);
		iu->len = (uint32_t)len;
		xp_core_received(&ch->base, iu);
	}
}

/* ---- sending ---- */

static void *send_context(const struct xp_wr *wr)
{
	uintptr_t bits = wr->op == XP_WR_READ ? CTX_READ : 0;

	return (void *)((uintptr_t)wr->group | bits);
}

static ssize_t post_rma(struct ofi_chan *ch, const struct xp_wr *wr,
			const struct iovec *iov, uint64_t flags)
{
	struct fi_rma_iov remote = {
		.addr = wr->remote_addr,
		.len = wr->sge[0].len,
		.key = wr->remote_key,
	};
	struct fi_msg_rma msg = {
		.msg_iov = iov,
		.iov_count = wr->sge_cnt,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = send_context(wr),
	};
	ssize_t ret;

	if (wr->op == XP_WR_WRITE)
		return fi_writemsg(ch->ep, &msg, flags);
	ret = fi_readmsg(ch->ep, &msg, flags);
	if (!ret)
		ch->posted_reads++;
	return ret;
}

static ssize_t post_one(struct ofi_chan *ch, const struct xp_wr *wr,
			uint64_t flags)
{
	struct iovec iov[ARRAY_SIZE(wr->sge)];
	struct fi_msg msg = {
		.msg_iov = iov,
		.iov_count = wr->sge_cnt,
		.context = send_context(wr),
	};

	for (unsigned int i = 0; i < wr->sge_cnt; i++) {
		iov[i].iov_base = (void *)(uintptr_t)wr->sge[i].addr;
		iov[i].iov_len = wr->sge[i].len;
	}
	if (wr->op != XP_WR_SEND)
		return post_rma(ch, wr, iov, flags);
	return fi_sendmsg(ch->ep, &msg, flags);
}

int ofi_late_alloc(struct ofi_chan *ch)
{
	ch->late.size = ch->base.xp->cfg.send_depth;
	ch->late.wrs = calloc(ch->late.size, sizeof(*ch->late.wrs));
	return ch->late.wrs ? 0 : -ENOMEM;
}

/* Room there is: the core never has more than the send depth under way. */
static void late_add(struct ofi_chan *ch, const struct xp_wr *wr)
{
	struct ofi_late *late = &ch->late;

	assert(late->cnt < late->size);
	late->wrs[(late->head + late->cnt++) % late->size] = *wr;
	if (list_empty(&ch->late_node))
		list_add_tail(&ofi_xp(ch->base.xp)->late, &ch->late_node);
}

static int post_send(struct xp_chan *base, const struct xp_wr *wr,
		     unsigned int n)
{
	struct ofi_chan *ch = ofi_chan(base);
	ssize_t ret = 0;

	for (unsigned int i = 0; i < n; i++) {
		uint64_t more = i + 1 < n ? FI_MORE : 0;

		if (!ch->late.cnt)
			ret = post_one(ch, &wr[i], FI_COMPLETION | more);
		if (ch->late.cnt || ret == -FI_EAGAIN)
			late_add(ch, &wr[i]);
		else if (ret)
			return (int)ret;
	}
	return (int)n;
}

/* Posts what there was no room for; true when all of it has gone. */
static bool late_post(struct ofi_chan *ch)
{
	struct ofi_late *late = &ch->late;
	ssize_t ret;

	while (late->cnt && ch->base.state == XP_CHAN_OPEN) {
		ret = post_one(ch, &late->wrs[late->head], FI_COMPLETION);
		if (ret == -FI_EAGAIN)
			return false;
		if (ret) {
			xp_core_fail(&ch->base, (int)ret,
				     "posting to the send queue failed: %s",
				     fi_strerror((int)-ret));
			return true;
		}
		late->head = (late->head + 1) % late->size;
		late->cnt--;
	}
	return true;
}

static void post_all_late(struct ofi_xp *xp)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &xp->late) {
		if (late_post(container_of(it, struct ofi_chan, late_node)))
			list_del(it);
	}
}

static void send_done(struct xp_group *g, bool read, int status)
{
	struct ofi_chan *ch = ofi_chan(g->ch);

	if (read && ch->posted_reads > 0)
		ch->posted_reads--;
	/* First say that the channel ends, then what became of its chains. */
	if (status)
		ofi_broke(ch);
	xp_core_group_done(g, status);
}

/* ---- completions ---- */

static void complete(void *context, int status, size_t len)
{
	uintptr_t bits = (uintptr_t)context & CTX_BITS;
	void *p = (void *)((uintptr_t)context & ~CTX_BITS);

	/* The provider reports some of its own making without one. */
	if (!p)
		return;
	if (bits & CTX_RECV)
		recv_done(p, status, len);
	else
		send_done(p, bits & CTX_READ, status);
}

static void reap_error(struct ofi_xp *xp)
{
	struct fi_cq_err_entry err = { 0 };

	if (fi_cq_readerr(xp->cq, &err, 0) != 1)
		return;
	complete(err.op_context, err.err ? -err.err : -EIO, 0);
}

/* One call's worth; 0: there are no more. */
static unsigned int reap(struct ofi_xp *xp)
{
	struct fi_cq_msg_entry entries[CQ_BATCH];
	ssize_t n;

	n = fi_cq_read(xp->cq, entries, CQ_BATCH);
	if (n == -FI_EAVAIL) {
		reap_error(xp);
		n = 1;
	} else {
		for (ssize_t i = 0; i < n; i++)
			complete(entries[i].op_context, 0, entries[i].len);
	}
	if (n <= 0)
		return 0;
	xp->base.stats.cqes += (uint64_t)n;
	return (unsigned int)n;
}

static unsigned int reap_all(struct ofi_xp *xp)
{
	unsigned int done = 0;
	unsigned int n;

	while ((n = reap(xp)) > 0)
		done += n;
	return done;
}

/*
 * The order matters. What a peer sent before it left is received before its
 * channel fails; and a channel is drained when the queue has been read empty
 * after its endpoint was closed.
 */
static unsigned int poll_xp(struct xp *base)
{
	struct ofi_xp *xp = ofi_xp(base);
	unsigned int done;

	done = reap(xp);
	done += ofi_run_eqs(xp);
	if (!list_empty(&xp->late))
		post_all_late(xp);
	if (!list_empty(&xp->lost)) {
		done += reap_all(xp);
		done += ofi_finish_lost(xp);
	}
	if (!list_empty(&xp->closing))
		ofi_close_endpoints(xp);
	if (!list_empty(&xp->closed)) {
		done += reap_all(xp);
		done += ofi_finish_closed(xp);
	}
	xp->idle = done == 0;
	return done;
}

/* ---- sleeping ---- */

static void wake_done(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	struct ofi_wake *wake = container_of(op, struct ofi_wake, op);

	wake->armed = false;
	if (wake->abandoned)
		free(wake);
}

static void wake_arm(struct ofi_xp *xp)
{
	struct io_uring_sqe *sqe;

	if (xp->wake->armed)
		return;
	sqe = reactor_sqe(xp->base.cfg.reactor);
	io_uring_prep_poll_add(sqe, xp->wake->fd, POLLIN);
	reactor_prep_done(sqe, &xp->wake->op);
	xp->wake->armed = true;
}

static int wake_open(struct ofi_xp *xp)
{
	xp->wake = calloc(1, sizeof(*xp->wake));
	if (!xp->wake)
		return -ENOMEM;
	xp->wake->op.done = wake_done;
	return fi_control(&xp->cq->fid, FI_GETWAIT, &xp->wake->fd);
}

static void wake_close(struct ofi_xp *xp)
{
	if (!xp->wake)
		return;
	if (xp->wake->armed) {
		xp->wake->abandoned = true;
		reactor_cancel(xp->base.cfg.reactor, &xp->wake->op);
	} else {
		free(xp->wake);
	}
}

static void nap_ends(struct reactor_timer *t)
{
}

/*
 * A single poll of the wait descriptor, submitted with the system call that
 * goes to sleep, sees whether it is readable at that moment; edges would not
 * do. Polling is no use while a message waits for a receive: the descriptor is
 * readable all the time. It takes a peer that sends more than it was granted
 * to get there; what it costs is a look now and then.
 */
static bool arm(struct xp *base)
{
	struct ofi_xp *xp = ofi_xp(base);
	struct fid *fids[] = { &xp->cq->fid };
	int ret;

	if (!list_empty(&xp->lost) || ofi_can_close(xp) || ofi_eq_ready(xp))
		return false;
	ret = fi_trywait(ofi_fabric(), fids, ARRAY_SIZE(fids));
	if (xp->starved && xp->idle) {
		reactor_timer_set(base->cfg.reactor, &xp->nap, NAP_MS);
		return true;
	}
	if (ret == 0)
		wake_arm(xp);
	return ret == 0;
}

/* ---- instances ---- */

static void destroy(struct xp *base)
{
	struct ofi_xp *xp = ofi_xp(base);

	xp_core_fini(base);
	reactor_timer_stop(&xp->nap);
	wake_close(xp);
	ofi_eq_close(&xp->eq);
	fi_close(&xp->cq->fid);
	fi_close(&xp->domain->fid);
	ofi_net_put();
	free(xp);
}

static const struct xp_ops ops = {
	.kind = XP_OFI,
	.selective = false,
	.poll = poll_xp,
	.arm = arm,
	.destroy = destroy,
	.listen = ofi_listen,
	.unlisten = ofi_unlisten,
	.accept = ofi_accept,
	.reject = ofi_reject,
	.connect = ofi_connect,
	.post_send = post_send,
	.post_recv = post_recv,
	.disconnect = ofi_disconnect,
	.chan_free = ofi_chan_free,
	.mr_register = ofi_mr_register,
	.mr_free = ofi_mr_free,
	.mr_remote = ofi_mr_remote,
};

static int cq_open(struct ofi_xp *xp)
{
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_FD,
		.size = 4096, /* more go to a list */
	};
	int err;

	err = fi_cq_open(xp->domain, &attr, &xp->cq, NULL);
	if (err)
		return err;
	err = wake_open(xp);
	if (err) {
		wake_close(xp);
		fi_close(&xp->cq->fid);
	}
	return err;
}

static int queues_open(struct ofi_xp *xp)
{
	struct fi_info *info = ofi_info();
	int err;

	if (!info)
		return -ENOMEM;
	err = fi_domain(ofi_fabric(), info, &xp->domain, NULL);
	fi_freeinfo(info);
	if (err)
		return err;
	err = cq_open(xp);
	if (err)
		goto err_domain;
	err = ofi_eq_open(xp, &xp->eq);
	if (err)
		goto err_cq;
	return 0;

err_cq:
	wake_close(xp);
	fi_close(&xp->cq->fid);
err_domain:
	fi_close(&xp->domain->fid);
	return err;
}

int xp_ofi_create(const struct xp_config *cfg, struct xp **ret_xp,
		  struct xp_error *e)
{
	struct ofi_xp *xp;
	int err;

	err = ofi_net_get(e);
	if (err)
		return err;
	xp = calloc(1, sizeof(*xp));
	if (!xp) {
		xp_error_set(e, -ENOMEM, "out of memory");
		ofi_net_put();
		return -ENOMEM;
	}
	list_init(&xp->eqs);
	list_init(&xp->lost);
	list_init(&xp->closing);
	list_init(&xp->closed);
	list_init(&xp->late);
	reactor_timer_init(&xp->nap, nap_ends);
	xp->base.cfg = *cfg;
	err = queues_open(xp);
	if (err) {
		xp_error_set(e, err, "opening libfabric's tcp failed: %s",
			     fi_strerror(-err));
		free(xp);
		ofi_net_put();
		return err;
	}
	xp_core_init(&xp->base, &ops, cfg);
	*ret_xp = &xp->base;
	return 0;
}
