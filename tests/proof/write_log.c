/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/proof/write_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int map_head(struct write_log *log, int prot)
{
	log->head =
		mmap(NULL, sizeof(*log->head), prot, MAP_SHARED, log->fd, 0);
	return log->head == MAP_FAILED ? -errno : 0;
}

int write_log_create(struct write_log *log, const char *path)
{
	int err;

	log->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (log->fd < 0 || ftruncate(log->fd, sizeof(*log->head)))
		return -errno;
	err = map_head(log, PROT_READ | PROT_WRITE);
	if (err)
		return err;
	memcpy(log->head->magic, WRITE_LOG_MAGIC, sizeof(WRITE_LOG_MAGIC));
	log->head->end = sizeof(*log->head);
	return 0;
}

int write_log_open(struct write_log *log, const char *path)
{
	int err;

	log->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (log->fd < 0)
		return -errno;
	err = map_head(log, PROT_READ);
	if (err)
		return err;
	return memcmp(log->head->magic, WRITE_LOG_MAGIC,
		      sizeof(WRITE_LOG_MAGIC))
		       ? -EINVAL
		       : 0;
}

static int write_all(int fd, const void *buf, uint64_t len, uint64_t offset)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, buf, len, (off_t)offset);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		buf = (const uint8_t *)buf + n;
		offset += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

int write_log_append(struct write_log *log, enum write_log_op op,
		     uint64_t offset, uint64_t len, const void *data)
{
	const struct write_log_record r = { .op = op,
					    .offset = offset,
					    .len = len };
	uint64_t data_len = op == WRITE_LOG_WRITE ? len : 0;
	uint64_t at = log->head->end;
	int err = write_all(log->fd, &r, sizeof(r), at);

	if (!err)
		err = write_all(log->fd, data, data_len, at + sizeof(r));
	if (err)
		return err;
	log->head->end = at + sizeof(r) + data_len;
	log->head->cnt++;
	return 0;
}

uint64_t write_log_cnt(const struct write_log *log)
{
	return log->head->cnt;
}

int write_log_read(const struct write_log *log, uint64_t *pos,
		   struct write_log_record *ret, uint64_t *ret_data)
{
	uint64_t at = *pos ? *pos : sizeof(*log->head);
	ssize_t n = pread(log->fd, ret, sizeof(*ret), (off_t)at);

	if (n != sizeof(*ret))
		return n < 0 ? -errno : -EIO;
	*ret_data = at + sizeof(*ret);
	*pos = *ret_data + (ret->op == WRITE_LOG_WRITE ? ret->len : 0);
	return 0;
}
