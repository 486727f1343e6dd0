/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma-discover --mount: finds the target that has a volume, and starts
 * rdma-fuse for it. Thread: main. */
#ifndef DISCOVER_MOUNT_H
#define DISCOVER_MOUNT_H

#include "discover/found.h"

/*
 * Logs in to the targets of @f to find the one that has the volume of @what,
 * [INSTANCE/]VOLUME=DIR, and becomes rdma-fuse. Returns only if that fails,
 * after one line in the log.
 */
void discover_mount(const struct found *f, const char *what);

/* Finds the path of rdma-fuse: in the directory of this program, otherwise in
 * $PATH. Returns @buf. */
char *rdma_fuse_path(char *buf, size_t size);

#endif
