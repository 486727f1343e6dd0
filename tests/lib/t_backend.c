/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_backend.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct t_backend t_backend;

static struct backend store_backend;

static const char *const op_names[] = {
	[BLOCK_READ] = "read",	 [BLOCK_WRITE] = "write",
	[BLOCK_FLUSH] = "flush", [BLOCK_UNMAP] = "unmap",
	[BLOCK_ZERO] = "zero",	 [BLOCK_EXTENT] = "extent",
};

static void write_down(const struct block_request *req)
{
	size_t used = strlen(t_backend.log);
	char *at = t_backend.log + used;
	size_t left = sizeof(t_backend.log) - used;
	const char *comma = used ? ", " : "";

	if (req->op == BLOCK_FLUSH)
		snprintf(at, left, "%sflush", comma);
	else
		snprintf(at, left, "%s%s %llu+%llu%s%s", comma,
			 op_names[req->op], (unsigned long long)req->offset,
			 (unsigned long long)req->len, req->fua ? " fua" : "",
			 req->may_unmap ? " may-unmap" : "");
}

static void find_extent(struct block_request *req)
{
	uint64_t unit = t_backend.extent_unit;
	uint64_t left = unit - req->offset % unit;

	req->extent_mapped = req->offset / unit % 2 == 0;
	req->extent_len = left < req->len ? left : req->len;
}

static void carry_out(struct block_request *req)
{
	uint8_t *at = t_backend.store + req->offset;

	switch (req->op) {
	case BLOCK_READ:
		memcpy(req->buf, at, req->len);
		break;
	case BLOCK_WRITE:
		memcpy(at, req->buf, req->len);
		break;
	case BLOCK_FLUSH:
		break;
	case BLOCK_UNMAP:
	case BLOCK_ZERO:
		memset(at, 0, req->len);
		break;
	case BLOCK_EXTENT:
		find_extent(req);
		break;
	}
	req->progress = req->len;
}

static void finish(struct block_request *req)
{
	t_backend.cnt++;
	if (t_backend.cnt == t_backend.fail_at) {
		req->progress = t_backend.fail_progress;
		req->done(req, t_backend.fail_with);
		return;
	}
	carry_out(req);
	req->done(req, 0);
}

bool t_backend_answer(void)
{
	struct block_request *req = t_backend.held;

	if (!req)
		return false;
	t_backend.held = NULL;
	finish(req);
	return true;
}

static void store_submit(struct backend *be, struct block_request *req)
{
	write_down(req);
	if (!t_backend.later) {
		finish(req);
		return;
	}
	assert(!t_backend.held);
	t_backend.held = req;
}

static int store_open(const struct backend_options *opt, struct backend **ret,
		      struct error *e)
{
	bool in_place = t_backend.info.memory;

	t_backend.store = calloc(1, t_backend.info.size);
	if (!t_backend.store)
		return -1;
	store_backend.ops = &t_backend_ops;
	store_backend.info = t_backend.info;
	store_backend.info.kind = "test";
	store_backend.info.read_only = opt->read_only;
	if (in_place)
		store_backend.info.memory = t_backend.store;
	*ret = &store_backend;
	return 0;
}

static void store_close(struct backend *be)
{
	free(t_backend.store);
	t_backend.store = NULL;
}

static void store_paths(struct backend *be, struct backend_paths *ret)
{
	void (*paths_read)(void) = t_backend.paths_read;

	*ret = t_backend.paths;
	t_backend.paths_read = NULL;
	if (paths_read)
		paths_read();
}

static void store_set_path(struct backend *be, struct block_request *req)
{
	if (!t_backend.path_error)
		t_backend.paths.active = req->offset ? t_backend.paths.own : 0;
	req->done(req, t_backend.path_error);
}

const struct backend_ops t_backend_ops = {
	.name = "test",
	.open = store_open,
	.close = store_close,
	.submit = store_submit,
	.paths = store_paths,
	.set_path = store_set_path,
};
