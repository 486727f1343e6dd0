/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Anonymous memory. Reads and writes happen in place and do not reach this
 * file, unless a layer above wants them.
 *
 * Unmap returns pages to the kernel only while no RDMA device has pinned them
 * (RBP_KEEP_PAGES). Pinned pages are overwritten with zeroes. In both cases,
 * unmapped blocks read as zeroes. The store does not report extents: it does
 * not see writes in place, and residency does not tell which pages were swapped
 * out.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/size.h"
#include "target/block/backend.h"
#include "base/sanitizer.h"
#include "base/secret.h"

#define RAM_PAGE 4096u

struct ram_store {
	uint8_t *bytes;
	uint64_t size;
};

static void *map_memory(uint64_t size)
{
	void *mem;

	if (size > SIZE_MAX)
		return NULL;
	/* NORESERVE: pages count when they are first used. */
	mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem == MAP_FAILED)
		return NULL;
	madvise(mem, size, MADV_HUGEPAGE);
	secret_hide(mem, size);
	/* As on any disk, initiators order commands that use the same block. */
	TSAN_RACES_ARE_MEANT(mem, size);
	return mem;
}

static int ram_fail(int err, const char *why, char *msg, size_t msg_len)
{
	snprintf(msg, msg_len, "%s", why);
	return err;
}

static void ram_declare(const struct ram_store *ram, struct rbp_info *info)
{
	info->caps = RBP_CAN_WRITE | RBP_CAN_FUA | RBP_CAN_UNMAP |
		     RBP_CAN_ZERO | RBP_UNMAP_ZEROES;
	info->bytes = ram->size;
	info->block_size = 1;
	info->optimal_io = RAM_PAGE;
	info->unmap_granularity = RAM_PAGE;
	info->atomic_write = 1u << 20;
	info->memory = ram->bytes;
	snprintf(block_info_of(info)->id.mark.lasting, STORE_TEXT_MAX, "ram");
}

static int ram_open(struct rbp_vol *vol, const char *location,
		    const struct rbp_arg *args, void **ret_v,
		    struct rbp_info *info, char *msg, size_t msg_len)
{
	struct ram_store *ram;
	uint64_t size;

	if (size_parse(location, &size))
		return ram_fail(-EINVAL,
				"not a size; write ram:256M, for example", msg,
				msg_len);
	size -= size % info->volume_block;
	if (!size)
		return ram_fail(-EINVAL, "smaller than one block", msg,
				msg_len);
	ram = calloc(1, sizeof(*ram));
	if (!ram)
		return ram_fail(-ENOMEM, "out of memory", msg, msg_len);
	ram->bytes = map_memory(size);
	if (!ram->bytes) {
		free(ram);
		return ram_fail(-ENOMEM,
				"more than this process may map; make it "
				"smaller",
				msg, msg_len);
	}
	ram->size = size;
	ram_declare(ram, info);
	*ret_v = ram;
	return 0;
}

static void ram_close(void *v)
{
	struct ram_store *ram = v;

	munmap(ram->bytes, ram->size);
	free(ram);
}

/* Returns the whole pages of a range to the kernel. They then read as zeroes. */
static void drop_pages(uint8_t *from, uint8_t *to)
{
	uintptr_t first =
		((uintptr_t)from + RAM_PAGE - 1) & -(uintptr_t)RAM_PAGE;
	uintptr_t last = (uintptr_t)to & -(uintptr_t)RAM_PAGE;

	if (first >= last) {
		memset(from, 0, (size_t)(to - from));
		return;
	}
	memset(from, 0, first - (uintptr_t)from);
	if (madvise(from + (first - (uintptr_t)from), last - first,
		    MADV_DONTNEED))
		memset(from + (first - (uintptr_t)from), 0, last - first);
	memset(to - ((uintptr_t)to - last), 0, (uintptr_t)to - last);
}

static void ram_zero(struct rbp_io *io, uint8_t *from)
{
	bool may_drop = io->op == RBP_UNMAP || io->flags & RBP_MAY_UNMAP;

	if (may_drop && !(io->flags & RBP_KEEP_PAGES))
		drop_pages(from, from + io->len);
	else
		memset(from, 0, io->len);
}

static void ram_submit(void *v, struct rbp_io *io)
{
	const struct ram_store *ram = v;
	uint8_t *at = ram->bytes + io->offset;

	if (io->op == RBP_READ)
		memcpy(io->buf, at, io->len);
	if (io->op == RBP_WRITE)
		memcpy(at, io->buf, io->len);
	if (io->op == RBP_READ || io->op == RBP_WRITE)
		io->queue->worker->copied += io->len;
	if (io->op == RBP_UNMAP || io->op == RBP_ZERO)
		ram_zero(io, at);
	block_io_done(io, 0);
}

const struct backend_type backend_ram = {
	.plugin = {
		.size = sizeof(struct rbp_plugin),
		.name = "ram",
		.help = "memory; LOCATION is its size",
		.open = ram_open,
		.close = ram_close,
		.submit = ram_submit,
	},
};
