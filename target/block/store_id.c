/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/store_id.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"

#define FILE_TEXT_MAX 4096
#define UDEV_TEXT_MAX 16384

/* A block device, and the path of its files in sysfs. */
struct device {
	const char *root;
	dev_t dev;
	char partition[8]; /* its number; "": a whole disk */
	/* "../" if the attributes are those of the disk of a partition, else
	 * "". */
	const char *disk;
};

/* ---- reading ---- */

/* Reads a small file as a string. False, and "": it does not exist, is empty,
 * or is too long. */
static bool read_file(char *buf, size_t len, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static bool read_file(char *buf, size_t len, const char *fmt, ...)
{
	_cleanup_close_ int fd = -1;
	char path[512];
	va_list ap;
	ssize_t n;

	buf[0] = '\0';
	va_start(ap, fmt);
	n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, len);
	if (n < 0 || (size_t)n >= len)
		n = 0;
	buf[n] = '\0';
	return n > 0;
}

/* Removes white space at both ends. */
static void trim(char *text)
{
	size_t len = strlen(text);
	size_t skip = 0;

	while (len && isspace((unsigned char)text[len - 1]))
		text[--len] = '\0';
	while (isspace((unsigned char)text[skip]))
		skip++;
	memmove(text, text + skip, len - skip + 1);
}

/* Reads an attribute of the device. If @name begins with d->disk: of its disk. */
static bool read_attr(const struct device *d, const char *disk,
		      const char *name, char *buf, size_t len)
{
	if (!read_file(buf, len, "%s/sys/dev/block/%u:%u/%s%s", d->root,
		       major(d->dev), minor(d->dev), disk, name))
		return false;
	trim(buf);
	return *buf;
}

/* The value of the line "@key..." in @text. */
static bool take_value(const char *text, const char *key, char *buf, size_t len)
{
	size_t key_len = strlen(key);

	while (text && strncmp(text, key, key_len) != 0) {
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	if (!text)
		return false;
	snprintf(buf, len, "%.*s", (int)strcspn(text + key_len, "\n"),
		 text + key_len);
	trim(buf);
	return *buf;
}

/* What udev knows about the device itself. */
static bool read_udev(const struct device *d, const char *key, char *buf,
		      size_t len)
{
	char text[UDEV_TEXT_MAX];

	return read_file(text, sizeof(text), "%s/run/udev/data/b%u:%u", d->root,
			 major(d->dev), minor(d->dev)) &&
	       take_value(text, key, buf, len);
}

/* ---- what a device reports about itself ---- */

/* Stores @text as one word after "@kind:"; all of it or nothing. */
static bool put_id(char *id, const char *kind, const char *text)
{
	int n = snprintf(id, STORE_TEXT_MAX, "%s:%s", kind, text);

	if (n < 0 || n >= STORE_TEXT_MAX) {
		id[0] = '\0';
		return false;
	}
	for (char *c = id; *c; c++) {
		if (*c <= ' ' || *c > '~')
			*c = '_';
	}
	return true;
}

/* The kernel and mdadm group the digits differently. Arrays with other metadata
 * than the kernel's have zeroes there. */
static bool put_md_id(char *id, const char *text)
{
	char digits[33];
	size_t n = 0;

	for (; *text && n < sizeof(digits) - 1; text++) {
		if (isxdigit((unsigned char)*text))
			digits[n++] = (char)tolower((unsigned char)*text);
	}
	digits[n] = '\0';
	return strspn(digits, "0") < n && put_id(id, "md", digits);
}

static bool is_md(const struct device *d, char *id)
{
	char text[256];

	if (read_attr(d, d->disk, "md/uuid", text, sizeof(text)) &&
	    put_md_id(id, text))
		return true;
	return !*d->partition &&
	       read_udev(d, "E:MD_UUID=", text, sizeof(text)) &&
	       put_md_id(id, text);
}

/* A whole disk, or the disk of a partition. */
static void read_disk(const struct device *d, char *id)
{
	static const struct {
		const char *name;
		const char *kind;
	} attrs[] = {
		{ "dm/uuid", "dm" },	   { "wwid", "wwid" }, /* NVMe */
		{ "device/wwid", "wwid" },		       /* SCSI */
		{ "serial", "serial" },			       /* virtio */
		{ "device/cid", "cid" },		       /* MMC */
	};
	char text[STORE_TEXT_MAX];

	id[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(attrs); i++) {
		if (read_attr(d, d->disk, attrs[i].name, text, sizeof(text)) &&
		    put_id(id, attrs[i].kind, text))
			return;
	}
	is_md(d, id);
}

/* Newer kernels report it; with older ones udev does. If an MBR has no disk
 * signature, it has no UUID, only zeroes and the number. */
static bool read_partition_uuid(const struct device *d, char *buf, size_t len)
{
	char text[FILE_TEXT_MAX];

	if (!(read_attr(d, "", "uevent", text, sizeof(text)) &&
	      take_value(text, "PARTUUID=", buf, len)) &&
	    !read_udev(d, "E:ID_PART_ENTRY_UUID=", buf, len))
		return false;
	for (char *c = buf; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return strncmp(buf, "00000000-", 9) != 0;
}

static void add_disk(char *id, const char *disk)
{
	size_t len = strlen(id);

	if (len + 1 + strlen(disk) < STORE_TEXT_MAX)
		sprintf(id + len, "/%s", disk);
	else
		id[0] = '\0';
}

static void read_own(const struct device *d, char *id)
{
	char disk[STORE_TEXT_MAX];
	char uuid[64];

	read_disk(d, disk);
	if (!*d->partition)
		memcpy(id, disk, sizeof(disk));
	else if (!read_partition_uuid(d, uuid, sizeof(uuid)))
		id[0] = '\0';
	else if (put_id(id, "part", uuid) && *disk)
		/* A copy of the whole disk has partitions with the same
		 * UUIDs. */
		add_disk(id, disk);
}

/* ---- how it is recognised ---- */

/* After the file is deleted, another file may get its inode, but with another
 * creation time. File systems without creation times are not reliable. */
static bool file_mark(int fd, const char *path, char *mark, ino_t *ret_ino)
{
	struct statx stx;

	if (statx(fd, path, *path ? 0 : AT_EMPTY_PATH, STATX_INO | STATX_BTIME,
		  &stx) ||
	    !(stx.stx_mask & STATX_INO) || !(stx.stx_mask & STATX_BTIME) ||
	    !S_ISREG(stx.stx_mode))
		return false;
	snprintf(mark, STORE_TEXT_MAX, "inode:%llu/born:%lld.%09u",
		 (unsigned long long)stx.stx_ino,
		 (long long)stx.stx_btime.tv_sec, stx.stx_btime.tv_nsec);
	*ret_ino = (ino_t)stx.stx_ino;
	return true;
}

/* A loop device is identified by its file, if that still has its name. */
static void loop_mark(const struct device *d, int fd, char *mark)
{
	char path[FILE_TEXT_MAX];
	char file[STORE_TEXT_MAX];
	struct loop_info64 info;
	ino_t ino;

	if (!read_attr(d, "", "loop/backing_file", path, sizeof(path)) ||
	    ioctl(fd, LOOP_GET_STATUS64, &info) ||
	    !file_mark(AT_FDCWD, path, file, &ino) || ino != info.lo_inode)
		return;
	snprintf(mark, STORE_TEXT_MAX, "loop:%llu:%.200s",
		 (unsigned long long)info.lo_offset, file);
}

/* The kernel numbers all disks that are attached, from boot on. */
static void read_here(const struct device *d, char *here)
{
	char boot[40];
	char seq[24];

	if (!read_file(boot, sizeof(boot), "%s/proc/sys/kernel/random/boot_id",
		       d->root) ||
	    !read_attr(d, d->disk, "diskseq", seq, sizeof(seq)))
		return;
	trim(boot);
	snprintf(here, STORE_HERE_MAX, "%s/%s/%s", boot, seq, d->partition);
}

void store_id_read(const char *root, int fd, const struct stat *st,
		   struct store_id *ret)
{
	struct device d = { .root = root, .dev = st->st_rdev, .disk = "" };
	ino_t ino;

	memset(ret, 0, sizeof(*ret));
	ret->is_device = S_ISBLK(st->st_mode);
	if (!ret->is_device) {
		file_mark(fd, "", ret->mark.lasting, &ino);
		return;
	}
	if (read_attr(&d, "", "partition", d.partition, sizeof(d.partition)))
		d.disk = "../";
	read_own(&d, ret->own);
	memcpy(ret->mark.lasting, ret->own, sizeof(ret->own));
	if (!*ret->own)
		loop_mark(&d, fd, ret->mark.lasting);
	read_here(&d, ret->mark.here);
}

enum store_match store_mark_match(const struct store_mark *was,
				  const struct store_mark *is)
{
	if (*was->lasting)
		return strcmp(was->lasting, is->lasting) ? STORE_OTHER
							 : STORE_SAME;
	return *was->here && !strcmp(was->here, is->here) ? STORE_SAME
							  : STORE_UNKNOWN;
}

/* ---- paths ---- */

/* Appends the parts of @path to the absolute path @out. */
static int add_parts(const char *path, char *out, size_t len)
{
	while (*path) {
		size_t n = strcspn(path, "/");
		size_t at = strlen(out);

		if (n == 2 && !memcmp(path, "..", 2)) {
			char *last = strrchr(out, '/');

			if (last)
				*last = '\0';
		} else if (n && !(n == 1 && *path == '.')) {
			if (at + 1 + n >= len)
				return -ENAMETOOLONG;
			out[at] = '/';
			memcpy(out + at + 1, path, n);
			out[at + 1 + n] = '\0';
		}
		path += n;
		path += *path == '/';
	}
	return 0;
}

int store_path_clean(const char *path, char *ret, size_t len)
{
	char here[FILE_TEXT_MAX] = "";
	int err;

	if (*path != '/' && !getcwd(here, sizeof(here)))
		return -errno;
	ret[0] = '\0';
	err = add_parts(here, ret, len);
	return err ? err : add_parts(path, ret, len);
}
