/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations that backends submit to io_uring, without it: executed at once, in
 * this thread. */
#ifndef TESTS_SIM_RING_H
#define TESTS_SIM_RING_H

#include <liburing.h>

/* Executes one entry. Returns the result of its completion: bytes, 0 or -errno.
 * Aborts on operations that no backend uses. */
int ring_carry_out(const struct io_uring_sqe *sqe);

#endif
