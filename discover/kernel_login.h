/* SPDX-License-Identifier: BSD-2-Clause */
/* Logins of the kernel's initiator, ib_srp, through its files in /sys. Thread:
 * main. */
#ifndef DISCOVER_KERNEL_LOGIN_H
#define DISCOVER_KERNEL_LOGIN_H

#include "discover/found.h"

/* True if it is logged in to the target @id. */
bool kernel_login_exists(const struct srp_port_id *id);
/* Logs in through the first address at which that succeeds, with @options
 * (",KEY=VALUE" ...). It may block for minutes, so a child calls it. Returns
 * the exit status of the child; one line in the log if it fails. */
int kernel_login_start(const struct found_target *t, const char *options);
/* Logs out of the target, if it is logged in. */
void kernel_login_remove(const struct srp_port_id *id);

#endif
