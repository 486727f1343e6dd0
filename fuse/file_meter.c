/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/file_meter.h"

#include "fuse/slot.h"
#include "fuse/tree.h"
#include "base/ticks.h"

const char *const file_op_names[FILE_OPS] = {
	[FILE_OP_READ] = "read",
	[FILE_OP_WRITE] = "write",
	[FILE_OP_FLUSH] = "flush",
	[FILE_OP_OTHER] = "other",
};

static enum file_op file_op_of(const struct slot *slot)
{
	const struct fuse_in_header *in = (const void *)slot->request.headers;

	switch (in->opcode) {
	case FUSE_READ:
		return FILE_OP_READ;
	case FUSE_WRITE:
		return FILE_OP_WRITE;
	case FUSE_FSYNC:
		return FILE_OP_FLUSH;
	default:
		return FILE_OP_OTHER;
	}
}

void file_meter_begin(struct slot *slot)
{
	slot->arrived = ticks_now();
}

void file_meter_end(const struct slot *slot, int err)
{
	enum file_op op = file_op_of(slot);
	struct file_op_meter *m = &slot->file->meter->op[op];

	m->requests++;
	if (err)
		m->errors++;
	else if (op == FILE_OP_READ || op == FILE_OP_WRITE)
		m->bytes += slot->range.len;
	histogram_add(&m->times, ticks_ns(ticks_now() - slot->arrived));
}
