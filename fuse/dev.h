/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The FUSE device. It gets requests of the kernel into registered slots, passes
 * requests for data to data.c and all others to libfuse, and sends the answers.
 * If the kernel offers it, requests come over io_uring (uring.h). Otherwise,
 * the device reads them from /dev/fuse. A few kinds are always read.
 *
 * When all slots are in use, requests wait in the kernel. When no slot has come
 * free for a while, the device reads requests into spares: slots without
 * registered memory. Some requests need no target, and are answered at once. The
 * others wait in the fair queue (fair_queue.h).
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

/* The most bytes that libfuse answers with: it never gets a longer buffer. */
#define DEV_ANSWER_MAX 4096u

struct dev_options {
	struct reactor *reactor; /* the context's */
	struct srpi_session *session;
	unsigned int slots;   /* requests in flight, wanted */
	unsigned int queues;  /* from uring_queues() */
	unsigned int volumes; /* that share the slots */
	unsigned int depth;   /* commands that the session has in flight */
	uint32_t max_write;   /* bytes, a multiple of the page size, wanted */
	uint32_t edge;	      /* bytes, likewise */
	uint64_t pin_budget;  /* bytes that may be registered; 0: any */
	/* Handles a request for data. False: the request is for libfuse. */
	bool (*request)(struct slot *slot, const struct fuse_in_header *in);
	/* The kernel has unmounted, or the device failed (negative errno). */
	void (*ended)(struct dev *dev, int err);
	void *user;  /* for request() */
	void *owner; /* for ended() */
};

/* Allocates and registers the slots. If the budget is low, there are fewer
 * slots, or max_write is smaller. -ENOMEM: it is too low for a mount. */
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

/* Releases the session and the reactor, which may continue to run. The device
 * answers nothing after that. NULL is fine. */
void dev_close(struct dev *dev);

/* Calls dev_close() if necessary. Afterwards the reactor must not run, unless
 * the kernel has unmounted: only the end of the mount or of the reactor ends the
 * commands that wait for requests over io_uring. NULL is fine. */
void dev_free(struct dev *dev);

void *dev_user(const struct dev *dev);
void *dev_owner(const struct dev *dev);
struct srpi_session *dev_session(const struct dev *dev);
struct srpi_mem *dev_mem(const struct dev *dev);
uint32_t dev_max_write(const struct dev *dev);
/* The kernel splits longer reads: while it copies one part to the program, the
 * next part is on its way, possibly on another channel. */
uint32_t dev_max_read(const struct dev *dev);
/* Asynchronous requests that the kernel may have in flight. Over io_uring, this
 * leaves some entries of each queue free for requests that need no target. */
unsigned int dev_background(const struct dev *dev);

/* Within a libfuse operation: keeps the slot of the request for further work.
 * Call dev_release() when the operation is answered. */
struct slot *dev_claim(struct dev *dev);
void dev_release(struct slot *slot);

/* The session is about to be closed: requests that wait, and new ones, get an
 * I/O error. */
void dev_fail(struct dev *dev);

/* ---- between dev.c, reader.c and uring.c ---- */

struct reader *dev_reader(struct dev *dev);
int dev_fd(const struct dev *dev);
/* Makes @sqe, prepared for dev_fd(), use the registered file if there is one. */
void dev_prep_file(const struct dev *dev, struct io_uring_sqe *sqe);
/* Requests for data in flight. */
unsigned int dev_busy(const struct dev *dev);
struct slots *dev_slots(struct dev *dev);
struct answers *dev_answers(struct dev *dev);
struct reactor *dev_reactor(const struct dev *dev);
struct fair_queue *dev_fair_queue(struct dev *dev);
/* Where to read a request to. */
void dev_slot_parts(struct slot *slot, struct iovec parts[2]);
/* A request of @len bytes was read into @slot. */
void dev_request(struct slot *slot, size_t len);
/* Reading failed; -ENODEV: unmounted. */
void dev_failed(struct dev *dev, int err);

#endif
