/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma-discover --mount: which of the targets has a volume, and rdma-fuse for it. Thread:
 * main. */
#ifndef DISCOVER_MOUNT_H
#define DISCOVER_MOUNT_H

#include "discover/found.h"

/*
 * Logs in to the targets of @f for the one that has the volume of @what,
 * [INSTANCE/]VOLUME=DIR, and becomes rdma-fuse. It returns only if that fails, after one
 * line in the log.
 */
void discover_mount(const struct found *f, const char *what);

/* The path of rdma-fuse: beside this program, else as PATH has it. Returns @buf. */
char *rdma_fuse_path(char *buf, size_t size);

#endif
