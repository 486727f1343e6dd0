/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/pidfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/file_lock.h"
#include "base/log.h"
#include "base/own_file.h"

/* To open a file that others remove. */
#define TRIES 10

static int pidfile_fail(const char *path, int err, struct error *e)
{
	error_set(e, err, "cannot write the PID file %s: %s", path,
		  own_file_strerror(err));
	return err;
}

/* What cannot be locked (a pipe, some network file systems) does without. */
static int pidfile_lock(const struct pidfile *p, struct error *e)
{
	char who[FILE_LOCK_NAME_MAX];
	pid_t pid = 0;

	if (file_lock_take(p->fd, p->path, /* shared= */ false,
			   FILE_LOCK_ALIVE_MS, &pid) != -EBUSY)
		return 0;
	error_set(e, -EBUSY,
		  "the PID file %s is that of %s, which still runs; name "
		  "another",
		  p->path, file_lock_name(pid, who));
	return -EBUSY;
}

/* False: whoever had it has removed it, and what is locked has no name any more. */
static bool pidfile_has_name(const struct pidfile *p)
{
	struct stat is;
	struct stat named;

	return !fstatat(p->dir, p->name, &named, 0) && !fstat(p->fd, &is) &&
	       named.st_dev == is.st_dev && named.st_ino == is.st_ino;
}

static void pidfile_close(struct pidfile *p)
{
	if (p->fd >= 0)
		close(p->fd);
	if (p->dir >= 0)
		close(p->dir);
	p->fd = p->dir = -1;
}

static int pidfile_open_once(struct pidfile *p, struct error *e)
{
	int err;

	p->dir = directory_find_of(p->path, &p->name);
	p->fd = p->dir < 0 ? p->dir
			   : own_file_open(p->dir, p->name, O_CREAT | O_WRONLY,
					   0644);
	err = p->fd < 0 ? pidfile_fail(p->path, p->fd, e) : pidfile_lock(p, e);
	if (err)
		pidfile_close(p);
	return err;
}

int pidfile_open(struct pidfile *p, const char *path, struct error *e)
{
	int err;

	*p = (struct pidfile){ .dir = -1, .fd = -1 };
	if (!path)
		return 0;
	if (strlen(path) >= sizeof(p->path))
		return pidfile_fail(path, -ENAMETOOLONG, e);
	strcpy(p->path, path);
	err = pidfile_open_once(p, e);
	/* /dev/fd/N may be a file without a name all the time. */
	for (int i = 1; i < TRIES && !err && !pidfile_has_name(p); i++) {
		pidfile_close(p);
		err = pidfile_open_once(p, e);
	}
	return err;
}

int pidfile_write(struct pidfile *p, struct error *e)
{
	if (p->fd < 0)
		return 0;
	p->written = true;
	/* What is no file is not cut short. */
	if ((ftruncate(p->fd, 0) && errno != EINVAL) ||
	    dprintf(p->fd, "%d\n", (int)getpid()) < 0)
		return pidfile_fail(p->path, -errno, e);
	return 0;
}

/* False for a device or a pipe, which must not be removed. */
static bool pidfile_is_ours(const struct pidfile *p)
{
	struct stat st;

	return fstat(p->fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (p->written || st.st_size == 0);
}

void pidfile_remove(struct pidfile *p)
{
	if (p->fd < 0)
		return;
	if (pidfile_is_ours(p) && unlinkat(p->dir, p->name, 0) &&
	    ftruncate(p->fd, 0))
		log_warn("cannot remove the PID file %s: %s", p->path,
			 strerror(errno));
	pidfile_close(p);
}
