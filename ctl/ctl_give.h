/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target that runs opens no new files and makes no sockets: Landlock and the system call
 * filter do not let it. rdma-ctl opens the files of the volumes that it adds, and makes the
 * sockets that listen on addresses that it adds over TCP, with the rights of whoever runs it,
 * and hands them over (base/given_files.h). Thread: main.
 */
#ifndef CTL_CTL_GIVE_H
#define CTL_CTL_GIVE_H

#include "ctl/ctl_client.h"

/*
 * Hands over what a configuration adds: the files of "backing" (with absolute paths) and the
 * sockets of "listen", both of @want (canonical). NULL: the target's own configuration file.
 * @only_new: without volumes that the target serves already, as a configuration has them.
 *
 * What cannot be had here is left to the target, which may have the right: then @why
 * says what failed, for the case that the target refuses; else it is empty. CTL_UNREACHABLE:
 * the connection has failed, as @why says.
 */
enum ctl_exit ctl_give(struct ctl_link *l, const json_t *want, bool only_new,
		       struct error *why);

#endif
