/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control socket of a target that names none, and how rdma-ctl finds it. It is in the
 * first of these directories that is possible:
 *
 *   $RUNTIME_DIRECTORY             of a unit (systemd.exec(5))
 *   /run/rdma-target               of root
 *   $XDG_RUNTIME_DIR/rdma-target   of other users
 *
 * Its name is "control" if the first port is 5555, else "control.PORT": two targets of a
 * machine have two sockets, whichever starts first.
 *
 * Thread: any. Blocks.
 */
#ifndef CONFIG_CONTROL_PATH_H
#define CONFIG_CONTROL_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

/* The word of --control for no socket. */
#define CONTROL_PATH_NONE "none"

#define CONTROL_PATH_SIZE sizeof(((struct sockaddr_un *)0)->sun_path)
#define CONTROL_PATHS_MAX 16

struct control_path {
	char text[CONTROL_PATH_SIZE];
};

/* False: there is no such directory for this user, or its path is too long. */
bool control_path_default(unsigned int port, struct control_path *ret);

/* The sockets on which processes listen, in the first directory that has any: the
 * user's own, then that of root. Return: how many; more than CONTROL_PATHS_MAX are not
 * told. */
unsigned int control_path_find(struct control_path ret[CONTROL_PATHS_MAX]);

#endif
