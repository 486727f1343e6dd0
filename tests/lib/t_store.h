/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parts of fake stores: blocks in memory, and I/O that is held until the test
 * releases it. Works without cmocka.
 */
#ifndef TESTS_LIB_T_STORE_H
#define TESTS_LIB_T_STORE_H

#include <string.h>

#include "target/block/backend.h"
#include "tests/lib/t_must.h"

#define T_STORE_HELD_MAX 512

/* Held I/O, in the order of arrival. */
struct t_store_held {
	struct rbp_io *io[T_STORE_HELD_MAX];
	unsigned int cnt;
};

static inline void t_store_hold(struct t_store_held *h, struct rbp_io *io)
{
	T_MUST(h->cnt < T_STORE_HELD_MAX);
	h->io[h->cnt++] = io;
}

/* Removes number @nth, counted from 0. The others keep their order. */
static inline struct rbp_io *t_store_take(struct t_store_held *h,
					  unsigned int nth)
{
	struct rbp_io *io = h->io[nth];

	T_MUST(nth < h->cnt);
	h->cnt--;
	memmove(&h->io[nth], &h->io[nth + 1],
		(h->cnt - nth) * sizeof(h->io[0]));
	return io;
}

/* Executes @io on the blocks in @bytes. Extents are alternately mapped and
 * unmapped, @unit bytes each. */
static inline void t_store_carry_out(uint8_t *bytes, uint64_t unit,
				     struct rbp_io *io)
{
	uint8_t *at = bytes + io->offset;
	uint64_t left;

	switch (io->op) {
	case RBP_READ:
		memcpy(io->buf, at, io->len);
		break;
	case RBP_WRITE:
		memcpy(at, io->buf, io->len);
		break;
	case RBP_FLUSH:
		break;
	case RBP_UNMAP:
	case RBP_ZERO:
		memset(at, 0, io->len);
		break;
	case RBP_EXTENT:
		left = unit - io->offset % unit;
		io->extent_mapped = io->offset / unit % 2 == 0;
		io->extent_len = left < io->len ? left : io->len;
		break;
	}
	io->progress = io->len;
}

#endif
