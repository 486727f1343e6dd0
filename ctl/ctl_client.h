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
	CTL_REFUSED = 1,     /* by the target; nothing has changed */
	CTL_USAGE = 2,	     /* by rdma-ctl */
	CTL_UNREACHABLE = 3, /* or the connection has ended */
	CTL_DIFFERENT = 4,   /* diff: there are differences */
};

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
