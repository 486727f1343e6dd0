/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All of rdma-fuse between the kernel and libsrpi. A socket replaces /dev/fuse,
 * and t_srpi.c replaces the target. A test sends requests as the kernel does,
 * and reads the answers.
 */
#ifndef TESTS_UNIT_TEST_FUSE_RIG_H
#define TESTS_UNIT_TEST_FUSE_RIG_H

#include <linux/fuse.h>

#include "fuse/dev.h"
#include "fuse/tree.h"
#include "tests/lib/t_srpi.h"

#define RIG_MAX_WRITE (128u << 10)
#define RIG_SIZE      (1u << 20)
#define RIG_FILE      2 /* its inode */
#define RIG_PID	      77

struct fuse_session;

struct rig {
	struct reactor *reactor;
	struct srpi_session *target;
	struct tree *tree;
	struct dev *dev;
	struct fuse_session *se;
	int kernel; /* our end of the socket */
	uint64_t unique;
	bool ended;
	bool large;	  /* requests count as large for the reader */
	uint64_t open[4]; /* handles; 0: none */
	/* the last answer */
	struct fuse_out_header out;
	uint8_t data[RIG_MAX_WRITE];
	size_t data_len;
};

struct rig_options {
	uint32_t block_size; /* 0: 512 */
	unsigned int slots;  /* 0: 16 */
	bool read_only;
	bool thick;   /* nothing can be unmapped */
	bool metered; /* requests are counted */
};

struct rig *rig_new(const struct rig_options *o);
/* rdma-fuse's end of the socket. */
int rig_fd(const struct rig *r);
/* Expects that every request was answered. Releases what is still open. */
void rig_free(struct rig *r);

/* Sends a request of @args and @payload; returns its number. */
uint64_t rig_send(struct rig *r, uint32_t opcode, uint64_t nodeid,
		  const void *args, size_t args_len, const void *payload,
		  size_t len);
/* Waits for the next answer and stores it in out and data. */
void rig_receive(struct rig *r);
/* The same, and expects that it is @err. */
void rig_expect(struct rig *r, int err);
/* Runs all pending work. Returns true if an answer has come. */
bool rig_settle(struct rig *r);

/* Sends and receives; returns the error of the answer. */
int rig_ask(struct rig *r, uint32_t opcode, const void *args, size_t args_len);
int rig_read(struct rig *r, uint64_t offset, uint32_t size);
int rig_write(struct rig *r, uint64_t fh, uint64_t offset, const void *data,
	      uint32_t size);
uint64_t rig_send_write(struct rig *r, uint64_t fh, uint64_t offset,
			const void *data, uint32_t size);
/* Returns the handle. */
uint64_t rig_open(struct rig *r, uint32_t flags);
void rig_release(struct rig *r, uint64_t fh);

#endif
