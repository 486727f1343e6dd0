/* SPDX-License-Identifier: BSD-2-Clause */
/* A plugin with a future ABI. */
const void *rdma_block_plugin_2(const void *host);

const void *rdma_block_plugin_2(const void *host)
{
	return host;
}
