/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hang_fs DIR MOUNTPOINT: a file system with one file, "disk", of 1 GiB of zeroes, as
 * on a file server that may stop to answer. An operation that DIR/NAME exists for is not
 * answered before that is removed, and meanwhile adds a byte to DIR/NAME. NAME is open,
 * getattr, read, lseek or fsync. Writes are dropped.
 */
#define FUSE_USE_VERSION 34

#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISK_SIZE (1ll << 30)

static int dir = -1;

static void hang(const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "h", 1) < 0)
		perror(name);
	close(fd);
	while (!faccessat(dir, name, F_OK, 0))
		usleep(10000);
}

static int fs_getattr(const char *path, struct stat *st,
		      struct fuse_file_info *fi)
{
	if (!strcmp(path, "/")) {
		st->st_mode = S_IFDIR | 0755;
		st->st_nlink = 2;
		return 0;
	}
	if (strcmp(path, "/disk") != 0)
		return -ENOENT;
	hang("getattr");
	st->st_mode = S_IFREG | 0644;
	st->st_nlink = 1;
	st->st_size = DISK_SIZE;
	st->st_blocks = DISK_SIZE / 512;
	return 0;
}

static int fs_open(const char *path, struct fuse_file_info *fi)
{
	hang("open");
	return 0;
}

static int fs_read(const char *path, char *buf, size_t len, off_t offset,
		   struct fuse_file_info *fi)
{
	hang("read");
	memset(buf, 0, len);
	return (int)len;
}

static int fs_write(const char *path, const char *buf, size_t len, off_t offset,
		    struct fuse_file_info *fi)
{
	return (int)len;
}

static int fs_fsync(const char *path, int datasync, struct fuse_file_info *fi)
{
	hang("fsync");
	return 0;
}

static off_t fs_lseek(const char *path, off_t offset, int whence,
		      struct fuse_file_info *fi)
{
	hang("lseek");
	return whence == SEEK_HOLE ? DISK_SIZE : offset;
}

/* Attributes are asked for each time. */
static void *fs_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	cfg->attr_timeout = 0;
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct fuse_operations ops = {
		.init = fs_init,
		.getattr = fs_getattr,
		.open = fs_open,
		.read = fs_read,
		.write = fs_write,
		.fsync = fs_fsync,
		.lseek = fs_lseek,
	};
	/* Operations that hang keep a thread each. */
	char stays[] = "-f", threads[] = "-omax_idle_threads=128";
	char *args[] = { argv[0], argv[argc - 1], stays, threads };

	if (argc != 3)
		return 2;
	dir = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		perror(argv[1]);
		return 1;
	}
	return fuse_main(4, args, &ops, NULL);
}
