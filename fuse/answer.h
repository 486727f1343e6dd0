/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers to requests for data.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_ANSWER_H
#define FUSE_ANSWER_H

#include "fuse/slot.h"
#include "base/log.h"

/* Part of a device; private. */
struct answers {
	bool by_ring; /* they leave with the turn's io_uring_enter */
	struct log_limit limit;
};

/* Answers with an error (negative errno) or, with 0, with no data. The slot
 * is the device's again, as after the next three. */
void answer_error(struct slot *slot, int err);
/* Answers a READ with the @len bytes that lie at slot->data. */
void answer_data(struct slot *slot, uint32_t len);
/* Answers a WRITE: @len bytes were taken. */
void answer_written(struct slot *slot, uint32_t len);
/* Answers an LSEEK. */
void answer_position(struct slot *slot, uint64_t pos);

/* ---- between answer.c and dev.c ---- */

bool answer_is_refused(int err);
void answer_with_error(struct dev *dev, uint64_t unique, int err);

#endif
