/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * proof-record: mounts a file at another place, and records all writes there.
 * Between a target and its backing file, it records what a power cut could have
 * left at any time. proof-replay makes such a state.
 *
 * There is one thread, so that the order in the log is the order of execution.
 * The kernel writes through: a write is answered when it is in the log.
 */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/proof/write_log.h"

static const char help[] =
	"Usage: proof-record FILE LOG DIR [FUSE-OPTIONS]\n"
	"\n"
	"Mounts DIR. DIR/disk shows FILE; all writes to it are recorded in "
	"LOG.\n";

#define NAME "/disk"

struct recorder {
	int fd;
	struct write_log log;
};

static struct recorder *self(void)
{
	return fuse_get_context()->private_data;
}

static int get_attr(const char *path, struct stat *st,
		    struct fuse_file_info *fi)
{
	if (!strcmp(path, "/")) {
		*st = (struct stat){ .st_mode = S_IFDIR | 0755, .st_nlink = 2 };
		return 0;
	}
	if (strcmp(path, NAME) != 0)
		return -ENOENT;
	return fstat(self()->fd, st) ? -errno : 0;
}

static int read_dir(const char *path, void *buf, fuse_fill_dir_t fill,
		    off_t offset, struct fuse_file_info *fi,
		    enum fuse_readdir_flags flags)
{
	fill(buf, ".", NULL, 0, 0);
	fill(buf, "..", NULL, 0, 0);
	fill(buf, &NAME[1], NULL, 0, 0);
	return 0;
}

static int open_file(const char *path, struct fuse_file_info *fi)
{
	return strcmp(path, NAME) ? -ENOENT : 0;
}

static int read_file(const char *path, char *buf, size_t len, off_t offset,
		     struct fuse_file_info *fi)
{
	ssize_t n = pread(self()->fd, buf, len, offset);

	return n < 0 ? -errno : (int)n;
}

static int write_file(const char *path, const char *buf, size_t len,
		      off_t offset, struct fuse_file_info *fi)
{
	ssize_t n = pwrite(self()->fd, buf, len, offset);
	int err;

	if (n < 0)
		return -errno;
	err = write_log_append(&self()->log, WRITE_LOG_WRITE, (uint64_t)offset,
			       (uint64_t)n, buf);
	return err ? err : (int)n;
}

/* The file itself need not be stable: this machine keeps its power. */
static int sync_file(const char *path, int data_only, struct fuse_file_info *fi)
{
	return write_log_append(&self()->log, WRITE_LOG_FLUSH, 0, 0, NULL);
}

static int allocate(const char *path, int mode, off_t offset, off_t len,
		    struct fuse_file_info *fi)
{
	if (fallocate(self()->fd, mode, offset, len))
		return -errno;
	if (!(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)))
		return 0;
	return write_log_append(&self()->log, WRITE_LOG_ZERO, (uint64_t)offset,
				(uint64_t)len, NULL);
}

static off_t seek(const char *path, off_t offset, int whence,
		  struct fuse_file_info *fi)
{
	off_t at = lseek(self()->fd, offset, whence);

	return at < 0 ? -errno : at;
}

static const struct fuse_operations operations = {
	.getattr = get_attr,
	.readdir = read_dir,
	.open = open_file,
	.read = read_file,
	.write = write_file,
	.fsync = sync_file,
	.fallocate = allocate,
	.lseek = seek,
};

int main(int argc, char **argv)
{
	static struct recorder r;
	int err;

	if (argc < 4) {
		fputs(help, stderr);
		return EXIT_FAILURE;
	}
	r.fd = open(argv[1], O_RDWR | O_CLOEXEC);
	if (r.fd < 0) {
		perror(argv[1]);
		return EXIT_FAILURE;
	}
	err = write_log_create(&r.log, argv[2]);
	if (err) {
		fprintf(stderr, "%s: %s\n", argv[2], strerror(-err));
		return EXIT_FAILURE;
	}
	argv[2] = argv[0];
	return fuse_main(argc - 2, argv + 2, &operations, &r);
}
