/* SPDX-License-Identifier: BSD-2-Clause */
/* A store that keeps nothing: what is left is the cost of everything else. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "target/block/backend.h"

/* Offsets are signed numbers nearly everywhere: 8 EiB is a block too much for
 * them, so it is what is written and a block less what there is. */
#define NULL_MAX_SIZE (1ull << 63)

static int null_open(const struct backend_options *opt, struct backend **ret,
		     struct error *e)
{
	struct backend *be;
	uint64_t size;

	if (size_parse(opt->path, &size))
		return error_set(
			e, -EINVAL,
			"'%s' is not a size; write null:64G, for example",
			opt->path);
	size -= size % opt->block_size;
	if (!size || size > NULL_MAX_SIZE)
		return error_set(
			e, -ERANGE,
			"null:%s is out of range; one block to 8E is fine",
			opt->path);
	if (size == NULL_MAX_SIZE)
		size -= opt->block_size;
	be = calloc(1, sizeof(*be));
	if (!be)
		return error_set(e, -ENOMEM, "out of memory");
	be->ops = &backend_null;
	be->info = (struct backend_info){
		.kind = "null",
		.id.mark.lasting = "null",
		.size = size,
		.min_block = 1,
		.optimal_block = 4096,
		.unmap_granularity = opt->read_only ? 0 : opt->block_size,
		.unmap_zeroes = true,
		.read_only = opt->read_only,
		.fua = true,
		.atomic_len = 1u << 20,
		.read_cache = true,
		.zero = true,
		.extents = true,
	};
	*ret = be;
	return 0;
}

static void null_close(struct backend *be)
{
	free(be);
}

static void null_submit(struct backend *be, struct block_request *req)
{
	if (req->op == BLOCK_READ)
		memset(req->buf, 0, req->len);
	if (req->op == BLOCK_EXTENT) {
		req->extent_len = req->len;
		req->extent_mapped = false;
	}
	req->progress = req->len;
	req->done(req, 0);
}

static uint64_t null_used(struct backend *be)
{
	return 0;
}

const struct backend_ops backend_null = {
	.name = "null",
	.open = null_open,
	.close = null_close,
	.submit = null_submit,
	.used = null_used,
};
