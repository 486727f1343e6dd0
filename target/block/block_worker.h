/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What storage needs of a thread that does I/O: its index and its reactor. A
 * front end embeds it in its threads, as the SRP port does in its workers. A
 * block request belongs to one worker from its submission to its end.
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
	/* Bytes that the processor has copied to or from the memory of a store.
	 * The worker's own. */
	uint64_t copied;
};

#endif
