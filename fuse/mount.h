/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mount point: check it, mount there, unmount.
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
	int mounter_fd; /* of the process that mounts and unmounts */
};

/* Checks the mount point and /dev/fuse. */
int mount_check(const char *path, struct mount *ret, struct error *e);

/*
 * Starts a process that mounts and unmounts m->path, and can do nothing else. So the
 * process that serves, which reads what a target sends, can give up its rights first.
 * It ends with the process that serves. After mount_check(), before there are threads.
 */
int mount_start_mounter(struct mount *m, const struct fuse_options *o,
			struct error *e);

/* Mounts. Requests may arrive from then on. @ro: the kernel refuses writes. After an
 * error, there is nothing to unmount or free. */
int mount_begin(struct mount *m, const struct fuse_options *o, bool ro,
		struct dev *dev, struct error *e);

/*
 * Unmounts in a child process: the kernel may need answers of this process
 * meanwhile. A mount in use is an error unless @lazy. Returns the ID of the child,
 * or -1. The child exits with 0 after a success.
 */
pid_t mount_unmount(const struct mount *m, bool lazy);

/* Closes the FUSE session, if there is one. */
void mount_free(struct mount *m);

#endif
