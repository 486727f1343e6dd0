/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transports that there are, and in what they differ for the programs that
 * use them. No other file asks which transport it has. Thread: any.
 */
#ifndef TRANSPORT_KIND_H
#define TRANSPORT_KIND_H

#include <stdbool.h>

#include "transport/uri.h"

/* In the order of preference, where a program may choose. */
enum xp_kind {
	XP_VERBS, /* an RDMA device */
	XP_TCP,	  /* sockets */
	XP_KINDS,
};

/* "RDMA (verbs)", "TCP" */
const char *xp_kind_name(enum xp_kind kind);
/* Of a URI: "srp+rdma", "srp+tcp". */
const char *xp_kind_scheme(enum xp_kind kind);

struct xp_traits {
	enum xp_uri_transport uri; /* what forces it; not XP_URI_AUTO */
	const char *fabric;	   /* "RDMA", "TCP" */
	/* It runs on RDMA devices: without one nothing is reached. Registered
	 * memory counts for RLIMIT_MEMLOCK. */
	bool needs_device;
	/* The kernel's initiator, ib_srp, can log in over it. */
	bool ib_srp;
	/* Channels that move large data faster than one does. */
	unsigned int fast_channels;
	/* A command that shows which program listens on an address. */
	const char *show_listeners;
};

const struct xp_traits *xp_kind_traits(enum xp_kind kind);

/* The transport that a URI asks for; XP_URI_AUTO: the first one. */
enum xp_kind xp_kind_of_uri(enum xp_uri_transport uri);

#endif
