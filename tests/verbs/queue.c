/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable connections as InfiniBand has them. A requester sends its work
 * requests in order, each with a number, and keeps them until the responder has
 * acknowledged them. The responder takes only the request whose number it
 * expects. If it has no receive for it, it says so and drops what follows; the
 * requester goes back to that request after a while. The answers of a responder
 * leave in the order of the requests.
 */
#include "tests/verbs/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a responder still has to send. */
struct fv_reply {
	struct list node;
	struct fv_frame frame; /* FV_ACK; FV_READ_DATA: its first part */
	uint64_t addr;	       /* READ: what is left */
	uint32_t left;
};

static const struct ibv_pd *pd_of(const struct fv_qp *qp)
{
	return qp->base.pd;
}

/* ---- receive queues ---- */

static bool rq_put(struct fv_rq *rq, const struct ibv_recv_wr *wr)
{
	struct fv_recv *recv;

	if (rq->cnt == rq->size || wr->num_sge > (int)FV_SGES)
		return false;
	recv = &rq->ring[(rq->head + rq->cnt++) % rq->size];
	recv->wr_id = wr->wr_id;
	recv->sge_cnt = (unsigned int)wr->num_sge;
	memcpy(recv->sges, wr->sg_list, recv->sge_cnt * sizeof(recv->sges[0]));
	return true;
}

static struct fv_recv *rq_get(struct fv_rq *rq)
{
	struct fv_recv *recv = &rq->ring[rq->head];

	if (!rq->cnt)
		return NULL;
	rq->head = (rq->head + 1) % rq->size;
	rq->cnt--;
	return recv;
}

static struct fv_rq *qp_rq(struct fv_qp *qp)
{
	return qp->srq ? &qp->srq->rq : &qp->rq;
}

static void qp_recv_done(struct fv_qp *qp, const struct fv_recv *recv,
			 enum ibv_wc_status status, enum ibv_wc_opcode opcode,
			 uint32_t len)
{
	const struct ibv_wc wc = {
		.wr_id = recv->wr_id,
		.status = status,
		.opcode = opcode,
		.byte_len = len,
		.qp_num = qp->base.qp_num,
	};

	fv_complete(qp->base.recv_cq, &wc);
}

/* ---- the send queue ---- */

static struct fv_send *sq_at(struct fv_qp *qp, unsigned int nth)
{
	return &qp->sq[(qp->sq_head + nth) % qp->sq_size];
}

static enum ibv_wc_opcode sq_opcode(const struct fv_send *s)
{
	switch (s->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	default:
		return IBV_WC_SEND;
	}
}

/* The oldest request has ended. */
static void sq_done(struct fv_qp *qp, enum ibv_wc_status status)
{
	const struct fv_send *s = sq_at(qp, 0);
	const struct ibv_wc wc = {
		.wr_id = s->wr_id,
		.status = status,
		.opcode = sq_opcode(s),
		.byte_len = s->len,
		.qp_num = qp->base.qp_num,
	};

	if (qp->sent) {
		qp->sent--;
		qp->reads -= s->opcode == IBV_WR_RDMA_READ;
	}
	qp->sq_head = (qp->sq_head + 1) % qp->sq_size;
	qp->sq_cnt--;
	qp->head_seq++;
	qp->rnr_left = qp->rnr_retry;
	qp->give_up = 0;
	if (status || qp->signal_all || s->flags & IBV_SEND_SIGNALED)
		fv_complete(qp->base.send_cq, &wc);
}

static void replies_drop(struct fv_qp *qp)
{
	struct list *it;

	while ((it = list_pop(&qp->replies)))
		free(container_of(it, struct fv_reply, node));
}

/* The door to the state ERR: everything is flushed, in order. */
static void qp_error(struct fv_qp *qp)
{
	struct fv_recv *recv;

	if (qp->base.state == IBV_QPS_ERR)
		return;
	qp->base.state = IBV_QPS_ERR;
	qp->rnr_until = 0;
	replies_drop(qp);
	while (qp->sq_cnt)
		sq_done(qp, IBV_WC_WR_FLUSH_ERR);
	while (!qp->srq && (recv = rq_get(&qp->rq)))
		qp_recv_done(qp, recv, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0);
	if (qp->srq)
		fv_async(fv_context(qp->base.context),
			 IBV_EVENT_QP_LAST_WQE_REACHED, &qp->base);
}

/* The oldest request fails, and with it the queue pair. */
static void sq_fail(struct fv_qp *qp, enum ibv_wc_status status)
{
	sq_done(qp, status);
	qp_error(qp);
}

static bool sq_memory_is_good(const struct fv_qp *qp, const struct fv_send *s)
{
	int access = s->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;

	if (s->flags & IBV_SEND_INLINE)
		return true;
	for (unsigned int i = 0; i < s->sge_cnt; i++) {
		if (!fv_mr_allows(s->sges[i].lkey, s->sges[i].addr,
				  s->sges[i].length, pd_of(qp), access))
			return false;
	}
	return true;
}

/* The bytes from @offset on, at most @len, as pieces; returns how many. */
static unsigned int sq_pieces(const struct fv_send *s, uint32_t offset,
			      uint32_t len, struct iovec *iov)
{
	unsigned int n = 0;

	if (s->flags & IBV_SEND_INLINE) {
		iov[0] = (struct iovec){ (void *)&s->data[offset], len };
		return 1;
	}
	for (unsigned int i = 0; i < s->sge_cnt && len; i++) {
		const struct ibv_sge *sge = &s->sges[i];
		uint32_t part;

		if (offset >= sge->length) {
			offset -= sge->length;
			continue;
		}
		part = sge->length - offset < len ? sge->length - offset : len;
		iov[n++] =
			(struct iovec){ (void *)(uintptr_t)(sge->addr + offset),
					part };
		len -= part;
		offset = 0;
	}
	return n;
}

/* Sends the next request, or a part of it. False: not now. */
static bool sq_send_next(struct fv_qp *qp)
{
	struct fv_send *s = sq_at(qp, qp->sent);
	struct fv_frame f = { .type = FV_SEND, .last = 1 };
	struct iovec iov[FV_SGES];
	unsigned int cnt = 0;
	uint32_t left = s->len - qp->sent_bytes;

	f.seq = qp->head_seq + qp->sent;
	f.len = left < FV_FRAME_MAX ? left : FV_FRAME_MAX;
	if (s->opcode == IBV_WR_RDMA_READ) {
		f.type = FV_READ;
		f.len = s->len;
	} else {
		cnt = sq_pieces(s, qp->sent_bytes, f.len, iov);
		f.last = f.len == left;
	}
	if (sq_opcode(s) == IBV_WC_RDMA_WRITE)
		f.type = FV_WRITE;
	f.has_imm = s->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	f.key = s->rkey;
	f.addr = s->remote_addr + qp->sent_bytes;
	if (!fv_conn_send(qp->conn, &f, iov, cnt))
		return false;
	qp->sent_bytes += f.len;
	if (f.type == FV_READ || f.last) {
		qp->sent_bytes = 0;
		qp->sent++;
		qp->reads += f.type == FV_READ;
	}
	return true;
}

static bool sq_may_send(struct fv_qp *qp)
{
	struct fv_send *s = sq_at(qp, qp->sent);

	if (qp->sent == qp->sq_cnt || qp->rnr_until || qp->lost)
		return false;
	if (s->opcode == IBV_WR_RDMA_READ && qp->reads == qp->read_max)
		return false;
	if (s->flags & IBV_SEND_FENCE && qp->reads)
		return false;
	if (!qp->sent_bytes && !sq_memory_is_good(qp, s))
		s->status = IBV_WC_LOC_PROT_ERR;
	return !s->status;
}

static bool replies_send(struct fv_qp *qp)
{
	while (!list_empty(&qp->replies)) {
		struct fv_reply *r =
			list_first(&qp->replies, struct fv_reply, node);
		struct iovec iov = { (void *)(uintptr_t)r->addr, 0 };

		if (r->frame.type == FV_READ_DATA) {
			iov.iov_len =
				r->left < FV_FRAME_MAX ? r->left : FV_FRAME_MAX;
			r->frame.len = (uint32_t)iov.iov_len;
			r->frame.last = r->left == r->frame.len;
		}
		if (!fv_conn_send(qp->conn, &r->frame, &iov, 1))
			return false;
		r->addr += iov.iov_len;
		r->left -= (uint32_t)iov.iov_len;
		r->frame.addr += iov.iov_len;
		if (r->left)
			continue;
		list_del(&r->node);
		free(r);
	}
	return true;
}

void fv_qp_pump(struct fv_qp *qp)
{
	if (!qp->conn || qp->base.state == IBV_QPS_ERR || !replies_send(qp) ||
	    qp->base.state != IBV_QPS_RTS)
		return;
	while (sq_may_send(qp) && sq_send_next(qp))
		;
	if (qp->sq_cnt && !qp->sent && sq_at(qp, 0)->status)
		sq_fail(qp, sq_at(qp, 0)->status);
	else if (qp->sq_cnt && qp->lost && !qp->give_up)
		qp->give_up = fv_now_ms() + FV_RETRY_MS;
	if (qp->rnr_until || qp->give_up)
		fv_wire_wake();
}

/* ---- as requester: answers ---- */

/* All requests before @seq are done. False: @seq is not under way. */
static bool sq_acked_up_to(struct fv_qp *qp, uint32_t seq)
{
	if (seq - qp->head_seq >= qp->sq_cnt)
		return false;
	while (qp->head_seq != seq)
		sq_done(qp, IBV_WC_SUCCESS);
	return true;
}

static void sq_go_back(struct fv_qp *qp)
{
	qp->sent = 0;
	qp->reads = 0;
	qp->sent_bytes = 0;
	if (qp->rnr_retry != 7 && qp->rnr_left-- == 0)
		sq_fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
	else
		qp->rnr_until = fv_now_ms() + FV_RNR_MS;
}

static void qp_take_ack(struct fv_qp *qp, const struct fv_frame *f)
{
	if (f->status == FV_NO_QP) {
		fv_qp_lost(qp);
		return;
	}
	if (!sq_acked_up_to(qp, f->seq))
		return;
	if (f->status == FV_RNR)
		sq_go_back(qp);
	else if (f->status)
		sq_fail(qp, f->status);
	else
		sq_done(qp, IBV_WC_SUCCESS);
}

static void qp_take_read_data(struct fv_qp *qp, const struct fv_frame *f,
			      const uint8_t *data)
{
	struct iovec iov[FV_SGES];
	unsigned int cnt;

	if (!sq_acked_up_to(qp, f->seq))
		return;
	if (!sq_memory_is_good(qp, sq_at(qp, 0))) {
		sq_fail(qp, IBV_WC_LOC_PROT_ERR);
		return;
	}
	cnt = sq_pieces(sq_at(qp, 0), (uint32_t)f->addr, f->len, iov);
	for (unsigned int i = 0; i < cnt; i++) {
		memcpy(iov[i].iov_base, data, iov[i].iov_len);
		data += iov[i].iov_len;
	}
	if (f->last)
		sq_done(qp, IBV_WC_SUCCESS);
}

void fv_qp_lost(struct fv_qp *qp)
{
	qp->lost = true;
	fv_qp_pump(qp);
}

/* ---- as responder ---- */

static void qp_reply(struct fv_qp *qp, uint32_t seq, uint8_t status)
{
	struct fv_reply *r = fv_zalloc(sizeof(*r));

	r->frame.type = FV_ACK;
	r->frame.seq = seq;
	r->frame.status = status;
	list_add_tail(&qp->replies, &r->node);
}

/* Refuses the request, and fails. */
static void qp_refuse(struct fv_qp *qp, uint32_t seq, uint8_t status)
{
	struct fv_frame f = { .type = FV_ACK, .seq = seq, .status = status };

	/* Answers before it are overtaken only if there is no room for them. */
	replies_send(qp);
	fv_conn_send(qp->conn, &f, NULL, 0);
	if (status == IBV_WC_REM_ACCESS_ERR)
		fv_async(fv_context(qp->base.context), IBV_EVENT_QP_ACCESS_ERR,
			 &qp->base);
	qp_error(qp);
}

/* The receive that the next SEND takes; NULL: there is none, and the peer is
 * told. */
static struct fv_recv *qp_recv_for(struct fv_qp *qp, const struct fv_frame *f)
{
	struct fv_recv *recv = rq_get(qp_rq(qp));

	if (!recv)
		qp_reply(qp, f->seq, FV_RNR);
	return recv;
}

/* Success, or what is wrong with the receive. */
static enum ibv_wc_status recv_fill(const struct ibv_pd *pd,
				    const struct fv_recv *recv,
				    const uint8_t *data, uint32_t len)
{
	for (unsigned int i = 0; i < recv->sge_cnt && len; i++) {
		const struct ibv_sge *sge = &recv->sges[i];
		uint32_t part = sge->length < len ? sge->length : len;

		if (!fv_mr_allows(sge->lkey, sge->addr, part, pd,
				  IBV_ACCESS_LOCAL_WRITE))
			return IBV_WC_LOC_PROT_ERR;
		memcpy((void *)(uintptr_t)sge->addr, data, part);
		data += part;
		len -= part;
	}
	return len ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

static void qp_take_send(struct fv_qp *qp, const struct fv_frame *f,
			 const void *data)
{
	const struct fv_recv *recv = qp_recv_for(qp, f);
	const struct ibv_pd *pd = qp->srq ? qp->srq->base.pd : pd_of(qp);
	enum ibv_wc_status status;

	if (!recv)
		return;
	status = recv_fill(pd, recv, data, f->len);
	qp_recv_done(qp, recv, status, IBV_WC_RECV, f->len);
	if (status) {
		qp_refuse(qp, f->seq,
			  status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR
						       : IBV_WC_REM_OP_ERR);
		return;
	}
	qp->expected++;
	qp_reply(qp, f->seq, IBV_WC_SUCCESS);
}

static bool qp_allows(const struct fv_qp *qp, const struct fv_frame *f,
		      int access)
{
	return !f->len ||
	       (qp->access & access &&
		fv_mr_allows(f->key, f->addr, f->len, pd_of(qp), access));
}

static void qp_take_write(struct fv_qp *qp, const struct fv_frame *f,
			  const void *data)
{
	const struct fv_recv *recv = NULL;

	if (!qp_allows(qp, f, IBV_ACCESS_REMOTE_WRITE)) {
		qp_refuse(qp, f->seq, IBV_WC_REM_ACCESS_ERR);
		return;
	}
	if (f->has_imm && f->last) {
		recv = qp_recv_for(qp, f);
		if (!recv)
			return;
	}
	if (f->len)
		memcpy((void *)(uintptr_t)f->addr, data, f->len);
	if (recv)
		qp_recv_done(qp, recv, IBV_WC_SUCCESS,
			     IBV_WC_RECV_RDMA_WITH_IMM, f->len);
	if (!f->last)
		return;
	qp->expected++;
	qp_reply(qp, f->seq, IBV_WC_SUCCESS);
}

static unsigned int qp_reads(const struct fv_qp *qp)
{
	unsigned int n = 0;
	struct list *it;

	list_for_each(it, &qp->replies)
		n += container_of(it, struct fv_reply, node)->frame.type ==
		     FV_READ_DATA;
	return n;
}

/* The data is read when there is room to send it. */
static void qp_take_read(struct fv_qp *qp, const struct fv_frame *f)
{
	struct fv_reply *r;

	if (!qp_allows(qp, f, IBV_ACCESS_REMOTE_READ)) {
		qp_refuse(qp, f->seq, IBV_WC_REM_ACCESS_ERR);
		return;
	}
	if (qp_reads(qp) == qp->answer_max) {
		qp_refuse(qp, f->seq, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	qp->expected++;
	r = fv_zalloc(sizeof(*r));
	r->frame.type = FV_READ_DATA;
	r->frame.seq = f->seq;
	r->addr = f->addr;
	r->left = f->len;
	list_add_tail(&qp->replies, &r->node);
}

static void qp_take_request(struct fv_qp *qp, const struct fv_frame *f,
			    const void *data)
{
	if (f->seq != qp->expected)
		return;
	if (qp->base.state == IBV_QPS_RTR)
		fv_async(fv_context(qp->base.context), IBV_EVENT_COMM_EST,
			 &qp->base);
	if (f->type == FV_SEND)
		qp_take_send(qp, f, data);
	else if (f->type == FV_WRITE)
		qp_take_write(qp, f, data);
	else
		qp_take_read(qp, f);
}

void fv_qp_take(struct fv_qp *qp, const struct fv_frame *f, const void *data)
{
	bool sends = qp->base.state == IBV_QPS_RTS;

	if (f->type == FV_ACK && sends)
		qp_take_ack(qp, f);
	else if (f->type == FV_READ_DATA && sends)
		qp_take_read_data(qp, f, data);
	else if (f->type <= FV_READ)
		qp_take_request(qp, f, data);
	fv_qp_pump(qp);
}

/* ---- time ---- */

static bool qp_tick(struct fv_qp *qp, uint64_t now)
{
	if (qp->give_up && now >= qp->give_up && qp->sq_cnt) {
		qp->give_up = 0;
		sq_fail(qp, IBV_WC_RETRY_EXC_ERR);
	}
	if (qp->rnr_until && now >= qp->rnr_until) {
		qp->rnr_until = 0;
		fv_qp_pump(qp);
	}
	return qp->give_up || qp->rnr_until;
}

/* Calls @look for each queue pair, until it says true. */
static struct fv_qp *qp_search(bool (*look)(struct fv_qp *qp, uint64_t arg),
			       uint64_t arg)
{
	for (struct fv_device *dev = fv_device_next(NULL); dev;
	     dev = fv_device_next(dev)) {
		struct list *c;
		struct list *it;

		list_for_each(c, &dev->contexts) {
			list_for_each(
				it,
				&container_of(c, struct fv_context, node)->qps) {
				struct fv_qp *qp =
					container_of(it, struct fv_qp, node);

				if (look(qp, arg))
					return qp;
			}
		}
	}
	return NULL;
}

static unsigned int waiting;

static bool qp_tick_and_count(struct fv_qp *qp, uint64_t now)
{
	waiting += qp_tick(qp, now);
	return false;
}

unsigned int fv_qps_tick(void)
{
	waiting = 0;
	qp_search(qp_tick_and_count, fv_now_ms());
	return waiting;
}

/* ---- posting ---- */

static uint32_t send_gather(const struct ibv_send_wr *wr, struct fv_send *s)
{
	uint32_t len = 0;

	for (unsigned int i = 0; i < s->sge_cnt; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		s->sges[i] = *sge;
		if (s->flags & IBV_SEND_INLINE &&
		    len + sge->length <= FV_INLINE_MAX && sge->length)
			memcpy(&s->data[len], (void *)(uintptr_t)sge->addr,
			       sge->length);
		len += sge->length;
	}
	return len;
}

static int qp_post_send(struct fv_qp *qp, const struct ibv_send_wr *wr)
{
	struct fv_send *s;

	if (qp->base.state < IBV_QPS_RTS || wr->num_sge > (int)FV_SGES)
		return EINVAL;
	if (qp->sq_cnt == qp->sq_size)
		return ENOMEM;
	s = sq_at(qp, qp->sq_cnt);
	s->wr_id = wr->wr_id;
	s->opcode = wr->opcode;
	s->flags = wr->send_flags;
	s->sge_cnt = (unsigned int)wr->num_sge;
	s->status = IBV_WC_SUCCESS;
	s->remote_addr = wr->wr.rdma.remote_addr;
	s->rkey = wr->wr.rdma.rkey;
	s->len = send_gather(wr, s);
	if (s->flags & IBV_SEND_INLINE && s->len > FV_INLINE_MAX)
		return EINVAL;
	if (sq_opcode(s) == IBV_WC_SEND && s->len > FV_FRAME_MAX)
		return EINVAL;
	qp->sq_cnt++;
	if (qp->base.state == IBV_QPS_ERR)
		sq_done(qp, IBV_WC_WR_FLUSH_ERR);
	return 0;
}

int fv_post_send(struct ibv_qp *base, struct ibv_send_wr *wr,
		 struct ibv_send_wr **bad)
{
	struct fv_qp *qp = fv_qp(base);
	int err;

	pthread_mutex_lock(&fv_lock);
	err = fv_fails(fv_dev(base->context), FAKE_POST_SEND);
	for (; wr && !err; wr = err ? wr : wr->next)
		err = qp_post_send(qp, wr);
	if (err)
		*bad = wr;
	fv_qp_pump(qp);
	pthread_mutex_unlock(&fv_lock);
	return err;
}

int fv_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr,
		 struct ibv_recv_wr **bad)
{
	struct fv_qp *qp = fv_qp(base);
	int err = 0;

	if (qp->srq || base->state == IBV_QPS_RESET)
		fv_bug("a receive is posted to a queue pair that takes none");
	pthread_mutex_lock(&fv_lock);
	for (; wr && !err; wr = err ? wr : wr->next) {
		if (!rq_put(&qp->rq, wr))
			err = ENOMEM;
		else if (base->state == IBV_QPS_ERR)
			qp_recv_done(qp, rq_get(&qp->rq), IBV_WC_WR_FLUSH_ERR,
				     IBV_WC_RECV, 0);
	}
	if (err)
		*bad = wr;
	pthread_mutex_unlock(&fv_lock);
	return err;
}

int fv_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	struct fv_srq *srq = container_of(base, struct fv_srq, base);
	int err = 0;

	pthread_mutex_lock(&fv_lock);
	for (; wr && !err; wr = err ? wr : wr->next) {
		if (!rq_put(&srq->rq, wr))
			err = ENOMEM;
	}
	if (err)
		*bad = wr;
	pthread_mutex_unlock(&fv_lock);
	return err;
}

/* ---- making and destroying ---- */

FV_API struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
				      struct ibv_srq_init_attr *attr)
{
	struct fv_srq *srq = fv_zalloc(sizeof(*srq));

	srq->base.context = pd->context;
	srq->base.pd = pd;
	srq->base.srq_context = attr->srq_context;
	srq->rq.size = attr->attr.max_wr;
	srq->rq.ring = fv_zalloc(srq->rq.size * sizeof(srq->rq.ring[0]));
	container_of(pd, struct fv_pd, base)->objects++;
	return &srq->base;
}

FV_API int ibv_destroy_srq(struct ibv_srq *base)
{
	struct fv_srq *srq = container_of(base, struct fv_srq, base);

	if (srq->qps)
		return EBUSY;
	container_of(base->pd, struct fv_pd, base)->objects--;
	free(srq->rq.ring);
	free(srq);
	return 0;
}

static bool qp_has_number(struct fv_qp *qp, uint64_t qpn)
{
	return qp->base.qp_num == qpn;
}

static uint32_t qp_new_number(void)
{
	static uint32_t last = 0x10;

	do
		last = (last + 1) & 0xffffff;
	while (last < 0x10 || qp_search(qp_has_number, last));
	return last;
}

static struct fv_qp *qp_new(struct ibv_pd *pd,
			    const struct ibv_qp_init_attr *attr)
{
	struct fv_qp *qp = fv_zalloc(sizeof(*qp));

	qp->base = (struct ibv_qp){
		.context = pd->context,
		.qp_context = attr->qp_context,
		.pd = pd,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.state = IBV_QPS_RESET,
		.qp_type = attr->qp_type,
	};
	if (attr->srq)
		qp->srq = container_of(attr->srq, struct fv_srq, base);
	qp->signal_all = attr->sq_sig_all;
	qp->sq_size = attr->cap.max_send_wr ? attr->cap.max_send_wr : 1;
	qp->sq = fv_zalloc(qp->sq_size * sizeof(qp->sq[0]));
	qp->rq.size = attr->cap.max_recv_wr;
	qp->rq.ring = fv_zalloc(qp->rq.size * sizeof(qp->rq.ring[0]));
	list_init(&qp->replies);
	return qp;
}

/* Other objects count it, or no longer. */
static void qp_count(struct fv_qp *qp, unsigned int one)
{
	container_of(qp->base.pd, struct fv_pd, base)->objects += one;
	fv_cq(qp->base.send_cq)->qps += one;
	fv_cq(qp->base.recv_cq)->qps += one;
	if (qp->srq)
		qp->srq->qps += one;
}

FV_API struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
				    struct ibv_qp_init_attr *attr)
{
	struct fv_qp *qp;

	if (attr->qp_type != IBV_QPT_RC ||
	    attr->cap.max_inline_data > FV_INLINE_MAX ||
	    attr->cap.max_send_sge > FV_SGES ||
	    attr->cap.max_recv_sge > FV_SGES) {
		errno = attr->qp_type == IBV_QPT_RC ? EINVAL : EOPNOTSUPP;
		return NULL;
	}
	pthread_mutex_lock(&fv_lock);
	qp = qp_new(pd, attr);
	qp->base.qp_num = qp_new_number();
	qp_count(qp, 1);
	list_add_tail(&fv_context(pd->context)->qps, &qp->node);
	pthread_mutex_unlock(&fv_lock);
	return &qp->base;
}

FV_API int ibv_destroy_qp(struct ibv_qp *base)
{
	struct fv_context *ctx = fv_context(base->context);
	struct fv_qp *qp = fv_qp(base);
	int err;

	pthread_mutex_lock(&fv_lock);
	err = fv_fails(ctx->dev, FAKE_DESTROY_QP);
	if (err) {
		pthread_mutex_unlock(&fv_lock);
		return err;
	}
	fv_events_purge(&ctx->async, base);
	while (qp->reported != base->events_completed)
		pthread_cond_wait(&fv_acked, &fv_lock);
	if (qp->conn) {
		qp->conn->qp = NULL;
		fv_conn_put(qp->conn);
	}
	fv_cq_forget(fv_cq(base->send_cq), base->qp_num);
	fv_cq_forget(fv_cq(base->recv_cq), base->qp_num);
	replies_drop(qp);
	list_del(&qp->node);
	qp_count(qp, -1u);
	pthread_mutex_unlock(&fv_lock);
	free(qp->sq);
	free(qp->rq.ring);
	free(qp);
	return 0;
}

/* ---- states ---- */

/* It joins the connection whose number stands in rq_psn; see
 * rdma_init_qp_attr(). */
static int qp_connect(struct fv_qp *qp, const struct ibv_qp_attr *attr)
{
	struct fv_conn *conn = fv_conn_get(attr->rq_psn);

	if (!conn || conn->qp)
		return EINVAL;
	conn->qp = qp;
	qp->conn = conn;
	qp->answer_max = attr->max_dest_rd_atomic;
	qp->lost = conn->fd < 0;
	return 0;
}

static int qp_modify(struct fv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state from = qp->base.state;
	enum ibv_qp_state to = attr->qp_state;
	int err = 0;

	if (to == IBV_QPS_ERR) {
		qp_error(qp);
		return 0;
	}
	/* INIT may be repeated. */
	if (to != from + 1 && !(to == IBV_QPS_INIT && from == to))
		return EINVAL;
	if (to == IBV_QPS_RTR)
		err = qp_connect(qp, attr);
	if (err)
		return err;
	if (mask & IBV_QP_ACCESS_FLAGS)
		qp->access = (int)attr->qp_access_flags;
	if (mask & IBV_QP_RNR_RETRY)
		qp->rnr_retry = qp->rnr_left = attr->rnr_retry;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		qp->read_max = attr->max_rd_atomic;
	qp->base.state = to;
	return 0;
}

FV_API int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = 0;

	pthread_mutex_lock(&fv_lock);
	if (mask & IBV_QP_STATE)
		err = qp_modify(fv_qp(qp), attr, mask);
	pthread_mutex_unlock(&fv_lock);
	return err;
}

/* ---- datagrams, which it does not have ---- */

FV_API struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	errno = EOPNOTSUPP;
	return NULL;
}

FV_API int ibv_destroy_ah(struct ibv_ah *ah)
{
	return EOPNOTSUPP;
}

FV_API int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
			    uint16_t lid)
{
	return EOPNOTSUPP;
}

FV_API int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
			    uint16_t lid)
{
	return EOPNOTSUPP;
}
