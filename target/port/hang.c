/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/hang.h"

#include <inttypes.h>
#include <stdio.h>

void hang_begin_free(struct worker *w)
{
	pthread_mutex_lock(&w->doing_lock);
	hang_leave(w);
}

void hang_end_free(struct worker *w)
{
	pthread_mutex_unlock(&w->doing_lock);
}

/* The stage of a request whose worker hangs. */
static const char *hang_stage(enum request_state state)
{
	switch (state) {
	case REQUEST_RECEIVED:
		return "begins";
	case REQUEST_NEED_TABLE:
	case REQUEST_NEED_BUFFER:
		return "takes memory";
	case REQUEST_READING:
		return "fetches its descriptors";
	case REQUEST_FETCHING:
		return "fetches its data";
	case REQUEST_EXECUTING:
		return "on the disk";
	case REQUEST_MANAGING:
		return "task management";
	case REQUEST_RESPONDING:
		return "responds";
	case REQUEST_FREE:
	case REQUEST_LINGERING:
		return "ends";
	}
	return "";
}

/* "READ (10) of 8 blocks at LBA 0, LUN 1, tag 0123456789abcdef: on the disk" */
static void hang_request_text(const struct request *req, char *buf, size_t size)
{
	const struct scsi_cdb_info *info = req->task.cmd.info;
	char where[64] = "";

	if (info && info->flags & SCSI_CDB_BLOCKS)
		snprintf(where, sizeof(where),
			 " of %" PRIu64 " blocks at LBA %" PRIu64,
			 (uint64_t)req->task.cmd.blocks,
			 (uint64_t)req->task.cmd.lba);
	snprintf(buf, size, "%s%s, LUN %d, tag %016" PRIx64 ": %s",
		 info ? info->name : "a command", where, req->task.lun,
		 req->tag, hang_stage(req->state));
}

void hang_describe(struct worker *w, char *buf, size_t size)
{
	const char *asks =
		atomic_load_explicit(&w->block.asks, memory_order_relaxed);
	const struct request *req;
	char what[192] = "outside of commands";

	pthread_mutex_lock(&w->doing_lock);
	req = atomic_load_explicit(&w->doing, memory_order_relaxed);
	if (req)
		hang_request_text(req, what, sizeof(what));
	pthread_mutex_unlock(&w->doing_lock);
	if (!asks)
		snprintf(buf, size, "%s", what);
	else if (req)
		snprintf(buf, size, "%s; the store does not return from: %s",
			 what, asks);
	else
		snprintf(buf, size,
			 "a further step of a command; the store does not "
			 "return from: %s",
			 asks);
}
