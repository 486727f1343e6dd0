/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A backend stores blocks. It knows bytes and offsets, never CDBs, nexuses or
 * transports. The volume above it (volume.h) has checked every request:
 * offset and len are multiples of the block size and lie inside the backend.
 *
 * Every submit is answered exactly once by request->done, on the worker that
 * submitted it; done may run before submit returns, so submitting is the last
 * thing a caller does with a request. What a backend does not declare in its
 * capabilities is never asked of it.
 *
 * Durability: an acknowledged BLOCK_FLUSH means that all writes completed
 * before it was submitted are stable. A flush that failed once keeps failing
 * until the backend is opened anew: the kernel reports a lost write only once,
 * and pages of a failed write-back may be dropped.
 */
#ifndef TARGET_BACKEND_H
#define TARGET_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/reactor.h"

struct backend;
struct worker;

enum block_op {
	BLOCK_READ,
	BLOCK_WRITE,
	BLOCK_FLUSH,  /* whole backend; offset and len are 0 */
	BLOCK_UNMAP,  /* hint: contents become zero if unmap_zeroes */
	BLOCK_ZERO,   /* contents become zero */
	BLOCK_EXTENT, /* is what begins at offset mapped, and how far? */
};

struct block_request {
	/* set by the caller */
	enum block_op op;
	bool fua;	 /* BLOCK_WRITE, BLOCK_ZERO: stable before done */
	bool may_unmap;	 /* BLOCK_ZERO: may deallocate instead of write */
	uint64_t offset; /* bytes */
	uint64_t len;	 /* bytes */
	void *buf;	 /* READ, WRITE: len bytes; kept by caller until done */
	int buf_index;	 /* io_uring fixed buffer that buf lies in, or -1 */
	struct worker *worker;
	/* @res: 0 or a negative errno. A short transfer is an error. */
	void (*done)(struct block_request *req, int res);

	/* BLOCK_EXTENT, set on success: from offset on, extent_len bytes (1 ...
	 * len, a multiple of the block size) are all mapped or all not. */
	uint64_t extent_len;
	bool extent_mapped;

	/* the backend's, while it has the request */
	struct reactor_op io;
	struct backend *backend;
	uint64_t progress; /* bytes done so far */
	int error;
};

/* What a backend can do; filled in by its open. */
struct backend_info {
	uint64_t size;		    /* bytes */
	uint32_t min_block;	    /* smallest unit of I/O it takes, bytes */
	uint32_t optimal_block;	    /* file-system or physical block, bytes */
	uint64_t unmap_granularity; /* bytes; 0: unmap not possible */
	bool unmap_zeroes;	    /* unmapped blocks read as zeroes */
	bool read_only;
	bool volatile_cache; /* done writes may be lost without a flush */
	bool fua;	     /* honours fua by itself */
	bool zero;	     /* BLOCK_ZERO */
	bool extents;	     /* BLOCK_EXTENT */
	bool rotational;
	/* Not NULL: all blocks lie here, to be read and written in place;
	 * READ and WRITE are then never submitted. */
	void *memory;
};

struct backend_options {
	const char *path; /* or the size text after "ram:", "null:" */
	bool read_only;
	int direct;	     /* O_DIRECT: 1 on, 0 off, -1 whatever is best */
	bool write_through;  /* every write is stable before it is done */
	uint32_t block_size; /* of the volume above, bytes */
};

struct backend_ops {
	const char *name; /* "file", "ram", "null" */
	/* Thread: setup. @msg gets one clause when it fails. */
	int (*open)(const struct backend_options *opt, struct backend **ret,
		    char *msg, size_t msg_len);
	/* Nothing is in flight. */
	void (*close)(struct backend *be);
	/* Thread: setup, once per worker, e.g. to register files. May be NULL. */
	int (*attach)(struct backend *be, struct worker *w);
	void (*submit)(struct backend *be, struct block_request *req);
	/* Bytes now in use by the store, for thin provisioning; may be NULL. */
	uint64_t (*used)(struct backend *be);
};

/* Embedded first in a backend's own. */
struct backend {
	const struct backend_ops *ops;
	struct backend_info info;
};

extern const struct backend_ops
	backend_file; /* regular files and block devices */
extern const struct backend_ops backend_ram;
extern const struct backend_ops backend_null;

/* Passes @req to the backend after asserting what this contract demands. */
void backend_submit(struct backend *be, struct block_request *req);

#endif
