/* SPDX-License-Identifier: BSD-2-Clause */
#include "extent.h"

/*
 * The bytes that one query covers. For whole objects, the object map answers:
 * 0.14 ms for 1 GiB. For bytes, librbd asks each object: 0.5 ms for 16 MiB.
 */
#define RBDP_BY_OBJECT (1ull << 30)
#define RBDP_BY_BYTE   (16ull << 20)

/* Ends rbd_diff_iterate2() when the answer is known. */
#define RBDP_ENOUGH (-4096)

/* The answer so far. The range begins with data up to data_end; if data_end is
 * its begin, there is no data. The data after a hole begins at next. */
struct rbdp_extent {
	uint64_t data_end;
	uint64_t next;
};

/* rbd_diff_iterate2() reports data in ascending order. */
static int rbdp_extent_see(uint64_t offset, size_t len, int exists, void *arg)
{
	struct rbdp_extent *e = arg;

	if (!exists)
		return 0;
	if (offset > e->data_end) {
		e->next = offset;
		return RBDP_ENOUGH;
	}
	if (offset + len > e->data_end)
		e->data_end = offset + len;
	return 0;
}

static int rbdp_extent_ask(rbd_image_t image, uint64_t offset, uint64_t len,
			   uint8_t whole_object, struct rbdp_extent *e)
{
	int res;

	*e = (struct rbdp_extent){ .data_end = offset, .next = offset + len };
	res = rbd_diff_iterate2(image, NULL, offset, len,
				/* include_parent= */ 1, whole_object,
				rbdp_extent_see, e);
	return res == RBDP_ENOUGH ? 0 : res;
}

static uint64_t rbdp_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int rbdp_extent_find(rbd_image_t image, uint64_t bytes, struct rbp_io *io,
		     uint64_t block_size)
{
	struct rbdp_extent e;
	uint64_t len;
	int err;

	/* Reads of blocks that a shrunk image lacks fail: they are no hole. */
	if (io->offset >= bytes) {
		io->extent_mapped = 1;
		io->extent_len = io->len;
		return 0;
	}
	len = rbdp_min(io->len, bytes - io->offset);
	err = rbdp_extent_ask(image, io->offset, rbdp_min(len, RBDP_BY_OBJECT),
			      /* whole_object= */ 1, &e);
	/* The object exists, but parts of it may have no data. */
	if (!err && e.data_end > io->offset)
		err = rbdp_extent_ask(image, io->offset,
				      rbdp_min(len, RBDP_BY_BYTE),
				      /* whole_object= */ 0, &e);
	if (err)
		return err;
	io->extent_mapped = e.data_end > io->offset;
	io->extent_len = (io->extent_mapped ? e.data_end : e.next) - io->offset;
	/* A block that has data in a part counts as data. */
	if (!io->extent_mapped && io->extent_len < block_size) {
		io->extent_mapped = 1;
		io->extent_len = block_size;
	}
	if (io->extent_mapped)
		io->extent_len += block_size - 1;
	io->extent_len -= io->extent_len % block_size;
	io->extent_len = rbdp_min(io->extent_len, io->len);
	return 0;
}
