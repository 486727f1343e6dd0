/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does a target serve at an address? A login tells: what is announced is a hint, and that
 * nothing is announced is no more than one. Thread: main.
 */
#ifndef DISCOVER_SERVES_H
#define DISCOVER_SERVES_H

#include <stdbool.h>

/* Logs in to @uri, under a port identifier that nobody else has, and out. A target that
 * refuses the login for other reasons than its port identifier serves, too. */
bool discover_serves(const char *uri);

/* Becomes this program, with the option for discover_serves(); for a child: after a fork,
 * RDMA devices that are open cannot be used. Returns an exit status if that fails. */
int serves_start(const char *uri);

#endif
