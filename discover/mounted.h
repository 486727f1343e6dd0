/* SPDX-License-Identifier: BSD-2-Clause */
/* Mounts of rdma-fuse on this machine. Thread: main. */
#ifndef DISCOVER_MOUNTED_H
#define DISCOVER_MOUNTED_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/srp_login.h"

/* What is at a directory. */
enum mounted {
	MOUNTED_NOTHING, /* no mount of rdma-fuse */
	MOUNTED_DEAD,	 /* its rdma-fuse was killed: every call fails */
	MOUNTED_TARGET,	 /* a mount whose URI demands the target */
	MOUNTED_OTHER,	 /* a mount whose URI demands another target */
	MOUNTED_UNKNOWN, /* a mount whose URI demands none */
};

/* What is at @dir, seen from the target @id. The URI of a mount that lives is written to
 * @ret_uri of @size bytes; NULL: not wanted. */
enum mounted mounted_at(const char *dir, const struct srp_port_id *id,
			char *ret_uri, size_t size);
/* Mounts @uri at @dir, unless another program has just done so; for a child. Returns its
 * exit status. */
int mounted_start(const char *uri, const char *dir);
/* Unmounts @dir, if rdma-fuse is mounted there: at once, though files are open. */
void mounted_remove(const char *dir);

#endif
