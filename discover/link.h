/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection that rdma-discover --daemon keeps: a login of the kernel's
 * initiator, or a mount by rdma-fuse. Both continue without the daemon, and the
 * next daemon finds them.
 *
 *   DOWN      there is none
 *      the target answers, and it is due: a child logs in or mounts
 *   STARTING  the child runs
 *      it has ended: UP, or, if it failed, DOWN, due after a pause that doubles
 *   UP        the system shows it
 *      the system no longer shows it: DOWN
 *      the target is at other addresses, or it has gone and the rule says remove: that is
 *      what others say, so a child asks the target itself
 *   DOUBTED   the child runs
 *      the target serves where the link leads to: UP, and nobody is asked for a while
 *      it does not: DOWN, after the link was removed
 *
 * While the directory does not answer, as below a mount of a server that is away, the
 * state stays as it is.
 *
 * Only link_step() changes the state. A step that starts a child waits until
 * the caller allows this.
 *
 * Thread: main.
 */
#ifndef DISCOVER_LINK_H
#define DISCOVER_LINK_H

#include <sys/types.h>

#include "discover/mounted.h"
#include "discover/rules.h"

enum link_state {
	LINK_DOWN,
	LINK_STARTING,
	LINK_UP,
	LINK_DOUBTED,
};

struct link {
	struct rule rule; /* the rule that it was made by */
	struct srp_port_id id;
	char instance[DISCOVERY_INSTANCE_SIZE];
	enum link_state state;
	char uri[FOUND_URI_SIZE]; /* the URI that it was started with; empty:
				   * unknown */
	bool is_foreign; /* its target is unknown: it is never removed */
	pid_t child;
	bool child_ended, child_failed;
	struct aside look;	     /* at its directory */
	enum mounted seen;	     /* by the last look */
	bool said_taken, said_hangs; /* the log has this */
	uint64_t due_ms;
	unsigned int pause_ms;
};

#define LINK_PAUSE_MIN_MS 1000
#define LINK_PAUSE_MAX_MS 60000
#define LINK_DOUBT_MS	  10000

void link_init(struct link *l, const struct rule *rule,
	       const struct found_target *t);

/* Its directory, or a word for the login. */
const char *link_what(const struct link *l);

/* True if it holds its directory. Then no other link may use that. */
bool link_is_busy(const struct link *l);

/* True if its child is running. */
bool link_has_child(const struct link *l);

/* Makes one step. @t: the target as it was found; NULL: it is gone, or the
 * rules no longer allow it. @may_start: it may start a child. Returns the
 * milliseconds until the next call; -1: something has changed. */
int link_step(struct link *l, const struct found_target *t, bool may_start);

/* Forgets it. What is logged in or mounted stays. */
void link_fini(struct link *l);

/* The child @pid has ended. False: it belongs to another link. */
bool link_child_ended(struct link *l, pid_t pid, int status);

#endif
