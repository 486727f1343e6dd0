/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A layer for tests that is wrong about holes, and about caches. It says of all
 * blocks that they are unallocated, and does not change a range that is to become a
 * hole. It says that writes are stable when they have ended.
 */

#include <stddef.h>

#include <rdma_block_plugin.h>

static const struct rbp_host *host;
static int twice;

static int layer_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	info->caps &= ~(uint32_t)RBP_WRITE_CACHE;
	info->durability = RBP_STABLE_WHEN_ENDED;
	twice = args->name != NULL;
	*ret_v = info;
	return 0;
}

static void layer_close(void *v)
{
}

static void layer_submit(void *v, struct rbp_io *io)
{
	switch (io->op) {
	case RBP_EXTENT:
		io->extent_len = io->len;
		io->extent_mapped = 0;
		host->done(io, 0);
		break;
	case RBP_ZERO:
	case RBP_UNMAP:
		host->done(io, 0);
		break;
	default:
		host->forward(io);
		if (twice)
			host->done(io, 0);
	}
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *h)
{
	static const struct rbp_param params[] = {
		{ "twice", RBP_BOOL, NULL, "ends what it has forwarded" },
		{ NULL, RBP_STRING, NULL, NULL },
	};
	static struct rbp_plugin plugin;

	host = h;
	plugin.size = sizeof(plugin);
	plugin.name = "hollow";
	plugin.version = "1";
	plugin.help = "wrong about holes";
	plugin.params = params;
	plugin.is_layer = 1;
	plugin.open = layer_open;
	plugin.close = layer_close;
	plugin.submit = layer_submit;
	return &plugin;
}
