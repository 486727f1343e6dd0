/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "target/block/store_file.h"
#include "base/cleanup.h"
#include "base/file_lock.h"
#include "base/given_files.h"
#include "base/log.h"
#include "target/block/loop_use.h"

/* Immediate data over verbs lies on multiples of this
 * (xp_config.recv_aligned_at). */
#define MEMORY_UNIT 512u

#define FALLBACK_BLOCK 4096u

struct open_call {
	const struct backend_options *opt;
	struct rbp_info *info;
	struct stat st;
	char *msg; /* of open() */
	size_t msg_len;
};

static int store_file_fail(const struct open_call *c, int err, const char *fmt,
			   ...) __attribute__((format(printf, 3, 4)));

static int store_file_fail(const struct open_call *c, int err, const char *fmt,
			   ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->msg, c->msg_len, fmt, ap);
	va_end(ap);
	return err;
}

/* One device has many names. */
static bool is_same(const struct stat *one, const struct stat *two)
{
	if (S_ISBLK(one->st_mode) && S_ISBLK(two->st_mode))
		return one->st_rdev == two->st_rdev;
	return one->st_dev == two->st_dev && one->st_ino == two->st_ino;
}

/* Whoever opened the file may have another view of the files: in a container, for
 * example. After a restart, the path alone counts. If this process may not look at it,
 * the open file is all it knows. */
static int store_file_look(struct open_call *c)
{
	const struct given_file *given = c->opt->given;
	struct stat st;

	if (given && fstat(given->fds[0], &st))
		return store_file_fail(c, -errno, "%s", strerror(errno));
	if (stat(c->opt->path, &c->st) == 0)
		return !given || is_same(&st, &c->st)
			       ? 0
			       : store_file_fail(
					 c, -ESTALE,
					 "is another file for the target than "
					 "for the program that opened it; do "
					 "they see the same directories?");
	if (given && errno == EACCES)
		c->st = st;
	else if (errno == ENOENT && !strncmp(c->opt->path, "/dev/", 5))
		return store_file_fail(c, -ENOENT,
				       "does not exist; lsblk lists the block "
				       "devices");
	else if (errno == ENOENT)
		return store_file_fail(c, -ENOENT,
				       "does not exist; make it with: truncate "
				       "-s 1G %s",
				       c->opt->path);
	else
		return store_file_fail(c, -errno, "%s", strerror(errno));
	return 0;
}

static int check_kind(struct open_call *c)
{
	int err = store_file_look(c);

	if (err)
		return err;
	if (S_ISDIR(c->st.st_mode))
		return store_file_fail(
			c, -EISDIR,
			"is a directory; name a file or a block device");
	if (!S_ISREG(c->st.st_mode) && !S_ISBLK(c->st.st_mode))
		return store_file_fail(
			c, -EINVAL,
			"is neither a regular file nor a block device");
	return 0;
}

static int given_twice(const struct open_call *c)
{
	return store_file_fail(
		c, -EEXIST,
		"is given twice; any number of initiators can use one "
		"volume");
}

/* The devices above this one, such as logical volumes. */
static bool is_part(dev_t dev, char *name, size_t len)
{
	char path[64];
	struct dirent *entry = NULL;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/holders", major(dev),
		 minor(dev));
	dir = opendir(path);
	do
		entry = dir ? readdir(dir) : NULL;
	while (entry && entry->d_name[0] == '.');
	if (entry)
		snprintf(name, len, "%s", entry->d_name);
	if (dir)
		closedir(dir);
	return entry;
}

/* Where @dev is mounted, from a line of /proc/self/mountinfo: "36 35 8:1 /root
 * /mnt options...". NULL: nowhere. */
static const char *mount_point_of(char *line, dev_t dev)
{
	char *at = line;
	char *number;
	char *end;
	unsigned long maj;

	strsep(&at, " ");
	strsep(&at, " ");
	number = strsep(&at, " ");
	strsep(&at, " ");
	if (!at)
		return NULL;
	maj = strtoul(number, &end, 10);
	if (*end != ':' || makedev(maj, strtoul(end + 1, NULL, 10)) != dev)
		return NULL;
	return strsep(&at, " ");
}

static bool is_mounted(dev_t dev, char *where, size_t len)
{
	const char *found = NULL;
	char line[1024];
	FILE *f = fopen("/proc/self/mountinfo", "re");

	while (f && !found && fgets(line, sizeof(line), f))
		found = mount_point_of(line, dev);
	if (found)
		snprintf(where, len, "%s", found);
	if (f)
		fclose(f);
	return found;
}

static int in_use(const struct open_call *c, pid_t pid, const char *what)
{
	char who[FILE_LOCK_NAME_MAX];

	return store_file_fail(c, -EBUSY, "is in use by %s%s%s",
			       file_lock_name(pid, who), what,
			       file_lock_is_interrupted()
				       ? "; a signal ended the wait for it"
				       : "");
}

static int in_use_as(const struct open_call *c, const char *what,
		     const char *name)
{
	return store_file_fail(c, -EBUSY, "is in use: %s %s", what, name);
}

/* Refuses causes that do not end soon by themselves; the caller waits for the
 * others. */
static int refuse_what_lasts(const struct open_call *c)
{
	char name[256];

	if (is_mounted(c->st.st_rdev, name, sizeof(name)))
		return in_use_as(c, "mounted at", name);
	if (is_part(c->st.st_rdev, name, sizeof(name)))
		return in_use_as(c, "part of", name);
	if (file_lock_is_ours(&c->st))
		return given_twice(c);
	return 0;
}

static int explain_open(const struct open_call *c, int err)
{
	const char *hint = "";
	bool may_be_used = S_ISBLK(c->st.st_mode) && !c->opt->read_only;
	int why = may_be_used ? refuse_what_lasts(c) : 0;

	if (why)
		return why;
	/* Units of systemd make file systems read-only (ProtectSystem=). */
	if (!c->opt->read_only && err == EROFS)
		hint = "; under systemd, name its directory in ReadWritePaths= "
		       "of the unit; or add ,ro to export it read-only";
	else if (!c->opt->read_only && err == EACCES &&
		 !access(c->opt->path, R_OK))
		hint = "; add ,ro to export it read-only";
	/* And every device that they do not name. */
	else if (err == EPERM && S_ISBLK(c->st.st_mode))
		hint = "; under systemd, name it in DeviceAllow= of the unit";
	else if (err == EACCES || err == EPERM)
		hint = "; check its owner and mode, or run as another user";
	return store_file_fail(c, -err, "cannot be opened for %s: %s%s",
			       c->opt->read_only ? "reading"
						 : "reading and writing",
			       strerror(err), hint);
}

/* O_EXCL: a block device that the target writes to must not be mounted. */
static int open_once(const struct open_call *c)
{
	int flags = O_CLOEXEC | O_NOCTTY;

	if (c->opt->read_only)
		flags |= O_RDONLY;
	else
		flags |= O_RDWR | (S_ISBLK(c->st.st_mode) ? O_EXCL : 0);
	return open(c->opt->path, flags);
}

/* After a process was killed, its device stays exclusively open until its last
 * I/O has ended. */
static int open_when_free(const struct open_call *c, int *ret_fd)
{
	struct file_wait wait = { 0 };
	int fd = open_once(c);

	while (fd < 0 && errno == EBUSY) {
		pid_t pid;
		enum file_holder holder = file_lock_holder(&c->st, &pid);
		int err = refuse_what_lasts(c);

		if (err)
			return err;
		/* Without a lock, it is a process that only reads the device,
		 * such as udev. */
		if (holder == FILE_HOLDER_NONE)
			holder = FILE_HOLDER_ALIVE;
		if (!file_lock_wait(&wait, c->opt->path, holder, pid,
				    FILE_LOCK_STORE_MS))
			return in_use(c, pid ? pid : file_lock_opener(&c->st),
				      "");
		fd = open_once(c);
	}
	if (fd < 0)
		return explain_open(c, errno);
	*ret_fd = fd;
	return 0;
}

/* The descriptor may be used as one that this process opens. */
static int store_file_check_given(const struct open_call *c, int fd,
				  bool writes)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(fd, &st))
		return store_file_fail(c, -errno, "%s", strerror(errno));
	if (!is_same(&st, &c->st) || flags & O_PATH ||
	    (flags & O_ACCMODE) == O_WRONLY ||
	    (writes && (flags & O_ACCMODE) != O_RDWR))
		return store_file_fail(c, -EBADF, "was not opened for %s",
				       writes ? "reading and writing"
					      : "reading");
	/* O_APPEND moves writes. */
	if (fcntl(fd, F_SETFL, 0))
		return store_file_fail(c, -errno, "cannot be used: %s",
				       strerror(errno));
	return 0;
}

/* It is served now, but by the path it may not be at the next start. */
static void store_file_warn_of_rights(const struct open_call *c)
{
	int mode = c->opt->read_only ? R_OK : R_OK | W_OK;

	if (faccessat(AT_FDCWD, c->opt->path, mode, AT_EACCESS))
		log_warn("%s: served, because rdma-ctl could open it; the "
			 "target itself cannot (%s), and will not start again "
			 "with it: give it to its user%s",
			 c->opt->path, strerror(errno),
			 errno == EPERM ? ", or name it in DeviceAllow= of the "
					  "unit"
					: "");
}

/* Takes the open files, also if it fails. */
static int store_file_take(const struct open_call *c, struct file_store *file)
{
	struct given_file *given = c->opt->given;
	int err;

	file->fd = given->fds[0];
	for (unsigned int i = 1; i < given->cnt; i++) {
		if (file->flush_fd_cnt < BLOCK_WORKERS_MAX)
			file->flush_fds[file->flush_fd_cnt++] = given->fds[i];
		else
			close(given->fds[i]);
	}
	given->cnt = 0;
	err = store_file_check_given(c, file->fd, !c->opt->read_only);
	for (unsigned int i = 0; i < file->flush_fd_cnt && !err; i++)
		err = store_file_check_given(c, file->flush_fds[i], false);
	if (!err && !c->opt->read_only && S_ISBLK(c->st.st_mode))
		err = refuse_what_lasts(c);
	if (!err && !given->is_own)
		store_file_warn_of_rights(c);
	return err;
}

static int lock_file(const struct open_call *c, int fd)
{
	const char *what = c->opt->read_only ? ", which writes to it" : "";
	pid_t pid = 0;
	int err = file_lock_take(fd, c->opt->path, c->opt->read_only,
				 FILE_LOCK_STORE_MS, &pid);

	if (err == -EBUSY && pid == getpid())
		return given_twice(c);
	if (err == -EBUSY)
		return in_use(c, pid, what);
	return err ? store_file_fail(c, err, "cannot be locked: %s",
				     strerror(-err))
		   : 0;
}

/* A loop device and its file are one store with two names. As with mounted
 * devices, a volume that is only read is left alone. */
static int check_loop(const struct open_call *c)
{
	char name[LOOP_NAME_MAX];
	struct stat file;
	pid_t pid;

	if (c->opt->read_only)
		return 0;
	if (S_ISREG(c->st.st_mode) && loop_in_use(&c->st, name))
		return in_use_as(c, "mounted or served as", name);
	if (!S_ISBLK(c->st.st_mode) || !loop_file(c->st.st_rdev, &file))
		return 0;
	if (file_lock_is_ours(&file))
		return given_twice(c);
	if (file_lock_holder(&file, &pid) != FILE_HOLDER_NONE)
		return in_use(c, pid, ", which has the file below it");
	return 0;
}

/* ---- direct I/O ---- */

static uint32_t device_sector(int fd)
{
	int sector;

	return ioctl(fd, BLKSSZGET, &sector) ? FALLBACK_BLOCK
					     : (uint32_t)sector;
}

/* The unit of direct I/O in bytes; 0: none; -1: the kernel does not say. */
static int direct_unit(const struct open_call *c, int fd)
{
#ifdef STATX_DIOALIGN
	struct statx stx;

	if (!statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) &&
	    stx.stx_mask & STATX_DIOALIGN) {
		if (stx.stx_dio_mem_align > MEMORY_UNIT)
			return 0;
		return (int)stx.stx_dio_offset_align;
	}
#endif
	if (S_ISBLK(c->st.st_mode))
		return (int)device_sector(fd);
	return -1;
}

/* Kernels before 6.1 do not report it. A test read then finds out. */
static bool direct_read_works(int fd, uint32_t block_size)
{
	static uint8_t space[3 * 4096] __attribute__((aligned(4096)));

	return pread(fd, space + MEMORY_UNIT, block_size, block_size) >= 0;
}

static int store_file_set_direct(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_DIRECT : flags & ~O_DIRECT;
	return fcntl(fd, F_SETFL, flags) ? -errno : 0;
}

/* Switches @fd to direct I/O in units of the block size, or says why it cannot. */
static int try_direct(const struct open_call *c, int fd, uint32_t *ret_unit)
{
	int unit = direct_unit(c, fd);

	if (!unit || store_file_set_direct(fd, true))
		return store_file_fail(
			c, -EINVAL,
			"no direct I/O here (the file system refuses "
			"O_DIRECT); leave out direct=on");
	if (unit > (int)c->opt->block_size) {
		store_file_set_direct(fd, false);
		return store_file_fail(
			c, -EINVAL,
			"direct I/O needs blocks of %d bytes here; add "
			"block-size=%d or leave out direct=on",
			unit, unit);
	}
	if (unit < 0 && !direct_read_works(fd, c->opt->block_size)) {
		store_file_set_direct(fd, false);
		return store_file_fail(
			c, -EINVAL,
			"no direct I/O in blocks of %u bytes here; add "
			"block-size=4096 or leave out direct=on",
			c->opt->block_size);
	}
	*ret_unit = unit > 0 ? (uint32_t)unit : c->opt->block_size;
	return 0;
}

static int choose_direct(const struct open_call *c, struct file_store *file)
{
	bool is_device = S_ISBLK(c->st.st_mode);
	int err;

	if (c->opt->direct == 0 || (c->opt->direct < 0 && !is_device))
		return 0;
	err = try_direct(c, file->fd, &file->direct_unit);
	if (!err) {
		file->direct = true;
		return 0;
	}
	if (c->opt->direct > 0)
		return err;
	log_info("%s: %s (used through the page cache)", c->opt->path, c->msg);
	return 0;
}

/* ---- properties of the store ---- */

/* Reads a number or word of the disk's queue in sysfs. False: there is none. */
static bool queue_text(dev_t dev, const char *name, char *buf, size_t len)
{
	static const char *const dirs[] = { "queue", "../queue" };
	char path[128];

	for (size_t i = 0; i < 2; i++) {
		_cleanup_close_ int fd = -1;
		ssize_t n;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/%s",
			 major(dev), minor(dev), dirs[i], name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		n = read(fd, buf, len - 1);
		if (n <= 0)
			return false;
		buf[n] = '\0';
		buf[strcspn(buf, "\n")] = '\0';
		return true;
	}
	return false;
}

static uint64_t queue_number(dev_t dev, const char *name)
{
	char text[32];

	if (!queue_text(dev, name, text, sizeof(text)))
		return 0;
	return strtoull(text, NULL, 10);
}

static bool has_volatile_cache(dev_t dev)
{
	char text[32];

	return !queue_text(dev, "write_cache", text, sizeof(text)) ||
	       strcmp(text, "write through") != 0;
}

/*
 * The store unmaps a device by fallocate(PUNCH_HOLE), which promises zeroes. It
 * works if the device supports both.
 */
static void describe_device(const struct open_call *c,
			    const struct file_store *file)
{
	struct rbp_info *info = c->info;
	dev_t dev = c->st.st_rdev;
	unsigned int physical;

	block_info_of(info)->kind = "block device";
	info->optimal_io = FALLBACK_BLOCK;
	if (!ioctl(file->fd, BLKPBSZGET, &physical))
		info->optimal_io = physical;
	if (queue_number(dev, "write_zeroes_max_bytes") &&
	    queue_number(dev, "discard_max_bytes"))
		info->unmap_granularity =
			queue_number(dev, "discard_granularity");
	if (!file->direct || has_volatile_cache(dev))
		info->caps |= RBP_WRITE_CACHE;
	if (queue_number(dev, "rotational"))
		info->caps |= RBP_ROTATIONAL;
}

static bool can_punch(const struct file_store *file, off_t size)
{
	/* After the end of the file, so that no data can be lost. */
	off_t off = (size | (FALLBACK_BLOCK - 1)) + 1;

	return !fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  off, FALLBACK_BLOCK);
}

static void describe_regular(const struct open_call *c,
			     const struct file_store *file)
{
	struct rbp_info *info = c->info;

	/* Network file systems report their transfer size as block size; use
	 * the page size then. */
	info->optimal_io = FALLBACK_BLOCK;
	if (!file->read_only && can_punch(file, c->st.st_size))
		info->unmap_granularity = (uint64_t)c->st.st_blksize;
	info->caps |= RBP_WRITE_CACHE | RBP_CAN_EXTENT;
	if (queue_number(c->st.st_dev, "rotational"))
		info->caps |= RBP_ROTATIONAL;
}

static int get_size(const struct open_call *c, int fd, uint64_t *ret_size)
{
	uint32_t rest;

	if (S_ISBLK(c->st.st_mode)) {
		if (ioctl(fd, BLKGETSIZE64, ret_size))
			return store_file_fail(c, -errno, "has no size: %s",
					       strerror(errno));
	} else {
		*ret_size = (uint64_t)c->st.st_size;
	}
	if (!*ret_size)
		return store_file_fail(
			c, -ENODATA,
			"is empty; give it a size with: truncate -s 1G %s",
			c->opt->path);
	if (*ret_size < c->opt->block_size)
		return store_file_fail(c, -EINVAL,
				       "is smaller than one block (%u bytes)",
				       c->opt->block_size);
	rest = (uint32_t)(*ret_size % c->opt->block_size);
	if (rest)
		log_warn("%s: the last %u bytes are no whole block of %u "
			 "bytes and are left out",
			 c->opt->path, rest, c->opt->block_size);
	*ret_size -= rest;
	return 0;
}

static struct backend_life life_of(const struct open_call *c, int fd)
{
	struct backend_life life = { .rdev = 0 };
	struct statx stx;

	if (S_ISBLK(c->st.st_mode)) {
		life.rdev = c->st.st_rdev;
#ifdef BLKGETDISKSEQ
		if (ioctl(fd, BLKGETDISKSEQ, &life.seq))
			life.seq = 0;
#endif
		return life;
	}
	life.dev = c->st.st_dev;
	life.ino = c->st.st_ino;
	if (!statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) &&
	    stx.stx_mask & STATX_BTIME) {
		life.born_s = stx.stx_btime.tv_sec;
		life.born_ns = stx.stx_btime.tv_nsec;
	}
	return life;
}

static void store_file_identify(const struct open_call *c, int fd)
{
	struct block_info *info = block_info_of(c->info);

	store_id_read("", fd, &c->st, &info->id);
	info->life = life_of(c, fd);
}

static int store_file_describe(const struct open_call *c,
			       struct file_store *file)
{
	struct rbp_info *info = c->info;
	int err = get_size(c, file->fd, &info->bytes);
	struct statfs fs;

	if (err)
		return err;
	file->bytes = file->used = info->bytes;
	file->is_fuse =
		!fstatfs(file->fd, &fs) && fs.f_type == FUSE_SUPER_MAGIC;
	file->was_removed = c->st.st_nlink == 0;
	file->told_removed = file->was_removed;
	store_file_identify(c, file->fd);
	info->caps =
		RBP_CAN_FLUSH | RBP_CAN_FUA | RBP_LASTING | RBP_UNMAP_ZEROES;
	if (!file->read_only)
		info->caps |= RBP_CAN_WRITE | RBP_CAN_ZERO;
	if (!file->direct)
		info->caps |= RBP_READ_CACHE;
	info->block_size = file->direct ? file->direct_unit : 1;
	if (S_ISBLK(c->st.st_mode))
		describe_device(c, file);
	else
		describe_regular(c, file);
	if (file->read_only || file->write_through)
		info->caps &= ~(uint32_t)RBP_WRITE_CACHE;
	file->can_punch = info->unmap_granularity && !file->read_only;
	if (file->can_punch)
		info->caps |= RBP_CAN_UNMAP;
	return 0;
}

static int open_and_describe(struct open_call *c, struct file_store *file)
{
	int err = check_kind(c);

	if (!err)
		err = c->opt->given ? store_file_take(c, file)
				    : open_when_free(c, &file->fd);
	if (!err)
		err = lock_file(c, file->fd);
	/* The file that was opened, even if its name belongs to another one
	 * now. */
	if (!err && fstat(file->fd, &c->st))
		err = store_file_fail(c, -errno, "%s", strerror(errno));
	if (!err)
		err = check_loop(c);
	if (!err)
		err = choose_direct(c, file);
	if (!err)
		err = store_file_describe(c, file);
	return err;
}

void store_file_free(struct file_store *file)
{
	while (file->flush_fd_cnt)
		close(file->flush_fds[--file->flush_fd_cnt]);
	if (file->fd >= 0)
		close(file->fd);
	free(file->path);
	free(file);
}

int file_store_open(struct rbp_vol *vol, const char *location,
		    const struct rbp_arg *args, void **ret_v,
		    struct rbp_info *info, char *msg, size_t msg_len)
{
	const struct backend_options *opt = block_info_of(info)->opt;
	struct open_call c = {
		.opt = opt, .info = info, .msg = msg, .msg_len = msg_len
	};
	struct file_store *file = calloc(1, sizeof(*file));
	int err;

	if (!file)
		return store_file_fail(&c, -ENOMEM, "out of memory");
	file->fd = -1;
	file->path = strdup(location);
	file->block_size = opt->block_size;
	file->read_only = opt->read_only;
	file->write_through = opt->write_through;
	file->look_io.scratch = &file->look_scratch;
	err = file->path && !plugin_threads_create(store_file_help, file,
						   /* max= */ 1,
						   store_file_helped,
						   &file->helper)
		      ? open_and_describe(&c, file)
		      : store_file_fail(&c, -ENOMEM, "out of memory");
	if (err) {
		plugin_threads_free(file->helper);
		store_file_free(file);
		return err;
	}
	*ret_v = file;
	return 0;
}
