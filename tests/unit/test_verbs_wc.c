/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every status that a completion of the verbs can have, for every kind of work
 * request, and what the channel, the chain and the receive buffer then do. The
 * test makes the completions, without a device. In a completion with an error,
 * only wr_id, status, qp_num and vendor_err are valid (ibv_poll_cq(3)), so the
 * test fills all other members with garbage.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/srp_iu.h"
#include "tests/lib/t_table.h"
#include "base/list.h"
#include "transport/verbs/verbs.h"

#define QPN    77u
#define LEN    48u /* of the received IU */
#define WR_MAX 8u

enum kind {
	RECV_OWN,
	RECV_SHARED,
	RECV_OF_NOBODY, /* shared; its queue pair is gone */
	SEND,
	RDMA_WRITE,
	RDMA_READ,
	MEMBER, /* unsignalled RDMA WRITE before a SEND */
	MARKER,
	KINDS
};

static const char *const kind_names[KINDS] = {
	[RECV_OWN] = "receive",
	[RECV_SHARED] = "receive from the shared queue",
	[RECV_OF_NOBODY] = "receive of a queue pair that is gone",
	[SEND] = "SEND",
	[RDMA_WRITE] = "RDMA WRITE",
	[RDMA_READ] = "RDMA READ",
	[MEMBER] = "RDMA WRITE without signal",
	[MARKER] = "marker",
};

/* No library knows the last one. */
#define STATUS_CNT ((unsigned int)IBV_WC_TM_RNDV_INCOMPLETE + 2)

struct row {
	const char *name;
	enum kind kind;
	enum ibv_wc_status status;
};

/* ---- the other half of the provider ---- */

struct rig {
	struct reactor *reactor;
	struct vb_xp vx;
	struct vb_dev dev;
	struct vb_pool pool;
	struct ibv_qp qp;
	struct vb_chan *ch;
	struct vb_slab *slab;
	struct xp_wr wrs[WR_MAX];
	unsigned int wr_cnt;
	unsigned int disconnects;
	unsigned int reposted;
	unsigned int received;
	unsigned int received_len;
	unsigned int closed;
	struct error why;
	unsigned int done;
	int done_status;
};

static struct rig *rig;

static unsigned int fake_poll(struct xp *xp)
{
	return 0;
}

static bool fake_arm(struct xp *xp)
{
	return true;
}

static int fake_post_send(struct xp_chan *ch, const struct xp_wr *wr,
			  unsigned int n)
{
	assert_true(rig->wr_cnt + n <= WR_MAX);
	for (unsigned int i = 0; i < n; i++)
		rig->wrs[rig->wr_cnt++] = wr[i];
	return (int)n;
}

static void fake_post_recv(struct xp *xp, struct list *ius)
{
	while (list_pop(ius))
		rig->reposted++;
}

static void fake_disconnect(struct xp_chan *ch)
{
	rig->disconnects++;
}

static void fake_chan_free(struct xp_chan *base)
{
	list_del(&rig->ch->qpn_node);
	xp_core_chan_fini(base);
	free(rig->ch);
}

static const struct xp_ops ops = {
	.kind = XP_VERBS,
	.selective = true,
	.poll = fake_poll,
	.arm = fake_arm,
	.post_send = fake_post_send,
	.post_recv = fake_post_recv,
	.disconnect = fake_disconnect,
	.chan_free = fake_chan_free,
};

static void established(struct xp_chan *ch, const void *pdata, size_t len)
{
}

static void received(struct xp_chan *ch, struct xp_iu *iu)
{
	rig->received++;
	rig->received_len = iu->len;
	xp_iu_release(iu);
}

static void closed(struct xp_chan *ch, const struct error *why)
{
	rig->closed++;
	rig->why = *why;
}

static const struct xp_handler handler = {
	.established = established,
	.received = received,
	.closed = closed,
};

static void settle(void)
{
	while (reactor_run_once(rig->reactor, 0) > 0)
		;
}

static void open_receive(enum kind kind)
{
	struct vb_recvq *rq =
		kind == RECV_OWN ? &rig->ch->own : &rig->pool.shared;

	rig->slab = calloc(1, sizeof(*rig->slab) + sizeof(rig->slab->ius[0]));
	assert_non_null(rig->slab);
	rig->slab->cnt = 1;
	rig->slab->rq = rq;
	rig->slab->ius[0].slab = rig->slab;
	list_init(&rq->in_device);
	list_add_tail(&rq->in_device, &rig->slab->ius[0].base.node);
	rq->dev = &rig->dev;
	rq->ch = kind == RECV_OWN ? rig->ch : NULL;
	rq->posted = 1;
}

static void rig_open(enum kind kind)
{
	const struct reactor_options ropt = { 0 };
	const struct xp_chan_params params = { .handler = &handler,
					       .recv_cnt = 4 };
	struct xp_config cfg = { .recv_len = 256, .send_depth = WR_MAX };
	struct error e;

	rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	assert_int_equal(reactor_create(&ropt, &rig->reactor), 0);
	cfg.reactor = rig->reactor;
	xp_core_init(&rig->vx.base, &ops, &cfg);
	rig->dev.vx = &rig->vx;
	rig->pool.dev = &rig->dev;
	for (unsigned int i = 0; i < VB_QPN_BUCKETS; i++)
		list_init(&rig->dev.by_qpn[i]);
	assert_int_equal(
		vb_chan_new(&rig->vx, &params, VB_REQUESTED, &rig->ch, &e), 0);
	rig->qp.qp_num = QPN;
	rig->ch->qp = &rig->qp;
	rig->ch->dev = &rig->dev;
	vb_dev_add_chan(&rig->dev, rig->ch);
	rig->ch->state = VB_UP;
	xp_core_established(&rig->ch->base, NULL, 0);
	open_receive(kind);
}

static void rig_close(void)
{
	if (!rig->closed) {
		xp_close(&rig->ch->base);
		xp_core_drained(&rig->ch->base);
		settle();
	}
	assert_int_equal(rig->closed, 1);
	xp_chan_free(&rig->ch->base);
	settle();
	xp_core_fini(&rig->vx.base);
	reactor_destroy(rig->reactor);
	free(rig->slab);
	free(rig);
}

/* ---- work ---- */

static void chain_done(struct xp_chain *chain, int status)
{
	rig->done++;
	rig->done_status = status;
}

/* A chain. The test completes its last work request; for MEMBER, its first. */
static void post(enum kind kind, struct xp_chain *chain, char *bytes)
{
	static const struct srp_desc desc = { .addr = 0x1000,
					      .key = 1,
					      .len = 512 };
	static struct xp_mr mr;

	*chain = (struct xp_chain){ .done = chain_done };
	if (kind != SEND) {
		chain->dir = kind == RDMA_READ ? XP_RDMA_READ : XP_RDMA_WRITE;
		chain->remote = &desc;
		chain->len = 512;
		chain->local = bytes;
		chain->local_mr = &mr;
	}
	if (kind == SEND || kind == MEMBER) {
		chain->send[0] = (struct xp_sge){ .addr = bytes, .len = 36 };
		chain->send_cnt = 1;
	}
	xp_post(&rig->ch->base, chain);
	settle();
	assert_int_equal(rig->wr_cnt, kind == MEMBER ? 2 : 1);
	assert_int_equal(rig->wrs[0].signalled, kind != MEMBER);
}

static uint64_t wr_id(enum kind kind)
{
	switch (kind) {
	case RECV_OWN:
	case RECV_SHARED:
	case RECV_OF_NOBODY:
		return (uintptr_t)&rig->slab->ius[0] | VB_WR_RECV;
	case MARKER:
		return (uintptr_t)rig->ch | VB_WR_MARKER;
	case MEMBER:
		return (uintptr_t)rig->wrs[0].group | VB_WR_MEMBER;
	default:
		return (uintptr_t)rig->wrs[0].group | VB_WR_GROUP;
	}
}

/* @opcode and @len are those of a success. */
static void complete_as(uint64_t id, enum ibv_wc_status status, uint32_t qpn,
			enum ibv_wc_opcode opcode, uint32_t len)
{
	struct ibv_wc wc;

	memset(&wc, 0xa5, sizeof(wc));
	wc.wr_id = id;
	wc.status = status;
	wc.qp_num = qpn;
	wc.vendor_err = 0x1234;
	if (status == IBV_WC_SUCCESS) {
		wc.byte_len = len;
		wc.opcode = opcode;
	}
	vb_chan_completed(&rig->pool, &wc);
}

static void complete(uint64_t id, enum ibv_wc_status status, uint32_t qpn)
{
	complete_as(id, status, qpn, IBV_WC_RECV, LEN);
}

/* ---- expected effects ---- */

static void expect_open(void)
{
	assert_int_equal(rig->disconnects, 0);
	assert_int_equal(rig->closed, 0);
}

static void expect_failed(enum ibv_wc_status status)
{
	assert_int_equal(rig->disconnects, 1);
	xp_core_drained(&rig->ch->base);
	settle();
	assert_int_equal(rig->closed, 1);
	assert_non_null(strstr(rig->why.text, vb_wc_text(status)));
	if (status == IBV_WC_WR_FLUSH_ERR) {
		assert_int_equal(rig->why.err, -ECONNABORTED);
		return;
	}
	assert_int_equal(rig->why.err, vb_wc_errno(status));
	assert_non_null(strstr(rig->why.text, "0x1234"));
}

static void receive(const struct row *r)
{
	bool good = r->status == IBV_WC_SUCCESS;
	bool known = r->kind != RECV_OF_NOBODY;

	complete(wr_id(r->kind), r->status, known ? QPN : QPN + 1);
	settle();
	assert_int_equal(rig->received, good && known);
	if (good && known)
		assert_int_equal(rig->received_len, LEN);
	assert_int_equal(rig->reposted, 1);
	assert_int_equal(rig->slab->rq->posted, 0);
	if (good || !known)
		expect_open();
	else
		expect_failed(r->status);
}

static void chain(const struct row *r)
{
	bool good = r->status == IBV_WC_SUCCESS;
	struct xp_chain chain;
	char bytes[512];

	post(r->kind, &chain, bytes);
	complete(wr_id(r->kind), r->status, QPN);
	/* The device flushes the work requests posted behind it. */
	if (r->kind == MEMBER)
		complete((uintptr_t)rig->wrs[1].group | VB_WR_GROUP,
			 good ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR, QPN);
	settle();
	if (good)
		expect_open();
	else
		expect_failed(r->status);
	assert_int_equal(rig->done, 1);
	if (good)
		assert_int_equal(rig->done_status, 0);
	else
		assert_int_equal(rig->done_status, vb_wc_errno(r->status));
}

static void marker(const struct row *r)
{
	complete(wr_id(MARKER), r->status, QPN);
	settle();
	assert_true(rig->ch->marker_done);
	expect_open();
}

static struct row rows[KINDS * STATUS_CNT];
static char names[KINDS * STATUS_CNT][100];

T_AT_START make_rows(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct row *r = &rows[i];

		r->kind = (enum kind)(i / STATUS_CNT);
		r->status = (enum ibv_wc_status)(i % STATUS_CNT);
		r->name = names[i];
		snprintf(names[i], sizeof(names[i]), "%s, %s (%d)",
			 kind_names[r->kind], vb_wc_text(r->status),
			 (int)r->status);
	}
}

T_ROWS(completion, rows)
{
	const struct row *r = *state;

	rig_open(r->kind);
	if (r->kind <= RECV_OF_NOBODY)
		receive(r);
	else if (r->kind == MARKER)
		marker(r);
	else
		chain(r);
	rig_close();
}

/* ---- what takes a receive and is no IU ---- */

static const struct write_row {
	const char *name;
	enum kind kind;
	uint32_t len;
} write_rows[] = {
	{ "RDMA WRITE with immediate data, of nothing", RECV_OWN, 0 },
	{ "RDMA WRITE with immediate data, as long as an IU", RECV_OWN, LEN },
	{ "RDMA WRITE with immediate data, longer than a receive", RECV_OWN,
	  1 << 20 },
	{ "RDMA WRITE with immediate data, shared queue", RECV_SHARED, LEN },
};

T_ROWS(write_is_no_iu, write_rows)
{
	const struct write_row *r = *state;

	rig_open(r->kind);
	complete_as(wr_id(r->kind), IBV_WC_SUCCESS, QPN,
		    IBV_WC_RECV_RDMA_WITH_IMM, r->len);
	settle();
	assert_int_equal(rig->received, 0);
	assert_int_equal(rig->reposted, 1);
	assert_int_equal(rig->slab->rq->posted, 0);
	assert_int_equal(rig->disconnects, 1);
	xp_core_drained(&rig->ch->base);
	settle();
	assert_int_equal(rig->why.err, -EPROTO);
	rig_close();
}
