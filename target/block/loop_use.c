/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "target/block/loop_use.h"
#include "base/cleanup.h"

/* @dir is the device in sysfs. The path of a file that was removed ends with
 * " (deleted)", and is not found. */
static bool backing_of(const char *dir, struct stat *ret)
{
	char path[PATH_MAX + 1];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/loop/backing_file", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, path, sizeof(path) - 1);
	if (n <= 1)
		return false;
	path[n - 1] = '\0'; /* the line ends there */
	return !stat(path, ret);
}

/* The kernel refuses O_EXCL if the device or a part of it is in use. A process that may
 * not ask takes it for used. */
static bool is_claimed(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);

	return fd < 0 && (errno == EBUSY || errno == EACCES);
}

bool loop_in_use(const struct stat *file, char ret_name[LOOP_NAME_MAX])
{
	struct dirent *entry;
	bool found = false;
	DIR *dir = opendir("/sys/block");

	while (dir && !found && (entry = readdir(dir))) {
		char path[sizeof("/sys/block/") + NAME_MAX];
		struct stat st;

		if (strncmp(entry->d_name, "loop", 4) != 0)
			continue;
		snprintf(path, sizeof(path), "/sys/block/%s", entry->d_name);
		if (!backing_of(path, &st) || st.st_dev != file->st_dev ||
		    st.st_ino != file->st_ino)
			continue;
		snprintf(ret_name, LOOP_NAME_MAX, "/dev/%.20s", entry->d_name);
		found = is_claimed(ret_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

bool loop_file(dev_t dev, struct stat *ret_file)
{
	char path[64];
	int len = snprintf(path, sizeof(path), "/sys/dev/block/%u:%u",
			   major(dev), minor(dev));

	if (backing_of(path, ret_file))
		return true;
	/* A link to the device. That of a partition lies in its disk. */
	snprintf(path + len, sizeof(path) - (size_t)len, "/..");
	return backing_of(path, ret_file);
}
