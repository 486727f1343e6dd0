/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of the tcp provider. libfabric gives no access to them, but they
 * are this process's, and their addresses are unique.
 */
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
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

/* Of the socket that connects the two, or (@peer NULL) of the one that listens. */
static int find(const struct sockaddr_storage *local, size_t local_len,
		const struct sockaddr_storage *peer, size_t peer_len)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int found = -1;
	int fd;

	if (!dir)
		return -1;
	while (found < 0 && (entry = readdir(dir))) {
		/* NOLINTNEXTLINE(cert-err34-c): the kernel's; dots are 0 */
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

int ofi_socket_of(struct fid_ep *ep)
{
	struct sockaddr_storage local;
	struct sockaddr_storage peer;
	size_t local_len = sizeof(local);
	size_t peer_len = sizeof(peer);

	if (fi_getname(&ep->fid, &local, &local_len) ||
	    fi_getpeer(ep, &peer, &peer_len))
		return -1;
	return find(&local, local_len, &peer, peer_len);
}

int ofi_listening_socket(struct fid_pep *pep)
{
	struct sockaddr_storage addr;
	size_t len = sizeof(addr);

	if (fi_getname(&pep->fid, &addr, &len))
		return -1;
	return find(&addr, len, NULL, 0);
}

/* ---- connections that ask for nothing ---- */

static bool is_port(const struct sockaddr_storage *addr, in_port_t port)
{
	/* It is at the same place in both families. */
	return (addr->ss_family == AF_INET || addr->ss_family == AF_INET6) &&
	       ((const struct sockaddr_in *)addr)->sin_port == port;
}

/* Accepted at @port, and nothing was ever said to it: whoever has asked for a
 * connection is answered one way or the other. */
static bool is_stranger(int fd, in_port_t port, struct sockaddr_storage *peer)
{
	struct sockaddr_storage local = { 0 };
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(local);

	if (getsockname(fd, (struct sockaddr *)&local, &len) ||
	    !is_port(&local, port))
		return false;
	len = sizeof(*peer);
	memset(peer, 0, len);
	if (getpeername(fd, (struct sockaddr *)peer, &len))
		return false;
	len = sizeof(info);
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
	       len > offsetof(struct tcp_info, tcpi_bytes_sent) &&
	       info.tcpi_bytes_sent == 0;
}

static bool was_seen(const struct ofi_half_open *h, int fd,
		     const struct sockaddr_storage *peer)
{
	for (unsigned int i = 0; i < h->cnt; i++) {
		if (h->seen[i].fd == fd)
			return !memcmp(&h->seen[i].peer, peer, sizeof(*peer));
	}
	return false;
}

/* Without memory it is found again by the next look. */
static void note(struct ofi_half_open *h, int fd,
		 const struct sockaddr_storage *peer)
{
	struct ofi_stranger *seen =
		reallocarray(h->seen, h->cnt + 1, sizeof(*seen));

	if (!seen)
		return;
	h->seen = seen;
	seen[h->cnt].fd = fd;
	seen[h->cnt++].peer = *peer;
}

unsigned int ofi_half_open_look(struct ofi_half_open *h, in_port_t port)
{
	struct ofi_half_open now = { 0 };
	struct sockaddr_storage peer;
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int fd;

	while (dir && (entry = readdir(dir))) {
		/* NOLINTNEXTLINE(cert-err34-c): the kernel's; dots are 0 */
		fd = atoi(entry->d_name);
		if (fd <= 2 || !is_stranger(fd, port, &peer))
			continue;
		if (was_seen(h, fd, &peer))
			shutdown(fd, SHUT_RDWR);
		else
			note(&now, fd, &peer);
	}
	if (dir)
		closedir(dir);
	free(h->seen);
	*h = now;
	return now.cnt;
}
