/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/tcp/socket.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <unistd.h>

#include "transport/provider.h"

/* TCP_ESTABLISHED of netinet/tcp.h, which linux/tcp.h excludes. */
#define SOCKET_ESTABLISHED 1
/* A peer with an open window takes no longer to send, beside the round trip. */
#define SOCKET_QUIET_MS 10
/* Bytes in a record of TLS. */
#define SOCKET_RECORD_MAX 16384u

static void set(int fd, int level, int option, int value)
{
	setsockopt(fd, level, option, &value, sizeof(value));
}

void tcp_no_delay(int fd)
{
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

void tcp_keep_alive(int fd, unsigned int keepalive_ms)
{
	int idle_s = keepalive_ms < 3000 ? 1 : (int)(keepalive_ms / 1000);

	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, (idle_s + 2) / 3);
	set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
	set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)keepalive_ms * 2);
}

static bool socket_is_loopback(const struct sockaddr *addr)
{
	const struct sockaddr_in *sin = (const void *)addr;
	const struct sockaddr_in6 *sin6 = (const void *)addr;

	if (addr->sa_family == AF_INET)
		return ntohl(sin->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return addr->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&sin6->sin6_addr);
}

void tcp_control_loopback(int fd, const struct sockaddr *addr)
{
	/* Every kernel has it, and every process may choose it. */
	static const char control[] = "reno";

	if (socket_is_loopback(addr))
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control,
			   sizeof(control) - 1);
}

/* ---- listening ---- */

static void socket_bind_early(int fd, int family)
{
	if (family == AF_INET6)
		set(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1);
	else
		set(fd, IPPROTO_IP, IP_FREEBIND, 1);
}

static int socket_listen(int fd, const struct sockaddr *addr,
			 socklen_t addr_len)
{
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (addr->sa_family == AF_INET6)
		set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	tcp_control_loopback(fd, addr);
	return bind(fd, addr, addr_len) || listen(fd, SOMAXCONN) ? -errno : 0;
}

static int socket_open_listener(const struct sockaddr *addr, socklen_t addr_len,
				bool early, struct error *e)
{
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int err = fd < 0 ? -errno : 0;

	if (!err && early)
		socket_bind_early(fd, addr->sa_family);
	if (!err)
		err = socket_listen(fd, addr, addr_len);
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	xp_core_listen_failed(e, err);
	return err;
}

int tcp_open_listener(const struct sockaddr *addr, socklen_t addr_len,
		      struct error *e)
{
	return socket_open_listener(addr, addr_len, /* early= */ false, e);
}

int tcp_open_listener_early(const struct sockaddr *addr, socklen_t addr_len,
			    struct error *e)
{
	return socket_open_listener(addr, addr_len, /* early= */ true, e);
}

/* ---- connections ---- */

/* All 0 if it cannot be told: that is no state. */
static struct tcp_info socket_info(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	return info;
}

bool tcp_lives(int fd, unsigned int ms)
{
	struct tcp_info info = socket_info(fd);

	return info.tcpi_state == SOCKET_ESTABLISHED &&
	       (info.tcpi_last_data_recv <= ms ||
		info.tcpi_last_ack_recv <= ms);
}

/* Memory of what has arrived, which is more than its bytes. */
static size_t socket_memory(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len);
	return info[SK_MEMINFO_RMEM_ALLOC];
}

size_t tcp_unread(int fd, size_t most)
{
	ssize_t n = recv(fd, NULL, most, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
	size_t much;

	if (n >= 0 || errno != EFAULT)
		return n > 0 ? (size_t)n : 0;
	/* The kernel's TLS has something, and counts no bytes: rather too many than too
	 * few. It has opened one record. */
	much = socket_memory(fd) + SOCKET_RECORD_MAX;
	return much < most ? much : most;
}

/* The window is half of the buffer, and a peer may leave half of it unused. */
bool tcp_held_back(int fd, size_t taken)
{
	socklen_t len = sizeof(int);
	int buffer = 0;
	size_t much;

	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, &len);
	much = (size_t)buffer / 4 + 1;
	return taken + tcp_unread(fd, much) >= much;
}

bool tcp_is_quiet(int fd)
{
	struct tcp_info info = socket_info(fd);

	return info.tcpi_last_data_recv >=
		       SOCKET_QUIET_MS + 2 * info.tcpi_rtt / 1000 &&
	       !tcp_unread(fd, 1);
}

uint64_t tcp_bytes_written(int fd)
{
	struct tcp_info info = socket_info(fd);

	return info.tcpi_bytes_sent - info.tcpi_bytes_retrans +
	       info.tcpi_notsent_bytes;
}

uint64_t tcp_bytes_acked(int fd)
{
	return socket_info(fd).tcpi_bytes_acked;
}

void tcp_ask_soon(int fd)
{
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
}

uint64_t tcp_bytes_received(int fd)
{
	return socket_info(fd).tcpi_bytes_received;
}
