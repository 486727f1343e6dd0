/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of verbs and librdmacm as fault points; see fault_calls.h. */
#ifndef TRANSPORT_VERBS_FAULT_H
#define TRANSPORT_VERBS_FAULT_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/fault_calls.h"

/* Verbs: NULL and errno, or a positive errno. */
#define ibv_get_device_list(...) FAULT_NULL(ibv_get_device_list, __VA_ARGS__)
#define ibv_open_device(...)	 FAULT_NULL(ibv_open_device, __VA_ARGS__)
#define ibv_alloc_pd(...)	 FAULT_NULL(ibv_alloc_pd, __VA_ARGS__)
#define ibv_create_cq(...)	 FAULT_NULL(ibv_create_cq, __VA_ARGS__)
#define ibv_create_qp(...)	 FAULT_NULL(ibv_create_qp, __VA_ARGS__)
#define ibv_create_srq(...)	 FAULT_NULL(ibv_create_srq, __VA_ARGS__)
#define ibv_create_comp_channel(...) \
	FAULT_NULL(ibv_create_comp_channel, __VA_ARGS__)
#undef ibv_reg_mr
#define ibv_reg_mr(pd, addr, len, access) \
	(FAULT_POINT("ibv_reg_mr")        \
		 ? fault_null(ENOMEM)     \
		 : __ibv_reg_mr((pd), (addr), (len), (access), 0))
#define ibv_modify_qp(...)    FAULT_RESULT(ibv_modify_qp, EIO, __VA_ARGS__)
#define ibv_query_device(...) FAULT_RESULT(ibv_query_device, EIO, __VA_ARGS__)
#define ibv_post_send(...)    FAULT_RESULT(ibv_post_send, ENOMEM, __VA_ARGS__)
#define ibv_post_recv(...)    FAULT_RESULT(ibv_post_recv, ENOMEM, __VA_ARGS__)
#define ibv_post_srq_recv(...) \
	FAULT_RESULT(ibv_post_srq_recv, ENOMEM, __VA_ARGS__)
#define ibv_req_notify_cq(...) FAULT_RESULT(ibv_req_notify_cq, EIO, __VA_ARGS__)

/* librdmacm: NULL or -1, and errno. */
#define rdma_create_event_channel(...) \
	FAULT_NULL(rdma_create_event_channel, __VA_ARGS__)
#define rdma_create_id(...)	FAULT_MINUS(rdma_create_id, __VA_ARGS__)
#define rdma_bind_addr(...)	FAULT_MINUS(rdma_bind_addr, __VA_ARGS__)
#define rdma_listen(...)	FAULT_MINUS(rdma_listen, __VA_ARGS__)
#define rdma_migrate_id(...)	FAULT_MINUS(rdma_migrate_id, __VA_ARGS__)
#define rdma_resolve_addr(...)	FAULT_MINUS(rdma_resolve_addr, __VA_ARGS__)
#define rdma_resolve_route(...) FAULT_MINUS(rdma_resolve_route, __VA_ARGS__)
#define rdma_set_option(...)	FAULT_MINUS(rdma_set_option, __VA_ARGS__)
#define rdma_init_qp_attr(...)	FAULT_MINUS(rdma_init_qp_attr, __VA_ARGS__)
#define rdma_connect(...)	FAULT_MINUS(rdma_connect, __VA_ARGS__)
#define rdma_accept(...)	FAULT_MINUS(rdma_accept, __VA_ARGS__)
#define rdma_establish(...)	FAULT_MINUS(rdma_establish, __VA_ARGS__)

#endif
