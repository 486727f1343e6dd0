/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS of a channel: the handshake of the side that connects, and the operations that move
 * records. The handshake uses the operation that receives for both ways.
 */
#include <errno.h>

#include "transport/tcp/internal.h"

/* ---- the handshake ---- */

static void chan_shook(struct tcp_chan *ch)
{
	ch->base.encrypted = true;
	ch->base.proved = tls_name(ch->tls);
	tcp_chan_request(ch);
}

static void chan_shake_failed(struct tcp_chan *ch, const struct error *e)
{
	tls_send_last(ch->tls, ch->fd);
	xp_core_fail(&ch->base, e->err, "%s: %s", ch->base.peer, e->text);
}

static void chan_shake_sent(struct reactor_op *op, int res,
			    unsigned int cqe_flags)
{
	struct tcp_chan *ch = container_of(op, struct tcp_chan, rx_op);

	if (!tcp_chan_goes_on(ch, &ch->rx_busy, &res))
		return;
	tls_sent(ch->tls, (size_t)res);
	tcp_chan_shake(ch);
}

static void chan_shake_received(struct reactor_op *op, int res,
				unsigned int cqe_flags)
{
	struct tcp_chan *ch = container_of(op, struct tcp_chan, rx_op);

	if (!tcp_chan_goes_on(ch, &ch->rx_busy, &res))
		return;
	if (res == 0) {
		xp_core_fail(
			&ch->base, -ECONNRESET,
			"%s closed the connection in the TLS handshake: it "
			"may have no TLS",
			ch->base.peer);
		return;
	}
	tls_received(ch->tls, (size_t)res);
	tcp_chan_shake(ch);
}

void tcp_chan_shake(struct tcp_chan *ch)
{
	struct error e = { 0 };
	int step = tls_handshake(ch->tls, &e);
	struct io_uring_sqe *sqe;

	if (step < 0) {
		chan_shake_failed(ch, &e);
		return;
	}
	if (step == TLS_UP) {
		chan_shook(ch);
		return;
	}
	if (step == TLS_RECV) {
		tcp_chan_receive_records(ch, 0, chan_shake_received);
		return;
	}
	sqe = reactor_sqe(tcp_reactor(ch));
	tls_prep_send(ch->tls, ch->fd, sqe);
	ch->rx_op.done = chan_shake_sent;
	reactor_prep_done(sqe, &ch->rx_op);
	ch->rx_busy = true;
}

/* ---- records ---- */

size_t tcp_chan_receive_records(struct tcp_chan *ch, size_t max,
				void (*done)(struct reactor_op *, int,
					     unsigned int))
{
	struct io_uring_sqe *sqe = reactor_sqe(tcp_reactor(ch));
	size_t len = tls_prep_recv(ch->tls, ch->fd, sqe, max);

	ch->rx_op.done = done;
	reactor_prep_done(sqe, &ch->rx_op);
	ch->rx_busy = true;
	return len;
}

void tcp_chan_send_records(struct tcp_chan *ch,
			   void (*done)(struct reactor_op *, int, unsigned int))
{
	struct io_uring_sqe *sqe = reactor_sqe(tcp_reactor(ch));

	tls_prep_send(ch->tls, ch->fd, sqe);
	ch->tx_op.done = done;
	reactor_prep_done(sqe, &ch->tx_op);
	ch->tx_busy = true;
}

bool tcp_chan_begin_records(struct tcp_chan *ch)
{
	int err;

	if (!ch->tls)
		return true;
	err = tls_begin(ch->tls, ch->fd);
	ch->seals = !tls_kernel_sends(ch->tls);
	ch->opens = !tls_kernel_receives(ch->tls);
	if (err)
		xp_core_fail(&ch->base, err, "TLS: out of memory");
	return err == 0;
}
