/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners of the tcp provider. An accepted connection is pending until its
 * first message, TCP_CM_CONNECT, has arrived, after the handshake if it is TLS. The
 * number of pending connections and the time that each gets are limited. A wrong
 * message gets no answer. A right one becomes a request (struct tcp_request), which
 * then owns the socket.
 *
 * The listener and its pending connections are freed when the ring has
 * completed their operations. That is after xp_unlisten(), and maybe after
 * xp_destroy().
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/tcp/internal.h"

/* A connection may be pending so long. A login that waits to be admitted takes
 * less. */
#define PENDING_MS 15000
/* If there are more, the oldest is closed. */
#define PENDING_MAX 256
/* Time to the next try after accept() failed, for example with EMFILE. */
#define RETRY_MS 100

struct tcp_listener {
	struct xp_listener base;
	struct reactor *reactor;
	void (*requested)(struct xp_conn_request *req);
	void *user;
	const struct xp_keyring *keys; /* NULL: there are none */
	int fd;
	struct reactor_op op; /* accepts */
	bool busy;
	bool closed;
	bool failing; /* accept() fails; that was logged */
	struct reactor_timer retry;
	struct list pending; /* struct tcp_pending, oldest first */
	unsigned int pending_cnt;
	struct reactor_timer pending_timer; /* for the oldest */
};

struct tcp_pending {
	struct list node;
	struct tcp_listener *listener; /* NULL: dropped */
	struct reactor_op op;
	uint64_t since_us;
	int fd;
	struct tcp_tls *tls; /* NULL: plain, as far as is known */
	bool sending;	     /* TLS: the operation sends */
	size_t len;
	uint8_t buf[TCP_CM_LEN + TCP_CM_DATA_MAX];
};

/* ---- requests ---- */

static void tcp_request_set_addresses(struct tcp_request *req)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);

	if (getsockname(req->fd, (struct sockaddr *)&local, &len) == 0)
		xp_addr_text((struct sockaddr *)&local, req->base.local,
			     sizeof(req->base.local));
	len = sizeof(req->base.peer_addr);
	if (getpeername(req->fd, (struct sockaddr *)&req->base.peer_addr, &len))
		req->base.peer_addr.ss_family = AF_UNSPEC;
	xp_addr_text((struct sockaddr *)&req->base.peer_addr, req->base.peer,
		     sizeof(req->base.peer));
}

/* Takes over the socket and the TLS of @s. */
static void tcp_request_make(struct tcp_listener *l, struct tcp_pending *s,
			     const struct tcp_cm *cm)
{
	struct tcp_request *req = calloc(1, sizeof(*req));

	if (!req) {
		tls_free(s->tls);
		close(s->fd);
		return;
	}
	memcpy(req->pdata, s->buf + TCP_CM_LEN, cm->data_len);
	req->fd = s->fd;
	req->tls = s->tls;
	req->base.encrypted = s->tls;
	req->base.proved = s->tls ? tls_name(s->tls) : NULL;
	req->order = cm->order;
	req->base.xp = l->base.xp;
	req->base.pdata = req->pdata;
	req->base.pdata_len = cm->data_len;
	req->base.user = l->user;
	tcp_request_set_addresses(req);
	l->requested(&req->base);
}

/* The socket has room, because nothing was sent before. */
void tcp_reject(struct xp_conn_request *base, const void *pdata, size_t len)
{
	struct tcp_request *req = container_of(base, struct tcp_request, base);
	uint8_t buf[TCP_CM_LEN + TCP_CM_DATA_MAX];

	if (len > TCP_CM_DATA_MAX)
		len = TCP_CM_DATA_MAX;
	len = tcp_cm_encode(buf, TCP_CM_REJECT, pdata, len);
	if (!req->tls)
		send(req->fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	else if (!tls_write(req->tls, &(struct iovec){ buf, len }, 1))
		tls_send_last(req->tls, req->fd);
	if (req->tls)
		tls_say_bye(req->tls, req->fd);
	tls_free(req->tls);
	close(req->fd);
	free(req);
}

/* ---- pending connections ---- */

static void pending_receive(struct tcp_pending *s, struct reactor *r);

/* Tells the listener's user why a handshake failed. */
static void pending_refuse(const struct tcp_listener *l,
			   const struct tcp_pending *s, const char *why)
{
	const struct xp_keyring *keys = l->keys;
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(sa);
	char peer[64];

	if (!keys || !keys->refused)
		return;
	getpeername(s->fd, (struct sockaddr *)&sa, &len);
	xp_addr_text((struct sockaddr *)&sa, peer, sizeof(peer));
	keys->refused(keys->ctx, peer, why);
}

static void pending_set_timer(struct tcp_listener *l)
{
	uint64_t now = reactor_now_us(l->reactor);
	uint64_t end;

	reactor_timer_stop(&l->pending_timer);
	if (list_empty(&l->pending))
		return;
	end = list_first(&l->pending, struct tcp_pending, node)->since_us +
	      PENDING_MS * 1000;
	reactor_timer_set(l->reactor, &l->pending_timer,
			  end > now ? (end - now + 999) / 1000 : 0);
}

static void pending_remove(struct tcp_pending *s)
{
	struct tcp_listener *l = s->listener;

	list_del(&s->node);
	s->listener = NULL;
	l->pending_cnt--;
}

static void pending_drop(struct tcp_pending *s)
{
	assert(s->listener);
	reactor_cancel(s->listener->reactor, &s->op);
	shutdown(s->fd, SHUT_RDWR);
	pending_remove(s);
}

static void pending_timed_out(struct reactor_timer *t)
{
	struct tcp_listener *l =
		container_of(t, struct tcp_listener, pending_timer);
	uint64_t now = reactor_now_us(l->reactor);

	while (!list_empty(&l->pending)) {
		struct tcp_pending *s =
			list_first(&l->pending, struct tcp_pending, node);

		if (now < s->since_us + PENDING_MS * 1000)
			break;
		if (s->tls)
			pending_refuse(l, s,
				       "TLS: the handshake did not end "
				       "within 15 s");
		pending_drop(s);
	}
	pending_set_timer(l);
}

/* Return: 1: the message is complete; 0: more of it is to come; -errno: it is
 * not a valid TCP_CM_CONNECT. */
static int pending_decode(const struct tcp_pending *s, struct tcp_cm *cm)
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

/* ---- TLS of pending connections ---- */

static void pending_move(struct tcp_pending *s, enum tls_step step);

/* Goes on with the handshake. Return: 1: it is over; 0: an operation is under way; or
 * -errno. */
static int pending_shake(struct tcp_pending *s)
{
	struct error e = { 0 };
	int step = tls_handshake(s->tls, &e);

	if (step < 0) {
		tls_send_last(s->tls, s->fd);
		pending_refuse(s->listener, s, e.text);
		return step;
	}
	if (step == TLS_UP)
		return 1;
	pending_move(s, step);
	return 0;
}

/* As pending_decode(); 0: an operation is under way. */
static int pending_drive(struct tcp_pending *s, struct tcp_cm *cm)
{
	int ret = pending_shake(s);
	struct iovec to;
	ssize_t n;

	if (ret <= 0)
		return ret;
	do {
		to.iov_base = s->buf + s->len;
		to.iov_len = sizeof(s->buf) - s->len;
		n = tls_read(s->tls, &to, 1);
		if (n == -EAGAIN) {
			pending_move(s, TLS_RECV);
			return 0;
		}
		if (n <= 0)
			return n ? (int)n : -EBADMSG;
		s->len += (size_t)n;
		ret = pending_decode(s, cm);
	} while (ret == 0);
	return ret;
}

/* @n bytes have arrived, or were sent if TLS had some. As pending_drive(). */
static int pending_got(struct tcp_pending *s, size_t n, struct tcp_cm *cm)
{
	struct tcp_listener *l = s->listener;
	struct error e = { 0 };
	int err;

	if (s->tls) {
		if (s->sending)
			tls_sent(s->tls, n);
		else
			tls_received(s->tls, n);
		return pending_drive(s, cm);
	}
	s->len += n;
	if (s->buf[0] == TLS_FIRST_BYTE) {
		if (tls_new_server(l->keys, s->buf, s->len, &s->tls, &e))
			return -ENOMEM;
		s->len = 0;
		return pending_drive(s, cm);
	}
	err = pending_decode(s, cm);
	if (err == 0)
		pending_receive(s, l->reactor);
	return err;
}

static void pending_free(struct tcp_pending *s, bool keeps_socket)
{
	if (!keeps_socket) {
		tls_free(s->tls);
		close(s->fd);
	}
	free(s);
}

static void pending_received(struct reactor_op *op, int res,
			     unsigned int cqe_flags)
{
	struct tcp_pending *s = container_of(op, struct tcp_pending, op);
	struct tcp_listener *l = s->listener;
	struct tcp_cm cm;
	int ret = -ECONNRESET;

	res = tcp_result(res);
	if (l && res > 0)
		ret = pending_got(s, (size_t)res, &cm);
	else if (l && s->tls)
		pending_refuse(l, s, "TLS: the peer left within the handshake");
	if (l && ret == 0)
		return;
	if (l)
		pending_remove(s);
	if (l && ret > 0)
		tcp_request_make(l, s, &cm);
	pending_free(s, l && ret > 0);
}

static void pending_move(struct tcp_pending *s, enum tls_step step)
{
	struct io_uring_sqe *sqe = reactor_sqe(s->listener->reactor);

	s->sending = step == TLS_SEND;
	if (s->sending)
		tls_prep_send(s->tls, s->fd, sqe);
	else
		tls_prep_recv(s->tls, s->fd, sqe, 0);
	s->op.done = pending_received;
	reactor_prep_done(sqe, &s->op);
}

static void pending_receive(struct tcp_pending *s, struct reactor *r)
{
	struct io_uring_sqe *sqe = reactor_sqe(r);

	io_uring_prep_recv(sqe, s->fd, s->buf + s->len, sizeof(s->buf) - s->len,
			   0);
	s->op.done = pending_received;
	reactor_prep_done(sqe, &s->op);
}

static void pending_add(struct tcp_listener *l, int fd)
{
	struct tcp_pending *s = calloc(1, sizeof(*s));

	if (!s) {
		close(fd);
		return;
	}
	if (l->pending_cnt == PENDING_MAX)
		pending_drop(list_first(&l->pending, struct tcp_pending, node));
	s->listener = l;
	s->fd = fd;
	s->since_us = reactor_now_us(l->reactor);
	list_add_tail(&l->pending, &s->node);
	if (l->pending_cnt++ == 0)
		pending_set_timer(l);
	pending_receive(s, l->reactor);
}

/* ---- listening ---- */

static void listener_free(struct tcp_listener *l)
{
	close(l->fd);
	free(l);
}

static void listener_accept(struct tcp_listener *l);

static void listener_log_failure(const struct tcp_listener *l, int err)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	char local[64];

	getsockname(l->fd, (struct sockaddr *)&sa, &len);
	xp_addr_text((struct sockaddr *)&sa, local, sizeof(local));
	log_warn("cannot accept connections on %s: %s%s; trying again", local,
		 strerror(-err), err == -EMFILE ? " (see ulimit -n)" : "");
}

static void listener_accepted(struct reactor_op *op, int res,
			      unsigned int cqe_flags)
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
			pending_add(l, res);
		listener_accept(l);
		return;
	}
	if (!l->failing)
		listener_log_failure(l, res);
	l->failing = true;
	reactor_timer_set(l->reactor, &l->retry, RETRY_MS);
}

static void listener_accept(struct tcp_listener *l)
{
	struct io_uring_sqe *sqe = reactor_sqe(l->reactor);

	io_uring_prep_accept(sqe, l->fd, NULL, NULL, SOCK_CLOEXEC);
	l->op.done = listener_accepted;
	reactor_prep_done(sqe, &l->op);
	l->busy = true;
}

static void listener_retry(struct reactor_timer *t)
{
	listener_accept(container_of(t, struct tcp_listener, retry));
}

/* Takes @fd over. */
static int tcp_listen_begin(struct xp *xp, int fd,
			    void (*requested)(struct xp_conn_request *req),
			    void *user, struct xp_listener **ret_listener,
			    struct error *e)
{
	struct tcp_listener *l = calloc(1, sizeof(*l));

	if (!l) {
		close(fd);
		xp_core_listen_failed(e, -ENOMEM);
		return -ENOMEM;
	}
	/* Accepted sockets inherit these. */
	tcp_no_delay(fd);
	tcp_keep_alive(fd, xp->cfg.keepalive_ms);
	l->base.xp = xp;
	l->fd = fd;
	l->reactor = xp->cfg.reactor;
	l->requested = requested;
	l->user = user;
	list_init(&l->pending);
	reactor_timer_init(&l->retry, listener_retry);
	reactor_timer_init(&l->pending_timer, pending_timed_out);
	listener_accept(l);
	*ret_listener = &l->base;
	return 0;
}

int tcp_listen(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	       void (*requested)(struct xp_conn_request *req), void *user,
	       struct xp_listener **ret_listener, struct error *e)
{
	int fd = tcp_open_listener(addr, addr_len, e);

	return fd < 0 ? fd
		      : tcp_listen_begin(xp, fd, requested, user, ret_listener,
					 e);
}

int tcp_listen_later(struct xp *xp, const struct sockaddr *addr,
		     socklen_t addr_len,
		     void (*requested)(struct xp_conn_request *req), void *user,
		     struct xp_listener **ret_listener, struct error *e)
{
	int fd = tcp_open_listener_early(addr, addr_len, e);

	return fd < 0 ? fd
		      : tcp_listen_begin(xp, fd, requested, user, ret_listener,
					 e);
}

int tcp_listen_on(struct xp *xp, int fd, const struct sockaddr *addr,
		  void (*requested)(struct xp_conn_request *req), void *user,
		  struct xp_listener **ret_listener, struct error *e)
{
	int err = tcp_check_listener(fd, addr, e);
	int own = err ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (err)
		return err;
	if (own < 0) {
		xp_core_listen_failed(e, -errno);
		return e->err;
	}
	return tcp_listen_begin(xp, own, requested, user, ret_listener, e);
}

void tcp_listener_set_keys(struct xp_listener *base,
			   const struct xp_keyring *keys)
{
	container_of(base, struct tcp_listener, base)->keys = keys;
}

/* A connection that has just been accepted is closed, too. */
void tcp_unlisten(struct xp_listener *base)
{
	struct tcp_listener *l = container_of(base, struct tcp_listener, base);
	struct list *it;
	struct list *tmp;

	l->closed = true;
	reactor_timer_stop(&l->retry);
	reactor_timer_stop(&l->pending_timer);
	list_for_each_safe(it, tmp, &l->pending)
		pending_drop(container_of(it, struct tcp_pending, node));
	shutdown(l->fd, SHUT_RDWR);
	if (l->busy)
		reactor_cancel(l->reactor, &l->op);
	else
		listener_free(l);
}
