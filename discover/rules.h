/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of rdma-discover --daemon, in the syntax of srp_daemon.conf:
 *
 *	a [KEY=VALUE[,KEY=VALUE]...]	connect
 *	d [KEY=VALUE[,KEY=VALUE]...]	do not connect
 *	# a comment
 *
 * The first rule that matches a target decides. A target that no rule matches
 * is left alone. These keys must match: id_ext, ioc_guid, dest (ADDR[:PORT]),
 * instance; dgid, pkey and service_id match no target that is found here. dest
 * may be given several times; only these addresses of the target are used. The
 * other keys say how to connect: mount, volume and gone are our own; options of
 * add_target are passed to the kernel.
 *
 * Thread: main.
 */
#ifndef DISCOVER_RULES_H
#define DISCOVER_RULES_H

#include "discover/found.h"

#define RULES_MAX	   256
#define RULES_LINE_SIZE	   1024
#define RULES_OPTIONS_SIZE 256
#define RULES_DESTS_MAX	   8

struct rule {
	unsigned int line;
	bool connect; /* "a" */
	bool never;   /* requires a key that no target here has */
	bool has_id_ext, has_ioc_guid;
	uint64_t id_ext, ioc_guid;
	char dest[RULES_DESTS_MAX][64];
	unsigned int dest_cnt; /* 0: any */
	char instance[DISCOVERY_INSTANCE_SIZE];
	char mount[256];  /* directory; empty: the kernel logs in */
	char volume[256]; /* volume to mount; empty: all */
	bool remove_gone; /* log out or unmount when the target is gone */
	char options[RULES_OPTIONS_SIZE]; /* for add_target: ",KEY=VALUE"... */
};

struct rules {
	struct rule rule[RULES_MAX];
	unsigned int cnt;
};

/* Reads the file @path. Returns 0, or -errno with one line in @e that names the
 * line and the key; @ret is then not changed. */
int rules_read(const char *path, struct rules *ret, struct error *e);

/* Copies @t to @ret, with only the addresses that @r allows. The others may be
 * false: anybody who knows the identifier of a target can add an address to
 * it. */
void rule_narrow(const struct rule *r, const struct found_target *t,
		 struct found_target *ret);

/* Returns the rule for a connection to @t; NULL: none. */
const struct rule *rules_match(const struct rules *rules,
			       const struct found_target *t);

#endif
