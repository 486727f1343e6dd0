/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the target gives up before it talks to anybody: the user it was started
 * as, if told so, and all capabilities. It happens between opening the volumes,
 * which may need rights, and opening the transports, which must not see them
 * change: RDMA's connection manager and the devices refuse (EACCES) whoever has
 * other credentials than when it opened them.
 */
#ifndef TARGET_PRIVILEGES_H
#define TARGET_PRIVILEGES_H

#include <stdbool.h>

#include "base/error.h"

/* Raises those of locked memory and of open files as far as may be. */
void privileges_raise_limits(void);

/*
 * @user: whom to become, by name or number; NULL: who we are. @low_port: one
 * below 1024 will be listened on. What locks memory is kept where that is
 * limited.
 *
 * Thread: setup, the only one. Return: 0, or -errno with one clause in @e.
 */
int privileges_drop(const char *user, bool low_port, struct error *e);

#endif
