/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the mount shows: a directory with a file for each volume; or, if the mount
 * point is a regular file, one volume in its place. Inode 1 is the root. The files
 * of the directory have the next numbers.
 *
 * Files of a directory come and go with their volumes. A file whose volume has left
 * is gone: it has no name, and its data cannot be read or written. It stays while
 * programs have it open. Its inode number is never used again.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_TREE_H
#define FUSE_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "fuse/fair_queue.h"
#include "fuse/allocation.h"
#include "fuse/file_meter.h"
#include "initiator/srp_initiator.h"

struct open_file;

struct tree_file {
	unsigned int volume; /* of the session */
	const struct srpi_volume_info *info;
	char name[80];
	uint64_t ino;
	bool read_only;
	bool gone;		 /* the volume has left */
	struct timespec mtime;	 /* of the last write through this mount */
	struct list opens;	 /* struct open_file */
	unsigned int truncating; /* those of them that have O_TRUNC */
	struct volume_queue queue;
	struct allocation allocation;
	struct file_meter *meter; /* NULL: nobody reads it */
	/* Flushes that failed. The next fsync of each open file reports it once,
	 * as after a failed write-back of the page cache. */
	uint64_t errors;
	bool unflushed;	      /* written since the last flush was sent */
	struct srpi_io flush; /* at the end of the mount */
};

struct tree {
	/* Each file stays where it is: requests and libsrpi point to it. NULL: a
	 * free place. */
	struct tree_file **files;
	unsigned int cnt;
	uint64_t next_round; /* of inode numbers */
	struct srpi_session *session;
	bool read_only;		  /* all files are */
	bool metered;		  /* all files have a meter */
	struct open_file **opens; /* by handle; NULL: a free handle */
	unsigned int open_max;
	bool is_file; /* the root is *files[0] */
	uid_t uid;
	gid_t gid;
	mode_t umask;
	struct timespec changed; /* when a file came or went */
};

struct tree_options {
	struct srpi_session *session;
	/* The only volume, or -1 for all. */
	int volume;
	bool is_file;
	bool read_only;
	bool metered;
	uid_t uid;
	gid_t gid;
	mode_t umask;
};

int tree_create(const struct tree_options *options, struct tree **ret_tree);
/* NULL is fine. */
void tree_free(struct tree *t);

/* The file of an inode, also if it is gone. NULL for the directory or an unknown
 * number. */
struct tree_file *tree_file_of(const struct tree *t, uint64_t ino);
bool tree_is_dir(const struct tree *t, uint64_t ino);
/* Files that are gone have no name. */
struct tree_file *tree_find(const struct tree *t, const char *name);
struct tree_file *tree_find_volume(const struct tree *t, unsigned int volume);
/* The file at that place; NULL: there is none, or it is gone. */
struct tree_file *tree_shown(const struct tree *t, unsigned int place);

/* How many files are not gone. */
unsigned int tree_shown_cnt(const struct tree *t);

/* Adds a file for the volume. NULL: no memory. */
struct tree_file *tree_add(struct tree *t, unsigned int volume);
/* The volume of @f has left. */
void tree_lose(struct tree *t, struct tree_file *f);
/* Frees the files that are gone and that nothing uses. */
void tree_reap(struct tree *t);

/* @allocated: bytes, as from allocation_get(). */
void tree_file_stat(const struct tree *t, const struct tree_file *f,
		    uint64_t allocated, struct stat *ret);
void tree_dir_stat(const struct tree *t, struct stat *ret);

/* The data of the file have just changed. */
void tree_file_touch(struct tree_file *f);

#endif
