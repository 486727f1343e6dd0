/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way to the kernel: has requests put straight into registered slots, hands
 * those for data to data.c and all others to libfuse, and sends the answers.
 * Requests come over io_uring where the kernel offers that (uring.h); else, and
 * those few that never do, they are read from /dev/fuse.
 *
 * A slot is one request in flight. Its memory is laid out so that the payload
 * of a WRITE begins on a page and can grow by part of a block at either end:
 *
 *     head      before   data              after     tail
 *     |<-edge->|<-edge->|<-- max_write -->|<-edge->|<-edge->|
 *
 * An edge is a page, or the largest block when that is more. All of that is
 * open to the target for as long as the session lives, and what it writes there
 * unasked must harm nobody: headers, which hold lengths and our own pointers,
 * never lie in it, but beside it, and what is for libfuse is copied. Of answers
 * only what is read lies there: the kernel must find all others as we made
 * them. Data is neither copied nor allocated; over io_uring the first page of it
 * is copied (slots.h). When all slots are in use requests wait in the kernel; but
 * when none of them has ended for a while requests are read into spares, slots
 * without registered memory, as there may be some that need no target. What does
 * waits there, see fair_queue.h.
 *
 * What a program writes lies there until the target has acknowledged it, and
 * may be sent again from there after a reconnect. The target could change it,
 * but it could as well store something else.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_DEV_H
#define FUSE_DEV_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "fuse/range_lock.h"
#include "fuse/uring.h"
#include "base/error.h"
#include "base/list.h"
#include "base/reactor.h"
#include "initiator/srp_initiator.h"

struct dev;
struct fuse_session;
struct slot;
struct tree_file;
struct volume_queue;

/* A WRITE's headers; its payload follows. Those of other requests for data are
 * no longer, and all that there is of them. */
#define DEV_HEADERS_LEN \
	(sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))

/* Bytes that libfuse may answer with; it gets to know no longer buffer. */
#define DEV_ANSWER_MAX 4096u

struct byte_range {
	uint64_t offset; /* bytes */
	uint64_t len;
};

/* The request as the kernel sent it. */
struct slot_request {
	_Alignas(8) uint8_t headers[DEV_HEADERS_LEN];
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

/* fair_queue.c's */
struct slot_queue {
	struct list node;
	struct volume_queue *running_in; /* NULL: the request does not run */
	void (*start)(struct slot *slot);
};

/* Commands for the target. */
struct slot_commands {
	struct srpi_io io;
	struct srpi_io edge; /* the second, for both ends of a range */
	unsigned int pending;
	int err;			 /* the first error of them */
	void (*then)(struct slot *slot); /* when none is pending */
};

/* What data.c, space.c, or the operation that claimed the slot, keeps. */
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
	bool spare;	  /* data is not registered, and there is no payload */
	size_t spare_len; /* of the request in it */
	uint8_t *data;	  /* page aligned, max_write bytes */
	/* Likewise, for the kernel's entry; see slots.h. NULL: none. */
	uint8_t *payload;
	struct uring_entry entry;

	struct slot_request request;
	struct slot_answer answer;
	struct slot_transfer transfer;
	struct slot_queue queue;

	struct tree_file *file;
	uint64_t fh; /* of the open file, as the kernel has it */
	struct byte_range range;
	struct range_lock lock; /* on the blocks of the range */
	struct slot_commands commands;
	struct slot_work work;
};

struct dev_options {
	struct reactor *reactor; /* the context's */
	struct srpi_session *session;
	unsigned int slots;   /* wanted: requests in flight */
	unsigned int queues;  /* from uring_queues() */
	unsigned int volumes; /* that share the slots */
	unsigned int depth;   /* commands that the session has in flight */
	uint32_t max_write;   /* wanted: bytes, a multiple of the page size */
	uint32_t edge;	      /* bytes, likewise */
	uint64_t pin_budget;  /* bytes that may be registered; 0: any */
	/* A request for data; false: it is one for libfuse. */
	bool (*request)(struct slot *slot, const struct fuse_in_header *in);
	/* The kernel has unmounted, or the device failed (negative errno). */
	void (*ended)(struct dev *dev, int err);
	void *user;  /* who handles requests */
	void *owner; /* who is told of the end */
};

/* Allocates and registers the slots: fewer, or with a smaller max_write, when
 * the budget asks for it. -ENOMEM when it is not enough for any. */
int dev_create(const struct dev_options *options, struct dev **ret_dev,
	       struct error *e);

/* Begins to serve the mounted session @se; ended() follows, once. */
int dev_start(struct dev *dev, struct fuse_session *se);

/* The kernel's first request (INIT) has been answered: the mount works. */
bool dev_answers(const struct dev *dev);

/* Requests come over io_uring. */
bool dev_uses_uring(const struct dev *dev);

/* Takes no further requests. Answers may still be sent. */
void dev_stop(struct dev *dev);

/* After dev_stop(): every request for data is answered, and the device may be
 * closed. */
bool dev_idle(const struct dev *dev);

/* Lets go of the session and of the reactor, which may run on; nothing is
 * answered any more. NULL is fine. */
void dev_close(struct dev *dev);

/* After dev_close(), which it does if need be. The reactor must not run after
 * that, unless the kernel has unmounted: what waits for requests over io_uring
 * ends with one of both only. NULL is fine. */
void dev_free(struct dev *dev);

void *dev_user(const struct dev *dev);
void *dev_owner(const struct dev *dev);
struct srpi_session *dev_session(const struct dev *dev);
struct srpi_mem *dev_mem(const struct dev *dev);
uint32_t dev_max_write(const struct dev *dev);
/* A longer read comes as several: while the kernel copies one to the program,
 * the next is on its way, by another channel if there are some. */
uint32_t dev_max_read(const struct dev *dev);
unsigned int dev_slots(const struct dev *dev);
/* Asynchronous requests that the kernel may hand out: not all entries of one of
 * its queues, as it has no other place for requests that need no target. */
unsigned int dev_background(const struct dev *dev);

/* Room for one block each, registered. */
uint8_t *slot_head(const struct slot *slot);
uint8_t *slot_tail(const struct slot *slot);

/* Within a libfuse operation: the slot of its request, for further work; give
 * it back with dev_release() once the operation is answered. */
struct slot *dev_claim(struct dev *dev);
void dev_release(struct slot *slot);

/* Answers with an error (negative errno) or, with 0, with no data. The slot
 * is the device's again, as after the next three. */
void dev_reply(struct slot *slot, int err);
/* Answers a READ with the @len bytes that lie at slot->data. */
void dev_reply_data(struct slot *slot, uint32_t len);
/* Answers a WRITE: @len bytes were taken. */
void dev_reply_written(struct slot *slot, uint32_t len);
/* Answers an LSEEK. */
void dev_reply_position(struct slot *slot, uint64_t pos);

/* The session is about to be closed: requests that wait, and those that come,
 * get an I/O error. */
void dev_fail(struct dev *dev);

/* ---- for fair_queue.c ---- */

struct fair_queue *dev_fair_queue(struct dev *dev);
/* The request of @slot in a slot with registered memory: @slot, or another
 * one, then @slot is free. NULL: there is none. */
struct slot *dev_to_registered(struct slot *slot);
/* The request of @slot in a spare, so that @slot is free; or @slot, when it has
 * to stay there. */
struct slot *dev_to_spare(struct slot *slot);

/* ---- between dev.c, reader.c and uring.c ---- */

struct reader *dev_reader(struct dev *dev);
int dev_fd(const struct dev *dev);
/* Has @sqe, prepared for dev_fd(), use the registered file if there is one. */
void dev_prep_file(const struct dev *dev, struct io_uring_sqe *sqe);
/* Requests for data in flight. */
unsigned int dev_busy(const struct dev *dev);
/* A free slot for a request, or NULL; and back. It may be a spare. */
struct slot *dev_take(struct dev *dev);
void dev_put(struct slot *slot);
/* Where a request is to be read to. */
void dev_slot_parts(struct slot *slot, struct iovec parts[2]);
/* A request of @len bytes was read into @slot. */
void dev_request(struct slot *slot, size_t len);
/* Reading failed; -ENODEV: unmounted. */
void dev_failed(struct dev *dev, int err);

#endif
