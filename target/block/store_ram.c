/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Anonymous memory. Reads and writes happen in place and never come here,
 * unless a layer above asked for them (submit_all).
 *
 * Pages are given back to the kernel on unmap only while no RDMA device has
 * pinned them (backend_info.memory_pinned); pinned ones are overwritten with
 * zeroes. Either way what was unmapped reads as zeroes. Which pages are in use
 * is not told (extents): in-place writes are seen by nobody, and residency
 * says nothing of pages that were swapped out.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/size.h"
#include "target/block/backend.h"
#include "target/block/block_worker.h"
#include "base/sanitizer.h"

#define RAM_PAGE 4096u

struct ram_backend {
	struct backend base;
	uint8_t *bytes;
	uint64_t size;
};

static struct ram_backend *to_ram(struct backend *be)
{
	return container_of(be, struct ram_backend, base);
}

static int store_ram_fail(struct error *e, int err, const char *size,
			  const char *why)
{
	return error_set(e, err, "ram:%s: %s", size, why);
}

static void *map_memory(uint64_t size)
{
	void *mem;

	if (size > SIZE_MAX)
		return NULL;
	/* NORESERVE: pages count when they are touched, not before. */
	mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem == MAP_FAILED)
		return NULL;
	madvise(mem, size, MADV_HUGEPAGE);
	/* As on any disk: initiators put in order what touches one block. */
	TSAN_RACES_ARE_MEANT(mem, size);
	return mem;
}

static int ram_open(const struct backend_options *opt, struct backend **ret,
		    struct error *e)
{
	struct ram_backend *ram;
	uint64_t size;

	if (size_parse(opt->path, &size))
		return store_ram_fail(
			e, -EINVAL, opt->path,
			"not a size; write ram:256M, for example");
	size -= size % opt->block_size;
	if (!size)
		return store_ram_fail(e, -EINVAL, opt->path,
				      "smaller than one block");
	ram = calloc(1, sizeof(*ram));
	if (!ram)
		return store_ram_fail(e, -ENOMEM, opt->path, "out of memory");
	ram->bytes = map_memory(size);
	if (!ram->bytes) {
		free(ram);
		return store_ram_fail(
			e, -ENOMEM, opt->path,
			"more than this process may map; make it smaller");
	}
	ram->size = size;
	ram->base.ops = &backend_ram;
	ram->base.info = (struct backend_info){
		.kind = "ram",
		.id.mark.lasting = "ram",
		.size = size,
		.min_block = 1,
		.optimal_block = RAM_PAGE,
		.unmap_granularity = opt->read_only ? 0 : RAM_PAGE,
		.unmap_zeroes = true,
		.read_only = opt->read_only,
		.fua = true,
		.atomic_len = 1u << 20,
		.zero = true,
		.memory = opt->submit_all ? NULL : ram->bytes,
	};
	*ret = &ram->base;
	return 0;
}

static void ram_close(struct backend *be)
{
	struct ram_backend *ram = to_ram(be);

	munmap(ram->bytes, ram->size);
	free(ram);
}

/* Gives the whole pages of a range back; they read as zeroes afterwards. */
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

static void zero_range(struct backend *be, const struct block_request *req,
		       bool may_drop)
{
	uint8_t *from = to_ram(be)->bytes + req->offset;

	if (may_drop && !be->info.memory_pinned)
		drop_pages(from, from + req->len);
	else
		memset(from, 0, req->len);
}

static void ram_submit(struct backend *be, struct block_request *req)
{
	uint8_t *at = to_ram(be)->bytes + req->offset;

	if (req->op == BLOCK_READ)
		memcpy(req->buf, at, req->len);
	if (req->op == BLOCK_WRITE)
		memcpy(at, req->buf, req->len);
	if (req->op == BLOCK_READ || req->op == BLOCK_WRITE)
		req->worker->copied += req->len;
	if (req->op == BLOCK_UNMAP)
		zero_range(be, req, /* may_drop= */ true);
	if (req->op == BLOCK_ZERO)
		zero_range(be, req, req->may_unmap);
	req->progress = req->len;
	req->done(req, 0);
}

const struct backend_ops backend_ram = {
	.name = "ram",
	.open = ram_open,
	.close = ram_close,
	.submit = ram_submit,
};
