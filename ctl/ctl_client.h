/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls methods of a running rdma-target (varlink). Thread: main. */
#ifndef CTL_CTL_CLIENT_H
#define CTL_CTL_CLIENT_H

#include <jansson.h>

#include "base/error.h"
#include "ctl/ctl_options.h"

/* How rdma-ctl ends. */
enum ctl_exit {
	CTL_DONE = 0,
	CTL_REFUSED = 1, /* by the target or rdma-ctl; nothing has changed */
	CTL_UNREACHABLE = 3, /* or the connection has ended */
	CTL_DIFFERENT = 4,   /* diff: there are differences */
};

/*
 * Finds the socket of the only target that runs here, or takes that of
 * $RDMA_TARGET_CONTROL: the path, which stays. NULL: there is none, or there are several,
 * as one line in @e says.
 */
const char *ctl_find_control(struct error *e);

/* A connection to a target. */
struct ctl_link {
	const struct ctl_options *opt;
	int fd; /* -1: none */
	char *buf;
	size_t size;
	size_t len; /* received */
};

/* Always close it. 0, or -errno with one line in @e. */
int ctl_link_open(struct ctl_link *l, const struct ctl_options *opt,
		  struct error *e);
void ctl_link_close(struct ctl_link *l);

/* ctl_call() on this connection. @cnt descriptors go with the call. */
enum ctl_exit ctl_link_call(struct ctl_link *l, const char *method, json_t *in,
			    const int *fds, unsigned int cnt, json_t **ret_out,
			    struct error *e);

/*
 * Calls @method of the target at the socket of @opt with @in, which is taken over.
 * *ret_out, to be freed, are the parameters of the answer. Otherwise @e has one line.
 * Gives up when the target does not answer a question by another connection either.
 */
enum ctl_exit ctl_call(const struct ctl_options *opt, const char *method,
		       json_t *in, json_t **ret_out, struct error *e);

/*
 * The same of a method with several answers: @take gets the parameters of each, which
 * are not its own, until it returns false.
 */
enum ctl_exit ctl_follow(const struct ctl_options *opt, const char *method,
			 json_t *in, bool (*take)(const json_t *out),
			 struct error *e);

#endif
