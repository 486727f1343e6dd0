/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/aside.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* The other end is closed when the child ends. */
static bool aside_is_over(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) > 0;
}

/* The child. Returns -1: there is none. */
static pid_t aside_start(void (*work)(const void *arg, void *ret),
			 const void *arg, void *ret, size_t len, int *ret_fd)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		work(arg, ret);
		_exit(write(fds[1], ret, len) != (ssize_t)len);
	}
	close(fds[1]);
	if (pid < 0)
		close(fds[0]);
	*ret_fd = fds[0];
	return pid;
}

bool aside_do(struct aside *a, void (*work)(const void *arg, void *ret),
	      const void *arg, void *ret, size_t len)
{
	bool done;
	pid_t pid;

	if (a->fd >= 0 && !aside_is_over(a->fd, 0))
		return false;
	if (a->fd >= 0)
		close(a->fd); /* what it has found is old */
	a->fd = -1;
	pid = aside_start(work, arg, ret, len, &a->fd);
	if (pid < 0 || !aside_is_over(a->fd, ASIDE_MS))
		return false;
	done = read(a->fd, ret, len) == (ssize_t)len;
	close(a->fd);
	a->fd = -1;
	waitpid(pid, NULL, 0);
	return done;
}
