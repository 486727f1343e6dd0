/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/backend.h"

#include <assert.h>

static bool is_declared(const struct backend_info *info,
			const struct block_request *req)
{
	switch (req->op) {
	case BLOCK_READ:
		return !info->memory;
	case BLOCK_WRITE:
		return !info->memory && !info->read_only &&
		       (info->fua || !req->fua);
	case BLOCK_FLUSH:
		return true;
	case BLOCK_UNMAP:
		return info->unmap_granularity && !info->read_only;
	case BLOCK_ZERO:
		return info->zero && !info->read_only &&
		       (info->fua || !req->fua);
	case BLOCK_EXTENT:
		return info->extents;
	}
	return false;
}

bool backend_has_range(const struct backend *be,
		       const struct block_request *req)
{
	const struct backend_info *info = &be->info;

	if (req->op == BLOCK_FLUSH)
		return !req->offset && !req->len;
	return req->len && req->len <= info->size &&
	       req->offset <= info->size - req->len;
}

bool backend_accepts(const struct backend *be, const struct block_request *req)
{
	bool has_data = req->op == BLOCK_READ || req->op == BLOCK_WRITE;

	return is_declared(&be->info, req) && backend_has_range(be, req) &&
	       req->done && req->worker && (req->buf || !has_data);
}

void backend_submit(struct backend *be, struct block_request *req)
{
	assert(backend_accepts(be, req));

	req->backend = be;
	req->next = NULL;
	req->progress = 0;
	req->step = 0;
	req->tries = 0;
	be->ops->submit(be, req);
}
