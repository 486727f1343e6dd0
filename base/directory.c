/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* As many as the kernel follows. */
#define LINKS_MAX 40

bool directory_is_ours(int dir)
{
	struct stat st;

	return !fstat(dir, &st) && !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
	       (st.st_uid == 0 || st.st_uid == geteuid());
}

static int directory_walk(int at, const char *path, unsigned int *links);

/* Where the link @name in @at leads to. */
static int directory_follow(int at, const char *name, unsigned int *links)
{
	char text[PATH_MAX];
	ssize_t len = readlinkat(at, name, text, sizeof(text) - 1);

	if (len < 0)
		return -ENOTDIR;
	if (!directory_is_ours(at) || ++*links > LINKS_MAX)
		return -ELOOP;
	text[len] = '\0';
	return directory_walk(at, text, links);
}

/* The directory @name in @at, by O_PATH. */
static int directory_step(int at, const char *name, unsigned int *links)
{
	int fd =
		openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	return errno == ENOTDIR ? directory_follow(at, name, links) : -errno;
}

static int directory_walk(int at, const char *path, unsigned int *links)
{
	_cleanup_free_ char *copy = strdup(path);
	char *left = copy;
	const char *name;
	int fd = copy ? directory_step(at, *path == '/' ? "/" : ".", links)
		      : -ENOMEM;

	while (fd >= 0 && (name = strsep(&left, "/"))) {
		int from = fd;

		if (!*name)
			continue;
		fd = directory_step(from, name, links);
		close(from);
	}
	return fd;
}

int directory_find_of(const char *path, const char **ret_name)
{
	_cleanup_free_ char *dir = strdup(path);
	unsigned int links = 0;
	char *slash;

	if (!dir)
		return -ENOMEM;
	slash = strrchr(dir, '/');
	*ret_name = slash ? path + (slash + 1 - dir) : path;
	*(slash ? slash + 1 : dir) = '\0';
	return directory_walk(AT_FDCWD, dir, &links);
}

int directory_open_of(const char *path)
{
	const char *name;
	_cleanup_close_ int dir = directory_find_of(path, &name);
	int fd;

	if (dir < 0)
		return dir;
	fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int directory_sync_of(const char *path)
{
	_cleanup_close_ int fd = directory_open_of(path);

	if (fd < 0)
		return fd;
	return fsync(fd) < 0 ? -errno : 0;
}
