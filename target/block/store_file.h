/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by store_file.c (I/O) and store_file_open.c (opening). */
#ifndef TARGET_BLOCK_STORE_FILE_H
#define TARGET_BLOCK_STORE_FILE_H

#include <stdatomic.h>

#include "target/block/backend.h"
#include "target/block/block_worker.h"
#include "target/block/plugin_threads.h"

struct file_store;

/*
 * A worker's part of the backend.
 *
 * In every worker, flushes have an open file of their own, and one flush at a
 * time is in the kernel: Linux reports a lost write once to each open file, at
 * its next fsync or synchronous write. For this reason no other worker and no
 * FUA write can consume the error that a flush must report. A flush that
 * arrives while one is running waits for the next one, which then answers all
 * that wait.
 */
struct file_worker {
	struct file_store *file;
	struct block_worker *worker;
	int fixed; /* io_uring's index of file->fd, -1: not registered */
	unsigned int sqe_flags; /* of each I/O but a flush */
	int flush_fd;
	bool flushing;
	struct reactor_op flush_op;
	struct file_io *flush_running; /* lists, by next */
	struct file_io *flush_waiting;
};

/* The scratch of an I/O while the store has it. */
struct file_io {
	union {
		struct reactor_op op;
		struct plugin_threads_scratch helped;
	};
	struct reactor_msg msg; /* from the helper thread */
	struct rbp_io *io;
	struct file_io *next;
	unsigned int step;
	unsigned int tries;
	int res; /* of the helper thread */
};

struct file_store {
	char *path; /* for messages */
	int fd;
	/* Open files for flushes that came with fd, that prepare() has opened, or that
	 * workers have left. Without them, it is opened once more for each worker. */
	int flush_fds[BLOCK_WORKERS_MAX];
	_Atomic unsigned int flush_fd_cnt; /* workers may leave together */
	bool read_only;
	bool can_punch;
	/* Since it has poll(), Linux takes its reads and writes for ones that do
	 * not block, and lets the worker wait for the server. */
	bool is_fuse;
	/* When a thread looked last; any thread. look_err: the others are older. */
	_Atomic uint64_t bytes;
	_Atomic uint64_t used;
	_Atomic int look_err;
	/* One thread for the calls that io_uring does not have. */
	struct plugin_threads *helper;
	/* What measure() lets it look with, and how often it was asked to. */
	struct rbp_io look_io;
	struct file_io look_scratch;
	_Atomic unsigned int look_cnt;
	bool write_through;
	bool direct;
	uint32_t block_size;  /* bytes, of the volume */
	uint32_t direct_unit; /* bytes; of a direct transfer */
	/* The first failure of a flush, kept; any thread. */
	_Atomic int flush_error;
	/* fallocate modes that the store has refused; any thread. */
	_Atomic int refused;
	/* What the log has said of the file; any thread. */
	_Atomic bool told_short;
	_Atomic bool told_removed; /* or was_removed */
	bool was_removed;	   /* it had no name when it was opened */
};

/* Executes I/O on the helper thread, and ends it. */
int store_file_help(void *v, struct rbp_io *io);
void store_file_helped(struct rbp_io *io, int res);

/* As rbp_plugin.open. */
int file_store_open(struct rbp_vol *vol, const char *location,
		    const struct rbp_arg *args, void **ret_v,
		    struct rbp_info *info, char *msg, size_t msg_len);

/* Closes all that it has open. */
void store_file_free(struct file_store *file);

#endif
