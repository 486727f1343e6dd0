/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that programs have open, and the ranges that they skip after O_TRUNC.
 *
 * O_TRUNC changes neither the size nor the data of a volume, as on a block
 * device. But a program that opens a file with O_TRUNC expects zeroes where it
 * does not write; cp of a file with holes needs this. For this reason, a range
 * that the program skips (a hole) is zeroed: from the end of its farthest write to
 * the start of its next write beyond it. What any program has written since the
 * O_TRUNC, through any open file, belongs to no hole.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_OPEN_FILE_H
#define FUSE_OPEN_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct tree;
struct tree_file;

/* A range that no program has written since the O_TRUNC. It stays until it is
 * zeroed: if zeroing fails, the program may repeat its write. */
struct open_hole {
	struct list node;
	uint64_t begin; /* bytes */
	uint64_t end;	/* exclusive */
	/* Names the request that zeroes it; NULL: none does. If a write cuts the
	 * hole meanwhile, all parts keep the name. */
	const void *zeroing;
};

/* What open(2) has made. */
struct open_file {
	struct list node;
	struct tree_file *file;
	uint64_t handle; /* what the kernel calls it */
	uint32_t pid;	 /* the thread that opened it */
	bool writable;
	/* Opened with O_TRUNC. The next members are about writes since then. */
	bool truncated;
	uint64_t written_to; /* the end of the farthest one by this open file */
	uint64_t known_to;   /* the end of the farthest one by any open file */
	struct list holes;   /* struct open_hole, up to known_to */
	uint64_t errors_seen; /* see tree_file.errors */
};

/* NULL: out of memory. */
struct open_file *open_file_new(struct tree *t, struct tree_file *f);
/* Finds an open file of @f. NULL: @f has no such handle. A handle is a number and
 * not an address: a wrong one must do no harm. */
struct open_file *open_file_find(const struct tree *t,
				 const struct tree_file *f, uint64_t handle);
void open_file_close(struct tree *t, struct open_file *open);

/* The program has opened the file with O_TRUNC, or set its size to 0. */
void open_file_truncate(struct open_file *open);
/*
 * @open is about to write the range. Removes the range from the holes of all open
 * files, also from those that are being zeroed. The holes of @open before the end
 * of the range must now be zeroed: open_file_next_hole(). An empty range means
 * that the program sets the size to @end. -ENOMEM: the range must not be written.
 */
int open_file_written(struct open_file *open, uint64_t begin, uint64_t end);
/* The oldest hole that must be zeroed, and that no request zeroes yet. NULL: there
 * is none. */
struct open_hole *open_file_next_hole(const struct open_file *open);
/* The request @zeroing has zeroed what is left of its hole. @err: it failed. */
void open_file_hole_zeroed(struct open_file *open, const void *zeroing,
			   int err);

#endif
