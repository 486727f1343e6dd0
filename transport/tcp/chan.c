/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels of the tcp provider: their beginning and their end.
 *
 * The side that connects sends a message with private data, and gets one back.
 * Nothing else is sent before. Both messages are kept in the stage, which is
 * not needed for anything else yet.
 *
 * The sockets are blocking: the ring then waits until an operation can go on,
 * and does not end it with EAGAIN.
 */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/secret.h"
#include "transport/tcp/internal.h"

#define CONNECT_TIMEOUT_MS 5000
/* The kernel asks no peer that it has heard within a second. */
#define HEARD_MS 1000
#define LOOK_MS	 5

/* ---- memory ---- */

/* Returns the next @len bytes of @block. With @block NULL only counts them, to
 * find the size of the block. */
static void *tcp_chan_cut(void *block, size_t *off, size_t len, size_t align)
{
	size_t at = (*off + align - 1) / align * align;

	*off = at + len;
	return block ? (char *)block + at : NULL;
}

/* At least four of the largest IUs fit. */
static size_t tcp_stage_len(const struct xp_config *cfg)
{
	size_t len = 4 * (cfg->recv_len + TCP_HDR_LEN_MAX);

	return len > TCP_STAGE_LEN ? len : TCP_STAGE_LEN;
}

/* For all IUs, and one at each end that is filled only partly. */
static unsigned int tcp_stage_cnt(const struct tcp_chan *ch)
{
	size_t len = ch->iu_cnt * (ch->base.xp->cfg.recv_len + TCP_HDR_LEN_MAX);

	return (unsigned int)(len / ch->stage_len) + 3;
}

/* Returns the length of the block. */
static size_t tcp_chan_lay_out(struct tcp_chan *ch)
{
	const struct xp_config *cfg = &ch->base.xp->cfg;
	size_t tx_cnt = cfg->send_depth + TCP_ANSWERS_MAX;
	size_t off = 0;

	ch->stage_len = tcp_stage_len(cfg);
	ch->stage_cnt = tcp_stage_cnt(ch);
	ch->txs = tcp_chan_cut(ch->block, &off, tx_cnt * sizeof(*ch->txs), 64);
	ch->iov = tcp_chan_cut(ch->block, &off, TCP_IOV_MAX * sizeof(*ch->iov),
			       64);
	ch->ius = tcp_chan_cut(ch->block, &off, ch->iu_cnt * sizeof(*ch->ius),
			       64);
	ch->stages = tcp_chan_cut(ch->block, &off,
				  ch->stage_cnt * sizeof(*ch->stages), 64);
	ch->stage_data = tcp_chan_cut(ch->block, &off,
				      ch->stage_cnt * ch->stage_len, 4096);
	ch->copies =
		tcp_chan_cut(ch->block, &off, ch->iu_cnt * cfg->recv_len, 4096);
	return off;
}

static int tcp_chan_alloc_block(struct tcp_chan *ch)
{
	ch->block_len = tcp_chan_lay_out(ch);
	ch->block = secret_map(ch->block_len);
	if (!ch->block)
		return -ENOMEM;
	/* An idle channel touches few of the pages. */
	madvise(ch->block, ch->block_len, MADV_NOHUGEPAGE);
	tcp_chan_lay_out(ch);
	ch->rx.stage = tcp_stage_get(ch);
	ch->recv_mr.xp = ch->base.xp;
	ch->recv_mr.addr = ch->block;
	ch->recv_mr.len = ch->block_len;
	return 0;
}

/* Also for a channel that is only partly made. */
static void tcp_chan_destroy(struct tcp_chan *ch)
{
	struct tcp_xp *xp = tcp_xp(ch->base.xp);

	/* Some may have been released in this turn and are in xp->released. */
	for (unsigned int i = 0; i < ch->used_ius; i++)
		list_del(&ch->ius[i].base.node);
	list_del(&ch->node);
	if (list_empty(&xp->chans))
		reactor_timer_stop(&xp->look);
	if (ch->base.groups)
		xp_core_chan_fini(&ch->base);
	secret_unmap(ch->block, ch->block_len);
	tls_free(ch->tls);
	if (ch->fd >= 0)
		close(ch->fd);
	free(ch);
}

void tcp_chan_free(struct xp_chan *base)
{
	tcp_chan_destroy(tcp_chan(base));
}

static void tcp_chan_timed_out(struct reactor_timer *t);
static void tcp_chan_look_again(struct reactor_timer *t);

static void tcp_chan_init(struct tcp_chan *ch, unsigned int recv_cnt)
{
	ch->fd = -1;
	ch->rx.window = TCP_STAGE_LEN;
	/* One more than granted: for a peer that keeps to its credits there is
	 * always one. */
	ch->iu_cnt = recv_cnt + 1;
	list_init(&ch->node);
	list_init(&ch->end_node);
	list_init(&ch->ready_node);
	list_init(&ch->txq);
	list_init(&ch->reads);
	list_init(&ch->free_tx);
	list_init(&ch->free_ius);
	list_init(&ch->free_stages);
	reactor_timer_init(&ch->timer, tcp_chan_timed_out);
	reactor_timer_init(&ch->ask_timer, tcp_chan_look_again);
	snprintf(ch->base.device, sizeof(ch->base.device), "tcp");
}

static struct tcp_chan *tcp_chan_new(struct xp *base,
				     const struct xp_chan_params *params)
{
	struct tcp_chan *ch = calloc(1, sizeof(*ch));
	struct tcp_xp *xp = tcp_xp(base);

	if (!ch)
		return NULL;
	assert(params->pdata_len <= TCP_CM_DATA_MAX);
	tcp_chan_init(ch, params->recv_cnt);
	ch->base.xp = base;
	if (xp_core_chan_init(&ch->base, base, params, base->cfg.send_depth) ||
	    tcp_chan_alloc_block(ch)) {
		tcp_chan_destroy(ch);
		return NULL;
	}
	if (list_empty(&xp->chans))
		reactor_timer_set(base->cfg.reactor, &xp->look,
				  base->cfg.keepalive_ms);
	list_add_tail(&xp->chans, &ch->node);
	return ch;
}

/* ---- signs of life ---- */

/*
 * The kernel of a peer that has closed its socket goes on acknowledging, until it could
 * send what a closed window held back. That may be so if this thread has not looked for a
 * while, and much lies unread.
 */
static void tcp_chan_look_behind(struct tcp_chan *ch, uint64_t now)
{
	bool was_away = now - ch->lives_us > XP_SIGN_MS * 1000;

	ch->lives_us = now;
	if (!was_away || !(ch->held || tcp_held_back(ch->fd, ch->rx.taken)))
		return;
	ch->held = true;
	ch->held_at = tcp_bytes_written(ch->fd);
}

static bool tcp_chan_is_held(struct tcp_chan *ch)
{
	ch->held = ch->held && tcp_bytes_acked(ch->fd) <= ch->held_at + 1 &&
		   !tcp_is_quiet(ch->fd);
	return ch->held;
}

bool tcp_chan_lives(struct xp_chan *base)
{
	struct tcp_chan *ch = tcp_chan(base);
	uint64_t now = reactor_real_us(tcp_reactor(ch));

	tcp_chan_look_behind(ch, now);
	if (tcp_chan_is_held(ch) || !tcp_lives(ch->fd, HEARD_MS))
		return false;
	/* Half the time of a sign: the next look comes while this thread still knows
	 * that it was not away. */
	base->heard_us = now - XP_SIGN_MS * 1000 / 2;
	return true;
}

/* An acknowledgement wakes nobody, and an end of the connection is found by reading. */
static void tcp_chan_look(struct tcp_chan *ch)
{
	reactor_timer_set(tcp_reactor(ch), &ch->ask_timer, LOOK_MS);
}

static void tcp_chan_look_again(struct reactor_timer *t)
{
	struct tcp_chan *ch = container_of(t, struct tcp_chan, ask_timer);

	if (!tcp_chan_lives(&ch->base)) {
		tcp_chan_look(ch);
		return;
	}
	tcp_keep_alive(ch->fd, ch->base.xp->cfg.keepalive_ms);
	xp_core_heard(&ch->base);
}

void tcp_ask(struct xp_chan *base)
{
	struct tcp_chan *ch = tcp_chan(base);

	tcp_ask_soon(ch->fd);
	tcp_chan_look(ch);
}

/* One that is blocked reads nothing before others have ended. */
bool tcp_chan_has_unread(struct xp_chan *base)
{
	const struct tcp_chan *ch = tcp_chan(base);

	return !ch->rx.blocked && tcp_unread(ch->fd, 1);
}

/* ---- the end ---- */

static void tcp_chan_drained_if_idle(struct tcp_chan *ch)
{
	if (!ch->rx_busy && !ch->tx_busy && list_empty(&ch->end_node))
		list_add_tail(&tcp_xp(ch->base.xp)->drained, &ch->end_node);
}

void tcp_disconnect(struct xp_chan *base)
{
	struct tcp_chan *ch = tcp_chan(base);

	reactor_timer_stop(&ch->timer);
	reactor_timer_stop(&ch->ask_timer);
	list_del(&ch->ready_node);
	if (ch->tls && !ch->tx_busy)
		tls_say_bye(ch->tls, ch->fd);
	shutdown(ch->fd, SHUT_RDWR);
	if (ch->rx_busy)
		reactor_cancel(tcp_reactor(ch), &ch->rx_op);
	if (ch->tx_busy)
		reactor_cancel(tcp_reactor(ch), &ch->tx_op);
	tcp_chan_drained_if_idle(ch);
}

bool tcp_is_ending(struct tcp_chan *ch)
{
	if (ch->base.state < XP_CHAN_CLOSING)
		return false;
	tcp_chan_drained_if_idle(ch);
	return true;
}

bool tcp_finish_drained(struct tcp_xp *xp)
{
	struct list *it;
	bool some = false;

	while ((it = list_pop(&xp->drained))) {
		struct tcp_chan *ch =
			container_of(it, struct tcp_chan, end_node);

		close(ch->fd);
		ch->fd = -1;
		xp_core_drained(&ch->base);
		some = true;
	}
	return some;
}

void tcp_broke(struct tcp_chan *ch, int err)
{
	switch (err) {
	case -ECONNRESET:
	case -EPIPE:
	case -ENOTCONN:
		xp_core_fail(
			&ch->base, -ECONNRESET,
			"the connection broke: the peer ended it with data "
			"on the way");
		break;
	case -ESHUTDOWN:
		xp_core_fail(&ch->base, -ECONNRESET,
			     "the peer closed the connection");
		break;
	case -EBADMSG:
		xp_core_fail(&ch->base, -EPROTO,
			     "TLS: a record was changed on its way");
		break;
	case -EPROTO:
		xp_core_fail(&ch->base, err,
			     "TLS: the peer sent what it must not send");
		break;
	case -EKEYEXPIRED:
		xp_core_fail(&ch->base, -ECONNRESET,
			     "TLS: the keys of the connection are used up");
		break;
	case -ETIMEDOUT:
		xp_core_fail(&ch->base, err, "the peer does not answer");
		break;
	case -EKEYREVOKED:
		xp_core_fail(&ch->base, err,
			     "the peer was using memory that was taken back");
		break;
	default:
		xp_core_fail(&ch->base, err, "the connection broke: %s",
			     strerror(-err));
	}
}

/* ---- the beginning ---- */

static void tcp_chan_timed_out(struct reactor_timer *t)
{
	struct tcp_chan *ch = container_of(t, struct tcp_chan, timer);

	xp_core_fail(&ch->base, -ETIMEDOUT, "no answer from %s within %u ms",
		     ch->base.peer, ch->timeout_ms);
}

void tcp_chan_connect_failed(struct tcp_chan *ch, int err)
{
	struct xp_chan *base = &ch->base;

	switch (err) {
	case -ECONNREFUSED:
		xp_core_fail(base, err,
			     base->reject_len
				     ? "%s rejected the login"
				     : "%s refused the connection: nothing "
				       "listens there, or it gave no reason",
			     base->peer);
		break;
	case -ENOPROTOOPT:
	case -EBADMSG:
		xp_core_fail(base, -ENOPROTOOPT,
			     "what listens on %s does not speak SRP over TCP",
			     base->peer);
		break;
	case -ECONNRESET:
	case -EPIPE:
	case -ENOTCONN:
		xp_core_fail(base, -ECONNRESET,
			     "%s closed the connection before it answered",
			     base->peer);
		break;
	default:
		xp_core_fail(base, err, "connecting to %s failed: %s",
			     base->peer, strerror(-err));
	}
}

static void tcp_chan_name_local(struct tcp_chan *ch)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (getsockname(ch->fd, (struct sockaddr *)&addr, &len) == 0)
		xp_addr_text((struct sockaddr *)&addr, ch->base.local,
			     sizeof(ch->base.local));
}

/* Sends the message of connection management that lies in the stage. */
static void tcp_chan_send_cm(struct tcp_chan *ch,
			     void (*done)(struct reactor_op *, int,
					  unsigned int))
{
	struct iovec cm = { ch->rx.stage->data, ch->cm_len };
	struct io_uring_sqe *sqe;

	if (ch->tls) {
		if (tls_write(ch->tls, &cm, 1))
			xp_core_fail(&ch->base, -EIO, "TLS failed");
		else
			tcp_chan_send_records(ch, done);
		return;
	}
	sqe = reactor_sqe(tcp_reactor(ch));
	io_uring_prep_send(sqe, ch->fd, cm.iov_base, cm.iov_len,
			   MSG_NOSIGNAL | MSG_WAITALL);
	ch->tx_op.done = done;
	reactor_prep_done(sqe, &ch->tx_op);
	ch->tx_busy = true;
}

bool tcp_chan_goes_on(struct tcp_chan *ch, bool *busy, int *res)
{
	*busy = false;
	ch->base.xp->stats.cqes++;
	if (tcp_is_ending(ch))
		return false;
	*res = tcp_result(*res);
	if (*res < 0)
		tcp_chan_connect_failed(ch, *res);
	return *res >= 0;
}

static void tcp_chan_read_answer(struct tcp_chan *ch);

static void tcp_chan_answered(struct tcp_chan *ch, const struct tcp_cm *cm)
{
	const uint8_t *pdata = ch->rx.stage->data + TCP_CM_LEN;

	if (cm->type == TCP_CM_REJECT) {
		xp_core_keep_reject(&ch->base, pdata, cm->data_len);
		tcp_chan_connect_failed(ch, -ECONNREFUSED);
		return;
	}
	ch->order = cm->order;
	ch->rx.off = TCP_CM_LEN + cm->data_len;
	reactor_timer_stop(&ch->timer);
	if (!tcp_chan_begin_records(ch))
		return;
	xp_core_established(&ch->base, pdata, cm->data_len);
	tcp_rx_run(ch);
}

/* @n more bytes of the answer lie in the stage. */
static void tcp_chan_answer_got(struct tcp_chan *ch, size_t n)
{
	struct tcp_cm cm;
	int err;

	ch->rx.len += n;
	if (ch->rx.len < TCP_CM_LEN) {
		tcp_chan_read_answer(ch);
		return;
	}
	err = tcp_cm_decode(ch->rx.stage->data, &cm);
	if (!err && cm.type == TCP_CM_CONNECT)
		err = -EBADMSG;
	if (err)
		tcp_chan_connect_failed(ch, err);
	else if (ch->rx.len < TCP_CM_LEN + cm.data_len)
		tcp_chan_read_answer(ch);
	else
		tcp_chan_answered(ch, &cm);
}

static void tcp_chan_answer_read(struct reactor_op *op, int res,
				 unsigned int cqe_flags)
{
	struct tcp_chan *ch = container_of(op, struct tcp_chan, rx_op);

	if (!tcp_chan_goes_on(ch, &ch->rx_busy, &res))
		return;
	if (res == 0) {
		tcp_chan_connect_failed(ch, -ECONNRESET);
	} else if (ch->tls) {
		tls_received(ch->tls, (size_t)res);
		tcp_chan_read_answer(ch);
	} else {
		tcp_chan_answer_got(ch, (size_t)res);
	}
}

static void tcp_chan_read_answer(struct tcp_chan *ch)
{
	struct iovec to = { ch->rx.stage->data + ch->rx.len,
			    TCP_CM_LEN + TCP_CM_DATA_MAX - ch->rx.len };
	struct io_uring_sqe *sqe;
	ssize_t n;

	if (ch->tls) {
		n = tls_read(ch->tls, &to, 1);
		if (n > 0)
			tcp_chan_answer_got(ch, (size_t)n);
		else if (n == -EAGAIN)
			tcp_chan_receive_records(ch, 0, tcp_chan_answer_read);
		else
			tcp_broke(ch, (int)n);
		return;
	}
	sqe = reactor_sqe(tcp_reactor(ch));
	io_uring_prep_recv(sqe, ch->fd, to.iov_base, to.iov_len, 0);
	ch->rx_op.done = tcp_chan_answer_read;
	reactor_prep_done(sqe, &ch->rx_op);
	ch->rx_busy = true;
}

static void tcp_chan_request_sent(struct reactor_op *op, int res,
				  unsigned int cqe_flags)
{
	struct tcp_chan *ch = container_of(op, struct tcp_chan, tx_op);

	if (!tcp_chan_goes_on(ch, &ch->tx_busy, &res))
		return;
	if (ch->tls && !tls_sent(ch->tls, (size_t)res))
		tcp_chan_send_records(ch, tcp_chan_request_sent);
	else
		tcp_chan_read_answer(ch);
}

void tcp_chan_request(struct tcp_chan *ch)
{
	tcp_chan_send_cm(ch, tcp_chan_request_sent);
}

static void tcp_chan_connected(struct reactor_op *op, int res,
			       unsigned int cqe_flags)
{
	struct tcp_chan *ch = container_of(op, struct tcp_chan, tx_op);

	if (!tcp_chan_goes_on(ch, &ch->tx_busy, &res))
		return;
	tcp_chan_name_local(ch);
	if (ch->tls)
		tcp_chan_shake(ch);
	else
		tcp_chan_request(ch);
}

static int tcp_chan_open_socket(struct tcp_chan *ch,
				const struct sockaddr *addr)
{
	ch->fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (ch->fd < 0)
		return -errno;
	tcp_no_delay(ch->fd);
	tcp_keep_alive(ch->fd, ch->base.xp->cfg.keepalive_ms);
	tcp_control_loopback(ch->fd, addr);
	return 0;
}

/* The kernel chooses the port when it knows both addresses, so that it runs out of ports
 * for each peer, not for all together. */
static int tcp_chan_bind(struct tcp_chan *ch, const struct xp_route *want,
			 const struct sockaddr *peer, struct error *e)
{
	struct sockaddr_storage source;
	socklen_t len;
	int err = xp_route_source(want, peer, &source, &len, e);
	int one = 1;

	if (err)
		return err;
	setsockopt(ch->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one,
		   sizeof(one));
	if (bind(ch->fd, (struct sockaddr *)&source, len) == 0)
		return 0;
	err = -errno;
	return error_set(e, err, "source=%s: %s", want->source,
			 err == -EADDRNOTAVAIL
				 ? "no interface of this machine has that "
				   "address"
				 : strerror(-err));
}

static void tcp_chan_start_connect(struct tcp_chan *ch, socklen_t addr_len)
{
	struct io_uring_sqe *sqe = reactor_sqe(tcp_reactor(ch));

	io_uring_prep_connect(sqe, ch->fd, (struct sockaddr *)&ch->addr,
			      addr_len);
	ch->tx_op.done = tcp_chan_connected;
	reactor_prep_done(sqe, &ch->tx_op);
	ch->tx_busy = true;
}

int tcp_connect(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
		const struct xp_chan_params *params, struct xp_chan **ret_ch,
		struct error *e)
{
	struct tcp_chan *ch = tcp_chan_new(xp, params);
	int err;

	if (!ch) {
		error_set(e, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	xp_addr_text(addr, ch->base.peer, sizeof(ch->base.peer));
	err = params->key ? tls_new_client(params->key, &ch->tls, e) : 0;
	if (err) {
		tcp_chan_destroy(ch);
		return err;
	}
	err = tcp_chan_open_socket(ch, addr);
	if (err)
		error_set(e, err, "connecting to %s failed: %s", ch->base.peer,
			  strerror(-err));
	else if (params->route && *params->route->source)
		err = tcp_chan_bind(ch, params->route, addr, e);
	if (err) {
		tcp_chan_destroy(ch);
		return err;
	}
	memcpy(&ch->addr, addr, addr_len);
	ch->cm_len = tcp_cm_encode(ch->rx.stage->data, TCP_CM_CONNECT,
				   params->pdata, params->pdata_len);
	tcp_chan_start_connect(ch, addr_len);
	ch->timeout_ms =
		params->timeout_ms ? params->timeout_ms : CONNECT_TIMEOUT_MS;
	reactor_timer_set(xp->cfg.reactor, &ch->timer, ch->timeout_ms);
	*ret_ch = &ch->base;
	return 0;
}

static void tcp_chan_answer_sent(struct reactor_op *op, int res,
				 unsigned int cqe_flags)
{
	struct tcp_chan *ch = container_of(op, struct tcp_chan, tx_op);

	if (!tcp_chan_goes_on(ch, &ch->tx_busy, &res))
		return;
	if (ch->tls && !tls_sent(ch->tls, (size_t)res)) {
		tcp_chan_send_records(ch, tcp_chan_answer_sent);
		return;
	}
	if (!tcp_chan_begin_records(ch))
		return;
	xp_core_established(&ch->base, NULL, 0);
	tcp_rx_run(ch);
}

int tcp_accept(struct xp *xp, struct xp_conn_request *base,
	       const struct xp_chan_params *params, struct xp_chan **ret_ch,
	       struct error *e)
{
	struct tcp_request *req = container_of(base, struct tcp_request, base);
	struct tcp_chan *ch = tcp_chan_new(xp, params);

	if (!ch) {
		error_set(e, -ENOMEM, "accepting %s failed: out of memory",
			  base->peer);
		tcp_reject(base, NULL, 0);
		return -ENOMEM;
	}
	memcpy(ch->base.peer, base->peer, sizeof(ch->base.peer));
	ch->fd = req->fd;
	ch->order = req->order;
	ch->tls = req->tls;
	ch->base.encrypted = ch->tls;
	ch->base.proved = ch->tls ? tls_name(ch->tls) : NULL;
	free(req);
	tcp_chan_name_local(ch);
	ch->cm_len = tcp_cm_encode(ch->rx.stage->data, TCP_CM_ACCEPT,
				   params->pdata, params->pdata_len);
	tcp_chan_send_cm(ch, tcp_chan_answer_sent);
	*ret_ch = &ch->base;
	return 0;
}
