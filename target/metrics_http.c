/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/metrics_http.h"

#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/exposition.h"
#include "base/log.h"

struct metrics_http {
	struct MHD_Daemon *daemon;
	const char *(*page)(void *user, size_t *ret_len);
	void *user;
};

/* ---- the address ---- */

/* Splits @addr into @host and the port. Returns the port; NULL: there is
 * none. */
static const char *http_split(const char *addr, char *host, size_t size)
{
	const char *colon = strrchr(addr, ':');
	size_t len = colon ? (size_t)(colon - addr) : 0;

	if (!colon) {
		snprintf(host, size, "127.0.0.1");
		return addr;
	}
	if (len > 1 && *addr == '[' && addr[len - 1] == ']') {
		addr++;
		len -= 2;
	}
	if (!len || len >= size)
		return NULL;
	snprintf(host, size, "%.*s", (int)len, addr);
	return colon + 1;
}

static struct addrinfo *http_resolve(const char *addr, struct error *e)
{
	struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *list;
	char host[64];
	const char *port = http_split(addr, host, sizeof(host));

	if (port && *port && getaddrinfo(host, port, &hints, &list) == 0)
		return list;
	error_set(e, -EINVAL,
		  "--metrics '%s': not ADDR:PORT, such as 127.0.0.1:9560",
		  addr);
	return NULL;
}

static bool http_is_loopback(const struct sockaddr *addr)
{
	const struct sockaddr_in *sin = (const void *)addr;
	const struct sockaddr_in6 *sin6 = (const void *)addr;

	if (addr->sa_family == AF_INET)
		return ntohl(sin->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&sin6->sin6_addr);
}

/* Returns a listening socket, or -errno. */
static int http_listen(const struct addrinfo *at)
{
	const int on = 1;
	const int off = 0;
	int err = 0;
	int fd = socket(at->ai_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* Whatever net.ipv6.bindv6only says. */
	if (at->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, at->ai_addr, at->ai_addrlen) ||
	    listen(fd, METRICS_HTTP_CONNS))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int http_listen_at(const char *addr, struct error *e)
{
	struct addrinfo *at = http_resolve(addr, e);
	int fd;

	if (!at)
		return -EINVAL;
	fd = http_listen(at);
	if (fd < 0)
		error_set(e, fd, "--metrics '%s': cannot listen: %s%s", addr,
			  strerror(-fd),
			  fd == -EADDRINUSE ? "; choose another port" : "");
	else if (!http_is_loopback(at->ai_addr))
		log_warn("metrics on %s: all that can connect can read "
			 "them, with the names of volumes and initiators",
			 addr);
	freeaddrinfo(at);
	return fd;
}

/* ---- requests ---- */

static enum MHD_Result http_answer(struct MHD_Connection *conn,
				   unsigned int code, const char *type,
				   const char *text, size_t len)
{
	struct MHD_Response *rsp = MHD_create_response_from_buffer(
		len, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result res;

	if (!rsp)
		return MHD_NO;
	MHD_add_response_header(rsp, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	res = MHD_queue_response(conn, code, rsp);
	MHD_destroy_response(rsp);
	return res;
}

static enum MHD_Result http_say(struct MHD_Connection *conn, unsigned int code,
				const char *text)
{
	return http_answer(conn, code, "text/plain", text, strlen(text));
}

static enum MHD_Result http_requested(void *cls, struct MHD_Connection *conn,
				      const char *url, const char *method,
				      const char *version, const char *data,
				      size_t *data_len, void **state)
{
	static const char head_seen;
	const struct metrics_http *h = cls;
	const char *text;
	size_t len;

	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
	    strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return http_say(conn, MHD_HTTP_METHOD_NOT_ALLOWED,
				"only GET is possible\n");
	/* The first call has only the header. */
	if (!*state) {
		*state = (void *)(uintptr_t)&head_seen;
		return MHD_YES;
	}
	if (*data_len > 0)
		return MHD_NO;
	if (strcmp(url, "/metrics") != 0)
		return http_say(conn, MHD_HTTP_NOT_FOUND,
				"the metrics are at /metrics\n");
	text = h->page(h->user, &len);
	if (!text)
		return http_say(conn, MHD_HTTP_SERVICE_UNAVAILABLE,
				"the target has none now\n");
	return http_answer(conn, MHD_HTTP_OK, EXPOSITION_TYPE, text, len);
}

/* ---- life cycle ---- */

static struct MHD_Daemon *http_start(struct metrics_http *h, int fd)
{
	return MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, http_requested, h,
				MHD_OPTION_LISTEN_SOCKET, fd,
				MHD_OPTION_CONNECTION_LIMIT,
				(unsigned int)METRICS_HTTP_CONNS,
				MHD_OPTION_PER_IP_CONNECTION_LIMIT,
				(unsigned int)METRICS_HTTP_CONNS / 2,
				MHD_OPTION_CONNECTION_TIMEOUT,
				(unsigned int)METRICS_HTTP_IDLE_S,
				MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				(size_t)METRICS_HTTP_MEMORY, MHD_OPTION_END);
}

int metrics_http_open(const char *addr,
		      const char *(*page)(void *user, size_t *ret_len),
		      void *user, struct metrics_http **ret, struct error *e)
{
	struct metrics_http *h = calloc(1, sizeof(*h));
	int fd;

	if (!h)
		return error_set(e, -ENOMEM, "out of memory");
	h->page = page;
	h->user = user;
	fd = http_listen_at(addr, e);
	if (fd < 0) {
		free(h);
		return fd;
	}
	h->daemon = http_start(h, fd);
	if (!h->daemon) {
		close(fd);
		free(h);
		return error_set(e, -ENOMEM,
				 "--metrics '%s': cannot start the web server",
				 addr);
	}
	*ret = h;
	return 0;
}

int metrics_http_fd(const struct metrics_http *h)
{
	return MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)
		->epoll_fd;
}

int metrics_http_timeout_ms(struct metrics_http *h)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(h->daemon, &ms) != MHD_YES)
		return -1;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

void metrics_http_run(struct metrics_http *h)
{
	MHD_run(h->daemon);
}

void metrics_http_close(struct metrics_http *h)
{
	if (!h)
		return;
	MHD_stop_daemon(h->daemon);
	free(h);
}
