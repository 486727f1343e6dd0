/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/device_facts.h"

#include <errno.h>
#include <string.h>

#include "transport/verbs/verbs.h"

/* The longest inline data that is asked for. */
#define FACTS_INLINE_MAX 1024u

/* A device tells what it can by making a queue pair, or not. */
static unsigned int facts_try_inline(struct ibv_pd *pd, struct ibv_cq *cq)
{
	for (unsigned int want = FACTS_INLINE_MAX; want >= 16; want /= 2) {
		struct ibv_qp_init_attr attr = {
			.send_cq = cq,
			.recv_cq = cq,
			.qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 1,
				 .max_recv_wr = 1,
				 .max_send_sge = 1,
				 .max_recv_sge = 1,
				 .max_inline_data = want },
		};
		struct ibv_qp *qp = ibv_create_qp(pd, &attr);

		if (!qp)
			continue;
		ibv_destroy_qp(qp);
		return attr.cap.max_inline_data;
	}
	return 0;
}

static unsigned int facts_inline(struct ibv_context *ctx)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);
	unsigned int n = pd && cq ? facts_try_inline(pd, cq) : 0;

	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
	return n;
}

static void facts_of_ports(struct ibv_context *ctx, struct xp_device_facts *ret)
{
	for (unsigned int i = 0; i < ret->port_cnt; i++) {
		struct ibv_port_attr attr;

		if (ibv_query_port(ctx, (uint8_t)(i + 1), &attr))
			continue;
		ret->ports[i].active_mtu = vb_mtu_bytes(attr.active_mtu);
	}
}

static int facts_of_context(struct ibv_context *ctx,
			    struct xp_device_facts *ret)
{
	struct ibv_device_attr attr;
	int err = vb_errno(ibv_query_device(ctx, &attr));

	if (err)
		return err;
	*ret = (struct xp_device_facts){
		.max_srq = (unsigned int)attr.max_srq,
		.max_srq_wr = (unsigned int)attr.max_srq_wr,
		.max_qp_wr = (unsigned int)attr.max_qp_wr,
		.read_depth = (unsigned int)attr.max_qp_init_rd_atom,
		.answer_depth = (unsigned int)attr.max_qp_rd_atom,
		.port_cnt = attr.phys_port_cnt < XP_FACTS_PORTS_MAX
				    ? attr.phys_port_cnt
				    : XP_FACTS_PORTS_MAX,
	};
	ret->max_inline = facts_inline(ctx);
	facts_of_ports(ctx, ret);
	return 0;
}

static int facts_of_device(struct ibv_device *dev, struct xp_device_facts *ret,
			   struct error *e)
{
	struct ibv_context *ctx = ibv_open_device(dev);
	int err = errno ? -errno : -EIO;

	if (ctx) {
		err = facts_of_context(ctx, ret);
		ibv_close_device(ctx);
	}
	if (err)
		error_set(e, err, "cannot open RDMA device %s: %s",
			  ibv_get_device_name(dev), strerror(-err));
	return err;
}

int xp_device_facts(const char *name, struct xp_device_facts *ret,
		    struct error *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int err = -ENODEV;

	error_set(e, err, "the RDMA library does not find device %s", name);
	for (unsigned int i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) != 0)
			continue;
		err = facts_of_device(list[i], ret, e);
		break;
	}
	if (list)
		ibv_free_device_list(list);
	return err;
}
