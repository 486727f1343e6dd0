/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/control_path.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "transport/uri.h"

#define OF_ROOT "/run/rdma-target"

/* NULL: it is not set, or no absolute path. */
static const char *directory_of(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && *value == '/' ? value : NULL;
}

/* The directory of this user. False: there is none. */
static bool own_directory(char *dir, size_t len)
{
	const char *of_unit = directory_of("RUNTIME_DIRECTORY");
	const char *of_user = directory_of("XDG_RUNTIME_DIR");

	if (of_unit)
		snprintf(dir, len, "%.*s", (int)strcspn(of_unit, ":"), of_unit);
	else if (geteuid() == 0)
		snprintf(dir, len, "%s", OF_ROOT);
	else if (of_user)
		snprintf(dir, len, "%s/rdma-target", of_user);
	return of_unit || geteuid() == 0 || of_user;
}

static bool join(const char *dir, const char *name, struct control_path *ret)
{
	int len = snprintf(ret->text, sizeof(ret->text), "%s/%s", dir, name);

	return len > 0 && (size_t)len < sizeof(ret->text);
}

bool control_path_default(unsigned int port, struct control_path *ret)
{
	char dir[CONTROL_PATH_SIZE];
	char name[32] = "control";

	if (port != XP_URI_PORT)
		snprintf(name, sizeof(name), "control.%u", port);
	return own_directory(dir, sizeof(dir)) && join(dir, name, ret);
}

/* A target that was killed leaves its socket. One that this user may not use is one. */
static bool somebody_listens(const struct control_path *path)
{
	_cleanup_close_ int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	strcpy(addr.sun_path, path->text);
	return fd >= 0 &&
	       (!connect(fd, (struct sockaddr *)&addr, sizeof(addr)) ||
		errno == EAGAIN || errno == EACCES);
}

static bool is_socket_name(const char *name)
{
	return !strcmp(name, "control") || !strncmp(name, "control.", 8);
}

static unsigned int find_in(const char *path,
			    struct control_path ret[CONTROL_PATHS_MAX])
{
	const struct dirent *entry;
	unsigned int cnt = 0;
	DIR *dir = opendir(path);

	/* Of this stream, which no other thread has. */
	while (dir && cnt < CONTROL_PATHS_MAX &&
	       (entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe) */
		if (is_socket_name(entry->d_name) &&
		    join(path, entry->d_name, &ret[cnt]) &&
		    somebody_listens(&ret[cnt]))
			cnt++;
	}
	if (dir)
		closedir(dir);
	return cnt;
}

unsigned int control_path_find(struct control_path ret[CONTROL_PATHS_MAX])
{
	char dir[CONTROL_PATH_SIZE];
	unsigned int cnt = 0;
	bool has_own = own_directory(dir, sizeof(dir));

	if (has_own)
		cnt = find_in(dir, ret);
	if (!cnt && (!has_own || strcmp(dir, OF_ROOT) != 0))
		cnt = find_in(OF_ROOT, ret);
	return cnt;
}
