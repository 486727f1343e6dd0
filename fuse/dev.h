/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way to the kernel: reads requests from /dev/fuse straight into
 * registered slots, hands READ, WRITE and FSYNC to data.c and all others to
 * libfuse, and writes the answers.
 *
 * A slot is one request in flight. Its memory is laid out so that the payload
 * of a WRITE begins on a page:
 *
 *     |<----------- one page ----------->|<------ max_write ------>|
 *     |            | headers (80 bytes)  | payload, or data to read |
 *
 * and the answer to a READ, a header of 16 bytes before the page and the data
 * in it, leaves with one write. Nothing is allocated or copied per request.
 * When all slots are in use requests wait in the kernel.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_DEV_H
#define FUSE_DEV_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stdint.h>

#include "fuse/range_lock.h"
#include "initiator/ctx.h"

struct fuse_session;
struct dev;

struct slot {
	struct slot *next_free;
	struct dev *dev;
	uint8_t *headers; /* 80 bytes before data */
	uint8_t *data;	  /* page aligned, max_write bytes */

	/* the request, from its header */
	uint64_t unique;
	uint32_t opcode;
	unsigned int volume;

	/* data.c's */
	struct srpi_io io;
	struct range_lock lock;
	uint64_t offset; /* bytes, as asked */
	uint32_t size;
	uint8_t *bounce; /* of a read-modify-write */
	unsigned int step;

	/* the answer under way */
	struct reactor_op reply_op;
	struct fuse_out_header empty; /* of an answer without data */
	uint32_t reply_len;
};

struct dev_options {
	struct srpi_ctx *ctx;
	struct srpi_session *session;
	unsigned int slots;
	uint32_t max_write; /* bytes, a multiple of the page size */
	/* READ, WRITE or FSYNC in @slot; data.c's entry. */
	void (*request)(struct slot *slot, const struct fuse_in_header *in);
	void *user;
};

/* Allocates and registers the slots. */
int dev_create(const struct dev_options *options, struct dev **ret_dev,
	       struct srpi_error *e);

/* Begins to serve the mounted session @se; ended() when the kernel has
 * unmounted or the device failed (0 or negative errno). */
void dev_start(struct dev *dev, struct fuse_session *se,
	       void (*ended)(struct dev *dev, int err));

/* Requests that are not answered. */
unsigned int dev_busy(const struct dev *dev);

/* Reads no further requests. Answers may still be sent. */
void dev_stop(struct dev *dev);

/* After dev_stop(), when nothing is busy. NULL is fine. */
void dev_free(struct dev *dev);

void *dev_user(const struct dev *dev);
struct srpi_session *dev_session(const struct dev *dev);
struct srpi_mem *dev_mem(const struct dev *dev);
uint32_t dev_max_write(const struct dev *dev);

/* Answers with an error (negative errno) or, with 0, with no data. The slot
 * is the device's again. */
void dev_reply(struct slot *slot, int err);
/* Answers a READ with @len bytes that lie at slot->data + @skip. */
void dev_reply_data(struct slot *slot, uint32_t skip, uint32_t len);
/* Answers a WRITE: @len bytes were taken. */
void dev_reply_written(struct slot *slot, uint32_t len);

#endif
