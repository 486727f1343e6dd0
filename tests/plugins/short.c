/* SPDX-License-Identifier: BSD-2-Clause */
/* A plugin whose struct ends before its functions. */
#include <rdma_block_plugin.h>

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *host)
{
	static const struct rbp_plugin plugin = {
		.size = offsetof(struct rbp_plugin, open),
		.name = "short",
		.version = "1",
		.help = "has no functions",
		.open = (void *)1,
		.close = (void *)1,
		.submit = (void *)1,
	};

	return &plugin;
}
