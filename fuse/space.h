/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Holes: fallocate(2) makes them, lseek(2) finds them.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_SPACE_H
#define FUSE_SPACE_H

#include "fuse/slot.h"

/*
 * Zeroes slot->range, which must be locked exclusively. Then calls @zeroed; the
 * result is in slot->commands.err. The payload in the slot does not change.
 */
void space_zero(struct slot *slot, void (*zeroed)(struct slot *slot));

/* These answer the request. */
void space_fallocate(struct slot *slot, const struct fuse_fallocate_in *in);
void space_lseek(struct slot *slot, const struct fuse_lseek_in *in);

#endif
