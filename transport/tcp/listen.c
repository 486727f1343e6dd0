/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners of the tcp provider. A connection that was accepted is a stranger
 * until it has said what it wants: strangers are few, get a time to do so, and
 * no answer when it is nonsense. What they asked for is a request, which stands
 * on its own: it has the socket.
 *
 * The memory of a listener and of its strangers goes when the ring has given it
 * back, which is after xp_unlisten(), and maybe after the instance has gone.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/tcp/internal.h"

/* A login that waits to be let in takes less. */
#define STRANGER_MS 15000
/* With more of them, the oldest makes room. */
#define STRANGERS_MAX 256
/* After a failure to accept: too many files are open, or so. */
#define RETRY_MS 100

struct tcp_listener {
	struct xp_listener base;
	struct reactor *reactor;
	void (*requested)(struct xp_conn_request *req);
	void *user;
	int fd;
	struct reactor_op op; /* accepts */
	bool busy;
	bool closed;
	bool failing; /* and that was told */
	struct reactor_timer retry;
	struct list strangers; /* oldest first */
	unsigned int stranger_cnt;
	struct reactor_timer patience; /* with the oldest */
};

struct tcp_stranger {
	struct list node;
	struct tcp_listener *listener; /* NULL: it is being turned away */
	struct reactor_op op;
	uint64_t since_us;
	int fd;
	size_t len;
	uint8_t buf[TCP_CM_LEN + TCP_CM_DATA_MAX];
};

/* ---- requests ---- */

static void name_ends(struct tcp_request *req)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);

	if (getsockname(req->fd, (struct sockaddr *)&local, &len) == 0)
		xp_core_addr_text((struct sockaddr *)&local, req->base.local,
				  sizeof(req->base.local));
	len = sizeof(req->base.peer_addr);
	if (getpeername(req->fd, (struct sockaddr *)&req->base.peer_addr, &len))
		req->base.peer_addr.ss_family = AF_UNSPEC;
	xp_core_addr_text((struct sockaddr *)&req->base.peer_addr,
			  req->base.peer, sizeof(req->base.peer));
}

static void request(struct tcp_listener *l, int fd, const struct tcp_cm *cm,
		    const uint8_t *pdata)
{
	struct tcp_request *req = calloc(1, sizeof(*req));

	if (!req) {
		close(fd);
		return;
	}
	memcpy(req->pdata, pdata, cm->data_len);
	req->fd = fd;
	req->order = cm->order;
	req->base.xp = l->base.xp;
	req->base.pdata = req->pdata;
	req->base.pdata_len = cm->data_len;
	req->base.user = l->user;
	name_ends(req);
	l->requested(&req->base);
}

/* Nothing was sent yet: the socket has room. */
void tcp_reject(struct xp_conn_request *base, const void *pdata, size_t len)
{
	struct tcp_request *req = container_of(base, struct tcp_request, base);
	uint8_t buf[TCP_CM_LEN + TCP_CM_DATA_MAX];

	if (len > TCP_CM_DATA_MAX)
		len = TCP_CM_DATA_MAX;
	len = tcp_cm_encode(buf, TCP_CM_REJECT, pdata, len);
	send(req->fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(req->fd);
	free(req);
}

/* ---- strangers ---- */

static void tcp_listen_read_more(struct tcp_stranger *s, struct reactor *r);

static void set_patience(struct tcp_listener *l)
{
	uint64_t now = reactor_now_us(l->reactor);
	uint64_t end;

	reactor_timer_stop(&l->patience);
	if (list_empty(&l->strangers))
		return;
	end = list_first(&l->strangers, struct tcp_stranger, node)->since_us +
	      STRANGER_MS * 1000;
	reactor_timer_set(l->reactor, &l->patience,
			  end > now ? (end - now + 999) / 1000 : 0);
}

static void stranger_leaves(struct tcp_stranger *s)
{
	struct tcp_listener *l = s->listener;

	list_del(&s->node);
	s->listener = NULL;
	l->stranger_cnt--;
}

static void turn_away(struct tcp_stranger *s)
{
	assert(s->listener);
	reactor_cancel(s->listener->reactor, &s->op);
	shutdown(s->fd, SHUT_RDWR);
	stranger_leaves(s);
}

static void out_of_patience(struct reactor_timer *t)
{
	struct tcp_listener *l = container_of(t, struct tcp_listener, patience);
	uint64_t now = reactor_now_us(l->reactor);

	while (!list_empty(&l->strangers)) {
		struct tcp_stranger *s =
			list_first(&l->strangers, struct tcp_stranger, node);

		if (now < s->since_us + STRANGER_MS * 1000)
			break;
		turn_away(s);
	}
	set_patience(l);
}

/* What it said so far. Return: 1: all of it; 0: there is more to come; or a
 * negative errno: it is no request of ours. */
static int understand(const struct tcp_stranger *s, struct tcp_cm *cm)
{
	int err;

	if (s->len < TCP_CM_LEN)
		return 0;
	err = tcp_cm_decode(s->buf, cm);
	if (err)
		return err;
	if (cm->type != TCP_CM_CONNECT || s->len > TCP_CM_LEN + cm->data_len)
		return -EBADMSG;
	return s->len == TCP_CM_LEN + cm->data_len;
}

static void stranger_spoke(struct reactor_op *op, int res,
			   unsigned int cqe_flags)
{
	struct tcp_stranger *s = container_of(op, struct tcp_stranger, op);
	struct tcp_listener *l = s->listener;
	struct tcp_cm cm;
	int ret = -ECONNRESET;

	res = tcp_result(res);
	if (l && res > 0) {
		s->len += (size_t)res;
		ret = understand(s, &cm);
	}
	if (l && ret == 0) {
		tcp_listen_read_more(s, l->reactor);
		return;
	}
	if (l)
		stranger_leaves(s);
	if (l && ret > 0)
		request(l, s->fd, &cm, s->buf + TCP_CM_LEN);
	else
		close(s->fd);
	free(s);
}

static void tcp_listen_read_more(struct tcp_stranger *s, struct reactor *r)
{
	struct io_uring_sqe *sqe = reactor_sqe(r);

	io_uring_prep_recv(sqe, s->fd, s->buf + s->len, sizeof(s->buf) - s->len,
			   0);
	s->op.done = stranger_spoke;
	reactor_prep_done(sqe, &s->op);
}

static void stranger_comes(struct tcp_listener *l, int fd)
{
	struct tcp_stranger *s = calloc(1, sizeof(*s));

	if (!s) {
		close(fd);
		return;
	}
	if (l->stranger_cnt == STRANGERS_MAX)
		turn_away(list_first(&l->strangers, struct tcp_stranger, node));
	s->listener = l;
	s->fd = fd;
	s->since_us = reactor_now_us(l->reactor);
	list_add_tail(&l->strangers, &s->node);
	if (l->stranger_cnt++ == 0)
		set_patience(l);
	tcp_listen_read_more(s, l->reactor);
}

/* ---- listening ---- */

static void listener_free(struct tcp_listener *l)
{
	close(l->fd);
	free(l);
}

static void accept_next(struct tcp_listener *l);

static void tell_failure(const struct tcp_listener *l, int err)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	char local[64];

	getsockname(l->fd, (struct sockaddr *)&sa, &len);
	xp_core_addr_text((struct sockaddr *)&sa, local, sizeof(local));
	log_warn("no connection to %s can be accepted: %s%s; trying on", local,
		 strerror(-err),
		 err == -EMFILE ? " (the limit is told by ulimit -n)" : "");
}

static void came(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	struct tcp_listener *l = container_of(op, struct tcp_listener, op);

	l->busy = false;
	if (l->closed) {
		if (res >= 0)
			close(res);
		listener_free(l);
		return;
	}
	if (res >= 0 || res == -ECONNABORTED || res == -EINTR) {
		l->failing = false;
		if (res >= 0)
			stranger_comes(l, res);
		accept_next(l);
		return;
	}
	if (!l->failing)
		tell_failure(l, res);
	l->failing = true;
	reactor_timer_set(l->reactor, &l->retry, RETRY_MS);
}

static void accept_next(struct tcp_listener *l)
{
	struct io_uring_sqe *sqe = reactor_sqe(l->reactor);

	io_uring_prep_accept(sqe, l->fd, NULL, NULL, SOCK_CLOEXEC);
	l->op.done = came;
	reactor_prep_done(sqe, &l->op);
	l->busy = true;
}

static void retry(struct reactor_timer *t)
{
	accept_next(container_of(t, struct tcp_listener, retry));
}

static int tcp_listen_open_socket(struct tcp_listener *l,
				  const struct sockaddr *addr,
				  socklen_t addr_len)
{
	int on = 1;

	l->fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return -errno;
	setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* What it accepts inherits these. */
	tcp_no_delay(l->fd);
	tcp_keep_alive(l->fd, l->base.xp->cfg.keepalive_ms);
	if (bind(l->fd, addr, addr_len) || listen(l->fd, SOMAXCONN)) {
		int err = -errno;

		close(l->fd);
		return err;
	}
	return 0;
}

int tcp_listen(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	       void (*requested)(struct xp_conn_request *req), void *user,
	       struct xp_listener **ret_listener, struct error *e)
{
	struct tcp_listener *l = calloc(1, sizeof(*l));
	int err = -ENOMEM;

	if (l) {
		l->base.xp = xp;
		err = tcp_listen_open_socket(l, addr, addr_len);
	}
	if (err) {
		xp_core_listen_failed(e, err);
		free(l);
		return err;
	}
	l->reactor = xp->cfg.reactor;
	l->requested = requested;
	l->user = user;
	list_init(&l->strangers);
	reactor_timer_init(&l->retry, retry);
	reactor_timer_init(&l->patience, out_of_patience);
	accept_next(l);
	*ret_listener = &l->base;
	return 0;
}

/* Nobody is let in from here on: neither who has come just now. */
void tcp_unlisten(struct xp_listener *base)
{
	struct tcp_listener *l = container_of(base, struct tcp_listener, base);
	struct list *it;
	struct list *tmp;

	l->closed = true;
	reactor_timer_stop(&l->retry);
	reactor_timer_stop(&l->patience);
	list_for_each_safe(it, tmp, &l->strangers)
		turn_away(container_of(it, struct tcp_stranger, node));
	shutdown(l->fd, SHUT_RDWR);
	if (l->busy)
		reactor_cancel(l->reactor, &l->op);
	else
		listener_free(l);
}
