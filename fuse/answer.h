/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers to requests for data. Each function ends the request: the slot belongs
 * to the device again.
 *
 * A thread of the kernel copies large answers (IOSQE_ASYNC), while this thread
 * receives, if there are enough processors. With two, client, target and program
 * keep both busy, and such a thread only delays them. As for the reads of large
 * requests (reader.h), the file descriptor is then the plain one.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_ANSWER_H
#define FUSE_ANSWER_H

#include <stddef.h>

#include "fuse/slot.h"
#include "base/log.h"

/* Part of a device; private. */
struct answers {
	bool by_ring; /* io_uring_enter() at the end of the turn sends them */
	size_t handed_min; /* bytes that a thread of the kernel copies, or more;
			    * SIZE_MAX: none */
	struct log_limit limit;
};

/* Answers with an error (negative errno), or, with 0, without data. */
void answer_error(struct slot *slot, int err);
/* Answers a READ with the @len bytes that lie at slot->data. */
void answer_data(struct slot *slot, uint32_t len);
/* Answers a WRITE: @len bytes were taken. */
void answer_written(struct slot *slot, uint32_t len);
/* Answers an LSEEK. */
void answer_position(struct slot *slot, uint64_t pos);

/* ---- between answer.c and dev.c ---- */

void answers_init(struct answers *a);

/* The kernel did not take an answer: writing it returned @err. */
bool answer_is_refused(int err);
/* Answers request @unique with EIO, because the kernel refused its answer. */
void answer_with_error(struct dev *dev, uint64_t unique, int err);

#endif
