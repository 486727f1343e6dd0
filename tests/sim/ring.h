/* SPDX-License-Identifier: BSD-2-Clause */
/* What backends ask of io_uring, without one: done at once, in this thread. */
#ifndef TESTS_SIM_RING_H
#define TESTS_SIM_RING_H

#include <liburing.h>

/* Carries out one entry; what its completion says: bytes, 0 or -errno. Aborts
 * on operations that no backend uses. */
int ring_carry_out(const struct io_uring_sqe *sqe);

#endif
