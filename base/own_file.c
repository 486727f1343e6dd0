/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"

/* A second name may be that of a file somewhere else. */
static bool own_file_is_plain(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_nlink <= 1;
}

int own_file_open(int dir, const char *name, int flags, mode_t mode)
{
	bool ours = directory_is_ours(dir);
	int fd;

	/* A pipe must not block the process. */
	if (!ours)
		flags |= O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	fd = openat(dir, name, flags | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	if (ours || own_file_is_plain(fd))
		return fd;
	close(fd);
	return -EPERM;
}

int own_file_open_path(const char *path, int flags, mode_t mode)
{
	const char *name;
	_cleanup_close_ int dir = directory_find_of(path, &name);

	return dir < 0 ? dir : own_file_open(dir, name, flags, mode);
}

int own_file_create(const char *path, mode_t mode)
{
	const char *name;
	_cleanup_close_ int dir = directory_find_of(path, &name);
	int fd;

	if (dir < 0)
		return dir;
	if (unlinkat(dir, name, 0) && errno != ENOENT)
		return -errno;
	fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

const char *own_file_strerror(int err)
{
	if (err == -ELOOP)
		return "a symbolic link, and its directory is one that other "
		       "users can write to";
	if (err == -EPERM)
		return "no regular file with one name, and its directory is "
		       "one that other users can write to";
	return strerror(-err);
}
