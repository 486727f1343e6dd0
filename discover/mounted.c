/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/mounted.h"

#include <errno.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "discover/mount.h"

/* rdma-fuse's, unless it was told another subtype. */
#define MOUNT_TYPE "fuse.rdma-block"

/* The last one that was mounted at @dir counts. */
static bool find_mount(const char *dir, char *ret_uri, size_t size)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	bool found = false;
	struct mntent *m;

	if (!f)
		return false;
	while ((m = getmntent(f))) {
		if (strcmp(m->mnt_dir, dir) != 0)
			continue;
		found = strcmp(m->mnt_type, MOUNT_TYPE) == 0;
		if (found && ret_uri)
			snprintf(ret_uri, size, "%s", m->mnt_fsname);
	}
	endmntent(f);
	return found;
}

/* When rdma-fuse was killed, the mount stays, and every call fails. */
bool mounted_is_up(const char *dir, char *ret_uri, size_t size)
{
	struct stat st;

	return find_mount(dir, ret_uri, size) &&
	       (stat(dir, &st) == 0 || errno != ENOTCONN);
}

int mounted_start(const char *uri, const char *dir)
{
	char path[PATH_MAX];

	execlp(rdma_fuse_path(path, sizeof(path)), "rdma-fuse", uri, dir,
	       (char *)NULL);
	log_error("cannot run rdma-fuse: %s", strerror(errno));
	return EXIT_FAILURE;
}

void mounted_remove(const char *dir)
{
	pid_t pid;

	if (!find_mount(dir, NULL, 0))
		return;
	pid = fork();
	if (pid == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-z", "--", dir,
		       (char *)NULL);
		_exit(EXIT_FAILURE);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}
