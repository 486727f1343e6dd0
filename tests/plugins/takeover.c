/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store for tests in the place of an attacker who runs code inside rdma-target. LOCATION
 * is WHAT or WHAT:PATH. The first READ of the upper half tries it, on the thread of the
 * worker, and says "takeover: done" on standard error if the kernel let it, and why not
 * if it did not. Many attempts end the process, which the sandbox says.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma_block_plugin.h>

#define BYTES (1u << 20)

static const struct rbp_host *host;

/* Each returns -1, with errno, if it may not. */
static int take_read(const char *path)
{
	char byte;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -1 : read(fd, &byte, 1) < 0 ? -1 : 0;
}

static int take_write(const char *path)
{
	return open(path, O_WRONLY | O_CLOEXEC);
}

static int take_socket(const char *path)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static int take_datagram(const char *path)
{
	return socket(AF_INET, SOCK_DGRAM, 0);
}

static int take_raw(const char *path)
{
	return socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
}

static int take_exec(const char *path)
{
	return execl("/bin/sh", "sh", "-c", "echo takeover: done >&2",
		     (char *)NULL);
}

static int take_trace(const char *path)
{
	return (int)ptrace(PTRACE_SEIZE, 1, NULL, NULL);
}

static int take_kill(const char *path)
{
	return kill(1, 0);
}

static const struct {
	const char *what;
	int (*take)(const char *path);
} takes[] = {
	{ "read", take_read },	   { "write", take_write },
	{ "socket", take_socket }, { "datagram", take_datagram },
	{ "raw", take_raw },	   { "exec", take_exec },
	{ "trace", take_trace },   { "kill", take_kill },
};

static void takeover(const char *location)
{
	const char *colon = strchr(location, ':');
	size_t len = colon ? (size_t)(colon - location) : strlen(location);

	for (size_t i = 0; i < sizeof(takes) / sizeof(takes[0]); i++) {
		if (strlen(takes[i].what) != len ||
		    strncmp(takes[i].what, location, len))
			continue;
		if (takes[i].take(colon ? colon + 1 : "") < 0)
			fprintf(stderr, "takeover: %s\n", strerror(errno));
		else
			fprintf(stderr, "takeover: done\n");
	}
}

static int take_open(struct rbp_vol *vol, const char *location,
		     const struct rbp_arg *args, void **ret_v,
		     struct rbp_info *info, char *msg, size_t msg_len)
{
	*ret_v = strdup(location);
	info->caps = 0;
	info->bytes = BYTES;
	info->block_size = 512;
	return *ret_v ? 0 : -ENOMEM;
}

static void take_submit(void *v, struct rbp_io *io)
{
	if (io->op == RBP_READ && io->offset >= BYTES / 2)
		takeover(v);
	if (io->op == RBP_READ)
		memset(io->buf, 0, io->len);
	host->done(io, 0);
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *h)
{
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.name = "takeover",
		.version = "1",
		.help = "tries what an attacker would; LOCATION is what",
		.open = take_open,
		.close = free,
		.submit = take_submit,
	};

	host = h;
	return &plugin;
}
