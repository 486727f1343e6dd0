/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store for tests that breaks the contract. LOCATION names the way. It ends
 * every I/O at once.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma_block_plugin.h>

#define BYTES (1u << 20)

static const struct rbp_host *host;
static const char *lie;
static int flushes; /* "late": other I/Os */
static struct rbp_io *ended;
static char bytes[BYTES];

static int is_lie(const char *name)
{
	return !strcmp(lie, name);
}

static int store_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	lie = location;
	flushes = 0;
	info->caps = RBP_CAN_WRITE | RBP_CAN_FLUSH | RBP_CAN_EXTENT;
	info->bytes = BYTES;
	info->block_size = 512;
	if (is_lie("refuses")) {
		snprintf(msg, msg_len, "there is no such thing; try another");
		return -ENOENT;
	}
	if (is_lie("refuses without a word"))
		return -EACCES;
	if (is_lie("size 0"))
		info->bytes = 0;
	if (is_lie("odd size"))
		info->bytes = BYTES + 1;
	if (is_lie("huge size"))
		info->bytes = UINT64_MAX - 511;
	if (is_lie("block size 0"))
		info->block_size = 0;
	if (is_lie("block size 3"))
		info->block_size = 3;
	if (is_lie("block size 64k"))
		info->block_size = 65536;
	if (is_lie("cache"))
		info->caps = RBP_CAN_WRITE | RBP_WRITE_CACHE;
	if (is_lie("never stable")) {
		info->caps = RBP_CAN_WRITE;
		info->durability = RBP_STABLE_NEVER;
	}
	if (is_lie("stable some day"))
		info->durability = RBP_STABLE_NEVER + 1;
	if (is_lie("away"))
		info->caps |= RBP_WRITE_CACHE;
	if (is_lie("unmap"))
		info->caps |= RBP_CAN_UNMAP;
	if (is_lie("loses"))
		info->caps |= RBP_LOSES_UNFLUSHED;
	if (is_lie("memory"))
		info->memory = bytes;
	if (is_lie("identity"))
		memset(info->identity, 'x', sizeof(info->identity));
	*ret_v = (void *)lie;
	return 0;
}

static void store_close(void *v)
{
}

static void end_extent(struct rbp_io *io)
{
	io->extent_len = io->len;
	if (is_lie("extent of 0"))
		io->extent_len = 0;
	if (is_lie("extent too long"))
		io->extent_len = io->len + 512;
	if (is_lie("extent of a part"))
		io->extent_len = 1;
	host->done(io, 0);
}

static void store_submit(void *v, struct rbp_io *io)
{
	if (io->op == RBP_EXTENT) {
		end_extent(io);
		return;
	}
	if (io->op == RBP_FLUSH) {
		int res = is_lie("flush")  ? -EIO
			  : is_lie("away") ? -ENOTCONN
					   : 0;

		host->done(io, flushes++ ? 0 : res);
		return;
	}
	if (is_lie("progress")) {
		io->progress = io->len + 4096;
		host->done(io, -EIO);
		return;
	}
	if (is_lie("late") && flushes++) {
		host->done(ended, 0);
		return;
	}
	ended = io;
	/* The sandbox of rdma-target does not allow it. */
	if (is_lie("memfd"))
		close(memfd_create("liar", MFD_CLOEXEC));
	if (io->op == RBP_READ)
		memset(io->buf, 0, io->len);
	host->done(io, is_lie("bytes") ? (int)io->len : 0);
	if (is_lie("twice"))
		host->done(io, 0);
}

static int store_measure(void *v, uint64_t *ret_bytes)
{
	*ret_bytes = is_lie("odd size") ? BYTES + 1 : BYTES;
	if (is_lie("measure"))
		*ret_bytes = BYTES * 2;
	if (is_lie("size 0"))
		*ret_bytes = 0;
	return 0;
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *h)
{
	static const struct rbp_param params[] = {
		{ "text", RBP_STRING, NULL, "a text" },
		{ "number", RBP_NUMBER, "7", "a number" },
		{ "size", RBP_SIZE, NULL, "a size" },
		{ "flag", RBP_BOOL, NULL, "on or off" },
		{ "trust-server", RBP_BOOL, "off", "accept any loss" },
		{ NULL, RBP_STRING, NULL, NULL },
	};
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.name = "liar",
		.version = "1",
		.help = "breaks the contract; LOCATION says how",
		.params = params,
		.open = store_open,
		.close = store_close,
		.submit = store_submit,
		.measure = store_measure,
	};

	host = h;
	return &plugin;
}
