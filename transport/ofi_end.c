/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a channel of the tcp provider. ofi_disconnect() puts it on the
 * list of those to be closed; the next turn closes its endpoint, which flushes
 * what is posted, reads the completion queue until it is empty, and only then
 * says that the fabric has let go. See poll_xp() in ofi.c.
 */
#include "transport/ofi_internal.h"

#include <sys/socket.h>

/* How long the answer to a READ may take to end once its socket is shut. */
#define CUT_TIMEOUT_MS 1000

void ofi_broke(struct ofi_chan *ch)
{
	xp_core_fail(&ch->base, -ECONNRESET,
		     "the peer closed the connection, or it broke");
}

unsigned int ofi_finish_lost(struct ofi_xp *xp)
{
	unsigned int done = 0;
	struct list *it;

	while ((it = list_pop(&xp->lost))) {
		ofi_broke(container_of(it, struct ofi_chan, node));
		done++;
	}
	return done;
}

/*
 * Ends the connection so that the provider notices while it reads. Closing an
 * endpoint in the middle of the answer to a READ makes libfabric (1.17 to
 * 1.18) flush the READ twice: once from its queue, once as what is being
 * received. The buffer is then on its free list twice, and every later
 * operation of every endpoint gets that same buffer. When it is the socket
 * that ends, it takes the READ out of the queue as it should; what is left is
 * flushed, and reported. There is no call for that, so the socket is looked up
 * by its addresses, which are unique. The receive of nothing is for a message
 * that finds no buffer: it would keep the provider from reading on.
 */
static void cut_socket(struct ofi_chan *ch)
{
	int fd = ofi_socket_of(ch->ep);

	fi_recv(ch->ep, ch->recv_block, 0, NULL, 0, NULL);
	/* A socket without a peer has been reset: the provider need not know
	 * it yet when it was a SEND that failed, but will when it reads. */
	if (fd >= 0)
		shutdown(fd, SHUT_RDWR);
	reactor_timer_set(ch->base.xp->cfg.reactor, &ch->timer, CUT_TIMEOUT_MS);
}

void ofi_disconnect(struct xp_chan *base)
{
	struct ofi_chan *ch = ofi_chan(base);

	reactor_timer_stop(&ch->timer);
	ch->late.cnt = 0;
	list_del(&ch->late_node);
	list_del(&ch->node);
	list_add_tail(&ofi_xp(base->xp)->closing, &ch->node);
	if (ch->posted_reads > 0)
		cut_socket(ch);
}

bool ofi_can_close(const struct ofi_xp *xp)
{
	struct list *it;

	list_for_each(it, &xp->closing) {
		if (container_of(it, struct ofi_chan, node)->posted_reads == 0)
			return true;
	}
	return !list_empty(&xp->closed);
}

void ofi_close_endpoints(struct ofi_xp *xp)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &xp->closing) {
		struct ofi_chan *ch = container_of(it, struct ofi_chan, node);

		if (ch->posted_reads > 0)
			continue;
		reactor_timer_stop(&ch->timer);
		/* This sends what still waits for the socket; then both flush
		 * what is posted. */
		fi_shutdown(ch->ep, 0);
		fi_close(&ch->ep->fid);
		ch->ep = NULL;
		list_del(&ch->node);
		list_add_tail(&xp->closed, &ch->node);
	}
}

unsigned int ofi_finish_closed(struct ofi_xp *xp)
{
	unsigned int done = 0;
	struct list *it;

	while ((it = list_pop(&xp->closed))) {
		struct ofi_chan *ch = container_of(it, struct ofi_chan, node);

		if (ch->posted_recvs == 0)
			xp->starved--;
		if (ch->undone)
			ofi_chan_free(&ch->base);
		else
			xp_core_drained(&ch->base);
		done++;
	}
	return done;
}
