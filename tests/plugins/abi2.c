/* SPDX-License-Identifier: BSD-2-Clause */
/* A plugin of an ABI that is yet to come. */
const void *rdma_block_plugin_2(const void *host);

const void *rdma_block_plugin_2(const void *host)
{
	return host;
}
