/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that one process opens for another one, which has not the right to: they go as
 * descriptors (SCM_RIGHTS) over a UNIX socket of the type SOCK_STREAM, together with bytes.
 *
 * The receiver keeps what comes until given_files_name() says what it is, and until
 * somebody takes it.
 *
 * Thread: one at a time.
 */
#ifndef BASE_GIVEN_FILES_H
#define BASE_GIVEN_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Descriptors of one name. Each is an open file of its own. */
#define GIVEN_FILE_FDS_MAX 128
#define GIVEN_FILES_MAX	   1024

struct given_file {
	struct given_file *next;
	char *path;
	bool is_own; /* who has opened it does so at each start of the target */
	/* Who takes them closes them, and sets cnt to 0. */
	unsigned int cnt;
	int fds[GIVEN_FILE_FDS_MAX];
};

/* All zero: empty. */
struct given_files {
	struct given_file *first;
	unsigned int cnt;
	/* What has come without a name yet. */
	unsigned int fd_cnt;
	int fds[GIVEN_FILE_FDS_MAX];
};

/*
 * Opens the file or block device @path @cnt times, as a target would: the first for reading
 * and writing, unless @read_only, the others for flushes. Returns @cnt, or -errno: -EINVAL: it is
 * neither. May block.
 */
int given_files_open(const char *path, bool read_only, int *fds,
		     unsigned int cnt);

/* As send() with MSG_NOSIGNAL; @cnt descriptors go with the first byte. */
ssize_t given_files_send(int socket, const void *buf, size_t len,
			 const int *fds, unsigned int cnt);

/* As recv(). Descriptors beyond GIVEN_FILE_FDS_MAX are closed. */
ssize_t given_files_recv(struct given_files *g, int socket, void *buf,
			 size_t len);

/* All descriptors without a name are of the file @path, and replace what it had. -EBADF:
 * there are none; -ENOSPC: there are GIVEN_FILES_MAX files; -ENOMEM. They stay then. */
int given_files_name(struct given_files *g, const char *path);

/* NULL: no descriptor of @path is left. @g may be NULL. */
struct given_file *given_files_find(const struct given_files *g,
				    const char *path);

/* Closes what nobody has taken. */
void given_files_close(struct given_files *g);

#endif
