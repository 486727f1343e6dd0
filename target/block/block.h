/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The block layer: what stands between the disk (target/scsi) and a store.
 * Whoever wants blocks read, written or flushed asks here, and never asks which
 * store it is. The layer
 *
 *  - copies to and from the memory of a store that exposes it;
 *  - keeps the record of flushes (flush_record.h): each flush is numbered when it
 *    begins, and its result is noted before the request is answered; so is the
 *    failure of a synchronous write.
 *
 * Thread: the worker of the request.
 */
#ifndef TARGET_BLOCK_BLOCK_H
#define TARGET_BLOCK_BLOCK_H

#include "target/block/backend.h"
#include "target/block/block_lock.h"
#include "target/block/flush_record.h"

/* The blocks of one volume. Embed it; target/scsi/volume.c fills it in. */
struct block_device {
	struct backend *backend;
	bool write_cache; /* done writes may sit in a cache. Constant */
	/* Writes are made stable before they are answered: while WCE is said
	 * to be off, and before that while it is going off. */
	_Atomic bool write_through;
	struct block_locks locks;   /* who may touch which blocks */
	struct flush_record record; /* unflushed writes; none: no file */
};

/*
 * As backend_submit(): done() is called once, maybe before this returns. READ and
 * WRITE may be asked of every store. req->record is set for FLUSH, and for writes
 * that are to be stable.
 */
void block_submit(struct backend *be, struct block_request *req);

/*
 * Where the bytes of @be from @offset on lie, for RDMA that reads or writes them
 * in place; NULL: they lie in no memory. Whoever moves data there holds its
 * blocks (block_lock.h).
 */
static inline uint8_t *block_in_place(const struct backend *be, uint64_t offset)
{
	uint8_t *memory = be->info.memory;

	return memory ? memory + offset : NULL;
}

#endif
