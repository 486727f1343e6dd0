/* SPDX-License-Identifier: BSD-2-Clause */
/* Mounts of rdma-fuse on this machine. Thread: main. */
#ifndef DISCOVER_MOUNTED_H
#define DISCOVER_MOUNTED_H

#include <stdbool.h>
#include <stddef.h>

#include "discover/aside.h"
#include "protocol/srp_login.h"

/* The state of a directory. */
enum mounted {
	MOUNTED_NOTHING, /* no mount of rdma-fuse */
	MOUNTED_DEAD,	 /* its rdma-fuse was killed: every call fails */
	MOUNTED_TARGET,	 /* a mount whose URI requires the target */
	MOUNTED_OTHER,	 /* a mount whose URI requires another target */
	MOUNTED_UNKNOWN, /* a mount whose URI requires none */
	MOUNTED_HANGS,	 /* the directory, or the way to it, does not answer */
};

/* Finds what is mounted at @dir, with respect to the target @id. Writes the URI
 * of a working mount to @ret_uri of @size bytes, which may be NULL. @look: for this
 * directory alone. Does not wait for a directory that does not answer. */
enum mounted mounted_at(struct aside *look, const char *dir,
			const struct srp_port_id *id, char *ret_uri,
			size_t size);
/* Mounts @uri at @dir, unless another program has just done so. A child calls
 * it. Returns the exit status of the child. */
int mounted_start(const char *uri, const char *dir);
/* Unmounts @dir if rdma-fuse is mounted there, at once, even if files are
 * open. Waits for this only for a moment. */
void mounted_remove(const char *dir);

#endif
