/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

int directory_open_of(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	int fd;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int directory_sync_of(const char *path)
{
	_cleanup_close_ int fd = directory_open_of(path);

	if (fd < 0)
		return fd;
	return fsync(fd) < 0 ? -errno : 0;
}
