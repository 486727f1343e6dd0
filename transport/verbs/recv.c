/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/verbs/verbs.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/secret.h"

/* Receives posted with one call. */
#define RECV_BATCH 64

void vb_recvq_init(struct vb_recvq *rq, struct vb_dev *dev)
{
	*rq = (struct vb_recvq){ .dev = dev };
	list_init(&rq->slabs);
	list_init(&rq->idle);
	list_init(&rq->in_device);
	list_init(&rq->missing);
}

/* ---- buffers ---- */

static void verbs_recv_slab_free(struct vb_slab *s)
{
	list_del(&s->node);
	vb_mr_free(s->mr);
	secret_unmap(s->mem, s->mem_len);
	free(s);
}

/* Pages of their own: a fork() must not copy what the device writes to. */
static int vb_slab_map(struct vb_slab *s, size_t len, struct error *e)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	s->mem_len = (len + page - 1) / page * page;
	s->mem = secret_map(s->mem_len);
	if (s->mem)
		return 0;
	error_set(e, -errno, "no memory for receive buffers (%zu KiB)",
		  s->mem_len >> 10);
	return -ENOMEM;
}

static void vb_slab_cut(struct vb_slab *s, size_t stride, size_t first)
{
	for (unsigned int i = 0; i < s->cnt; i++) {
		struct vb_iu *iu = &s->ius[i];

		iu->slab = s;
		iu->base.data = (char *)s->mem + first + i * stride;
		iu->base.mr = s->mr;
	}
}

/* Adds @cnt new buffers to @ius. */
static int vb_slab_new(struct vb_recvq *rq, unsigned int cnt, struct list *ius,
		       struct error *e)
{
	struct vb_xp *vx = rq->dev->vx;
	struct vb_slab *s;
	size_t stride;
	size_t first;
	int err;

	xp_core_recv_layout(&vx->base.cfg, &stride, &first);
	s = calloc(1, sizeof(*s) + cnt * sizeof(s->ius[0]));
	if (!s) {
		error_set(e, -ENOMEM, "no memory for receive buffers");
		return -ENOMEM;
	}
	s->cnt = cnt;
	s->rq = rq;
	err = vb_slab_map(s, first + cnt * stride, e);
	if (err)
		goto err_free;
	err = vb_mr_new(vx, rq->dev, s->mem, s->mem_len, XP_LOCAL, &s->mr, e);
	if (err)
		goto err_unmap;
	vb_slab_cut(s, stride, first);
	list_add_tail(&rq->slabs, &s->node);
	for (unsigned int i = 0; i < cnt; i++)
		list_add_tail(ius, &s->ius[i].base.node);
	rq->going_round += cnt;
	return 0;

err_unmap:
	secret_unmap(s->mem, s->mem_len);
err_free:
	free(s);
	return err;
}

void vb_recvq_fini(struct vb_recvq *rq)
{
	while (!list_empty(&rq->slabs))
		verbs_recv_slab_free(
			list_first(&rq->slabs, struct vb_slab, node));
	list_init(&rq->idle);
	list_init(&rq->in_device);
	list_init(&rq->missing);
}

/* Takes a buffer out of circulation. Frees its slab if that has no other
 * left. */
static void vb_iu_keep_back(struct vb_iu *iu)
{
	struct vb_slab *s = iu->slab;

	assert(s->rq->going_round > 0);
	s->rq->going_round--;
	s->idle++;
	list_add_tail(&s->rq->idle, &iu->base.node);
	if (s->idle < s->cnt)
		return;
	for (unsigned int i = 0; i < s->cnt; i++)
		list_del(&s->ius[i].base.node);
	verbs_recv_slab_free(s);
}

/* Moves up to @cnt buffers from rq->idle to @ius; returns how many. */
static unsigned int vb_recvq_bring_back(struct vb_recvq *rq, unsigned int cnt,
					struct list *ius)
{
	unsigned int n = 0;
	struct list *it;

	while (n < cnt && (it = list_pop(&rq->idle))) {
		struct vb_iu *iu = container_of(it, struct vb_iu, base.node);

		iu->slab->idle--;
		rq->going_round++;
		list_add_tail(ius, it);
		n++;
	}
	return n;
}

static void vb_recvq_keep_back_all(struct list *ius)
{
	struct list *it;

	while ((it = list_pop(ius)))
		vb_iu_keep_back(container_of(it, struct vb_iu, base.node));
}

static void found(struct vb_iu *iu)
{
	iu->missing = false;
	iu->slab->rq->going_round++;
}

void vb_recvq_close(struct vb_recvq *rq)
{
	struct list *it;

	rq->qp = NULL;
	rq->srq = NULL;
	rq->posted = 0;
	rq->doubts = 0;
	rq->doubts_later = 0;
	list_for_each(it, &rq->missing)
		found(container_of(it, struct vb_iu, base.node));
	list_splice_tail(&rq->in_device, &rq->missing);
	vb_recvq_keep_back_all(&rq->in_device);
}

/* ---- posting ---- */

/* Links the first of @ius into one list of work requests; returns how many. */
static unsigned int vb_recvq_fill_batch(struct vb_recvq *rq,
					const struct list *ius,
					struct ibv_recv_wr *wrs,
					struct ibv_sge *sges)
{
	struct vb_xp *vx = rq->dev->vx;
	unsigned int n = 0;
	struct list *it;

	list_for_each(it, ius) {
		struct vb_iu *iu = container_of(it, struct vb_iu, base.node);
		struct vb_mr *mr =
			container_of(iu->base.mr, struct vb_mr, base);

		sges[n] = (struct ibv_sge){
			.addr = (uintptr_t)iu->base.data,
			.length = (uint32_t)vx->base.cfg.recv_len,
			.lkey = mr->mrs[rq->dev->index]->lkey,
		};
		wrs[n] = (struct ibv_recv_wr){
			.wr_id = (uintptr_t)iu | VB_WR_RECV,
			.sg_list = &sges[n],
			.num_sge = 1,
		};
		if (n > 0)
			wrs[n - 1].next = &wrs[n];
		if (++n == RECV_BATCH)
			break;
	}
	return n;
}

static void vb_recvq_give_to_device(struct vb_recvq *rq, struct list *node)
{
	container_of(node, struct vb_iu, base.node)->number = rq->next_number++;
	list_add_tail(&rq->in_device, node);
}

/* Posts @ius; those that could not be posted are left in it. */
static int verbs_recv_post(struct vb_recvq *rq, struct list *ius)
{
	struct ibv_recv_wr wrs[RECV_BATCH];
	struct ibv_sge sges[RECV_BATCH];
	struct ibv_recv_wr *bad;
	unsigned int n;
	int err = 0;

	while (!err && !list_empty(ius)) {
		n = vb_recvq_fill_batch(rq, ius, wrs, sges);
		bad = NULL;
		err = rq->srq ? ibv_post_srq_recv(rq->srq, wrs, &bad)
			      : ibv_post_recv(rq->qp, wrs, &bad);
		if (err)
			n = bad ? (unsigned int)(bad - wrs) : 0;
		rq->posted += n;
		while (n--)
			vb_recvq_give_to_device(rq, list_pop(ius));
	}
	return vb_errno(err);
}

/* How many buffers should circulate. */
static unsigned int want(const struct vb_recvq *rq)
{
	return rq->wanted + rq->doubts + rq->doubts_later;
}

/* Posts buffers until as many circulate as are wanted, and @cnt more. */
static int vb_recvq_fill_up(struct vb_recvq *rq, unsigned int cnt,
			    struct error *e)
{
	struct list ius = LIST_INIT(ius);
	unsigned int lacking = 0;
	int err = 0;

	/* Buffers of former channels are used first. */
	if (want(rq) + cnt > rq->going_round) {
		lacking = want(rq) + cnt - rq->going_round;
		lacking -= vb_recvq_bring_back(rq, lacking, &ius);
	}
	if (lacking)
		err = vb_slab_new(rq, lacking, &ius, e);
	if (!err && !list_empty(&ius)) {
		err = verbs_recv_post(rq, &ius);
		if (err)
			error_set(e, err, "cannot post receives to %s: %s",
				  vb_dev_name(rq->dev), strerror(-err));
	}
	if (err)
		vb_recvq_keep_back_all(&ius);
	return err;
}

int vb_recvq_grow(struct vb_recvq *rq, unsigned int cnt, struct error *e)
{
	int err = vb_recvq_fill_up(rq, cnt, e);

	if (!err)
		rq->wanted += cnt;
	return err;
}

void vb_recvq_shrink(struct vb_recvq *rq, unsigned int cnt)
{
	assert(rq->wanted >= cnt);
	rq->wanted -= cnt;
}

/* ---- buffers that a device drops ---- */

unsigned int vb_recvq_doubts_left(const struct vb_recvq *rq)
{
	unsigned int doubts = rq->doubts + rq->doubts_later;

	return doubts < rq->spare ? rq->spare - doubts : 0;
}

void vb_recvq_doubt(struct vb_recvq *rq)
{
	if (!rq->srq || vb_recvq_doubts_left(rq) == 0)
		return;
	if (rq->doubts == 0) {
		rq->doubts = 1;
		rq->doubt_number = rq->next_number;
	} else {
		rq->doubts_later++;
	}
}

static void vb_recvq_settle_doubts(struct vb_recvq *rq)
{
	struct error e;

	while (!list_empty(&rq->in_device)) {
		struct vb_iu *iu =
			list_first(&rq->in_device, struct vb_iu, base.node);

		if (iu->number >= rq->doubt_number)
			break;
		list_del(&iu->base.node);
		list_add_tail(&rq->missing, &iu->base.node);
		iu->missing = true;
		rq->going_round--;
		rq->posted--;
	}
	rq->doubts = rq->doubts_later;
	rq->doubts_later = 0;
	rq->doubt_number = rq->next_number;
	/* If this fails, the next channel makes up for it. */
	vb_recvq_fill_up(rq, 0, &e);
}

void vb_recvq_came_back(struct vb_iu *iu)
{
	struct vb_recvq *rq = iu->slab->rq;

	list_del(&iu->base.node);
	if (iu->missing)
		found(iu);
	else if (rq->posted > 0) /* else the queue pair had to be forced */
		rq->posted--;
	if (rq->doubts && iu->number >= rq->doubt_number)
		vb_recvq_settle_doubts(rq);
}

/* Posts @ius, all of @rq; empties the list. */
static void vb_recvq_post_again(struct vb_recvq *rq, struct list *ius)
{
	int err;

	if (list_empty(ius))
		return;
	err = verbs_recv_post(rq, ius);
	if (!err)
		return;
	/* A shared queue works with fewer: the next channel that it grows
	 * for makes up for them. */
	vb_recvq_keep_back_all(ius);
	if (rq->ch)
		xp_core_fail(&rq->ch->base, err, "cannot post a receive: %s",
			     strerror(-err));
}

static bool vb_recvq_can_post(const struct vb_recvq *rq)
{
	return (rq->qp || rq->srq) && rq->going_round <= want(rq);
}

void vb_post_recv(struct xp *xp, struct list *ius)
{
	struct list run = LIST_INIT(run); /* of one queue */
	struct vb_recvq *run_rq = NULL;
	struct list *it;

	while ((it = list_pop(ius))) {
		struct vb_iu *iu = container_of(it, struct vb_iu, base.node);
		struct vb_recvq *rq = iu->slab->rq;

		if (!vb_recvq_can_post(rq)) {
			vb_iu_keep_back(iu);
			continue;
		}
		if (rq != run_rq)
			vb_recvq_post_again(run_rq, &run);
		run_rq = rq;
		list_add_tail(&run, it);
	}
	vb_recvq_post_again(run_rq, &run);
}

void vb_iu_put(struct vb_iu *iu)
{
	struct vb_xp *vx = iu->slab->rq->dev->vx;

	list_add_tail(&vx->base.released, &iu->base.node);
}
