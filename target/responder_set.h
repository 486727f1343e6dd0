/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoints of the responder: those that are needed, which change when
 * addresses and devices are added or removed, and those that are open. Thread:
 * setup, then the responder's.
 */
#ifndef TARGET_RESPONDER_SET_H
#define TARGET_RESPONDER_SET_H

#include <net/if.h>

#include "target/listen.h"
#include "target/responder_budget.h"
#include "transport/datagram.h"

#define RESPONDER_ENDPOINTS_MAX 64

struct responder_endpoint {
	enum dgram_carrier carrier;
	struct sockaddr_storage addr; /* port 0 unless unicast */
	socklen_t addr_len;
	unsigned int ifindex; /* multicast */
	struct dgram *dgram;  /* NULL: it could not be opened */
	bool wanted;
	int err; /* the reason; logged when it changes */
	struct responder_budget budget;
};

struct responder_set {
	struct responder_endpoint endpoints[RESPONDER_ENDPOINTS_MAX];
	unsigned int cnt;
	unsigned int left_out;	/* addresses and endpoints beyond the limits */
	bool said_left_out;	/* the log has this */
	const char *interfaces; /* NAME,NAME; NULL: all. Borrowed */
};

/* Opens and closes endpoints to match @points. Warns once if it needs too many. @is_first: an endpoint that
 * cannot be opened is worth a notice. Returns true if one was opened. */
bool responder_set_refresh(struct responder_set *set,
			   const struct listen_points *points, bool is_first);
/* Takes the answer of the fabric to an endpoint that is joining. Returns true if it has
 * joined. If the fabric refuses it, closes it; the next refresh asks again. */
bool responder_set_join(struct responder_set *set,
			struct responder_endpoint *ep);
/* Closes the endpoint, whose device is removed. The next refresh may open it
 * again. */
void responder_set_drop(struct responder_set *set,
			struct responder_endpoint *ep);
/* Closes all endpoints of RDMA. The next refresh opens them again. */
void responder_set_drop_rdma(struct responder_set *set);
void responder_set_close(struct responder_set *set);

#endif
