/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rights that the target gives up before it talks to any peer: the user
 * that started it, if requested, and all capabilities. This happens after the
 * volumes are opened, which may need rights, and before the transports are
 * opened: RDMA's connection manager and the devices refuse (EACCES) a process
 * whose credentials have changed since it opened them.
 */
#ifndef TARGET_PRIVILEGES_H
#define TARGET_PRIVILEGES_H

#include <stdbool.h>

#include "base/error.h"

/* Raises the limits of locked memory and of open files as far as possible. */
void privileges_raise_limits(void);

/* Return: 0, or -ENOENT with one clause in @e. Thread: setup, the only one. */
int privileges_check_user(const char *user, struct error *e);

/*
 * Lets this thread use files with the rights of @user, who may own the directory that
 * they are in. NULL: with its own rights again.
 *
 * Thread: setup. Return: 0, or -errno with one clause in @e.
 */
int privileges_use_files_as(const char *user, struct error *e);

/* Gives the file @path to @user if both is possible. Thread: setup. */
void privileges_give(const char *path, const char *user);

/* May this process listen on ports that not everybody may use? Call it before
 * privileges_drop(). Thread: setup. */
bool privileges_has_low_ports(void);
/* May everybody use @port? Thread: any. */
bool privileges_is_port_of_all(unsigned int port);

/*
 * @user: the user to become, by name or number; NULL: no change. @low_port: the
 * target will listen on a port below 1024. The right to lock memory is kept if
 * that is limited.
 *
 * Thread: setup, the only one. Return: 0, or -errno with one clause in @e.
 */
int privileges_drop(const char *user, bool low_port, struct error *e);

#endif
