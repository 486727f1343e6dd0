/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma-discover --daemon: asks for targets again and again, and keeps the links that the
 * rules want (link.h). A target that comes or goes is asked for at once. A target counts
 * as gone when it has not answered FOLLOW_MISSES times in a row, or once after it has said
 * that it goes. However many targets a
 * rule matches, at most FOLLOW_CHILDREN log in, mount or ask at once.
 *
 * SIGHUP makes it read the rules again; SIGTERM and SIGINT end it. The links
 * stay when it ends.
 *
 * Thread: main.
 */
#ifndef DISCOVER_FOLLOW_H
#define DISCOVER_FOLLOW_H

#include "discover/options.h"

#define FOLLOW_MISSES	3
#define FOLLOW_CHILDREN 8

/* Returns the exit status. */
int follow(const struct discover_options *o);

#endif
