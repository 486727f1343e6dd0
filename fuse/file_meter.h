/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs have asked of a file, and how long the answers took. A file has a meter
 * only if somebody reads it (--metrics-file).
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_FILE_METER_H
#define FUSE_FILE_METER_H

#include "base/histogram.h"

enum file_op {
	FILE_OP_READ,
	FILE_OP_WRITE,
	FILE_OP_FLUSH,
	FILE_OP_OTHER, /* fallocate(), holes */
	FILE_OPS
};

extern const char *const file_op_names[FILE_OPS];

/* Requests of the kernel that were answered. */
struct file_op_meter {
	uint64_t requests; /* including those that failed */
	uint64_t errors;
	uint64_t bytes; /* of READ and WRITE */
	struct histogram times;
};

struct file_meter {
	struct file_op_meter op[FILE_OPS];
};

struct slot;

/* slot->file has a meter. The request has arrived. */
void file_meter_begin(struct slot *slot);
/* It is answered with @err. */
void file_meter_end(const struct slot *slot, int err);

#endif
