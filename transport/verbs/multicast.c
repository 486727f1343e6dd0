/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The carrier of datagrams that is RDMA: a UD queue pair in a multicast group. Its event
 * channel and its context of the device are its own, so that it ends well also when the
 * context of librdmacm has been cut (vb_cm_cut()).
 *
 * A datagram lies behind 40 bytes for the GRH. Nobody's address is in it that could be
 * answered on every fabric, so answers go to the group, too.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/list.h"
#include "transport/datagram.h"
#include "transport/verbs/grh.h"
#include "transport/verbs/verbs.h"

/* Bytes: a datagram of the largest MTU. A longer one than its slot would be an error
 * of the queue pair. */
#define SLOT_LEN (GRH_LEN + 4096u)
#define RECVS	 32u
#define SENDS	 8u

struct mcast {
	struct dgram base;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct sockaddr_storage group;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	bool asked; /* to join */
	bool attached;
	union ibv_gid mgid; /* of the group, as are the others */
	uint16_t mlid;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	unsigned int send;	    /* slot to use next */
	unsigned int sending;	    /* slots that the device has */
	uint8_t (*slots)[SLOT_LEN]; /* RECVS, then SENDS */
};

static struct mcast *mcast_of(struct dgram *d)
{
	return container_of(d, struct mcast, base);
}

static int mcast_post_recv(struct mcast *m, unsigned int slot)
{
	struct ibv_sge sge = { .addr = (uintptr_t)m->slots[slot],
			       .length = SLOT_LEN,
			       .lkey = m->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct ibv_recv_wr *bad;

	grh_clear(m->slots[slot]);
	return vb_errno(ibv_post_recv(m->qp, &wr, &bad));
}

/* ---- receive ---- */

/* True if the device is being removed, or the fabric has dropped the member, for instance
 * because its subnet manager was started again. Other events change nothing. */
static bool mcast_is_lost(struct mcast *m)
{
	bool lost = false;
	struct rdma_cm_event *event;

	while (!lost && rdma_get_cm_event(m->events, &event) == 0) {
		lost = event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ||
		       event->event == RDMA_CM_EVENT_MULTICAST_ERROR;
		rdma_ack_cm_event(event);
	}
	return lost;
}

static void mcast_note_host(const struct mcast *m, const struct ibv_wc *wc,
			    struct dgram_peer *peer)
{
	if (wc->wc_flags & IBV_WC_GRH)
		grh_source(m->slots[wc->wr_id], peer->host);
	else
		memcpy(peer->host, &wc->slid, sizeof(wc->slid));
}

static int mcast_take(struct mcast *m, const struct ibv_wc *wc, void *buf,
		      size_t size, struct dgram_peer *peer)
{
	unsigned int slot = (unsigned int)wc->wr_id;
	size_t len = wc->byte_len;
	int res = -ENOMSG;

	mcast_note_host(m, wc, peer);
	if (len > GRH_LEN) {
		len -= GRH_LEN;
		res = len > size ? -EMSGSIZE : (int)len;
	}
	if (res > 0)
		memcpy(buf, m->slots[slot] + GRH_LEN, len);
	mcast_post_recv(m, slot);
	return res;
}

/* The next datagram that the device has delivered; 0: there is none. */
static int mcast_take_next(struct mcast *m, void *buf, size_t size,
			   struct dgram_peer *peer)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(m->cq, 1, &wc) == 1) {
		/* The queue pair is of no use any more: what is posted from now
		 * on is flushed at once. */
		if (wc.status != IBV_WC_SUCCESS)
			return -ENODEV;
		if (wc.wr_id >= RECVS) {
			m->sending--;
			continue;
		}
		return mcast_take(m, &wc, buf, size, peer);
	}
	return 0;
}

/* False: there is no event. */
static bool mcast_take_event(struct mcast *m)
{
	struct ibv_cq *cq;
	void *user;

	if (ibv_get_cq_event(m->comp, &cq, &user))
		return false;
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(m->cq, 0);
	return true;
}

/* The event stays until all is taken: a caller that stops before finds the endpoint
 * readable. */
static int mcast_receive(struct dgram *d, void *buf, size_t size,
			 struct dgram_peer *ret_peer)
{
	struct mcast *m = mcast_of(d);
	int len;

	*ret_peer = (struct dgram_peer){ .addr_len = 0 };
	if (mcast_is_lost(m))
		return -ENODEV;
	len = mcast_take_next(m, buf, size, ret_peer);
	/* Before the next event was asked for, more may have come. */
	if (!len && mcast_take_event(m))
		len = mcast_take_next(m, buf, size, ret_peer);
	return len;
}

/* ---- send ---- */

static int mcast_send(struct dgram *d, const struct dgram_peer *to,
		      const void *data, size_t len)
{
	struct mcast *m = mcast_of(d);
	unsigned int slot = RECVS + m->send;
	struct ibv_sge sge = { .addr = (uintptr_t)m->slots[slot],
			       .length = (uint32_t)len,
			       .lkey = m->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = slot,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	int err;

	if (len > SLOT_LEN)
		return -EMSGSIZE;
	if (!m->attached)
		return -EAGAIN;
	if (m->sending == SENDS)
		return -EAGAIN;
	memcpy(m->slots[slot], data, len);
	wr.wr.ud.ah = m->ah;
	wr.wr.ud.remote_qpn = m->qpn;
	wr.wr.ud.remote_qkey = m->qkey;
	err = vb_errno(ibv_post_send(m->qp, &wr, &bad));
	if (err)
		return err;
	m->sending++;
	m->send = (m->send + 1) % SENDS;
	return 0;
}

/* ---- life ---- */

static void mcast_close(struct dgram *d)
{
	struct mcast *m = mcast_of(d);

	if (m->attached)
		ibv_detach_mcast(m->qp, &m->mgid, m->mlid);
	if (m->asked)
		rdma_leave_multicast(m->id, (struct sockaddr *)&m->group);
	if (m->ah)
		ibv_destroy_ah(m->ah);
	if (m->qp)
		ibv_destroy_qp(m->qp);
	if (m->mr)
		ibv_dereg_mr(m->mr);
	if (m->cq)
		ibv_destroy_cq(m->cq);
	if (m->comp)
		ibv_destroy_comp_channel(m->comp);
	if (m->pd)
		ibv_dealloc_pd(m->pd);
	if (m->ctx)
		ibv_close_device(m->ctx);
	if (m->id)
		rdma_destroy_id(m->id);
	if (m->events)
		rdma_destroy_event_channel(m->events);
	if (d->fd >= 0)
		close(d->fd);
	free(m->slots);
	free(m);
}

static int mcast_no_wait(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

/* The group as an address of the family of @local. */
static void mcast_set_group(struct mcast *m, const struct sockaddr *local)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)&m->group;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&m->group;

	m->group.ss_family = local->sa_family;
	if (local->sa_family == AF_INET) {
		inet_pton(AF_INET, DGRAM_GROUP_IPV4, &sin->sin_addr);
		return;
	}
	inet_pton(AF_INET6, DGRAM_GROUP_IPV6, &sin6->sin6_addr);
	sin6->sin6_scope_id = ((const struct sockaddr_in6 *)(const void *)local)
				      ->sin6_scope_id;
}

/* Finds the device that has @local. */
static int mcast_bind(struct mcast *m, const struct sockaddr *local)
{
	m->events = rdma_create_event_channel();
	if (!m->events)
		return -errno;
	if (rdma_create_id(m->events, &m->id, m, RDMA_PS_UDP) ||
	    rdma_bind_addr(m->id, (struct sockaddr *)local))
		return -errno;
	return m->id->verbs ? 0 : -ENODEV;
}

static int mcast_open_device(struct mcast *m)
{
	m->ctx = ibv_open_device(m->id->verbs->device);
	if (!m->ctx)
		return errno ? -errno : -EIO;
	m->pd = ibv_alloc_pd(m->ctx);
	m->comp = ibv_create_comp_channel(m->ctx);
	if (!m->pd || !m->comp)
		return -errno;
	m->cq = ibv_create_cq(m->ctx, RECVS + SENDS, NULL, m->comp, 0);
	return m->cq ? 0 : -errno;
}

static int mcast_make_qp(struct mcast *m)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = m->cq,
		.recv_cq = m->cq,
		.cap = { .max_send_wr = SENDS,
			 .max_recv_wr = RECVS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
	};

	m->qp = ibv_create_qp(m->pd, &attr);
	return m->qp ? 0 : -errno;
}

/* To RTS. The connection manager knows the port and the keys. */
static int mcast_start_qp(struct mcast *m)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;
	int err;

	if (rdma_init_qp_attr(m->id, &attr, &mask))
		return -errno;
	err = vb_errno(ibv_modify_qp(m->qp, &attr, mask));
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = vb_errno(ibv_modify_qp(m->qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0;
	if (!err)
		err = vb_errno(ibv_modify_qp(m->qp, &attr,
					     IBV_QP_STATE | IBV_QP_SQ_PSN));
	return err;
}

static int mcast_post_all(struct mcast *m)
{
	const size_t len = (RECVS + SENDS) * sizeof(m->slots[0]);
	int err = 0;

	m->slots = calloc(RECVS + SENDS, sizeof(m->slots[0]));
	if (!m->slots)
		return -ENOMEM;
	m->mr = ibv_reg_mr(m->pd, m->slots, len, IBV_ACCESS_LOCAL_WRITE);
	if (!m->mr)
		return -errno;
	for (unsigned int i = 0; i < RECVS && !err; i++)
		err = mcast_post_recv(m, i);
	return err;
}

/* Only now do datagrams make the endpoint readable: one may come to the queue pair
 * itself before, and nobody takes it while it joins. */
static int mcast_attach(struct mcast *m, const struct rdma_ud_param *ud)
{
	int err = vb_errno(ibv_req_notify_cq(m->cq, 0));

	if (err)
		return err;
	m->qpn = ud->qp_num;
	m->qkey = ud->qkey;
	m->mgid = ud->ah_attr.grh.dgid;
	m->mlid = ud->ah_attr.dlid;
	m->ah = ibv_create_ah(m->pd, (struct ibv_ah_attr *)&ud->ah_attr);
	if (!m->ah)
		return -errno;
	err = vb_errno(ibv_attach_mcast(m->qp, &m->mgid, m->mlid));
	m->attached = !err;
	return err;
}

/* Does not wait for the fabric. */
static int mcast_ask(struct mcast *m)
{
	if (rdma_join_multicast(m->id, (struct sockaddr *)&m->group, m))
		return -errno;
	m->asked = true;
	m->base.joining = true;
	return 0;
}

static int mcast_join_event(struct mcast *m, const struct rdma_cm_event *event)
{
	int err;

	switch (event->event) {
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		err = mcast_attach(m, &event->param.ud);
		/* Some devices say that if they have no place left. */
		return err == -EAGAIN ? -ENOSPC : err;
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		return event->status < 0 ? event->status : -ENETUNREACH;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return -ENODEV;
	default:
		return -EAGAIN;
	}
}

static int mcast_join(struct dgram *d)
{
	struct mcast *m = mcast_of(d);
	struct rdma_cm_event *event;
	int err = -EAGAIN;

	while (err == -EAGAIN) {
		if (rdma_get_cm_event(m->events, &event))
			return -errno;
		err = mcast_join_event(m, event);
		rdma_ack_cm_event(event);
	}
	d->joining = err;
	return err;
}

/* One descriptor for both channels. */
static int mcast_watch(struct mcast *m)
{
	struct epoll_event in = { .events = EPOLLIN };
	int err = mcast_no_wait(m->events->fd);

	if (!err)
		err = mcast_no_wait(m->comp->fd);
	if (err)
		return err;
	m->base.fd = epoll_create1(EPOLL_CLOEXEC);
	if (m->base.fd < 0 ||
	    epoll_ctl(m->base.fd, EPOLL_CTL_ADD, m->events->fd, &in) ||
	    epoll_ctl(m->base.fd, EPOLL_CTL_ADD, m->comp->fd, &in))
		return -errno;
	return 0;
}

static const struct dgram_ops mcast_ops = {
	.receive = mcast_receive,
	.send = mcast_send,
	.join = mcast_join,
	.close = mcast_close,
};

int dgram_open_rdma(const struct sockaddr *local, struct dgram **ret,
		    struct error *e)
{
	struct mcast *m = calloc(1, sizeof(*m));
	char text[64];
	int err;

	if (!m)
		return error_set(e, -ENOMEM, "out of memory");
	m->base.ops = &mcast_ops;
	m->base.carrier = DGRAM_RDMA;
	m->base.fd = -1;
	mcast_set_group(m, local);
	err = mcast_bind(m, local);
	if (!err)
		err = mcast_open_device(m);
	if (!err)
		err = mcast_make_qp(m);
	if (!err)
		err = mcast_start_qp(m);
	if (!err)
		err = mcast_post_all(m);
	if (!err)
		err = mcast_watch(m);
	if (!err)
		err = mcast_ask(m);
	if (!err) {
		*ret = &m->base;
		return 0;
	}
	mcast_close(&m->base);
	xp_addr_text(local, text, sizeof(text));
	return error_set(e, err,
			 "cannot join the multicast group of RDMA at "
			 "%s: %s",
			 text, strerror(-err));
}
