/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which files the process can still open by path, from then on: what the kernel's
 * Landlock allows (landlock(7)). What is open already, such as the volumes, stays open.
 * Files of volumes that are added later come as descriptors from rdma-ctl
 * (base/given_files.h), or lie below --volumes-from.
 */
#ifndef TARGET_LANDLOCK_H
#define TARGET_LANDLOCK_H

#include <stdbool.h>

#include "base/error.h"
#include "config/options.h"

/*
 * Lets this thread, and those that it starts, open what the options name and what
 * libraries need. Programs cannot be run. @all_reads: a plugin that makes connections
 * may read any file, because its configuration, keys and certificates can be anywhere.
 * @opt: NULL: only what libraries need. @state_dir: it may change the files there; or
 * NULL.
 *
 * Thread: setup, before other threads. Return: 0, also on a kernel without Landlock,
 * which the log says; or -errno with one clause in @e: -EOPNOTSUPP on such a kernel with
 * --volumes-from.
 */
int landlock_enter(const struct target_options *opt, const char *state_dir,
		   bool all_reads, struct error *e);

#endif
