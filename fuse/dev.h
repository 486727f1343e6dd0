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

#include "fuse/slot.h"
#include "base/error.h"
#include "base/reactor.h"
#include "initiator/srp_initiator.h"

struct answers;
struct dev;
struct fuse_session;
struct slots;

/* Bytes that libfuse may answer with; it gets to know no longer buffer. */
#define DEV_ANSWER_MAX 4096u

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
bool dev_is_ready(const struct dev *dev);

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
/* Asynchronous requests that the kernel may hand out: not all entries of one of
 * its queues, as it has no other place for requests that need no target. */
unsigned int dev_background(const struct dev *dev);

/* Within a libfuse operation: the slot of its request, for further work; give
 * it back with dev_release() once the operation is answered. */
struct slot *dev_claim(struct dev *dev);
void dev_release(struct slot *slot);

/* The session is about to be closed: requests that wait, and those that come,
 * get an I/O error. */
void dev_fail(struct dev *dev);

/* ---- between dev.c, reader.c and uring.c ---- */

struct reader *dev_reader(struct dev *dev);
int dev_fd(const struct dev *dev);
/* Has @sqe, prepared for dev_fd(), use the registered file if there is one. */
void dev_prep_file(const struct dev *dev, struct io_uring_sqe *sqe);
/* Requests for data in flight. */
unsigned int dev_busy(const struct dev *dev);
struct slots *dev_slots(struct dev *dev);
struct answers *dev_answers(struct dev *dev);
struct reactor *dev_reactor(const struct dev *dev);
struct fair_queue *dev_fair_queue(struct dev *dev);
/* Where a request is to be read to. */
void dev_slot_parts(struct slot *slot, struct iovec parts[2]);
/* A request of @len bytes was read into @slot. */
void dev_request(struct slot *slot, size_t len);
/* Reading failed; -ENODEV: unmounted. */
void dev_failed(struct dev *dev, int err);

#endif
