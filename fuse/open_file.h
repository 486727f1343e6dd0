/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that programs have open, and the ranges that they skip after O_TRUNC.
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

/* A range that nobody has written since somebody emptied the file. Once he has
 * skipped it, it stays until it has been zeroed: a program may repeat what
 * failed. */
struct open_hole {
	struct list node;
	uint64_t begin; /* bytes */
	uint64_t end;	/* exclusive */
	/* Who is zeroing it, or what it was a part of then; NULL: nobody. */
	const void *zeroing;
};

/* A file that somebody has opened. */
struct open_file {
	struct list node;
	struct tree_file *file;
	uint64_t handle; /* what the kernel calls it */
	uint32_t pid;	 /* the thread that opened it */
	bool writable;
	/*
	 * Opened with O_TRUNC. The volume keeps its size and its data, as a
	 * disk does, but who opened it so takes what he skips for zeroes; so
	 * it becomes zeroes: from written_to, the end of his farthest write,
	 * to the begin of the next one. cp of a file with holes needs that.
	 * What anybody has written since, by whatever open file, is skipped by
	 * nobody.
	 */
	bool truncated;
	uint64_t written_to;
	uint64_t known_to;    /* the same of everybody's writes since then */
	struct list holes;    /* struct open_hole, up to known_to */
	uint64_t errors_seen; /* see tree_file.errors */
};

/* NULL: out of memory. */
struct open_file *open_file_new(struct tree *t, struct tree_file *f);
/*
 * What @handle is of @f, NULL: nothing. It may be: a handle travels through
 * memory that is open to the target (see dev.h), so it is a number that is
 * looked up, and not an address.
 */
struct open_file *open_file_find(const struct tree *t,
				 const struct tree_file *f, uint64_t handle);
void open_file_close(struct tree *t, struct open_file *open);

/* He has emptied the file. */
void open_file_truncate(struct open_file *open);
/*
 * The range is about to be written by @open: no hole of any open file has it any
 * more, also not one that is being zeroed; what @open has skipped is to be
 * zeroed now. Without a byte: @open has set the size to that. -ENOMEM: the range
 * must not be written.
 */
int open_file_written(struct open_file *open, uint64_t begin, uint64_t end);
/* The oldest hole that is to be zeroed and is not yet; NULL: none. */
struct open_hole *open_file_next_hole(const struct open_file *open);
/* What is left of the hole of @zeroing has been zeroed, or (@err) not. */
void open_file_hole_zeroed(struct open_file *open, const void *zeroing,
			   int err);

#endif
