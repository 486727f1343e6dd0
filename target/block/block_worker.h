/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What storage needs of a thread that does I/O: which one it is, and its
 * reactor. Whatever drives the disks embeds it, as the workers of the SRP port do.
 * A block request belongs to one worker from its submission to its end.
 */
#ifndef TARGET_BLOCK_BLOCK_WORKER_H
#define TARGET_BLOCK_BLOCK_WORKER_H

#include <stdint.h>

#include "base/reactor.h"

#define BLOCK_WORKERS_MAX 64

struct block_worker {
	/* constant while there is I/O */
	unsigned int index; /* below BLOCK_WORKERS_MAX */
	struct reactor *reactor;
	/* Bytes that the processor has copied to or from a store's memory. The
	 * worker's own. */
	uint64_t copied;
};

#endif
