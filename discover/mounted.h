/* SPDX-License-Identifier: BSD-2-Clause */
/* Mounts of rdma-fuse on this machine. Thread: main. */
#ifndef DISCOVER_MOUNTED_H
#define DISCOVER_MOUNTED_H

#include <stdbool.h>
#include <stddef.h>

/* Is an rdma-fuse that lives mounted at @dir? Then its URI is written to @ret_uri of @size
 * bytes; NULL: not wanted. */
bool mounted_is_up(const char *dir, char *ret_uri, size_t size);
/* Mounts @uri at @dir; for a child. Returns its exit status. */
int mounted_start(const char *uri, const char *dir);
/* Unmounts @dir, if rdma-fuse is mounted there: at once, though files are open. */
void mounted_remove(const char *dir);

#endif
