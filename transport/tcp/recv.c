/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiving part of a channel of the tcp provider. It reads ahead into a
 * stage, as many messages as have arrived. An IU stays there until the user
 * releases it, and no other byte is written to where it lies; if no other stage
 * is free, it is copied. Data of an RDMA operation that has not arrived yet is
 * read directly to its destination, and the bytes behind it into the stage
 * again. rx_begin() checks every field that a peer sends.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "transport/tcp/internal.h"

/* Data of at least this length is read by one operation that waits for all of
 * it. */
#define WHOLE_MIN (64u << 10)
/* Data of RDMA of at least this length should not arrive in the stage, from
 * where it is copied. So after it, no more is read ahead than headers and a
 * small IU need. */
#define LARGE_MIN  (8u << 10)
#define WINDOW_MIN 256u
/* If so many looks find no new byte of a message, the peer has stopped. */
#define STALE_MAX 3

/* ---- receive buffers ---- */

static bool rx_has_stage(const struct tcp_chan *ch)
{
	return !list_empty(&ch->free_stages) || ch->used_stages < ch->stage_cnt;
}

/* The one that was used last, because caches have it. */
struct tcp_stage *tcp_stage_get(struct tcp_chan *ch)
{
	struct list *it = list_pop(&ch->free_stages);
	struct tcp_stage *s;

	if (it)
		return container_of(it, struct tcp_stage, node);
	assert(ch->used_stages < ch->stage_cnt);
	s = &ch->stages[ch->used_stages];
	list_init(&s->node);
	s->data = ch->stage_data + ch->used_stages++ * ch->stage_len;
	return s;
}

static struct tcp_iu *rx_get_iu(struct tcp_chan *ch)
{
	struct list *it = list_pop(&ch->free_ius);
	struct tcp_iu *iu;

	if (it)
		return container_of(it, struct tcp_iu, base.node);
	if (ch->used_ius == ch->iu_cnt)
		return NULL;
	iu = &ch->ius[ch->used_ius++];
	list_init(&iu->base.node);
	iu->base.ch = &ch->base;
	iu->base.mr = &ch->recv_mr;
	return iu;
}

static void rx_put_iu(struct tcp_chan *ch, struct tcp_iu *iu)
{
	struct tcp_stage *s = iu->stage;

	list_add_head(&ch->free_ius, &iu->base.node);
	if (s && --s->held == 0 && s != ch->rx.stage)
		list_add_head(&ch->free_stages, &s->node);
}

void tcp_post_recv(struct xp *xp, struct list *ius)
{
	struct list *it;

	while ((it = list_pop(ius))) {
		struct xp_iu *iu = container_of(it, struct xp_iu, node);
		struct tcp_chan *ch = tcp_chan(iu->ch);

		rx_put_iu(ch, container_of(iu, struct tcp_iu, base));
		if (ch->rx.blocked) {
			ch->rx.blocked = false;
			tcp_xp(xp)->resumed = true;
			tcp_rx_run(ch);
		}
	}
}

/* ---- messages ---- */

static void rx_sink(struct tcp_rx *rx, void *p, uint64_t len)
{
	rx->sink[rx->sink_cnt].iov_base = p;
	rx->sink[rx->sink_cnt++].iov_len = len;
}

static int rx_begin_msg(struct tcp_chan *ch, const struct tcp_hdr *hdr)
{
	size_t max = ch->base.xp->cfg.recv_len;
	struct tcp_rx *rx = &ch->rx;

	if (hdr->data_len > max) {
		xp_core_fail(&ch->base, -EMSGSIZE,
			     "the peer sent more than %zu bytes in one IU",
			     max);
		return -EMSGSIZE;
	}
	rx->iu = rx_get_iu(ch);
	if (!rx->iu)
		return -EAGAIN;
	rx->iu->base.len = (uint32_t)hdr->data_len;
	return 0;
}

static int rx_begin_read_rsp(struct tcp_chan *ch, const struct tcp_hdr *hdr)
{
	struct tcp_tx *read = tcp_oldest_read(ch);

	if (!read || read->iov[0].iov_len != hdr->data_len) {
		xp_core_fail(&ch->base, -EPROTO,
			     "the peer sent data that nobody asked for");
		return -EPROTO;
	}
	rx_sink(&ch->rx, read->iov[0].iov_base, hdr->data_len);
	return 0;
}

/* Finds the memory that the peer names, if it may use it. */
static int rx_find_regions(struct tcp_chan *ch, const struct tcp_hdr *hdr)
{
	struct tcp_xp *xp = tcp_xp(ch->base.xp);
	void *p;

	for (unsigned int i = 0; i < hdr->region_cnt; i++) {
		p = tcp_mr_find(xp, &hdr->region[i]);
		if (!p) {
			xp_core_fail(&ch->base, -EACCES,
				     "the peer wanted to %s memory that is not "
				     "there for it",
				     hdr->op == TCP_WRITE ? "write" : "read");
			return -EACCES;
		}
		rx_sink(&ch->rx, p, hdr->region[i].len);
	}
	return 0;
}

static int rx_begin_read_req(struct tcp_chan *ch, const struct tcp_hdr *hdr)
{
	int err = rx_find_regions(ch, hdr);

	if (!err && !tcp_answer_read(ch, ch->rx.sink, ch->rx.sink_cnt))
		err = -EAGAIN;
	return err;
}

/* Return: 0; -EAGAIN: it must wait; else the channel has failed. */
static int rx_begin(struct tcp_chan *ch, const struct tcp_hdr *hdr)
{
	ch->rx.op = hdr->op;
	ch->rx.left = hdr->data_len;
	ch->rx.sink_cnt = 0;
	ch->rx.sink_at = 0;
	switch (hdr->op) {
	case TCP_MSG:
		return rx_begin_msg(ch, hdr);
	case TCP_READ_REQ:
		return rx_begin_read_req(ch, hdr);
	case TCP_READ_RSP:
		return rx_begin_read_rsp(ch, hdr);
	case TCP_WRITE:
		return rx_find_regions(ch, hdr);
	}
	return -EPROTO;
}

static void rx_copy_iu(struct tcp_chan *ch, struct tcp_iu *iu)
{
	size_t at = (size_t)(iu - ch->ius) * ch->base.xp->cfg.recv_len;

	iu->base.data = ch->copies + at;
	iu->stage = NULL;
	if (iu->base.len)
		memcpy(iu->base.data, ch->rx.stage->data + ch->rx.off,
		       iu->base.len);
	ch->base.xp->stats.copied += iu->base.len;
}

/* All of the IU lies in the stage. It may pin the stage only if another one is
 * free, into which rx_make_room() can go on. */
static void rx_end_msg(struct tcp_chan *ch)
{
	struct tcp_rx *rx = &ch->rx;
	struct tcp_iu *iu = rx->iu;

	if (rx_has_stage(ch)) {
		iu->base.data = rx->stage->data + rx->off;
		iu->stage = rx->stage;
		iu->stage->held++;
	} else {
		rx_copy_iu(ch, iu);
	}
	rx->off += iu->base.len;
	rx->iu = NULL;
	xp_core_received(&ch->base, &iu->base);
}

static void rx_end(struct tcp_chan *ch)
{
	ch->rx.body = false;
	if (ch->rx.op == TCP_MSG) {
		rx_end_msg(ch);
	} else if (ch->rx.op == TCP_READ_RSP) {
		tcp_read_answered(ch, tcp_oldest_read(ch));
	}
}

/* ---- bytes ---- */

/* @n more bytes have reached their destination. */
static void rx_advance(struct tcp_rx *rx, size_t n)
{
	struct iovec *iov = &rx->sink[rx->sink_at];

	rx->left -= n;
	while (n >= iov->iov_len && rx->sink_at + 1 < rx->sink_cnt) {
		n -= iov->iov_len;
		iov = &rx->sink[++rx->sink_at];
	}
	iov->iov_base = (char *)iov->iov_base + n;
	iov->iov_len -= n;
}

/* Is the message that has begun one that stays in the stage? */
static bool rx_stays(const struct tcp_rx *rx)
{
	return rx->body && rx->op == TCP_MSG;
}

static void rx_copy(struct tcp_chan *ch)
{
	struct tcp_rx *rx = &ch->rx;
	const struct iovec *iov;
	size_t n;

	while (rx->left && rx->off < rx->len) {
		iov = &rx->sink[rx->sink_at];
		n = rx->len - rx->off;
		if (n > iov->iov_len)
			n = iov->iov_len;
		memcpy(iov->iov_base, rx->stage->data + rx->off, n);
		ch->base.xp->stats.copied += n;
		rx->off += n;
		rx_advance(rx, n);
	}
}

/* False: there is no message to begin. */
static bool rx_header(struct tcp_chan *ch)
{
	struct tcp_rx *rx = &ch->rx;
	const char *why = NULL;
	struct tcp_hdr hdr;
	int len;
	int err;

	len = tcp_hdr_decode(rx->stage->data + rx->off, rx->len - rx->off,
			     ch->order, &hdr, &why);
	if (len < 0)
		xp_core_fail(&ch->base, -EPROTO, "the peer sent %s", why);
	if (len <= 0)
		return false;
	err = rx_begin(ch, &hdr);
	rx->blocked = err == -EAGAIN;
	if (err)
		return false;
	rx->off += (size_t)len;
	rx->body = true;
	if (hdr.data_len >= LARGE_MIN &&
	    (hdr.op == TCP_WRITE || hdr.op == TCP_READ_RSP))
		rx->window = WINDOW_MIN;
	return true;
}

/* Handles one message, or the part of it that has arrived. False: more bytes
 * are needed, or it must wait. */
static bool rx_message(struct tcp_chan *ch)
{
	struct tcp_rx *rx = &ch->rx;

	if (!rx->body && !rx_header(ch))
		return false;
	if (rx_stays(rx)) {
		if (rx->len - rx->off < rx->left)
			return false;
	} else {
		rx_copy(ch);
		if (rx->left)
			return false;
	}
	rx_end(ch);
	return true;
}

/* ---- reading ---- */

static void rx_done(struct reactor_op *op, int res, unsigned int cqe_flags);
static bool rx_open_records(struct tcp_chan *ch);

static size_t rx_msg_max(const struct tcp_chan *ch)
{
	return TCP_HDR_LEN_MAX + ch->base.xp->cfg.recv_len;
}

/*
 * Makes room behind rx.off for the message that has begun, or for a header and
 * the largest IU. If the stage is too short, the unread bytes move to the front
 * of it, or of another one while IUs lie in it. Without unread bytes that is
 * done early, because it costs nothing.
 */
static void rx_make_room(struct tcp_chan *ch)
{
	struct tcp_rx *rx = &ch->rx;
	const uint8_t *from = rx->stage->data + rx->off;
	size_t unread = rx->len - rx->off;
	size_t need = rx_msg_max(ch) * (unread ? 1 : 2);

	if (rx_stays(rx))
		need = rx->left;
	if (ch->stage_len - rx->off >= need && (rx->stage->held || unread))
		return;
	if (rx->stage->held)
		rx->stage = tcp_stage_get(ch);
	memmove(rx->stage->data, from, unread);
	ch->base.xp->stats.copied += unread;
	rx->off = 0;
	rx->len = unread;
}

/* Bytes to read into the stage. What begins before their end, fits into it to
 * its own end, and need not move. */
static size_t rx_ahead(const struct tcp_chan *ch)
{
	const struct tcp_rx *rx = &ch->rx;
	size_t least = rx->off + (rx_stays(rx) ? rx->left : TCP_HDR_LEN_MAX);
	size_t most = ch->stage_len - rx_msg_max(ch);
	size_t end = rx->off + rx->window;

	if (end > most)
		end = most;
	return (end > least ? end : least) - rx->len;
}

/* The part of @len bytes that one operation may read. */
static size_t rx_share(const struct tcp_chan *ch, size_t len)
{
	if (!tcp_is_shared(tcp_xp(ch->base.xp)) || len <= TCP_SHARED_MAX)
		return len;
	return TCP_SHARED_MAX;
}

/* @n bytes have reached the memory that was prepared. Returns those in the stage. */
static size_t rx_place(struct tcp_chan *ch, size_t n)
{
	struct tcp_rx *rx = &ch->rx;
	size_t direct = 0;

	if (rx->body && !rx_stays(rx)) {
		direct = n < rx->left ? n : rx->left;
		rx_advance(rx, direct);
	}
	rx->len += n - direct;
	/* The window was filled, and no large data follows: read far ahead. */
	if (!rx->body && n == rx->asked)
		rx->window = TCP_STAGE_LEN;
	return n - direct;
}

/* Chooses the memory for what comes next. */
static void rx_prepare(struct tcp_chan *ch, bool *ret_whole)
{
	struct tcp_rx *rx = &ch->rx;
	bool direct = rx->body && !rx_stays(rx);
	bool whole = direct && rx->left >= WHOLE_MIN;
	unsigned int cnt = direct ? rx->sink_cnt : 0;

	rx_make_room(ch);
	if (whole)
		ch->small = 0;
	if (!direct)
		rx->sink_at = 0;
	rx->asked = direct ? rx->left : 0;
	if (!whole) {
		rx->sink[cnt].iov_base = rx->stage->data + rx->len;
		rx->sink[cnt].iov_len = rx_ahead(ch);
		rx->asked += rx->sink[cnt++].iov_len;
	}
	rx->msg.msg_iov = &rx->sink[rx->sink_at];
	rx->msg.msg_iovlen = cnt - rx->sink_at;
	*ret_whole = whole;
}

static void rx_read(struct tcp_chan *ch)
{
	struct tcp_rx *rx = &ch->rx;
	struct io_uring_sqe *sqe;
	bool whole;

	rx_prepare(ch, &whole);
	sqe = reactor_sqe(tcp_reactor(ch));
	if (rx->msg.msg_iovlen == 1) {
		size_t len = rx_share(ch, rx->msg.msg_iov->iov_len);

		rx->asked -= rx->msg.msg_iov->iov_len - len;
		io_uring_prep_recv(sqe, ch->fd, rx->msg.msg_iov->iov_base, len,
				   whole ? MSG_WAITALL : 0);
	} else {
		io_uring_prep_recvmsg(sqe, ch->fd, &rx->msg,
				      whole ? MSG_WAITALL : 0);
	}
	if (rx->emptied && reactor_polls_first(tcp_reactor(ch)))
		sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	ch->rx_op.done = rx_done;
	reactor_prep_done(sqe, &ch->rx_op);
	ch->rx_busy = true;
}

void tcp_rx_run(struct tcp_chan *ch)
{
	do {
		while (ch->base.state == XP_CHAN_OPEN && rx_message(ch))
			;
		if (ch->base.state != XP_CHAN_OPEN || ch->rx.blocked ||
		    ch->rx_busy)
			return;
	} while (ch->opens && rx_open_records(ch));
	if (!ch->opens)
		rx_read(ch);
}

static void rx_got(struct tcp_chan *ch, size_t n)
{
	ch->rx.emptied = n < ch->rx.asked;
	ch->rx.taken = rx_place(ch, n);
}

/* The result of an operation. Return: the bytes, or -errno after the end of the
 * channel. */
static int rx_result(struct tcp_chan *ch, int res)
{
	int err = 0;

	ch->rx_busy = false;
	ch->base.xp->stats.cqes++;
	if (tcp_is_ending(ch))
		return -ECANCELED;
	res = tcp_result(res);
	if (ch->revoked)
		err = -EKEYREVOKED;
	else if (res == 0) /* TLS has a message for an end that is meant */
		err = ch->tls ? -ECONNRESET : -ESHUTDOWN;
	else if (res < 0 && res != -EINTR && res != -EAGAIN)
		err = res;
	/* The kernel gives no data of a record that has none. */
	if (err == -EIO && ch->tls && !ch->opens)
		err = tls_kernel_failed(ch->fd);
	if (err)
		tcp_broke(ch, err);
	return err ? err : res > 0 ? res : 0;
}

static void rx_done(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	struct tcp_chan *ch = container_of(op, struct tcp_chan, rx_op);

	res = rx_result(ch, res);
	if (res < 0)
		return;
	rx_got(ch, (size_t)res);
	if (ch->tls && !tls_count_received(ch->tls, (size_t)res))
		tcp_broke(ch, -EKEYEXPIRED);
	tcp_rx_run(ch);
}

/* ---- records ---- */

static void rx_records_done(struct reactor_op *op, int res,
			    unsigned int cqe_flags)
{
	struct tcp_chan *ch = container_of(op, struct tcp_chan, rx_op);

	res = rx_result(ch, res);
	if (res < 0)
		return;
	ch->rx.emptied = (size_t)res < ch->rx.asked;
	ch->rx.taken = (size_t)res;
	tls_received(ch->tls, (size_t)res);
	tcp_rx_run(ch);
}

/* As rx_read(), from records that are there. True: some were. */
static bool rx_open_records(struct tcp_chan *ch)
{
	struct tcp_rx *rx = &ch->rx;
	bool whole;
	ssize_t n;

	rx_prepare(ch, &whole);
	n = tls_read(ch->tls, rx->msg.msg_iov, rx->msg.msg_iovlen);
	if (n > 0)
		rx_place(ch, (size_t)n);
	else if (n == -EAGAIN)
		rx->asked = tcp_chan_receive_records(
			ch, rx_share(ch, TLS_WRITE_MAX), rx_records_done);
	else
		tcp_broke(ch, (int)n);
	return n > 0;
}

/* ---- messages that do not end ---- */

static bool rx_is_half(const struct tcp_chan *ch)
{
	return !ch->rx.blocked && (ch->rx.body || ch->rx.off < ch->rx.len ||
				   (ch->opens && tls_is_half(ch->tls)));
}

static void tcp_recv_look_at(struct tcp_chan *ch)
{
	uint64_t seen;

	if (ch->base.state != XP_CHAN_OPEN || !rx_is_half(ch)) {
		ch->rx.stale = 0;
		return;
	}
	seen = tcp_bytes_received(ch->fd);
	ch->rx.stale = seen == ch->rx.seen ? ch->rx.stale + 1 : 0;
	ch->rx.seen = seen;
	if (ch->rx.stale >= STALE_MAX)
		xp_core_fail(&ch->base, -ETIMEDOUT,
			     "the peer sent half an IU, and then nothing for "
			     "%u s",
			     STALE_MAX * ch->base.xp->cfg.keepalive_ms / 1000);
}

void tcp_look(struct reactor_timer *t)
{
	struct tcp_xp *xp = container_of(t, struct tcp_xp, look);
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &xp->chans)
		tcp_recv_look_at(container_of(it, struct tcp_chan, node));
	reactor_timer_set(xp->base.cfg.reactor, t, xp->base.cfg.keepalive_ms);
}
