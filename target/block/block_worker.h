/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What storage needs from a thread that does I/O: its index and its reactor. A
 * front end embeds it in its threads; the SRP port embeds it in its workers. A
 * block request stays on one worker from its submission to its end.
 */
#ifndef TARGET_BLOCK_BLOCK_WORKER_H
#define TARGET_BLOCK_BLOCK_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/reactor.h"
#include "config/option_limits.h"

#define BLOCK_WORKERS_MAX WORKERS_MAX

struct block_worker {
	/* constant while there is I/O */
	unsigned int index; /* below BLOCK_WORKERS_MAX */
	struct reactor *reactor;
	/* Bytes that the CPU has copied to or from the memory of a store. Only
	 * the worker uses it. */
	uint64_t copied;
	/* What the thread is asking a store for at this moment: a static text, or
	 * NULL. It stays if the store does not return. Other threads read it. */
	_Atomic(const char *) asks;
	/* The request for a thread of the kernel: store_file_take_thread(). */
	struct reactor_op thread_op;
	bool took_thread;
};

#endif
