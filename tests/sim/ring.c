/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

static ssize_t transfer(const struct io_uring_sqe *sqe)
{
	const struct iovec iov = { .iov_base = (void *)(uintptr_t)sqe->addr,
				   .iov_len = sqe->len };
	off_t at = (off_t)sqe->off;

	if (sqe->opcode == IORING_OP_READ)
		return preadv2(sqe->fd, &iov, 1, at, sqe->rw_flags);
	return pwritev2(sqe->fd, &iov, 1, at, sqe->rw_flags);
}

static ssize_t carry_out(const struct io_uring_sqe *sqe)
{
	switch (sqe->opcode) {
	case IORING_OP_READ:
	case IORING_OP_WRITE:
		return transfer(sqe);
	case IORING_OP_NOP:
		return 0;
	case IORING_OP_FSYNC:
		return fdatasync(sqe->fd);
	case IORING_OP_FALLOCATE:
		/* io_uring_prep_fallocate() stores mode and length in these
		 * members. */
		return fallocate(sqe->fd, (int)sqe->len, (off_t)sqe->off,
				 (off_t)sqe->addr);
	default:
		abort();
	}
}

int ring_carry_out(const struct io_uring_sqe *sqe)
{
	ssize_t ret = carry_out(sqe);

	return ret < 0 ? -errno : (int)ret;
}
