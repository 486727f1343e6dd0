/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store for tests whose functions block. LOCATION is a descriptor: each read
 * and each flush first reads a byte from it. A flush fails if the byte is L: the
 * store has lost writes, and says so once, as the kernel does.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma_block_plugin.h>

static atomic_uint calls;

/* Reads and flushes that have begun since open(). */
__attribute__((visibility("default"))) unsigned int sleeper_calls(void);

unsigned int sleeper_calls(void)
{
	return calls;
}

static int store_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	int *fd = malloc(sizeof(*fd));

	if (!fd)
		return -ENOMEM;
	*fd = atoi(location);
	calls = 0;
	info->caps = RBP_CAN_FLUSH;
	info->bytes = 1u << 20;
	info->block_size = 1;
	info->threads = 2;
	*ret_v = fd;
	return 0;
}

static void store_close(void *v)
{
	free(v);
}

static int store_read(void *v, void *buf, uint64_t len, uint64_t offset)
{
	char byte;

	atomic_fetch_add(&calls, 1);
	if (read(*(int *)v, &byte, 1) != 1)
		return -EIO;
	memset(buf, byte, len);
	return 0;
}

static int store_flush(void *v)
{
	char byte;

	atomic_fetch_add(&calls, 1);
	if (read(*(int *)v, &byte, 1) != 1)
		return -EPIPE;
	return byte == 'L' ? -EIO : 0;
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *host)
{
	static const struct rbp_blocking blocking = {
		.size = sizeof(blocking),
		.read = store_read,
		.flush = store_flush,
	};
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.name = "sleeper",
		.version = "1",
		.help = "waits for a byte; LOCATION is a descriptor",
		.open = store_open,
		.close = store_close,
		.blocking = &blocking,
	};

	return &plugin;
}
