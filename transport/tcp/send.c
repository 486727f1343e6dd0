/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending part of a channel of the tcp provider. Messages are queued, and
 * at the end of a turn all queued messages leave with one operation of the
 * ring. A channel has one such operation in flight, because two could mix their
 * bytes.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "transport/tcp/internal.h"

/* Bytes of one operation. What is more waits for the next, so that chains are
 * done, and their memory is used again, while others are still being sent. */
#define GATHER_MAX (1u << 20)

/* ---- messages ---- */

static unsigned int tx_cnt(const struct tcp_chan *ch)
{
	return ch->base.xp->cfg.send_depth + TCP_ANSWERS_MAX;
}

/* The one that was used last, because caches have it. Never NULL: the core
 * keeps to the send depth, and the number of answers is limited. */
static struct tcp_tx *tx_get(struct tcp_chan *ch)
{
	struct list *it = list_pop(&ch->free_tx);
	struct tcp_tx *tx;

	if (it) {
		tx = container_of(it, struct tcp_tx, node);
	} else {
		assert(ch->used_tx < tx_cnt(ch));
		tx = &ch->txs[ch->used_tx++];
		list_init(&tx->node);
	}
	list_init(&tx->read_node);
	tx->group = NULL;
	tx->posted = false;
	tx->sent = false;
	tx->answered = false;
	tx->iov_cnt = 0;
	return tx;
}

static void tx_put(struct tcp_chan *ch, struct tcp_tx *tx)
{
	list_add_head(&ch->free_tx, &tx->node);
}

static void tx_queue(struct tcp_chan *ch, struct tcp_tx *tx,
		     const struct tcp_hdr *hdr)
{
	tx->op = hdr->op;
	tx->head_len = (uint32_t)tcp_hdr_encode(tx->head, ch->order,
						ch->next_id++, hdr);
	list_add_tail(&ch->txq, &tx->node);
	if (list_empty(&ch->ready_node))
		list_add_tail(&tcp_xp(ch->base.xp)->ready, &ch->ready_node);
}

static size_t tx_len(const struct tcp_tx *tx)
{
	size_t len = tx->head_len;

	for (unsigned int i = 0; tx->op != TCP_READ_REQ && i < tx->iov_cnt; i++)
		len += tx->iov[i].iov_len;
	return len;
}

static void tx_set_iov(struct tcp_tx *tx, const struct xp_wr *wr)
{
	for (unsigned int i = 0; i < wr->sge_cnt; i++) {
		tx->iov[i].iov_base = (void *)(uintptr_t)wr->sge[i].addr;
		tx->iov[i].iov_len = wr->sge[i].len;
	}
	tx->iov_cnt = wr->sge_cnt;
}

static void tx_take_inline(struct tcp_tx *tx)
{
	for (unsigned int i = 0; i < tx->iov_cnt; i++) {
		memcpy(tx->head + tx->head_len, tx->iov[i].iov_base,
		       tx->iov[i].iov_len);
		tx->head_len += (uint32_t)tx->iov[i].iov_len;
	}
	tx->iov_cnt = 0;
}

static void tx_queue_send(struct tcp_chan *ch, const struct xp_wr *wr)
{
	struct tcp_hdr hdr = { .op = TCP_MSG };
	struct tcp_tx *tx = tx_get(ch);

	for (unsigned int i = 0; i < wr->sge_cnt; i++)
		hdr.data_len += wr->sge[i].len;
	tx->group = wr->group;
	tx_set_iov(tx, wr);
	tx_queue(ch, tx, &hdr);
	if (hdr.data_len <= TCP_INLINE_MAX)
		tx_take_inline(tx);
}

static void tx_queue_rdma(struct tcp_chan *ch, const struct xp_wr *wr)
{
	bool read = wr->op == XP_WR_READ;
	struct tcp_hdr hdr = {
		.op = read ? TCP_READ_REQ : TCP_WRITE,
		.region_cnt = 1,
		.region[0] = { .addr = wr->remote_addr,
			       .len = wr->sge[0].len,
			       .key = wr->remote_key },
		.data_len = read ? 0 : wr->sge[0].len,
	};
	struct tcp_tx *tx = tx_get(ch);

	tx->group = wr->group;
	tx_set_iov(tx, wr);
	tx_queue(ch, tx, &hdr);
	if (read)
		list_add_tail(&ch->reads, &tx->read_node);
}

int tcp_post_send(struct xp_chan *base, const struct xp_wr *wr, unsigned int n)
{
	struct tcp_chan *ch = tcp_chan(base);

	for (unsigned int i = 0; i < n; i++) {
		if (wr[i].op == XP_WR_SEND)
			tx_queue_send(ch, &wr[i]);
		else
			tx_queue_rdma(ch, &wr[i]);
	}
	return (int)n;
}

bool tcp_answer_read(struct tcp_chan *ch, const struct iovec *iov,
		     unsigned int cnt)
{
	struct tcp_hdr hdr = { .op = TCP_READ_RSP };
	struct tcp_tx *tx;

	if (ch->answers == TCP_ANSWERS_MAX)
		return false;
	ch->answers++;
	tx = tx_get(ch);
	for (unsigned int i = 0; i < cnt; i++) {
		tx->iov[i] = iov[i];
		hdr.data_len += iov[i].iov_len;
	}
	tx->iov_cnt = cnt;
	tx_queue(ch, tx, &hdr);
	return true;
}

/* ---- READs ---- */

struct tcp_tx *tcp_oldest_read(struct tcp_chan *ch)
{
	struct tcp_tx *tx;

	if (list_empty(&ch->reads))
		return NULL;
	tx = list_first(&ch->reads, struct tcp_tx, read_node);
	return tx->posted ? tx : NULL;
}

static void tcp_send_finish(struct tcp_chan *ch, struct tcp_tx *tx)
{
	struct xp_group *group = tx->group;

	tx_put(ch, tx);
	xp_core_group_done(group, 0);
}

/* The answer may arrive before the completion that says that the request was
 * sent, because that operation has other messages that have not been sent
 * yet. */
void tcp_read_answered(struct tcp_chan *ch, struct tcp_tx *tx)
{
	list_del(&tx->read_node);
	tx->answered = true;
	if (tx->sent)
		tcp_send_finish(ch, tx);
}

/* ---- leaving ---- */

static void tx_sent(struct tcp_chan *ch, struct tcp_tx *tx)
{
	list_del(&tx->node);
	tx->sent = true;
	if (!tx->group) {
		tx_put(ch, tx);
		ch->answers--;
	} else if (tx->op != TCP_READ_REQ || tx->answered) {
		tcp_send_finish(ch, tx);
	}
}

/* The socket has taken @n bytes. */
static void tx_taken(struct tcp_chan *ch, size_t n)
{
	struct tcp_tx *tx;

	ch->tx_off += n;
	while (!list_empty(&ch->txq)) {
		tx = list_first(&ch->txq, struct tcp_tx, node);
		if (!tx->posted || ch->tx_off < tx_len(tx))
			return;
		ch->tx_off -= tx_len(tx);
		tx_sent(ch, tx);
	}
}

static void tcp_send_done(struct reactor_op *op, int res,
			  unsigned int cqe_flags);

/* The socket has taken @n bytes, maybe of records. False: it is given more of them. */
static bool tx_moved(struct tcp_chan *ch, size_t n)
{
	if (!ch->seals) {
		tx_taken(ch, n);
		if (ch->tls && !tls_count_sent(ch->tls, n))
			tcp_broke(ch, -EKEYEXPIRED);
		return true;
	}
	if (tls_sent(ch->tls, n))
		tx_taken(ch, ch->tx_len);
	else if (ch->base.state == XP_CHAN_OPEN && !ch->revoked) {
		tcp_chan_send_records(ch, tcp_send_done);
		return false;
	}
	return true;
}

static void tcp_send_done(struct reactor_op *op, int res,
			  unsigned int cqe_flags)
{
	struct tcp_chan *ch = container_of(op, struct tcp_chan, tx_op);

	ch->tx_busy = false;
	ch->base.xp->stats.cqes++;
	res = tcp_result(res);
	if (res > 0 && !tx_moved(ch, (size_t)res))
		return;
	if (tcp_is_ending(ch))
		return;
	if (res < 0 && res != -EINTR && res != -EAGAIN) {
		tcp_broke(ch, res);
		return;
	}
	if (!list_empty(&ch->txq) && list_empty(&ch->ready_node))
		list_add_tail(&tcp_xp(ch->base.xp)->ready, &ch->ready_node);
	if (ch->rx.blocked && ch->answers < TCP_ANSWERS_MAX) {
		ch->rx.blocked = false;
		tcp_rx_run(ch);
	}
}

static void tx_count(struct tcp_chan *ch)
{
	struct tcp_xp *xp = tcp_xp(ch->base.xp);

	if (ch->tx_len >= TCP_SHARED_MAX)
		ch->small = 0;
	else if (ch->small < TCP_LIGHT_MIN)
		ch->small++;
	if (ch->small == TCP_LIGHT_MIN)
		xp->alone = 0;
	else if (xp->alone < TCP_ALONE_MIN)
		xp->alone++;
}

/* Adds the bytes of @base behind the first *skip, up to @cut in the operation. */
static void tx_add_piece(struct tcp_chan *ch, void *base, size_t len,
			 size_t *skip, size_t cut)
{
	size_t off = *skip < len ? *skip : len;

	*skip -= off;
	if (len - off > cut - ch->tx_len)
		len = off + cut - ch->tx_len;
	if (off == len)
		return;
	ch->iov[ch->msg.msg_iovlen].iov_base = (char *)base + off;
	ch->iov[ch->msg.msg_iovlen++].iov_len = len - off;
	ch->tx_len += len - off;
}

static void tx_add_message(struct tcp_chan *ch, struct tcp_tx *tx, size_t *skip,
			   size_t cut)
{
	tx_add_piece(ch, tx->head, tx->head_len, skip, cut);
	for (unsigned int i = 0; tx->op != TCP_READ_REQ && i < tx->iov_cnt; i++)
		tx_add_piece(ch, tx->iov[i].iov_base, tx->iov[i].iov_len, skip,
			     cut);
	tx->posted = true;
}

static void tx_gather(struct tcp_chan *ch)
{
	bool shared = tcp_is_shared(tcp_xp(ch->base.xp));
	size_t most = ch->seals ? TLS_WRITE_MAX : GATHER_MAX;
	size_t max = shared ? TCP_SHARED_MAX : most;
	/* Otherwise the last message is whole: its rest would take one more. */
	size_t cut = shared || ch->seals ? max : SIZE_MAX;
	size_t skip = ch->tx_off;
	struct list *it;

	ch->msg.msg_iov = ch->iov;
	ch->msg.msg_iovlen = 0;
	ch->tx_len = 0;
	list_for_each(it, &ch->txq) {
		if (ch->msg.msg_iovlen + TCP_REGIONS_MAX + 1 > TCP_IOV_MAX ||
		    ch->tx_len >= max)
			break;
		tx_add_message(ch, container_of(it, struct tcp_tx, node), &skip,
			       cut);
	}
}

static void tx_seal(struct tcp_chan *ch)
{
	int err = tls_write(ch->tls, ch->iov, ch->msg.msg_iovlen);

	if (err)
		tcp_broke(ch, err);
	else
		tcp_chan_send_records(ch, tcp_send_done);
}

static void tx_send_queued(struct tcp_chan *ch)
{
	/* The kernel's TLS refuses to wait for all. Then the rest is sent by the next
	 * operation. */
	const int flags = MSG_NOSIGNAL | (ch->tls ? 0 : MSG_WAITALL);
	struct io_uring_sqe *sqe;

	/* After EAGAIN, the records that were made are sent first; tx_len is theirs. */
	if (ch->seals && tls_has_unsent(ch->tls)) {
		tcp_chan_send_records(ch, tcp_send_done);
		return;
	}
	tx_gather(ch);
	tx_count(ch);
	if (ch->seals) {
		tx_seal(ch);
		return;
	}
	sqe = reactor_sqe(tcp_reactor(ch));
	if (ch->msg.msg_iovlen == 1)
		io_uring_prep_send(sqe, ch->fd, ch->iov[0].iov_base,
				   ch->iov[0].iov_len, flags);
	else
		io_uring_prep_sendmsg(sqe, ch->fd, &ch->msg, flags);
	ch->tx_op.done = tcp_send_done;
	reactor_prep_done(sqe, &ch->tx_op);
	ch->tx_busy = true;
}

void tcp_send_ready(struct tcp_xp *xp)
{
	struct list *it;

	while ((it = list_pop(&xp->ready))) {
		struct tcp_chan *ch =
			container_of(it, struct tcp_chan, ready_node);

		if (ch->revoked)
			tcp_broke(ch, -EKEYREVOKED);
		else if (!ch->tx_busy && ch->base.state == XP_CHAN_OPEN &&
			 !list_empty(&ch->txq))
			tx_send_queued(ch);
	}
}
