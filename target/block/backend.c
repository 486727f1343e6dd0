/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/backend.h"

#include <assert.h>
#include <errno.h>

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

struct backend *backend_with_notes(struct backend *be)
{
	while (be->below)
		be = be->below;
	return be->info.has_notes ? be : NULL;
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

/* ---- what a layer does not do ---- */

int backend_sync(struct backend *be)
{
	for (; be; be = be->below) {
		if (be->ops->sync)
			return be->ops->sync(be);
	}
	return 0;
}

uint64_t backend_used(struct backend *be)
{
	uint64_t size = be->info.size;

	for (; be; be = be->below) {
		if (be->ops->used)
			return be->ops->used(be);
	}
	return size;
}

void backend_paths(struct backend *be, struct backend_paths *ret)
{
	*ret = (struct backend_paths){ 0 };
	for (; be; be = be->below) {
		if (be->ops->paths) {
			be->ops->paths(be, ret);
			return;
		}
	}
}

uint64_t backend_epoch(struct backend *be)
{
	for (; be; be = be->below) {
		if (be->ops->epoch)
			return be->ops->epoch(be);
	}
	return 0;
}

void backend_set_path(struct backend *be, struct block_request *req)
{
	for (; be; be = be->below) {
		if (be->ops->set_path) {
			be->ops->set_path(be, req);
			return;
		}
	}
	req->done(req, -EOPNOTSUPP);
}

static int backend_measure_below(struct backend *below, uint64_t *ret_size)
{
	int err = backend_measure(below, ret_size);

	if (!err && *ret_size > below->info.size)
		below->info.size = *ret_size;
	return err;
}

int backend_measure(struct backend *be, uint64_t *ret_size)
{
	struct backend *below = be->below;
	bool is_same = below && below->info.size == be->info.size;
	uint64_t size_below = 0;
	int err = below ? backend_measure_below(below, &size_below) : 0;

	if (err)
		return err;
	*ret_size = is_same ? size_below : be->info.size;
	return be->ops->measure ? be->ops->measure(be, ret_size) : 0;
}

/* ---- life ---- */

int backend_attach(struct backend *be, struct block_worker *w)
{
	int err = be->below ? backend_attach(be->below, w) : 0;

	if (err || !be->ops->attach)
		return err;
	err = be->ops->attach(be, w);
	if (err && be->below)
		backend_detach(be->below, w);
	return err;
}

void backend_detach(struct backend *be, struct block_worker *w)
{
	for (; be; be = be->below) {
		if (be->ops->detach)
			be->ops->detach(be, w);
	}
}

void backend_close(struct backend *be)
{
	while (be) {
		struct backend *below = be->below;

		be->ops->close(be);
		be = below;
	}
}
