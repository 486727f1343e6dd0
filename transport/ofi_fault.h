/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of libfabric as fault points; see fault_calls.h. */
#ifndef TRANSPORT_OFI_FAULT_H
#define TRANSPORT_OFI_FAULT_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "transport/fault_calls.h"

/* libfabric: NULL, or a negative error number. */
#define fi_allocinfo(...)   FAULT_NULL(fi_allocinfo, __VA_ARGS__)
#define fi_dupinfo(...)	    FAULT_NULL(fi_dupinfo, __VA_ARGS__)
#define FAULT_FI(call, ...) FAULT_RESULT(call, -FI_ENOMEM, __VA_ARGS__)
#define fi_getinfo(...)	    FAULT_FI(fi_getinfo, __VA_ARGS__)
#define fi_fabric(...)	    FAULT_FI(fi_fabric, __VA_ARGS__)
#define fi_domain(...)	    FAULT_FI(fi_domain, __VA_ARGS__)
#define fi_eq_open(...)	    FAULT_FI(fi_eq_open, __VA_ARGS__)
#define fi_cq_open(...)	    FAULT_FI(fi_cq_open, __VA_ARGS__)
#define fi_passive_ep(...)  FAULT_FI(fi_passive_ep, __VA_ARGS__)
#define fi_pep_bind(...)    FAULT_FI(fi_pep_bind, __VA_ARGS__)
#define fi_endpoint(...)    FAULT_FI(fi_endpoint, __VA_ARGS__)
#define fi_ep_bind(...)	    FAULT_FI(fi_ep_bind, __VA_ARGS__)
#define fi_enable(...)	    FAULT_FI(fi_enable, __VA_ARGS__)
#define fi_control(...)	    FAULT_FI(fi_control, __VA_ARGS__)
#define fi_listen(...)	    FAULT_FI(fi_listen, __VA_ARGS__)
#define fi_connect(...)	    FAULT_FI(fi_connect, __VA_ARGS__)
#define fi_accept(...)	    FAULT_FI(fi_accept, __VA_ARGS__)
#define fi_getname(...)	    FAULT_FI(fi_getname, __VA_ARGS__)
#define fi_getpeer(...)	    FAULT_FI(fi_getpeer, __VA_ARGS__)
#define fi_mr_reg(...)	    FAULT_FI(fi_mr_reg, __VA_ARGS__)
#define fi_recv(...)	    FAULT_FI(fi_recv, __VA_ARGS__)
#define fi_sendmsg(...)	    FAULT_FI(fi_sendmsg, __VA_ARGS__)
#define fi_readmsg(...)	    FAULT_FI(fi_readmsg, __VA_ARGS__)
#define fi_writemsg(...)    FAULT_FI(fi_writemsg, __VA_ARGS__)

#endif
