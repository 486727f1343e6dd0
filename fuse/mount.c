/* SPDX-License-Identifier: BSD-2-Clause */
#define FUSE_USE_VERSION 312
#include "fuse/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fuse/dev.h"
#include "fuse/ops.h"
#include "base/cleanup.h"

/* statfs(2) */
#define FUSE_MAGIC 0x65735546

/* ---- checks ---- */

static int mount_check_device(struct error *e)
{
	_cleanup_close_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	int err = -errno;

	if (fd >= 0)
		return 0;
	if (err == -ENOENT || err == -ENODEV || err == -ENXIO)
		error_set(e, err,
			  "no /dev/fuse on this machine: %s; load the "
			  "module (modprobe fuse), or start the container "
			  "with --device /dev/fuse --cap-add SYS_ADMIN",
			  strerror(-err));
	else
		error_set(e, err,
			  "cannot open /dev/fuse: %s; its mode should be "
			  "0666, and a container needs --device /dev/fuse "
			  "--cap-add SYS_ADMIN",
			  strerror(-err));
	return err;
}

/*
 * Returns 1 if @path is the root of a FUSE mount (its inode number is 1), else 0.
 * For a dead mount, the kernel may answer stat() from its cache for a while. But
 * statfs() fails, and this returns -ENOTCONN or -ECONNABORTED.
 */
static int mount_is_fuse_root(const char *path, const struct stat *st)
{
	struct statfs fs;

	if (statfs(path, &fs))
		return errno == ENOTCONN || errno == ECONNABORTED ? -errno : 0;
	return fs.f_type == FUSE_MAGIC && st->st_ino == FUSE_ROOT_ID;
}

static int mount_refuse_path(const char *path, int err, struct error *e)
{
	if (!*path) {
		return error_set(e, err,
				 "the name of the mount point is empty");
	}
	switch (err) {
	case -ENOTCONN:
	case -ECONNABORTED:
		error_set(e, err,
			  "mount point %s is a dead mount: its server is "
			  "gone; unmount it first: fusermount3 -u %s",
			  path, path);
		break;
	case -ENOENT:
		error_set(e, err,
			  "mount point %s does not exist; make it first: "
			  "mkdir -p %s",
			  path, path);
		break;
	default:
		error_set(e, err, "mount point %s: %s", path, strerror(-err));
	}
	return err;
}

static int mount_check_path(const char *path, struct mount *ret,
			    struct error *e)
{
	struct stat st;
	int fuse;

	if (strstr(path, "://")) {
		return error_set(
			e, -EINVAL,
			"mount point %s looks like an address: the URI "
			"comes first, then the mount point",
			path);
	}
	if (stat(path, &st) < 0)
		return mount_refuse_path(path, -errno, e);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
		return error_set(e, -ENOTDIR,
				 "mount point %s is neither a directory nor a "
				 "regular file",
				 path);
	}
	fuse = mount_is_fuse_root(path, &st);
	if (fuse < 0)
		return mount_refuse_path(path, fuse, e);
	if (fuse) {
		error_set(e, -EBUSY,
			  "mount point %s is in use: a FUSE file system "
			  "is mounted there; unmount it first: "
			  "fusermount3 -u %s",
			  path, path);
		return -EBUSY;
	}
	if (!realpath(path, ret->path))
		return mount_refuse_path(path, -errno, e);
	ret->is_file = S_ISREG(st.st_mode);
	return 0;
}

int mount_check(const char *path, struct mount *ret, struct error *e)
{
	int err;

	*ret = (struct mount){ 0 };
	err = mount_check_path(path, ret, e);
	return err ? err : mount_check_device(e);
}

/* ---- mounting ---- */

/* An option whose value may hold commas. */
static bool mount_add_text(char *buf, size_t size, const char *name,
			   const char *value)
{
	size_t len = strlen(buf);

	len += (size_t)snprintf(buf + len, size - len, ",%s=", name);
	for (const char *p = value; *p; p++) {
		if (len + 3 > size)
			return false;
		if (*p == ',' || *p == '\\')
			buf[len++] = '\\';
		buf[len++] = *p;
	}
	buf[len] = '\0';
	return true;
}

static bool mount_make_options(const struct fuse_options *o, bool ro,
			       uint32_t max_read, char *buf, size_t size)
{
	/* If other users may access the files, the kernel checks permissions. */
	bool check = o->default_permissions || o->allow_other;
	int len =
		snprintf(buf, size, "-o%s,max_read=%u%s%s%s", ro ? "ro" : "rw",
			 max_read, o->allow_other ? ",allow_other" : "",
			 check ? ",default_permissions" : "", o->vfs);

	return len < (int)size &&
	       mount_add_text(buf, size, "subtype", o->subtype) &&
	       mount_add_text(buf, size, "fsname",
			      *o->fsname ? o->fsname : o->uri);
}

/* The last message of libfuse, or of fusermount3 on its standard error. */
static char last_message[256];

__attribute__((format(printf, 2, 0))) static void
mount_keep_message(enum fuse_log_level level, const char *fmt, va_list ap)
{
	vsnprintf(last_message, sizeof(last_message), fmt, ap);
}

/* Puts what was written to @fd into last_message. */
static void mount_read_messages(int fd)
{
	ssize_t n = pread(fd, last_message, sizeof(last_message) - 1, 0);

	if (n > 0)
		last_message[n] = '\0';
}

static const char *mount_reason(void)
{
	static const char *const names[] = { "fusermount3: ", "fuse: " };
	const char *text = last_message;

	last_message[strcspn(last_message, "\n")] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strncmp(text, names[i], strlen(names[i])))
			text += strlen(names[i]);
	}
	return *text ? text : "no reason was given";
}

static const char *mount_hint(const char *why)
{
	if (strstr(why, "user_allow_other"))
		return "; add that line, or leave -o allow_other out";
	if (strstr(why, "No such file") || strstr(why, "exec"))
		return "; is fusermount3 there? (Debian: apt install fuse3)";
	if (strstr(why, "not permitted"))
		return "; try as root, or in a container add --cap-add "
		       "SYS_ADMIN";
	return "";
}

/* fuse_session_mount(); the standard error of fusermount3 goes to last_message. */
static int mount_catching_messages(struct mount *m)
{
	_cleanup_close_ int caught = memfd_create("stderr", MFD_CLOEXEC);
	_cleanup_close_ int saved = fcntl(2, F_DUPFD_CLOEXEC, 3);
	int err;

	if (caught >= 0 && saved >= 0)
		dup2(caught, 2);
	err = fuse_session_mount(m->se, m->path);
	if (caught >= 0 && saved >= 0) {
		dup2(saved, 2);
		mount_read_messages(caught);
	}
	return err;
}

/* True if the kernel has ended the mount. */
static bool mount_is_gone(int fd)
{
	struct pollfd p = { .fd = fd };

	return fd >= 0 && poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

void mount_free(struct mount *m)
{
	if (!m->se)
		return;
	/* Then it only frees. In other cases, it would unmount what is there. */
	if (mount_is_gone(fuse_session_fd(m->se)))
		fuse_session_unmount(m->se);
	fuse_session_destroy(m->se);
	m->se = NULL;
}

int mount_begin(struct mount *m, const struct fuse_options *o, bool ro,
		struct dev *dev, struct error *e)
{
	char text[2048];
	char name[] = "rdma-fuse";
	char *argv[] = { name, text, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, argv);
	const char *why;

	if (!mount_make_options(o, ro, dev_max_read(dev), text, sizeof(text))) {
		return error_set(e, -E2BIG, "the mount options are too long");
	}
	last_message[0] = '\0';
	fuse_set_log_func(mount_keep_message);
	m->se = fuse_session_new(&args, &ops_lowlevel, sizeof(ops_lowlevel),
				 dev);
	fuse_opt_free_args(&args);
	m->mounted = m->se && mount_catching_messages(m) == 0;
	if (m->mounted)
		return 0;
	why = mount_reason();
	mount_free(m);
	return error_set(e, -EIO, "cannot mount %s: %s%s", m->path, why,
			 mount_hint(why));
}

/* ---- unmounting ---- */

/* Runs in the child: only async-signal-safe functions. */
static int mount_unmount_in_child(const char *path, bool lazy)
{
	int fd;

	if (geteuid() == 0)
		return umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0))
			       ? 1
			       : 0;
	fd = open("/dev/null", O_RDWR);
	if (fd >= 0) {
		dup2(fd, 1);
		dup2(fd, 2);
	}
	execlp("fusermount3", "fusermount3", "-u", lazy ? "-qz" : "-q", "--",
	       path, NULL);
	return 127;
}

pid_t mount_unmount(const struct mount *m, bool lazy)
{
	sigset_t none;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	_exit(mount_unmount_in_child(m->path, lazy));
}
