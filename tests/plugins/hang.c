/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store for tests whose functions may not return. LOCATION is the path of a
 * FIFO. While it exists, reads and writes of the upper half, and measuring,
 * wait until a process opens the FIFO for writing. Opening and closing wait for
 * LOCATION.open and LOCATION.close in the same way, and so does the exit of the process
 * for the FIFO that T_HANG_EXIT names.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma_block_plugin.h>

#define BYTES (1u << 20)

static const struct rbp_host *host;

static void hang(const char *fifo)
{
	int fd = open(fifo, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
}

static void hang_at(const char *location, const char *what)
{
	char fifo[4096];

	snprintf(fifo, sizeof(fifo), "%s.%s", location, what);
	hang(fifo);
}

__attribute__((destructor)) static void hang_exit(void)
{
	const char *fifo = getenv("T_HANG_EXIT");

	if (fifo)
		hang(fifo);
}

static int store_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	hang_at(location, "open");
	*ret_v = strdup(location);
	info->caps = RBP_CAN_WRITE | RBP_CAN_FLUSH;
	info->bytes = BYTES;
	info->block_size = 512;
	return *ret_v ? 0 : -ENOMEM;
}

static void store_close(void *v)
{
	hang_at(v, "close");
	free(v);
}

static void store_submit(void *v, struct rbp_io *io)
{
	if (io->op != RBP_FLUSH && io->offset >= BYTES / 2)
		hang(v);
	if (io->op == RBP_READ)
		memset(io->buf, 0, io->len);
	host->done(io, 0);
}

static int store_measure(void *v, uint64_t *ret_bytes)
{
	hang(v);
	*ret_bytes = BYTES;
	return 0;
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *h)
{
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.name = "hang",
		.version = "1",
		.help = "keeps its caller while the FIFO at LOCATION exists",
		.open = store_open,
		.close = store_close,
		.submit = store_submit,
		.measure = store_measure,
	};

	host = h;
	return &plugin;
}
