/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is in the mount: a directory with a file per volume, or, over a regular
 * file, one volume in its place. Inode 1 is the root; the files of a directory
 * follow.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_TREE_H
#define FUSE_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "fuse/range_lock.h"
#include "fuse/fair_queue.h"
#include "fuse/allocation.h"
#include "initiator/srp_initiator.h"

struct tree_file;

/* A range that nobody has written since somebody emptied the file. Once he has
 * skipped it, it stays until it has been zeroed: a program may repeat what
 * failed. */
struct tree_hole {
	struct list node;
	uint64_t begin; /* bytes */
	uint64_t end;	/* exclusive */
	/* Who is zeroing it, or what it was a part of then; NULL: nobody. */
	const void *zeroing;
};

/* A file that somebody has opened. */
struct tree_open {
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
	struct list holes;    /* struct tree_hole, up to known_to */
	uint64_t errors_seen; /* see tree_file.errors */
};

struct tree_file {
	unsigned int volume; /* of the session */
	const struct srpi_volume_info *info;
	char name[80];
	uint64_t ino;
	bool read_only;
	struct timespec mtime;	 /* of the last write that we saw */
	struct list opens;	 /* struct tree_open */
	unsigned int truncating; /* of them, opened with O_TRUNC */
	struct range_locks locks;
	struct volume_queue queue;
	struct allocation allocation;
	/* Flushes that failed. Each open file is told of it once, by its next
	 * fsync, as after a failed write-back of the page cache. */
	uint64_t errors;
	/* Written since the last flush was sent. */
	bool unflushed;
	struct srpi_io flush; /* the last one */
};

struct tree {
	struct tree_file *files;
	unsigned int cnt;
	struct tree_open **opens; /* by handle; NULL: a free one */
	unsigned int open_max;
	bool is_file; /* the root is files[0] */
	uid_t uid;
	gid_t gid;
	mode_t umask;
	struct timespec made;
};

struct tree_options {
	struct srpi_session *session;
	/* The only volume, or -1 for all. */
	int volume;
	bool is_file;
	bool read_only;
	uid_t uid;
	gid_t gid;
	mode_t umask;
};

int tree_create(const struct tree_options *options, struct tree **ret_tree);
/* NULL is fine. */
void tree_free(struct tree *t);

/* The file of an inode, NULL for the directory or an unknown number. */
struct tree_file *tree_file_of(const struct tree *t, uint64_t ino);
bool tree_is_dir(const struct tree *t, uint64_t ino);
struct tree_file *tree_find(const struct tree *t, const char *name);

/* NULL: out of memory. */
struct tree_open *tree_open(struct tree *t, struct tree_file *f);
/*
 * What @handle is of @f, NULL: nothing. It may be: a handle travels through
 * memory that is open to the target (see dev.h), so it is a number that is
 * looked up, and not an address.
 */
struct tree_open *tree_open_of(const struct tree *t, const struct tree_file *f,
			       uint64_t handle);
void tree_close(struct tree *t, struct tree_open *open);

/* He has emptied the file. */
void tree_open_truncate(struct tree_open *open);
/*
 * The range is about to be written by @open: no hole of any open file has it any
 * more, also not one that is being zeroed; what @open has skipped is to be
 * zeroed now. Without a byte: @open has set the size to that. -ENOMEM: the range
 * must not be written.
 */
int tree_open_written(struct tree_open *open, uint64_t begin, uint64_t end);
/* The oldest hole that is to be zeroed and is not yet; NULL: none. */
struct tree_hole *tree_open_hole(const struct tree_open *open);
/* What is left of the hole of @zeroer has been zeroed, or (@err) not. */
void tree_hole_zeroed(struct tree_open *open, const void *zeroing, int err);

/* @allocated: bytes, as from allocation_get(). */
void tree_file_stat(const struct tree *t, const struct tree_file *f,
		    uint64_t allocated, struct stat *ret);
void tree_dir_stat(const struct tree *t, struct stat *ret);

/* The file's data have changed, just now. */
void tree_file_touch(struct tree_file *f);

#endif
