/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A layer on a backend that lets requests go wrong by rule (fault_rule.h), for
 * those who want to see what becomes of it above. What no rule hits goes to
 * the store below untouched.
 *
 * Every request is still answered exactly once, on its worker, and nothing is
 * answered while the store or the layer may still touch the medium or the
 * buffer for it: a request that is delayed or stuck is "with the disk" for
 * task management and for the fence of a nexus. FAULT_STALE breaks that: the
 * tests' way to plant an old write that lands after a newer one.
 */
#ifndef TARGET_BLOCK_LAYER_FAULT_H
#define TARGET_BLOCK_LAYER_FAULT_H

#include "target/block/backend.h"
#include "target/block/fault_rule.h"

/* The layer's part of backend_options: @rules are copied; @volume is for the log, and
 * outlives the layer. */
struct fault_options {
	const struct fault_rule *rules;
	unsigned int cnt;
	const char *volume;
};

extern const struct backend_type backend_fault;

/*
 * Replaces the rules of a backend that is the layer; what is stuck goes on. Writes
 * count as atomic as they did when it was opened. -ENOENT: @be is no such layer;
 * -ENOMEM. One caller at a time. Thread: any, while the workers are attached.
 */
int backend_fault_set(struct backend *be, const struct fault_rule *rules,
		      unsigned int cnt);

/*
 * Lets all requests go to the store that are stuck, or stick before the
 * workers have heard of it. Harmless on a backend without the layer. Thread:
 * any, while the workers are attached.
 */
void backend_fault_release(struct backend *be);

/* Requests that are stuck on worker @w. Thread: the worker. */
unsigned int backend_fault_stuck(const struct backend *be,
				 const struct block_worker *w);

#endif
