/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of the tcp provider. libfabric gives no access to them, but they
 * are this process's, and their addresses are unique.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/ofi_internal.h"

typedef int (*name_func)(int fd, struct sockaddr *addr, socklen_t *len);

static bool is_named(int fd, name_func name, const void *addr, size_t len)
{
	struct sockaddr_storage have;
	socklen_t have_len = sizeof(have);

	return name(fd, (struct sockaddr *)&have, &have_len) == 0 &&
	       have_len == len && memcmp(&have, addr, len) == 0;
}

static bool is_listening(int fd)
{
	socklen_t len = sizeof(int);
	int listens = 0;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 &&
	       listens;
}

int ofi_find_socket(const struct sockaddr_storage *local, size_t local_len,
		    const struct sockaddr_storage *peer, size_t peer_len)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int found = -1;
	int fd;

	if (!dir)
		return -1;
	while (found < 0 && (entry = readdir(dir))) {
		fd = atoi(entry->d_name);
		if (fd <= 2 || !is_named(fd, getsockname, local, local_len))
			continue;
		if (peer ? is_named(fd, getpeername, peer, peer_len)
			 : is_listening(fd))
			found = fd;
	}
	closedir(dir);
	return found;
}

static void set(int fd, int level, int option, int value)
{
	setsockopt(fd, level, option, &value, sizeof(value));
}

void ofi_keep_alive(int fd, unsigned int keepalive_ms)
{
	int idle_s = keepalive_ms < 3000 ? 1 : (int)(keepalive_ms / 1000);

	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, (idle_s + 2) / 3);
	set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
	set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)keepalive_ms * 2);
}
