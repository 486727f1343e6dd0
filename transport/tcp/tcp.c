/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tcp provider: SEND, RDMA WRITE and RDMA READ over sockets, for machines
 * without an RDMA device. Its protocol is that of libfabric's tcp provider
 * (wire.h), so that either end may be libfabric.
 *
 * How it works
 *  - The ring does all I/O. A channel has at most one operation in flight that
 *    sends, and one that receives. There is nothing to poll or to arm: the
 *    reactor sleeps in the call that submits.
 *  - Messages that are posted in a turn leave with one gathering send at its
 *    end (send.c). A chain without a READ is done when the socket has taken its
 *    bytes: the peer sees them in the order of the stream. A READ is done when
 *    its data has arrived. So completions are not in posting order, and every
 *    work request is signalled.
 *  - Many messages are read at once. IUs are not copied: the user gets them
 *    where they were read to. Large data of RDMA is read directly to its
 *    destination (recv.c).
 *  - If a peer sends more IUs than it may, nothing is read from it until an IU
 *    is released: TCP makes it wait.
 *  - This side executes the READs and WRITEs of the peer, only in memory that
 *    was registered for that. Keys are random, and addresses count from the
 *    start of a region. A key holds for every peer of the instance. If memory
 *    is unregistered while a request of a peer is under way in it, that channel
 *    ends and no longer touches the memory.
 *  - With a key, the same bytes travel in records of TLS (docs/tls.md). If the kernel
 *    makes and opens them, nothing else differs. Else a send takes what
 *    tls_write() has made, and tls_read() stands where a read of the socket would.
 *  - To drain a channel, its socket is shut down and its operations are
 *    cancelled. The channel is drained when they have completed.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "transport/tcp/internal.h"

/* ---- memory ---- */

static struct list *tcp_mr_bucket(struct tcp_xp *xp, uint32_t key)
{
	return &xp->mrs[key % ARRAY_SIZE(xp->mrs)];
}

static struct tcp_mr *tcp_mr_by_key(struct tcp_xp *xp, uint32_t key)
{
	struct list *it;

	list_for_each(it, tcp_mr_bucket(xp, key)) {
		struct tcp_mr *mr = container_of(it, struct tcp_mr, node);

		if (mr->key == key)
			return mr;
	}
	return NULL;
}

void *tcp_mr_find(struct tcp_xp *xp, const struct tcp_region *r)
{
	struct tcp_mr *mr;

	if (r->key > UINT32_MAX)
		return NULL;
	mr = tcp_mr_by_key(xp, (uint32_t)r->key);
	if (!mr || r->addr > mr->base.len || r->len > mr->base.len - r->addr)
		return NULL;
	return (char *)mr->base.addr + r->addr;
}

/* Random, because a peer must not guess the key of another one. */
static int tcp_mr_choose_key(struct tcp_xp *xp, struct tcp_mr *mr)
{
	do {
		if (getrandom(&mr->key, sizeof(mr->key), 0) != sizeof(mr->key))
			return -EIO;
	} while (tcp_mr_by_key(xp, mr->key));
	list_add_tail(tcp_mr_bucket(xp, mr->key), &mr->node);
	return 0;
}

static int tcp_mr_register(struct xp *xp, void *addr, size_t len,
			   enum xp_access access, struct xp_mr **ret_mr,
			   struct error *e)
{
	struct tcp_mr *mr = calloc(1, sizeof(*mr));
	int err = mr ? 0 : -ENOMEM;

	if (mr)
		list_init(&mr->node);
	if (mr && access == XP_REMOTE)
		err = tcp_mr_choose_key(tcp_xp(xp), mr);
	if (err) {
		error_set(e, err, "registering %zu bytes failed: %s", len,
			  strerror(-err));
		free(mr);
		return err;
	}
	mr->base.xp = xp;
	mr->base.addr = addr;
	mr->base.len = len;
	*ret_mr = &mr->base;
	return 0;
}

static bool tcp_mr_overlaps(const struct xp_mr *mr, const struct iovec *iov)
{
	uintptr_t at = (uintptr_t)iov->iov_base;
	uintptr_t start = (uintptr_t)mr->addr;

	return at < start + mr->len && start < at + iov->iov_len;
}

/* Is a request of the peer under way in the memory? */
static bool tcp_key_is_used(const struct tcp_chan *ch, const struct xp_mr *mr)
{
	const struct tcp_rx *rx = &ch->rx;
	struct list *it;

	for (unsigned int i = rx->sink_at;
	     rx->body && rx->op == TCP_WRITE && i < rx->sink_cnt; i++) {
		if (tcp_mr_overlaps(mr, &rx->sink[i]))
			return true;
	}
	list_for_each(it, &ch->txq) {
		struct tcp_tx *tx = container_of(it, struct tcp_tx, node);

		for (unsigned int i = 0; !tx->group && i < tx->iov_cnt; i++) {
			if (tcp_mr_overlaps(mr, &tx->iov[i]))
				return true;
		}
	}
	return false;
}

/* An operation that waits for its socket is cancelled by the submission. */
static void tcp_chan_revoke(struct tcp_xp *xp, struct tcp_chan *ch)
{
	ch->revoked = true;
	if (ch->rx_busy)
		reactor_cancel(xp->base.cfg.reactor, &ch->rx_op);
	if (ch->tx_busy)
		reactor_cancel(xp->base.cfg.reactor, &ch->tx_op);
	if (list_empty(&ch->ready_node))
		list_add_tail(&xp->ready, &ch->ready_node);
	reactor_submit(xp->base.cfg.reactor);
}

static void mr_free(struct xp_mr *base)
{
	struct tcp_mr *mr = container_of(base, struct tcp_mr, base);
	struct tcp_xp *xp = tcp_xp(base->xp);
	bool remote = !list_empty(&mr->node);
	struct list *it;

	list_del(&mr->node);
	for (it = xp->chans.next; remote && it != &xp->chans; it = it->next) {
		struct tcp_chan *ch = container_of(it, struct tcp_chan, node);

		if (tcp_key_is_used(ch, base))
			tcp_chan_revoke(xp, ch);
	}
	free(mr);
}

static void tcp_mr_remote(const struct xp_mr *base, const struct xp_chan *ch,
			  const void *ptr, uint64_t *ret_addr,
			  uint32_t *ret_key)
{
	const struct tcp_mr *mr = container_of(base, struct tcp_mr, base);

	assert(!list_empty(&mr->node));
	*ret_addr = (uintptr_t)ptr - (uintptr_t)base->addr;
	*ret_key = mr->key;
}

/* ---- instances ---- */

static bool tcp_flush(struct xp *base)
{
	struct tcp_xp *xp = tcp_xp(base);
	bool more = xp->resumed;

	xp->resumed = false;
	tcp_send_ready(xp);
	return tcp_finish_drained(xp) || more;
}

static void destroy(struct xp *base)
{
	struct tcp_xp *xp = tcp_xp(base);

	assert(list_empty(&xp->chans));
	xp_core_fini(base);
	free(xp);
}

static const struct xp_ops ops = {
	.kind = XP_TCP,
	.selective = false,
	.flush = tcp_flush,
	.destroy = destroy,
	.listen = tcp_listen,
	.listen_later = tcp_listen_later,
	.listen_on = tcp_listen_on,
	.unlisten = tcp_unlisten,
	.set_keys = tcp_listener_set_keys,
	.accept = tcp_accept,
	.reject = tcp_reject,
	.connect = tcp_connect,
	.post_send = tcp_post_send,
	.post_recv = tcp_post_recv,
	.disconnect = tcp_disconnect,
	.lives = tcp_chan_lives,
	.ask = tcp_ask,
	.has_unread = tcp_chan_has_unread,
	.chan_free = tcp_chan_free,
	.mr_register = tcp_mr_register,
	.mr_free = mr_free,
	.mr_remote = tcp_mr_remote,
};

static int tcp_create(const struct xp_config *cfg, struct xp **ret_xp,
		      struct error *e)
{
	struct tcp_xp *xp = calloc(1, sizeof(*xp));

	if (!xp) {
		error_set(e, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	list_init(&xp->chans);
	list_init(&xp->ready);
	list_init(&xp->drained);
	for (size_t i = 0; i < ARRAY_SIZE(xp->mrs); i++)
		list_init(&xp->mrs[i]);
	xp->alone = TCP_ALONE_MIN;
	reactor_timer_init(&xp->look, tcp_look);
	xp_core_init(&xp->base, &ops, cfg);
	*ret_xp = &xp->base;
	return 0;
}

const struct xp_provider xp_tcp_provider = {
	.create = tcp_create,
	.reach = tcp_reach,
};
