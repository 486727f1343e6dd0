/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a worker is doing when it does not return to its reactor. heartbeat.h
 * asks for this on another thread, while the worker may continue. For this
 * reason the worker says which request it works on, and frees no request while
 * another thread reads it. The numbers may be those of a command that has just
 * ended.
 */
#ifndef TARGET_PORT_HANG_H
#define TARGET_PORT_HANG_H

#include <stddef.h>

#include "target/port/request.h"

/* The thread works on @req until hang_leave(). Thread: the worker. */
static inline void hang_enter(struct worker *w, const struct request *req)
{
	atomic_store_explicit(&w->doing, req, memory_order_relaxed);
}

static inline void hang_leave(struct worker *w)
{
	atomic_store_explicit(&w->doing, NULL, memory_order_relaxed);
}

/* Call both around the freeing of requests. Thread: the worker. */
void hang_begin_free(struct worker *w);
void hang_end_free(struct worker *w);

/* "READ (10) of 8 blocks at LBA 0, LUN 1, tag 0123456789abcdef: in the store (read)",
 * or "outside of commands". Thread: any. */
void hang_describe(struct worker *w, char *buf, size_t size);

#endif
