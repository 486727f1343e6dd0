/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FUSE over io_uring as the kernel lays it out (Linux 6.14, protocol 7.42:
 * linux/fuse.h, Documentation/filesystems/fuse/fuse-io-uring.rst). The headers
 * of older distributions lack it.
 */
#ifndef FUSE_URING_ABI_H
#define FUSE_URING_ABI_H

#include <stdint.h>

/* Flag of FUSE_INIT: the kernel offers FUSE over io_uring, and the server answers
 * that it will use it. After that, all requests but FUSE_INIT wait until every
 * queue has an entry, or until the kernel refuses an entry. */
#define URING_INIT_FLAG (1ull << 41)

/* Commands of IORING_OP_URING_CMD on /dev/fuse. */
enum {
	/* Adds an entry. sqe->addr and len give two iovecs: for struct
	 * uring_headers, and for the payload, which must hold the largest
	 * request. Completes with the first request of the entry. */
	URING_REGISTER = 1,
	/* Sends the answer in the entry. Completes with the next request. */
	URING_COMMIT_AND_FETCH = 2,
};

/* The memory that an entry shares with the kernel, besides its payload. */
struct uring_headers {
	uint8_t in_out[128]; /* fuse_in_header, then fuse_out_header */
	uint8_t args[128];   /* the request's own: fuse_read_in, ... */
	uint64_t flags;
	uint64_t commit_id; /* the answer must repeat it */
	uint32_t payload_len;
	uint32_t padding;
	uint64_t reserved;
};

_Static_assert(sizeof(struct uring_headers) == 288, "the kernel's size");

/* In the second half of a submission entry of 128 bytes, at sqe->cmd. */
struct uring_cmd {
	uint64_t flags;
	uint64_t commit_id;
	uint16_t queue;
	uint8_t padding[6];
};

_Static_assert(sizeof(struct uring_cmd) == 24, "the kernel's size");

#endif
