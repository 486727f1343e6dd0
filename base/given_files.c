/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/given_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of one message. */
union given_space {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(GIVEN_FILE_FDS_MAX * sizeof(int))];
};

static void given_close(const int *fds, unsigned int cnt)
{
	for (unsigned int i = 0; i < cnt; i++)
		close(fds[i]);
}

/* ---- opening ---- */

/* What a target serves: nothing that blocks or does something when it is opened. */
static bool given_is_store(const struct stat *st)
{
	return S_ISREG(st->st_mode) || S_ISBLK(st->st_mode);
}

/* As the target would. The file may have been replaced since @st. -EINVAL: it is no
 * store. */
static int given_open_first(const char *path, bool read_only,
			    const struct stat *st)
{
	int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	struct stat is;
	int fd;

	if (!read_only && S_ISBLK(st->st_mode))
		flags |= O_EXCL;
	fd = open(path, flags | (read_only ? O_RDONLY : O_RDWR));
	if (fd < 0)
		return -errno;
	if (fstat(fd, &is) == 0 && given_is_store(&is))
		return fd;
	close(fd);
	return -EINVAL;
}

/* Opens the file of @fds[0] again. */
static int given_open_again(const int *fds)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

int given_files_open(const char *path, bool read_only, int *fds,
		     unsigned int cnt)
{
	struct stat st;
	int done = 0;
	int err = 0;

	if (stat(path, &st))
		return -errno;
	if (!given_is_store(&st))
		return -EINVAL;
	while (done < (int)cnt && err >= 0) {
		err = done ? given_open_again(fds)
			   : given_open_first(path, read_only, &st);
		if (err >= 0)
			fds[done++] = err;
	}
	while (err < 0 && done > 0)
		close(fds[--done]);
	return err < 0 ? err : done;
}

/* ---- sending ---- */

ssize_t given_files_send(int socket, const void *buf, size_t len,
			 const int *fds, unsigned int cnt)
{
	union given_space space = { 0 };
	struct iovec part = { .iov_base = (void *)(uintptr_t)buf,
			      .iov_len = len };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };

	if (cnt) {
		msg.msg_control = &space;
		msg.msg_controllen = CMSG_SPACE(cnt * sizeof(*fds));
		space.header.cmsg_level = SOL_SOCKET;
		space.header.cmsg_type = SCM_RIGHTS;
		space.header.cmsg_len = CMSG_LEN(cnt * sizeof(*fds));
		memcpy(CMSG_DATA(&space.header), fds, cnt * sizeof(*fds));
	}
	return sendmsg(socket, &msg, MSG_NOSIGNAL);
}

/* ---- receiving ---- */

static void given_keep(struct given_files *g, const struct cmsghdr *header)
{
	size_t cnt = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int fds[GIVEN_FILE_FDS_MAX];
	size_t kept = GIVEN_FILE_FDS_MAX - g->fd_cnt;

	memcpy(fds, CMSG_DATA(header), cnt * sizeof(*fds));
	kept = cnt < kept ? cnt : kept;
	memcpy(g->fds + g->fd_cnt, fds, kept * sizeof(*fds));
	g->fd_cnt += (unsigned int)kept;
	given_close(fds + kept, (unsigned int)(cnt - kept));
}

ssize_t given_files_recv(struct given_files *g, int socket, void *buf,
			 size_t len)
{
	union given_space space;
	struct iovec part = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &space,
		.msg_controllen = sizeof(space),
	};
	ssize_t n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);

	for (struct cmsghdr *h = n < 0 ? NULL : CMSG_FIRSTHDR(&msg); h;
	     h = CMSG_NXTHDR(&msg, h)) {
		if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
			given_keep(g, h);
	}
	return n;
}

static struct given_file *given_find(const struct given_files *g,
				     const char *path)
{
	struct given_file *file = g->first;

	while (file && strcmp(file->path, path) != 0)
		file = file->next;
	return file;
}

static struct given_file *given_add(struct given_files *g, const char *path)
{
	struct given_file *file = calloc(1, sizeof(*file));

	if (file)
		file->path = strdup(path);
	if (!file || !file->path) {
		free(file);
		return NULL;
	}
	file->next = g->first;
	g->first = file;
	g->cnt++;
	return file;
}

int given_files_name(struct given_files *g, const char *path)
{
	struct given_file *file = given_find(g, path);

	if (!g->fd_cnt)
		return -EBADF;
	if (!file && g->cnt == GIVEN_FILES_MAX)
		return -ENOSPC;
	file = file ? file : given_add(g, path);
	if (!file)
		return -ENOMEM;
	given_close(file->fds, file->cnt);
	memcpy(file->fds, g->fds, g->fd_cnt * sizeof(*g->fds));
	file->cnt = g->fd_cnt;
	g->fd_cnt = 0;
	return 0;
}

struct given_file *given_files_find(const struct given_files *g,
				    const char *path)
{
	struct given_file *file = g ? given_find(g, path) : NULL;

	return file && file->cnt ? file : NULL;
}

void given_files_close(struct given_files *g)
{
	given_close(g->fds, g->fd_cnt);
	while (g->first) {
		struct given_file *file = g->first;

		g->first = file->next;
		given_close(file->fds, file->cnt);
		free(file->path);
		free(file);
	}
	*g = (struct given_files){ 0 };
}
