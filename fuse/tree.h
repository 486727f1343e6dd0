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

struct open_file;

struct tree_file {
	unsigned int volume; /* of the session */
	const struct srpi_volume_info *info;
	char name[80];
	uint64_t ino;
	bool read_only;
	struct timespec mtime;	 /* of the last write that we saw */
	struct list opens;	 /* struct open_file */
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
	struct open_file **opens; /* by handle; NULL: a free one */
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

/* @allocated: bytes, as from allocation_get(). */
void tree_file_stat(const struct tree *t, const struct tree_file *f,
		    uint64_t allocated, struct stat *ret);
void tree_dir_stat(const struct tree *t, struct stat *ret);

/* The file's data have changed, just now. */
void tree_file_touch(struct tree_file *f);

#endif
