/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an RDMA device tells about itself and what /sys does not show: limits, and
 * the MTU of its ports. For programs that explain a machine; the transports do
 * not use it. Thread: any.
 */
#ifndef TRANSPORT_DEVICE_FACTS_H
#define TRANSPORT_DEVICE_FACTS_H

#include "base/error.h"

#define XP_FACTS_PORTS_MAX 8

struct xp_port_facts {
	unsigned int active_mtu; /* bytes; 0: unknown */
};

struct xp_device_facts {
	unsigned int max_srq;	 /* shared receive queues; 0: it has none */
	unsigned int max_srq_wr; /* receives in one of them */
	unsigned int max_qp_wr;	 /* work requests per queue pair */
	unsigned int max_inline; /* bytes of a SEND inside its work request */
	/* RDMA READs of a queue pair at a time: that it sends, that it answers. */
	unsigned int read_depth;
	unsigned int answer_depth;
	unsigned int port_cnt;
	struct xp_port_facts ports[XP_FACTS_PORTS_MAX]; /* port 1 is the first */
};

/*
 * Opens RDMA device @name, asks it, and closes it. Return: 0; -ENODEV: there is no
 * such device; other negative errnos when it cannot be opened or asked, with @e.
 */
int xp_device_facts(const char *name, struct xp_device_facts *ret,
		    struct error *e);

#endif
