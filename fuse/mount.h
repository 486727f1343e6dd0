/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mount point: is it fit, mount there, unmount again.
 *
 * Thread: the context's reactor; setup for the first two.
 */
#ifndef FUSE_MOUNT_H
#define FUSE_MOUNT_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "fuse/options.h"
#include "base/error.h"

struct dev;
struct fuse_session;

struct mount {
	char path[PATH_MAX]; /* absolute */
	bool is_file;
	struct fuse_session *se;
	bool mounted;
};

/* Looks at the mount point and at /dev/fuse before anything is begun. */
int mount_check(const char *path, struct mount *ret, struct error *e);

/* Mounts; requests may arrive from then on. @ro: of the kernel. After an error
 * there is nothing to unmount or free. */
int mount_begin(struct mount *m, const struct fuse_options *o, bool ro,
		struct dev *dev, struct error *e);

/*
 * Unmounts in a child process, as the kernel may ask us for something
 * meanwhile. Busy is an error unless @lazy. Returns its ID, or -1; it exits
 * with 0 when that is done.
 */
pid_t mount_unmount(const struct mount *m, bool lazy);

/* Closes the way to the kernel. NULL session is fine. */
void mount_free(struct mount *m);

#endif
