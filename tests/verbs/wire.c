/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread that is the card, and the wire. A connection is a socket of
 * AF_UNIX that keeps the bounds of messages; each message is a frame. A socket
 * with a full buffer delays frames, and never the thread: it always receives,
 * so that two peers cannot wait for each other.
 */
#include "tests/verbs/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNS_MAX 4096u

/* Frames of one connection before others have their turn. */
#define FRAMES_MAX 64

/* What epoll says beside the number of a connection. */
#define WAKE	 UINT64_MAX
#define PLUG	 (UINT64_MAX - 1)
#define LISTENER (UINT64_C(1) << 63)

static struct fv_conn *conns[CONNS_MAX];
static uint32_t generation;
static int epoll_fd = -1;
static int wake_fd = -1;

/* A frame of the connection manager that waits for room. */
struct out {
	struct list node;
	struct fv_frame frame;
	struct fv_cm_data data;
};

/* ---- sending ---- */

static uint64_t conn_token(const struct fv_conn *conn)
{
	return (uint64_t)(conn->generation & 0x7fffffff) << 32 | conn->index;
}

static void conn_watch(struct fv_conn *conn, int op)
{
	struct epoll_event ev = {
		.events = EPOLLIN | (conn->wants_out ? EPOLLOUT : 0u),
		.data.u64 = conn_token(conn),
	};

	epoll_ctl(epoll_fd, op, conn->fd, &ev);
}

static bool conn_write(struct fv_conn *conn, const struct fv_frame *f,
		       const struct iovec *data, unsigned int cnt)
{
	struct iovec iov[1 + FV_SGES];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 1 + cnt };

	iov[0] = (struct iovec){ (void *)f, sizeof(*f) };
	for (unsigned int i = 0; i < cnt; i++)
		iov[1 + i] = data[i];
	if (sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return true;
	/* The end is read behind what the peer has sent before. */
	if (errno != EAGAIN && errno != ENOBUFS)
		return true;
	conn->wants_out = true;
	conn_watch(conn, EPOLL_CTL_MOD);
	return false;
}

bool fv_conn_send(struct fv_conn *conn, const struct fv_frame *f,
		  const struct iovec *iov, unsigned int cnt)
{
	if (conn->fd < 0)
		return true;
	return list_empty(&conn->out) && conn_write(conn, f, iov, cnt);
}

static bool conn_flush(struct fv_conn *conn)
{
	while (!list_empty(&conn->out)) {
		struct out *out = list_first(&conn->out, struct out, node);
		struct iovec iov = { &out->data, sizeof(out->data) };

		if (!conn_write(conn, &out->frame, &iov, 1))
			return false;
		list_del(&out->node);
		free(out);
	}
	return true;
}

void fv_conn_send_cm(struct fv_conn *conn, enum fv_type type,
		     const struct fv_cm_data *data)
{
	struct out *out;

	if (conn->fd < 0)
		return;
	out = fv_zalloc(sizeof(*out));
	out->frame.type = (uint8_t)type;
	if (data)
		out->data = *data;
	list_add_tail(&conn->out, &out->node);
	conn_flush(conn);
}

/* ---- connections ---- */

struct fv_conn *fv_conn_get(unsigned int index)
{
	return index < CONNS_MAX ? conns[index] : NULL;
}

struct fv_conn *fv_conn_new(int fd)
{
	const int size = 1 << 20;
	struct fv_conn *conn;
	unsigned int i = 0;

	while (i < CONNS_MAX && conns[i])
		i++;
	if (i == CONNS_MAX) {
		close(fd);
		return NULL;
	}
	conn = fv_zalloc(sizeof(*conn));
	conn->index = i;
	conn->generation = generation++;
	conn->fd = fd;
	list_init(&conn->out);
	conns[i] = conn;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	conn_watch(conn, EPOLL_CTL_ADD);
	return conn;
}

static void conn_close(struct fv_conn *conn)
{
	struct list *it;

	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
	while ((it = list_pop(&conn->out)))
		free(container_of(it, struct out, node));
}

void fv_conn_put(struct fv_conn *conn)
{
	/* The peer must still be told. */
	if (conn->id || conn->qp || conn->listener || !list_empty(&conn->out))
		return;
	conn_close(conn);
	conns[conn->index] = NULL;
	free(conn);
}

/* ---- receiving ---- */

static uint8_t data[FV_FRAME_MAX];

static void conn_take(struct fv_conn *conn, const struct fv_frame *f,
		      size_t len)
{
	const struct fv_frame gone = { .type = FV_ACK,
				       .seq = f->seq,
				       .status = FV_NO_QP };
	struct fv_cm_data cm;

	if (f->type >= FV_REQ) {
		memcpy(&cm, data, sizeof(cm));
		if (len == sizeof(cm))
			fv_cm_take(conn, f->type, &cm);
		return;
	}
	if (conn->qp && conn->qp->base.state != IBV_QPS_ERR)
		fv_qp_take(conn->qp, f, data);
	else if (f->type <= FV_READ)
		fv_conn_send(conn, &gone, NULL, 0);
}

static void conn_ended(struct fv_conn *conn)
{
	conn_close(conn);
	if (conn->qp)
		fv_qp_lost(conn->qp);
	fv_cm_take(conn, -1, NULL);
}

/* One frame. False: there is none, or no connection any more. */
static bool conn_receive(struct fv_conn *conn)
{
	unsigned int index = conn->index;
	struct fv_frame f;
	struct iovec iov[] = { { &f, sizeof(f) }, { data, sizeof(data) } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n = recvmsg(conn->fd, &msg, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n < (ssize_t)sizeof(f)) {
		conn_ended(conn);
		return false;
	}
	conn_take(conn, &f, (size_t)n - sizeof(f));
	return conns[index] == conn && conn->fd >= 0;
}

static void conn_ready(struct fv_conn *conn, uint32_t events)
{
	unsigned int index = conn->index;

	if (events & EPOLLOUT) {
		conn->wants_out = false;
		conn_watch(conn, EPOLL_CTL_MOD);
		if (conn_flush(conn) && conn->qp)
			fv_qp_pump(conn->qp);
		fv_conn_put(conn);
		if (conns[index] != conn)
			return;
	}
	for (int i = 0; i < FRAMES_MAX; i++) {
		if (!conn_receive(conn))
			break;
	}
	if (conns[index] == conn)
		fv_conn_put(conn);
}

/* ---- listeners ---- */

static struct listener {
	struct list node;
	uint64_t token;
	int fd;
	struct fv_id *id;
} listeners = { .node = LIST_INIT(listeners.node) };

void fv_listen_watch(int fd, struct fv_id *id)
{
	static uint64_t number;
	struct listener *l = fv_zalloc(sizeof(*l));
	struct epoll_event ev = { .events = EPOLLIN };

	l->token = ev.data.u64 = LISTENER | number++;
	l->fd = fd;
	l->id = id;
	list_add_tail(&listeners.node, &l->node);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

void fv_listen_forget(struct fv_id *id)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &listeners.node) {
		struct listener *l = container_of(it, struct listener, node);

		if (l->id != id)
			continue;
		close(l->fd);
		list_del(it);
		free(l);
	}
	for (unsigned int i = 0; i < CONNS_MAX; i++) {
		if (!conns[i] || conns[i]->listener != id)
			continue;
		conns[i]->listener = NULL;
		fv_conn_put(conns[i]);
	}
}

static void listener_ready(uint64_t token)
{
	struct fv_conn *conn;
	struct list *it;
	int fd;

	list_for_each(it, &listeners.node) {
		struct listener *l = container_of(it, struct listener, node);

		if (l->token != token)
			continue;
		fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
		conn = fd < 0 ? NULL : fv_conn_new(fd);
		if (conn)
			conn->listener = l->id;
		return;
	}
}

/* ---- the thread ---- */

static void wire_ready(const struct epoll_event *ev)
{
	unsigned int index = (uint32_t)ev->data.u64;
	eventfd_t n;

	if (ev->data.u64 == WAKE)
		eventfd_read(wake_fd, &n);
	else if (ev->data.u64 == PLUG)
		fv_plug_changed();
	else if (ev->data.u64 & LISTENER)
		listener_ready(ev->data.u64);
	else if (conns[index] && conn_token(conns[index]) == ev->data.u64)
		conn_ready(conns[index], ev->events);
}

static void *wire_run(void *arg)
{
	struct epoll_event evs[32];
	int timeout = -1;
	int n;

	for (;;) {
		n = epoll_wait(epoll_fd, evs, ARRAY_SIZE(evs), timeout);
		pthread_mutex_lock(&fv_lock);
		for (int i = 0; i < n; i++)
			wire_ready(&evs[i]);
		timeout = fv_qps_tick() ? 1 : -1;
		pthread_mutex_unlock(&fv_lock);
	}
	return NULL;
}

void fv_plug_watch(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = PLUG };

	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

void fv_wire_wake(void)
{
	eventfd_write(wake_fd, 1);
}

static void wire_lock(void)
{
	pthread_mutex_lock(&fv_lock);
}

static void wire_unlock(void)
{
	pthread_mutex_unlock(&fv_lock);
}

void fv_wire_start(void)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = WAKE };
	pthread_t thread;
	sigset_t all;
	sigset_t old;

	if (epoll_fd >= 0)
		return;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &ev);
	fv_plug_start();
	/* A child has no thread, but may list devices. */
	pthread_atfork(wire_lock, wire_unlock, wire_unlock);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&thread, NULL, wire_run, NULL))
		abort();
	pthread_setname_np(thread, "fake-verbs");
	pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}
