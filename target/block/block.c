/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/block.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "target/block/block_worker.h"

/* ---- the record of flushes ---- */

static void block_noted_done(struct block_request *req, int res)
{
	if (res && (req->op != BLOCK_FLUSH || res == -ENOTCONN))
		flush_record_doubt(req->record);
	else if (req->op == BLOCK_FLUSH)
		flush_record_end(req->record, req->flush_nr, res);
	req->done = req->noted_done;
	req->done(req, res);
}

static void block_note(struct block_request *req)
{
	if (req->op == BLOCK_FLUSH)
		req->flush_nr = flush_record_begin(req->record);
	req->noted_done = req->done;
	req->done = block_noted_done;
}

/* ---- memory ---- */

static void block_copy(struct backend *be, struct block_request *req)
{
	uint8_t *at = block_in_place(be, req->offset);

	assert(at && backend_has_range(be, req));
	if (req->op == BLOCK_READ)
		memcpy(req->buf, at, req->len);
	else
		memcpy(at, req->buf, req->len);
	req->worker->copied += req->len;
	req->progress = req->len;
	req->done(req, 0);
}

static bool block_is_transfer(const struct block_request *req)
{
	return req->op == BLOCK_READ || req->op == BLOCK_WRITE;
}

void block_submit(struct backend *be, struct block_request *req)
{
	if (req->op == BLOCK_FLUSH || req->fua)
		block_note(req);
	if (be->info.memory && block_is_transfer(req))
		block_copy(be, req);
	else
		backend_submit(be, req);
}
