/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The smallest store: a file, with plain functions that may block. rdma-target
 * calls them on helper threads.
 *
 *     rdma-target --backing example-file:/srv/disk.img
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma_block_plugin.h>

struct file {
	int fd;
};

static int file_open(struct rbp_vol *vol, const char *location,
		     const struct rbp_arg *args, void **ret_v,
		     struct rbp_info *info, char *msg, size_t msg_len)
{
	int read_only = info->open_flags & RBP_OPEN_READ_ONLY;
	struct file *file = (struct file *)malloc(sizeof(*file));
	struct stat st;

	if (!file)
		return -ENOMEM;
	file->fd = open(location, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (file->fd < 0 || fstat(file->fd, &st)) {
		int err = -errno;

		snprintf(msg, msg_len, "cannot open %s: %s", location,
			 strerror(errno));
		if (file->fd >= 0)
			close(file->fd);
		free(file);
		return err;
	}
	info->caps =
		RBP_CAN_WRITE | RBP_CAN_FLUSH | RBP_WRITE_CACHE | RBP_LASTING;
	info->block_size = 1;
	info->bytes = (uint64_t)st.st_size;
	*ret_v = file;
	return 0;
}

static void file_close(void *v)
{
	struct file *file = (struct file *)v;

	close(file->fd);
	free(file);
}

static int file_read(void *v, void *buf, uint64_t len, uint64_t offset)
{
	struct file *file = (struct file *)v;
	char *at = (char *)buf;

	while (len) {
		ssize_t n = pread(file->fd, at, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		offset += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int file_write(void *v, const void *buf, uint64_t len, uint64_t offset,
		      uint32_t flags)
{
	struct file *file = (struct file *)v;
	const char *at = (const char *)buf;

	while (len) {
		ssize_t n = pwrite(file->fd, at, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		offset += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int file_flush(void *v)
{
	struct file *file = (struct file *)v;

	return fdatasync(file->fd) ? -errno : 0;
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *host)
{
	static struct rbp_blocking blocking;
	static struct rbp_plugin plugin;

	blocking.size = sizeof(blocking);
	blocking.read = file_read;
	blocking.write = file_write;
	blocking.flush = file_flush;

	plugin.size = sizeof(plugin);
	plugin.name = "example-file";
	plugin.version = "1";
	plugin.help = "a file; LOCATION is its path";
	/* The file may belong to anybody. */
	plugin.needs = RBP_NEEDS_RIGHTS;
	plugin.open = file_open;
	plugin.close = file_close;
	plugin.blocking = &blocking;
	return &plugin;
}
