/* SPDX-License-Identifier: BSD-2-Clause */
#define FUSE_USE_VERSION 312
#include "fuse/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse/dev.h"
#include "fuse/ops.h"
#include "base/capabilities.h"
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
static int mount_catching_messages(struct fuse_session *se, const char *path)
{
	_cleanup_close_ int caught = memfd_create("stderr", MFD_CLOEXEC);
	_cleanup_close_ int saved = fcntl(2, F_DUPFD_CLOEXEC, 3);
	int err;

	if (caught >= 0 && saved >= 0)
		dup2(caught, 2);
	err = fuse_session_mount(se, path);
	if (caught >= 0 && saved >= 0) {
		dup2(saved, 2);
		mount_read_messages(caught);
	}
	return err;
}

/* ---- the mounter ---- */

/* What may be asked of it. */
enum mounter_verb {
	MOUNTER_MOUNT,
	MOUNTER_UNMOUNT,
	MOUNTER_UNMOUNT_LAZILY,
};

struct mounter_request {
	enum mounter_verb verb;
	/* of MOUNT */
	bool ro;
	uint32_t max_read;
};

struct mounter_answer {
	int err;
	char why[sizeof(last_message)];
};

/* Without the file of /dev/fuse, which the answer may have: the kernel has to see when
 * the process that serves has ended. */
static bool mounter_answer(int fd, const struct mounter_answer *answer,
			   int device)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)answer,
			     .iov_len = sizeof(*answer) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	ssize_t n;

	if (device >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &device, sizeof(int));
	}
	n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	if (device >= 0)
		close(device);
	return n == (ssize_t)sizeof(*answer);
}

static struct fuse_session *mount_new_session(const struct fuse_options *o,
					      bool ro, uint32_t max_read,
					      struct dev *dev)
{
	char text[2048];
	char name[] = "rdma-fuse";
	char *argv[] = { name, text, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, argv);
	struct fuse_session *se;

	last_message[0] = '\0';
	if (!mount_make_options(o, ro, max_read, text, sizeof(text))) {
		snprintf(last_message, sizeof(last_message),
			 "the mount options are too long");
		return NULL;
	}
	fuse_set_log_func(mount_keep_message);
	se = fuse_session_new(&args, &ops_lowlevel, sizeof(ops_lowlevel), dev);
	fuse_opt_free_args(&args);
	return se;
}

static bool mounter_mount(const struct mount *m, const struct fuse_options *o,
			  const struct mounter_request *r, int fd)
{
	struct mounter_answer answer = { .err = -EIO };
	struct fuse_session *se =
		mount_new_session(o, r->ro, r->max_read, NULL);
	const char *why;

	if (se && mount_catching_messages(se, m->path) == 0) {
		answer.err = 0;
		return mounter_answer(fd, &answer, fuse_session_fd(se));
	}
	why = mount_reason();
	snprintf(answer.why, sizeof(answer.why), "%s", why);
	return mounter_answer(fd, &answer, -1);
}

/* By the set-user-ID program. */
static int mounter_run_fusermount(const char *path, bool lazy)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execlp("fusermount3", "fusermount3", "-u", lazy ? "-qz" : "-q",
		       "--", path, NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		return -EIO;
	return 0;
}

static bool mounter_unmount(const struct mount *m, bool lazy, int fd)
{
	struct mounter_answer answer = { .err = 0 };

	if (geteuid() != 0)
		answer.err = mounter_run_fusermount(m->path, lazy);
	else if (umount2(m->path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)))
		answer.err = -errno;
	return mounter_answer(fd, &answer, -1);
}

static bool mounter_serve(const struct mount *m, const struct fuse_options *o,
			  int fd)
{
	struct mounter_request r;

	if (recv(fd, &r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return false;
	switch (r.verb) {
	case MOUNTER_MOUNT:
		return mounter_mount(m, o, &r, fd);
	case MOUNTER_UNMOUNT:
		return mounter_unmount(m, false, fd);
	case MOUNTER_UNMOUNT_LAZILY:
		return mounter_unmount(m, true, fd);
	}
	return false;
}

/* Lets go of the terminal, and of a pipe that somebody reads to its end. */
static void mounter_leave_terminal(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; fd >= 0 && i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

/* Ends when the process that serves has ended. */
static void mounter_run(const struct mount *m, const struct fuse_options *o,
			int fd)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "rdma-fuse-mount");
	capabilities_keep_here(1ull << CAP_SYS_ADMIN |
			       1ull << CAP_DAC_OVERRIDE |
			       1ull << CAP_DAC_READ_SEARCH);
	mounter_leave_terminal();
	while (mounter_serve(m, o, fd))
		;
	_exit(EXIT_SUCCESS);
}

int mount_start_mounter(struct mount *m, const struct fuse_options *o,
			struct error *e)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return error_set(e, -errno, "cannot make a socket: %s",
				 strerror(errno));
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		mounter_run(m, o, fds[1]);
	}
	close(fds[1]);
	m->mounter_fd = fds[0];
	return pid < 0 ? error_set(e, -errno, "cannot start a process: %s",
				   strerror(errno))
		       : 0;
}

/* ---- mounting, by the mounter ---- */

/* Returns the descriptor of /dev/fuse, or a negative errno with @answer->why. */
static int mount_ask(const struct mount *m, const struct mounter_request *r,
		     struct mounter_answer *answer)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = answer, .iov_len = sizeof(*answer) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	const struct cmsghdr *c;
	int fd = -1;

	*answer = (struct mounter_answer){ .why = "the process that mounts has "
						  "ended" };
	if (send(m->mounter_fd, r, sizeof(*r), MSG_NOSIGNAL) < 0 ||
	    recvmsg(m->mounter_fd, &msg, MSG_CMSG_CLOEXEC) !=
		    (ssize_t)sizeof(*answer))
		return -EIO;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return answer->err ? answer->err : fd;
}

void mount_free(struct mount *m)
{
	if (!m->se)
		return;
	fuse_session_destroy(m->se);
	m->se = NULL;
}

int mount_begin(struct mount *m, const struct fuse_options *o, bool ro,
		struct dev *dev, struct error *e)
{
	const struct mounter_request r = { .verb = MOUNTER_MOUNT,
					   .ro = ro,
					   .max_read = dev_max_read(dev) };
	struct mounter_answer answer;
	char path[32];
	int fd = mount_ask(m, &r, &answer);

	m->mounted = fd >= 0;
	if (!m->mounted)
		return error_set(e, -EIO, "cannot mount %s: %s%s", m->path,
				 answer.why, mount_hint(answer.why));
	m->se = mount_new_session(o, ro, r.max_read, dev);
	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	if (m->se && fuse_session_mount(m->se, path) == 0)
		return 0;
	close(fd);
	return error_set(e, -EIO, "cannot serve %s: %s", m->path,
			 mount_reason());
}

/* ---- unmounting ---- */

pid_t mount_unmount(const struct mount *m, bool lazy)
{
	const struct mounter_request r = {
		.verb = lazy ? MOUNTER_UNMOUNT_LAZILY : MOUNTER_UNMOUNT,
	};
	struct mounter_answer answer;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	mount_ask(m, &r, &answer);
	_exit(answer.err || *answer.why ? EXIT_FAILURE : EXIT_SUCCESS);
}
