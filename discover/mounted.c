/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/mounted.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "discover/mount.h"
#include "transport/uri.h"

/* The type of rdma-fuse's mounts, unless it was given another subtype. */
#define MOUNT_TYPE "fuse.rdma-block"

/* ---- mounts ---- */

/* Returns @dir as the kernel lists it, without symbolic links, in @buf of
 * PATH_MAX bytes. Nothing below a dead mount can be resolved, but the path to
 * it can. */
static const char *mounted_path(const char *dir, char *buf)
{
	const char *name = strrchr(dir, '/') + 1;
	char parent[PATH_MAX];
	size_t len;

	if (realpath(dir, buf))
		return buf;
	snprintf(parent, sizeof(parent), "%.*s", (int)(name - dir), dir);
	if (!realpath(parent, buf))
		return dir;
	len = strlen(buf);
	snprintf(buf + len, PATH_MAX - len, "%s%s",
		 buf[len - 1] == '/' ? "" : "/", name);
	return buf;
}

/* If there are several mounts at @dir, the last one counts. */
static bool find_mount(const char *dir, char *ret_uri, size_t size)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	char path[PATH_MAX];
	bool found = false;
	struct mntent *m;

	if (!f)
		return false;
	dir = mounted_path(dir, path);
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

struct mounted_question {
	const char *dir;
	const struct srp_port_id *id;
};

struct mounted_answer {
	enum mounted what;
	char uri[XP_URI_TEXT_SIZE];
};

/* Asks the file systems on the way to the directory, which may be any. */
static void mounted_look(const void *arg, void *ret)
{
	const struct mounted_question *q = arg;
	struct mounted_answer *a = ret;
	struct xp_uri uri;
	struct stat st;
	int err = stat(q->dir, &st) ? errno : 0;

	if (!find_mount(q->dir, a->uri, sizeof(a->uri)))
		a->what = MOUNTED_NOTHING;
	else if (err == ENOTCONN)
		/* rdma-fuse was killed: the mount stays, and every call
		 * fails. */
		a->what = MOUNTED_DEAD;
	else if (xp_uri_parse(a->uri, &uri, NULL) || !uri.has_target)
		a->what = MOUNTED_UNKNOWN;
	else
		a->what = srp_port_id_equal(&uri.target, q->id) ? MOUNTED_TARGET
								: MOUNTED_OTHER;
}

enum mounted mounted_at(struct aside *look, const char *dir,
			const struct srp_port_id *id, char *ret_uri,
			size_t size)
{
	const struct mounted_question q = { .dir = dir, .id = id };
	struct mounted_answer a = { 0 };

	if (!aside_do(look, mounted_look, &q, &a, sizeof(a)))
		return MOUNTED_HANGS;
	if (ret_uri && a.what != MOUNTED_NOTHING && a.what != MOUNTED_DEAD)
		snprintf(ret_uri, size, "%s", a.uri);
	return a.what;
}

/* ---- mount and unmount ---- */

static int run_and_wait(const char *path, const char *const argv[])
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		execvp(path, (char *const *)argv);
		log_error("cannot run %s: %s", path, strerror(errno));
		_exit(EXIT_FAILURE);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return EXIT_FAILURE;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

/* The lock is on the directory itself: several daemons may have the same
 * rule. */
int mounted_start(const char *uri, const char *dir)
{
	const char *const argv[] = { "rdma-fuse", uri, dir, NULL };
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char path[PATH_MAX];
	int code;

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
		log_info("%s: another program is about to mount there", dir);
		close(fd);
		return EXIT_FAILURE;
	}
	code = find_mount(dir, NULL, 0)
		       ? EXIT_SUCCESS
		       : run_and_wait(rdma_fuse_path(path, sizeof(path)), argv);
	if (fd >= 0)
		close(fd);
	return code;
}

static void mounted_unmount(const void *arg, void *ret)
{
	const char *const argv[] = {
		"fusermount3", "-u", "-z", "--", arg, NULL
	};

	if (find_mount(arg, NULL, 0))
		run_and_wait("fusermount3", argv);
}

void mounted_remove(const char *dir)
{
	struct aside once = { .fd = -1 };
	char done = 0;

	if (aside_do(&once, mounted_unmount, dir, &done, sizeof(done)))
		return;
	log_warn("%s: unmounting it takes long; going on meanwhile", dir);
	if (once.fd >= 0)
		close(once.fd);
}
