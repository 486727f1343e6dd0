/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transports that there are, and how they differ for the programs that use
 * them. No file outside of this folder asks which transport it has. Thread: any.
 */
#ifndef TRANSPORT_KIND_H
#define TRANSPORT_KIND_H

#include <stdbool.h>

/* By default, a peer that has been silent this long is probed. */
#define XP_KEEPALIVE_MS 15000

/*
 * A row for each transport: its value of enum xp_kind, and the prefix of its
 * struct xp_traits (PREFIX_traits) and its struct xp_provider (PREFIX_provider).
 * A program that may choose tries them in this order.
 */
#define XP_TRANSPORTS(ROW)                           \
	ROW(XP_VERBS, xp_verbs) /* an RDMA device */ \
	ROW(XP_TCP, xp_tcp)	/* sockets */

#define XP_KIND_VALUE(kind, prefix) kind,
enum xp_kind {
	XP_TRANSPORTS(XP_KIND_VALUE) XP_KINDS,
	XP_KIND_FIRST = 0,
};
#undef XP_KIND_VALUE

struct xp_traits {
	const char *name;   /* "RDMA (verbs)", "TCP" */
	const char *scheme; /* of a URI that demands it: "srp+rdma", "srp+tcp" */
	const char *
		tls_scheme; /* that demands TLS, too: "srp+tls"; NULL: it has none */
	const char *fabric; /* "RDMA", "TCP" */
	/* It runs on RDMA devices: without a device, it reaches nothing. Registered
	 * memory counts for RLIMIT_MEMLOCK. */
	bool needs_device;
	/* Its ports have GIDs, its paths a P_Key and a service level. */
	bool has_gids;
	/* The kernel's initiator, ib_srp, can log in over it. */
	bool ib_srp;
	/* With this many channels, large data moves faster than with one. */
	unsigned int fast_channels;
	/* A command that shows which program listens on an address. */
	const char *show_listeners;
};

#define XP_DECLARE_TRAITS(kind, prefix) \
	extern const struct xp_traits prefix##_traits;
XP_TRANSPORTS(XP_DECLARE_TRAITS)
#undef XP_DECLARE_TRAITS

const struct xp_traits *xp_kind_traits(enum xp_kind kind);
/* Of the traits: the name, the scheme. */
const char *xp_kind_name(enum xp_kind kind);
const char *xp_kind_scheme(enum xp_kind kind);

#endif
