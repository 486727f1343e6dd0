/* SPDX-License-Identifier: BSD-2-Clause */
/* A store without data. With it, one measures the cost of everything else. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "target/block/backend.h"

/* Offsets are signed numbers nearly everywhere: 8 EiB is a block too much for
 * them, so it is what is written and a block less what there is. */
#define NULL_MAX_SIZE (1ull << 63)

static int null_open(struct rbp_vol *vol, const char *location,
		     const struct rbp_arg *args, void **ret_v,
		     struct rbp_info *info, char *msg, size_t msg_len)
{
	uint64_t size;

	if (size_parse(location, &size)) {
		snprintf(msg, msg_len,
			 "not a size; write null:64G, for example");
		return -EINVAL;
	}
	size -= size % info->volume_block;
	if (!size || size > NULL_MAX_SIZE) {
		snprintf(msg, msg_len, "out of range; one block to 8E is fine");
		return -ERANGE;
	}
	if (size == NULL_MAX_SIZE)
		size -= info->volume_block;
	info->caps = RBP_CAN_WRITE | RBP_CAN_FUA | RBP_CAN_UNMAP |
		     RBP_CAN_ZERO | RBP_CAN_EXTENT | RBP_UNMAP_ZEROES |
		     RBP_READ_CACHE;
	info->bytes = size;
	info->block_size = 1;
	info->unmap_granularity = info->volume_block;
	info->atomic_write = 1u << 20;
	snprintf(block_info_of(info)->id.mark.lasting, STORE_TEXT_MAX, "null");
	*ret_v = NULL;
	return 0;
}

static void null_close(void *v)
{
}

static void null_submit(void *v, struct rbp_io *io)
{
	if (io->op == RBP_READ)
		memset(io->buf, 0, io->len);
	if (io->op == RBP_EXTENT)
		io->extent_len = io->len;
	block_io_done(io, 0);
}

static uint64_t null_used(void *v)
{
	return 0;
}

const struct backend_type backend_null = {
	.plugin = {
		.size = sizeof(struct rbp_plugin),
		.name = "null",
		.help = "keeps nothing; LOCATION is its size",
		.open = null_open,
		.close = null_close,
		.submit = null_submit,
		.used = null_used,
	},
};
