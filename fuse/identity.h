/* SPDX-License-Identifier: BSD-2-Clause */
/* Who a mount is to its target. Thread: setup. */
#ifndef FUSE_IDENTITY_H
#define FUSE_IDENTITY_H

#include <limits.h>
#include <stdbool.h>

/* Room for machine, host, mount point and URI. */
#define IDENTITY_SIZE (PATH_MAX + 1024)

/*
 * Text that is the same when this machine mounts the same thing in the same
 * place again, and differs else. The host's name is in it since containers of
 * one image may share a machine ID. False: the machine has no ID.
 */
bool identity_text(const char *mountpoint, const char *uri,
		   char buf[IDENTITY_SIZE]);

#endif
