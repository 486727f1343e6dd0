/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks whether a target serves at an address. A login proves it, because an
 * announcement, or a missing one, is only a hint. Thread: main.
 */
#ifndef DISCOVER_SERVES_H
#define DISCOVER_SERVES_H

#include <stdbool.h>

/* Logs in to @uri with a port identifier that no other initiator has, and logs
 * out. If a target refuses the login for another reason than its port
 * identifier, it also serves. */
bool discover_serves(const char *uri);

/* Becomes this program with the option for discover_serves(). A child calls it,
 * because it cannot use RDMA devices that were open before the fork. Returns an
 * exit status if that fails. */
int serves_start(const char *uri);

#endif
