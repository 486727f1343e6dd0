/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target that runs opens no new files: Landlock closes them to it. rdma-ctl opens those
 * of the volumes that it adds, with the rights of whoever runs it, and hands them over
 * (base/given_files.h). Thread: main.
 */
#ifndef CTL_CTL_GIVE_H
#define CTL_CTL_GIVE_H

#include "ctl/ctl_client.h"

/*
 * Hands over the files of the volumes @vols (canonical, with absolute paths). NULL: those of
 * the target's own configuration file. @only_new: without those that the target serves
 * already, as a configuration has them.
 *
 * What cannot be opened here is left to the target, which may have the right: then @why
 * says what failed, for the case that the target refuses; else it is empty. CTL_UNREACHABLE:
 * the connection has failed, as @why says.
 */
enum ctl_exit ctl_give_files(struct ctl_link *l, const json_t *vols,
			     bool only_new, struct error *why);

#endif
