/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/directory.h"

/* NULL: it is not set, or no absolute path. */
static const char *state_dir_variable(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value == '/' ? value : NULL;
}

void state_dir_default(const char *name, char *path, size_t len)
{
	const char *dirs = state_dir_variable("STATE_DIRECTORY");
	const char *xdg = state_dir_variable("XDG_STATE_HOME");
	const char *home = state_dir_variable("HOME");

	path[0] = '\0';
	if (dirs)
		snprintf(path, len, "%.*s", (int)strcspn(dirs, ":"), dirs);
	else if (geteuid() == 0)
		snprintf(path, len, "/var/lib/%s", name);
	else if (xdg)
		snprintf(path, len, "%s/%s", xdg, name);
	else if (home)
		snprintf(path, len, "%s/.local/state/%s", home, name);
}

static void state_dir_make_parents(const char *path)
{
	const char *home = state_dir_variable("HOME");
	size_t len = home ? strlen(home) : 0;
	const char *slash = path + len;
	char dir[4096];

	if (!home || strncmp(path, home, len) != 0 || *slash != '/')
		return;
	while ((slash = strchr(slash + 1, '/'))) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
		mkdir(dir, 0700);
	}
}

bool state_dir_make(const char *path)
{
	if (!mkdir(path, 0700))
		return true;
	if (errno != ENOENT)
		return false;
	state_dir_make_parents(path);
	return !mkdir(path, 0700);
}

int state_dir_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = fd < 0 ? -errno : directory_is_ours(fd) ? 0 : -EPERM;

	if (!err && faccessat(fd, ".", R_OK | W_OK | X_OK, AT_EACCESS))
		err = -errno;
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}
