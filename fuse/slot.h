/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A slot is one request in flight. The payload of a WRITE begins on a page. It
 * can grow by part of a block at both ends:
 *
 *     head      before   data              after     tail
 *     |<-edge->|<-edge->|<-- max_write -->|<-edge->|<-edge->|
 *
 * An edge is a page, or the largest block if that is longer.
 *
 * The target can write to all of this memory at any time until the session
 * ends. For this reason, headers, which hold lengths and pointers, lie in the
 * slot itself. Requests for libfuse are copied before libfuse sees them. Of the
 * answers, only the data of a READ lies in this memory. Data that a program
 * writes stays there until the target acknowledges it. After a reconnect,
 * libsrpi may send it again from there. The target could change this data, but
 * a target could also store other data than it received.
 *
 * No data is copied, except its first page over io_uring (slots.h).
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_SLOT_H
#define FUSE_SLOT_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "fuse/uring.h"
#include "base/list.h"
#include "base/reactor.h"
#include "initiator/srp_initiator.h"

struct dev;
struct slot;
struct tree_file;
struct volume_queue;

/* The headers of a WRITE; the payload follows. The headers of other requests for
 * data are not longer, and these requests have no payload. */
#define SLOT_HEADERS_LEN \
	(sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))

struct byte_range {
	uint64_t offset; /* bytes */
	uint64_t len;
};

/* What the kernel sent. */
struct slot_request {
	_Alignas(8) uint8_t headers[SLOT_HEADERS_LEN];
	uint64_t unique; /* its number */
};

/* What the kernel gets: a header, then data at slot->data or one of these. */
struct slot_answer {
	struct fuse_out_header header;
	union {
		struct fuse_write_out write;
		struct fuse_lseek_out lseek;
	};
};

/* A read from or a write to /dev/fuse. */
struct slot_transfer {
	struct iovec parts[2]; /* a header, then data */
	struct reactor_op op;
};

/* The place in the fair queue. */
struct slot_queue {
	struct list node;
	struct volume_queue *running_in; /* NULL: the request does not run */
	void (*start)(struct slot *slot);
};

/* Commands for the target. */
struct slot_commands {
	struct srpi_io io;
	struct srpi_io edge; /* the second one, if both ends need one */
	unsigned int pending;
	int err;			 /* the first error of them */
	void (*then)(struct slot *slot); /* when none is pending */
};

/* State of data.c, space.c, or the operation that claimed the slot. */
struct slot_work {
	void *arg;
	struct byte_range write; /* as the kernel asked */
	bool fua;
	bool discard;
	int whence;
	void (*filled)(struct slot *slot); /* all holes are zeroed */
	void (*zeroed)(struct slot *slot); /* the range is */
};

struct slot {
	struct slot *next_free;
	struct dev *dev;
	bool spare;	  /* data is not registered, and payload is NULL */
	size_t spare_len; /* bytes of the request in a spare */
	uint8_t *data;	  /* page aligned, max_write bytes */
	/* The same size, for the entry of the kernel; see slots.h. NULL: none. */
	uint8_t *payload;
	struct uring_entry entry;

	struct slot_request request;
	struct slot_answer answer;
	struct slot_transfer transfer;
	struct slot_queue queue;

	struct tree_file *file;
	uint64_t arrived; /* ticks; only if the file has a meter */
	uint64_t fh;	  /* of the open file, as the kernel has it */
	struct byte_range range;
	struct srpi_range blocks; /* of the range, see data_take_blocks() */
	bool has_blocks;
	struct slot_commands commands;
	struct slot_work work;
};

#endif
